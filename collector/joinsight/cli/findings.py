"""`joinsight findings`: problems of queries over all their runs, or of single executions."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from joinsight.cli.filter_options import filter_options
from joinsight.cli.options import command
from joinsight.queries.filters import Filters
from joinsight.terminal.escaping import to_json


@command()
@click.option("--each", is_flag=True, help="One execution each; always so with --execution, --application or --state.")
@filter_options("findings")
def findings(database_url: str | None, data: Path | None, sort: str, as_json: bool, each: bool, **options: Any) -> None:
    """List problems: how often, at what cost, and what to do.

    A problem at the same operator of the same query of a job is listed once, for the last 30 days unless --since is
    given, with the numbers of the newest run.
    """
    # Here, because the help needs none of it
    from joinsight.cli.listing import read_listing
    from joinsight.present.findings import checked
    from joinsight.present.values import when
    from joinsight.queries import lists, reading
    from joinsight.terminal.console import console, paragraph_width
    from joinsight.terminal.findings import execution_lines, group_lines

    filters = Filters(**options)
    each = each or any(getattr(filters, name) is not None for name in lists.UNGROUPED_FILTERS)
    name, render = ("findings", execution_lines) if each else ("finding_groups", group_lines)
    listing = read_listing(database_url, data, name, filters, sort)
    rows = listing.rows
    if as_json:
        for row in rows:
            click.echo(to_json(row))
    if listing.is_empty:
        click.echo(reading.EMPTY, err=True)
    elif not rows:
        since = filters.since or (None if each else lists.finding_since(datetime.now(timezone.utc)))
        text = f"No matching findings since {when(since)}" if since else "No matching findings"
        number, longest = listing.checked or (0, None)
        ran = checked(number, lists.MOST_CHECKED, longest)
        click.echo(f"{text}: {ran}" if ran else f"{text}.", err=True)
    elif not as_json:
        out = console()
        for number, row in enumerate(rows):
            for line in render(row, paragraph_width(out)):
                out.print(line, soft_wrap=True)
            if number < len(rows) - 1:
                out.print()
    if listing.rest:
        click.echo(listing.rest, err=True)
