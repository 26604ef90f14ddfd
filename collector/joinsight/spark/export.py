"""`joinsight export`: writes tables as Parquet, by day of the execution's start.

A day of a table is replaced as a whole by Spark's dynamic partition overwrite, which writes to a staging folder and
moves the files at the end. Months are written one by one, the oldest first, with all their tables: after an early end,
resume with the month at which the run stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from sqlalchemy import Engine

from joinsight.base.errors import ConfigurationError
from joinsight.spark.read import TABLES, is_partitioned, month_bounds, read_from
from joinsight.store import partitions
from joinsight.tables import PACKED, UNPACKED, execution, metadata

DAY = "day"
"""The column that Parquet is partitioned by, in addition to the table's columns."""
DEFAULT_TABLES = (*(table.name for table in metadata.tables.values() if table not in PACKED), *UNPACKED)
"""All tables; of packed ones, the views that unpack them."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The rows written for a month of a table, or for a whole table if `month` is None."""

    table: str
    month: str | None
    rows: int


def whole_days(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """The smallest range from midnight to midnight in UTC that contains the given one."""
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
    """Write tables, and yield each result when it is written. `since` and `until` must be midnights; a table that is
    not partitioned by the start of executions is written whole. Raises `ConfigurationError` for an unknown table."""
    for table in tables:
        if table not in TABLES:
            raise ConfigurationError("--table", table, "unknown table or view", f"Name one of {', '.join(TABLES)}.")
    with engine.connect() as connection:
        months = sorted(partitions.sizes(connection, execution))
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
