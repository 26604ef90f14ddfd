"""`joinsight streams`: runs of streaming queries."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from joinsight.base.units import bytes_text, duration_text
from joinsight.cli.options import Moment, command, database_options, json_lines_option, limit_option
from joinsight.present.values import when

if TYPE_CHECKING:
    from joinsight.tables import Row


@command()
@database_options
@click.option(
    "--since", type=Moment(), default="7d", show_default=True, help="Micro-batches since this time: 7d, 2026-11-20."
)
@click.option("--job", metavar="NAME", help="Only of this job (spark.joinsight.jobName).")
@limit_option()
@json_lines_option
def streams(
    database_url: str | None, data: Path | None, since: datetime, job: str | None, limit: int, as_json: bool
) -> None:
    """List streaming queries: rate, durations and state of their micro-batches.

    A line is a run of a query, from a start to its stop; the latest first.
    """
    from joinsight.cli.listing import print_rows
    from joinsight.queries import lists, reading  # here, because the help needs no database
    from joinsight.store.database import open_store

    with open_store(database_url, data) as connection:
        rows = lists.read_streams(connection, since, job=job, limit=limit + 1)
        is_empty = not rows and reading.is_empty(connection)
    print_rows(rows, limit, None if as_json else _print)
    if not rows:
        click.echo(reading.EMPTY if is_empty else f"No micro-batches since {when(since)}.", err=True)


def _print(rows: list[Row]) -> None:
    from joinsight.cli.read import state_text
    from joinsight.terminal import table
    from joinsight.terminal.console import console
    from joinsight.terminal.table import Column

    def numbers(header: str, name: str, drop: int = 0) -> Column:
        return Column(header, ["" if r[name] is None else f"{r[name]:,}" for r in rows], right=True, drop=drop)

    def per_batch(row: Row) -> str:
        written = row["shuffle_write_bytes"]
        return bytes_text(written // row["batches"]) if written and row["batches"] else ""

    rates = [row["batches_per_minute"] for row in rows]
    columns = [
        Column("last batch", [when(row["last_batch_at"]) for row in rows]),
        Column("job", [row["job_name"] for row in rows], drop=4),
        Column("stream", [row["title"] or row["streaming_query_name"] or "" for row in rows], flexible=True),
        Column("state", [state_text(row["state"]) for row in rows]),
        numbers("batches", "batches"),
        Column("a minute", ["" if rate is None else f"{rate:,.1f}" for rate in rates], right=True, drop=2),
        *(
            Column(header, ["" if r[name] is None else duration_text(round(r[name])) for r in rows], right=True)
            for header, name in (("median", "duration_ms_median"), ("p95", "duration_ms_p95"))
        ),
        Column("shuffled a batch", [per_batch(row) for row in rows], right=True, drop=3),
        numbers("state rows", "state_rows", drop=1),
        Column("failed", [f"{row['failed']:,}" if row["failed"] else "" for row in rows], right=True),
    ]
    table.print_columns(console(), columns)
