"""`joinsight report`: a page about some days, for a mail or a wiki."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import click

from joinsight.cli.options import Moment, command, database_options


@command()
@database_options
@click.option("--since", type=Moment(), default="7d", show_default=True, help="Report what ran since this time.")
@click.option("--job", metavar="NAME", help="Only of this job (spark.joinsight.jobName).")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 100), default=10, show_default=True, help="Rows of a table."
)
@click.option("--html", "as_html", is_flag=True, help="Print one HTML file instead of Markdown.")
def report(
    database_url: str | None, data: Path | None, since: datetime, job: str | None, limit: int, as_html: bool
) -> None:
    """Write a report: what became slower and why, what costs most, what will break.

    Redirect it to a file: joinsight report --since 7d --html > week.html
    """
    # Here, because the help needs none of it
    from joinsight.alarms.report import make_report
    from joinsight.present.report import html, markdown
    from joinsight.store.database import open_store

    with open_store(database_url, data) as connection:
        found = make_report(connection, since, datetime.now(timezone.utc), job=job, limit=limit)
    click.echo(html(found) if as_html else markdown(found), nl=False)
