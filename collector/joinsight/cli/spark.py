"""Commands that run in Spark: export, rollup."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path

import click

from joinsight.base.errors import ConfigurationError
from joinsight.cli.options import Duration, Moment, command, database_options, master_option
from joinsight.spark.packages import CONNECTIONS, check_packages

_connections = click.option(
    "--connections",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=CONNECTIONS,
    show_default=True,
    help="Maximum concurrent connections to PostgreSQL per table.",
)


@command("export")
@database_options
@click.option("--to", required=True, metavar="PATH", help="A folder on any file system that Spark supports: s3a://...")
@click.option(
    "--table", "tables", multiple=True, help="Only this table or view; may be repeated.  [default: all tables]"
)
@click.option("--since", type=Moment(), help="First day to export: 7d, 2026-11-20.")
@click.option("--until", type=Moment(), help="Export the days before this one.")
@master_option
@_connections
def export(
    database_url: str | None,
    data: Path | None,
    to: str,
    tables: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    master: str | None,
    connections: int,
) -> None:
    """Write the history as Parquet, with Spark.

    There is a folder for each table and day (UTC). Exporting a day again replaces it and leaves all other days as they
    are. Tables without days (application, delivery, roll-ups) are written whole.
    """
    check_packages()
    from joinsight.spark.export import DEFAULT_TABLES, export, whole_days
    from joinsight.spark.session import session
    from joinsight.store.database import check_schema, open_database

    with open_database(database_url, data) as engine:
        check_schema(engine)
        with session("joinsight export", master) as spark:
            started = time.monotonic()
            written = export(
                spark, engine, to.rstrip("/"), tables or DEFAULT_TABLES, *whole_days(since, until), connections
            )
            for month, of_month in groupby(written, lambda each: each.month):
                exported = list(of_month)
                rows, seconds = sum(each.rows for each in exported), time.monotonic() - started
                what = month.replace("_", "-") if month else "whole"
                click.echo(
                    f"{what}: {rows:,} rows of {len(exported)} table{'s' * (len(exported) > 1)} after {seconds:.0f} s"
                )


@command("rollup")
@database_options
@click.option("--since", type=Moment(), help="Compute all days from this one on.  [default: days with new data]")
@click.option("--until", type=Moment(), help="Only days that begin before this.  [default: now]")
@click.option("--from", "source", metavar="PATH", help="Read what `joinsight export` wrote instead of PostgreSQL.")
@click.option(
    "--keep",
    type=Duration(at_least="30d", examples="3650d or 520w"),
    default="3650d",
    show_default=True,
    help="Delete totals older than this.",
)
@master_option
@_connections
def rollup(
    database_url: str | None,
    data: Path | None,
    since: datetime | None,
    until: datetime | None,
    source: str | None,
    keep: timedelta,
    master: str | None,
    connections: int,
) -> None:
    """Compute totals by day and baselines, with Spark.

    Run it once a night. It stores totals of jobs, queries and operators, each day as a whole, so running it again is
    safe. `joinsight regressions` compares with the baselines of a week ago, which this stores, too.
    """
    check_packages()
    if source is not None and since is None:
        problem = "--from needs the first day to read"
        raise ConfigurationError("--since", None, problem, "Write --since 2026-01-01, or leave out --from.")
    from joinsight.spark import rollup as work
    from joinsight.spark.session import session
    from joinsight.store import baselines
    from joinsight.store.database import check_schema, open_database

    now = until or datetime.now(timezone.utc)
    oldest = (now - keep).date()
    with open_database(database_url, data) as engine, ExitStack() as stack:
        check_schema(engine)
        last = now - timedelta.resolution  # a day that begins at --until is not before it
        days = work.days_since(since, last) if since else work.stale_days(engine, oldest, last)
        spark = stack.enter_context(session("joinsight rollup", master))
        if source is None:
            read = work.postgres_reader(spark, engine, connections)
        else:
            read = work.parquet_reader(spark, source.rstrip("/"))
        done = work.roll_up(engine, read, work.ranges_of(days), baselines.moment(now), connections)
        deleted = work.delete_before(engine, oldest)
        click.echo(
            f"{done.days} {'day' if done.days == 1 else 'days'}: {done.queries:,} totals of queries,"
            f" {done.operators:,} of operators;"
            f" {done.baselines:,} baselines as of {done.as_of:%Y-%m-%d}"
            + (f"; {deleted:,} totals deleted" if deleted else "")
        )
