"""`joinsight export`: the tables as Parquet, by day of the execution's start.

A day of a table is replaced as a whole by Spark's dynamic partition overwrite, which writes beside what is there and
moves at the end. Months go one by one, the oldest first and with all their tables: a run that ended early is resumed
with the month at which it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from sqlalchemy import Engine

from joinsight.errors import ConfigurationError
from joinsight.lake.read import TABLES, is_partitioned, month_bounds, read_from
from joinsight.store import models, partitions

DAY = "day"
"""The column that Parquet is partitioned by, beside those of the table."""
DEFAULT_TABLES = tuple(models.metadata.tables)


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written of a table: of a month, or `month` is None for a table that is written whole."""

    table: str
    month: str | None
    rows: int


def whole_days(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """The range that begins and ends at midnights of UTC and holds the one that is given."""
    midnight = until and datetime.combine(until.astimezone(timezone.utc).date(), time(0), timezone.utc)
    return (
        since and datetime.combine(since.astimezone(timezone.utc).date(), time(0), timezone.utc),
        midnight if midnight is None or midnight == until else midnight + timedelta(days=1),
    )


def export(
    spark: SparkSession,
    engine: Engine,
    to: str,
    tables: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    connections: int,
) -> Iterator[Exported]:
    """Write them, and tell of each as it is done. `since` and `until` must be midnights; without a time of executions
    a table is written whole. Raises `ConfigurationError` for a table that is not there."""
    for table in tables:
        if table not in TABLES:
            raise ConfigurationError("--table", table, "there is no such table or view", f"One of {', '.join(TABLES)}.")
    with engine.connect() as connection:
        months = sorted(partitions.sizes(connection, models.execution))
    for month in months:
        starts, ends = month_bounds(month)
        first, last = max(starts, since or starts), min(ends, until or ends)
        for table in filter(is_partitioned, tables if first < last else ()):
            frame = read_from(spark, engine, table, ranges=[(first, last)], connections=connections)
            yield Exported(table, month, _write(frame.withColumn(DAY, f.to_date("started_at")), f"{to}/{table}", DAY))
    for table in tables:
        if not is_partitioned(table):
            frame = read_from(spark, engine, table)
            yield Exported(table, None, _write(frame, f"{to}/{table}"))


def _write(frame: DataFrame, path: str, *partitioned_by: str) -> int:
    counted = Observation()
    counting = frame.observe(counted, f.count(f.lit(1)).alias("rows"))
    writer = counting.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*partitioned_by).parquet(path)
    return int(counted.get["rows"])
