"""`joinsight what-if`: how long an execution would have taken with something changed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.cli.options import command, database_options
from joinsight.present.values import query_title
from joinsight.queries import reading
from joinsight.store.database import open_store
from joinsight.terminal.console import console, print_text
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.why.what_if import WhatIf, more_slots, other_partitions, with_broadcast, without_skew


@command("what-if")
@database_options
@click.argument("execution")
@click.option("--slots", type=click.IntRange(1, 100_000), help="With this many tasks running at once.")
@click.option("--without", type=click.Choice(["skew"]), help="skew: the tasks of a stage take equally long.")
@click.option("--partitions", type=click.IntRange(1, 100_000), help="With this many tasks in stages reading shuffles.")
@click.option("--broadcast", type=click.IntRange(0), metavar="JOIN", help="With a broadcast for the join of this node.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: docs/what-if.md describes its fields.")
def what_if(
    database_url: str | None,
    data: Path | None,
    execution: str,
    slots: int | None,
    without: str | None,
    partitions: int | None,
    broadcast: int | None,
    as_json: bool,
) -> None:
    """Predict how long an execution would have taken with something changed.

    EXECUTION is an id from `joinsight queries`: 12, APPLICATION/12, or last. Give one of --slots, --without,
    --partitions and --broadcast. The ids of joins are the nodes of `joinsight plan`.
    """
    if sum(each is not None for each in (slots, without, partitions, broadcast)) != 1:
        raise click.UsageError("Give one of --slots, --without, --partitions and --broadcast.")
    with open_store(database_url, data) as connection:
        stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    found = _predict(stored, slots, partitions, broadcast)
    if as_json:
        click.echo(to_json(asdict(found)))
        return
    out = console()
    print_text(out, Text(query_title(stored.execution), "bold"))
    print_what_if(out, found)


def _predict(stored: StoredPlan, slots: int | None, partitions: int | None, broadcast: int | None) -> WhatIf:
    if slots is not None:
        return more_slots(stored, slots)
    if partitions is not None:
        return other_partitions(stored, partitions)
    if broadcast is not None:
        return with_broadcast(stored, broadcast)
    return without_skew(stored)


def print_what_if(out: Console, found: WhatIf) -> None:
    """Print the prediction, what it would go into, and what it does not know."""
    print_text(out, Text(visible_line(found.text)))
    out.print()
    print_text(out, Text("What stays:"))
    for each in found.stays:
        print_text(out, Text(f"{duration_text(each.ms):>9}  {visible_line(each.what)}"))
    out.print()
    for limit in found.limits:
        print_text(out, Text(visible_line(f"Note: {limit}"), "dim"))
