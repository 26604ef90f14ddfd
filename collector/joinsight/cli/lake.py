"""Commands that Spark carries out: export."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import groupby
from pathlib import Path

import click

from joinsight.cli.options import database_options
from joinsight.cli.read import Moment
from joinsight.lake import CONNECTIONS, check_packages
from joinsight.store.database import check_schema, open_database

_master = click.option(
    "--master", metavar="URL", help="Spark's master: local[4], yarn, spark://...  [default: Spark's own, else local[*]]"
)
_connections = click.option(
    "--connections",
    type=click.IntRange(1, 1000),
    default=CONNECTIONS,
    show_default=True,
    help="To PostgreSQL, at the same time.",
)


@click.command("export")
@database_options
@click.option("--to", required=True, metavar="PATH", help="A folder of any file system that Spark knows: s3a://...")
@click.option("--table", "tables", multiple=True, help="Only this table or view; several times.  [default: all tables]")
@click.option(
    "--since", type=Moment(), help="Executions that started since then, from its midnight on: 7d, 2026-11-20."
)
@click.option("--until", type=Moment(), help="Executions that started before then, up to its midnight.")
@_master
@_connections
def export_(
    database_url: str | None,
    data: Path | None,
    to: str,
    tables: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    master: str | None,
    connections: int,
) -> None:
    """Write the history as Parquet, by table and day, with Spark.

    Days (of UTC) that are there already are replaced, all others are left alone: it can be repeated. Tables that are
    not kept by time (application, delivery) are written whole.
    """
    check_packages()
    from joinsight.lake.export import DEFAULT_TABLES, export, whole_days
    from joinsight.lake.session import session

    with open_database(database_url, data) as engine:
        check_schema(engine)
        with session("joinsight export", master) as spark:
            started = time.monotonic()
            written = export(
                spark, engine, to.rstrip("/"), tables or DEFAULT_TABLES, *whole_days(since, until), connections
            )
            for month, some in groupby(written, lambda each: each.month):
                found = list(some)
                rows, seconds = sum(each.rows for each in found), time.monotonic() - started
                what = month.replace("_", "-") if month else "whole"
                click.echo(f"{what}: {rows:,} rows of {len(found)} tables after {seconds:.0f} s")


COMMANDS = (export_,)
