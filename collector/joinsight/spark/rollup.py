"""`joinsight rollup`: computes totals by day with Spark, and baselines, and stores them in small tables.

Days are written whole, each by one task in one transaction, and the executions of a day after its operators: days that
an aborted run leaves incomplete are stale for the next. PostgreSQL computes the baselines (`store/baselines`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from sqlalchemy import Engine, Table, delete, text

from joinsight import tables
from joinsight.spark.copying import replacer
from joinsight.spark.export import DAY
from joinsight.spark.read import Range, read_from, schema_of
from joinsight.store import baselines
from joinsight.store.database import conninfo

_LATE = timedelta(days=1)
"""Days that ended within this time are always rolled up again."""

# Days with more executions, or newer ones, than when they were rolled up
_STALE = """
    SELECT e.day FROM (
        SELECT CAST(started_at AT TIME ZONE 'UTC' AS date) AS day, count(*) AS executions, max(updated_at) AS newest_at
        FROM execution WHERE NOT is_outer AND started_at >= :since AND started_at < :until GROUP BY 1
    ) AS e LEFT JOIN (
        SELECT day, sum(executions) AS executions, max(newest_at) AS newest_at FROM rollup_day GROUP BY day
    ) AS r ON r.day = e.day
    WHERE e.day >= :late OR r.executions IS DISTINCT FROM e.executions OR r.newest_at < e.newest_at
    ORDER BY 1
"""
Read = Callable[[str, Sequence[str], Sequence[Range]], DataFrame]
"""Reads columns of a table, for executions that started in these ranges."""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a roll-up wrote."""

    days: int
    queries: int
    """Rows of rollup_day."""
    operators: int
    baselines: int
    as_of: datetime


def stale_days(engine: Engine, oldest: date, now: datetime) -> list[date]:
    """Days from `oldest` to today, in order, with executions that are not rolled up; always yesterday and today, if
    they have executions."""
    today = now.astimezone(timezone.utc).date()
    since, until = (datetime.combine(day, time(0), timezone.utc) for day in (oldest, today + timedelta(days=1)))
    with engine.connect() as connection:
        return list(connection.scalars(text(_STALE), {"since": since, "until": until, "late": today - _LATE}))


def days_since(since: datetime, now: datetime) -> list[date]:
    """All days from `since` to `now`, both included."""
    first, today = since.astimezone(timezone.utc).date(), now.astimezone(timezone.utc).date()
    return [first + timedelta(days=number) for number in range((today - first).days + 1)]


def ranges_of(days: Sequence[date]) -> list[Range]:
    """Ordered days as ranges; consecutive days are merged."""
    ranges: list[Range] = []
    for day in days:
        starts = datetime.combine(day, time(0), timezone.utc)
        ends = starts + timedelta(days=1) if day < date.max else datetime.max.replace(tzinfo=timezone.utc)
        if ranges and ranges[-1][1] == starts:
            ranges[-1] = (ranges[-1][0], ends)
        else:
            ranges.append((starts, ends))
    return ranges


def postgres_reader(spark: SparkSession, engine: Engine, connections: int) -> Read:
    """Reads from PostgreSQL."""

    def read(table: str, columns: Sequence[str], ranges: Sequence[Range]) -> DataFrame:
        return read_from(spark, engine, table, columns, ranges, connections)

    return read


def parquet_reader(spark: SparkSession, path: str) -> Read:
    """Reads the Parquet that `joinsight export` wrote."""

    def read(table: str, columns: Sequence[str], ranges: Sequence[Range]) -> DataFrame:
        day, started_at = f.col(DAY), f.col("started_at")
        within = [
            (day >= f.lit(since.date()))
            & (day <= f.lit(until.date()))
            & (started_at >= f.lit(since))
            & (started_at < f.lit(until))
            for since, until in ranges
        ]
        files = spark.read.schema(f"{schema_of(table)}, `{DAY}` date")  # a table without rows has no file
        return files.parquet(f"{path}/{table}").where(reduce(Column.__or__, within)).select(*columns)

    return read


def roll_up(engine: Engine, read: Read, ranges: Sequence[Range], as_of: datetime, connections: int) -> RolledUp:
    """Write the days of these ranges, and the baselines as of a midnight; delete expired baselines."""
    queries = operators = 0
    if ranges:
        operators = _replace(engine, operator_days(read, ranges), tables.rollup_operator_day, ["day"], connections)
        queries = _replace(engine, query_days(read, ranges), tables.rollup_day, ["day"], connections)
    stored = baselines.replace(engine, as_of)
    days = sum(round((until - since) / timedelta(days=1)) for since, until in ranges)
    return RolledUp(days, queries, operators, stored, as_of)


def delete_before(engine: Engine, before: date) -> int:
    """Delete the totals of days before `before`; returns the number of rows."""
    with engine.begin() as connection:
        days = (tables.rollup_day, tables.rollup_operator_day)
        return sum(connection.execute(delete(table).where(table.c.day < before)).rowcount for table in days)


def _replace(engine: Engine, frame: DataFrame, table: Table, unit: list[str], connections: int) -> int:
    """Replace the rows of each unit, such as a day, in the table; one task writes all rows of a unit."""
    columns = list(table.columns.keys())
    keys = [column.name for column in table.primary_key]
    write = replacer(conninfo(engine), table.name, columns, keys, unit)
    # Ordered by key, so that two attempts of the same task cannot deadlock
    tasks = min(connections, frame.sparkSession.sparkContext.defaultParallelism)
    ordered = frame.select(*columns).repartition(tasks, *unit).sortWithinPartitions(*keys)
    written = ordered.mapInArrow(write, "rows bigint").agg(f.sum("rows")).collect()[0][0]
    return int(written or 0)


_SUMS = (
    *("tasks", "task_time_ms", "input_bytes", "output_bytes", "shuffle_write_bytes", "shuffle_read_bytes"),
    *("broadcast_bytes", "disk_spilled_bytes"),
)


def query_days(read: Read, ranges: Sequence[Range]) -> DataFrame:
    """The rows of `rollup_day`."""
    columns = ["started_at", "job_name", "query_shape", "origin", "description", "state", "incomplete", "is_outer"]
    more = ["plan_fingerprint", "duration_ms", "updated_at"]
    succeeded = f.col("state") == "succeeded"

    def count_if(condition: Column) -> Column:
        return f.coalesce(f.sum(condition.cast("bigint")), f.lit(0))

    return (
        read("execution", [*columns, *more, *_SUMS], ranges)
        .filter(~f.col("is_outer"))
        .withColumn("day", _day())
        .withColumn("query_shape", f.coalesce("query_shape", f.lit("")))
        .groupBy("day", "job_name", "query_shape", "origin")
        .agg(
            f.min(f.substring("description", 1, 200)).alias("description"),
            f.count(f.lit(1)).alias("executions"),
            *(count_if(f.col("state") == state).alias(state) for state in ("succeeded", "failed", "cancelled", "lost")),
            count_if(f.col("incomplete").isNotNull()).alias("incomplete"),
            f.countDistinct("plan_fingerprint").alias("plans"),
            f.sum("duration_ms").alias("duration_ms"),
            _median("CASE WHEN state = 'succeeded' THEN duration_ms END").alias("duration_ms_median"),
            f.max(f.when(succeeded, f.col("duration_ms"))).alias("duration_ms_max"),
            *(f.sum(name).alias(name) for name in _SUMS),
            f.max("updated_at").alias("newest_at"),
        )
    )


@dataclass(frozen=True, slots=True)
class _Operator:
    """Expressions that map the columns of an operator's table to those of roll-ups."""

    subject: str
    columns: tuple[str, ...]
    rows: str
    bytes: str
    time_ms: str


_OPERATORS = (
    _Operator(
        "join",
        ("strategy", "output_rows", "left_bytes", "right_bytes", "build_ms", "sort_ms", "spill_bytes"),
        "output_rows",
        "coalesce(left_bytes + right_bytes, left_bytes, right_bytes)",
        "coalesce(build_ms + sort_ms, build_ms, sort_ms)",
    ),
    _Operator(
        "shuffle",
        ("bytes_written", "rows_written", "write_time_ns", "fetch_wait_ms", "skew_ratio"),
        "rows_written",
        "bytes_written",
        "coalesce(write_time_ns div 1000000 + fetch_wait_ms, write_time_ns div 1000000, fetch_wait_ms)",
    ),
    _Operator("broadcast", ("size_bytes", "rows", *tables.DRIVER_PHASES), "rows", "size_bytes", tables.DRIVER_MS),
)
_TABLES = {"join": "joins", "shuffle": "shuffle", "broadcast": "broadcast"}


def operator_days(read: Read, ranges: Sequence[Range]) -> DataFrame:
    """The rows of `rollup_operator_day`."""
    executions = read("execution", [*tables.EXECUTION_KEY, "job_name", "origin"], ranges)
    all_of = _union(
        _operators(read, operator, ranges).selectExpr(
            *tables.EXECUTION_KEY,
            "operator_key",
            f"'{operator.subject}' AS subject",
            f"{operator.rows} AS rows",
            f"{operator.bytes} AS bytes",
            f"{operator.time_ms} AS time_ms",
            "cost_wall_ms",
            "cost_task_ms",
            f"{'spill_bytes' if operator.subject == 'join' else 'CAST(NULL AS bigint)'} AS spill_bytes",
            f"{'skew_ratio' if operator.subject == 'shuffle' else 'CAST(NULL AS double)'} AS skew_ratio",
            f"{'strategy' if operator.subject == 'join' else 'CAST(NULL AS string)'} AS strategy",
        )
        for operator in _OPERATORS
    )
    strategies = f.array_sort(f.collect_set("strategy"))
    return (
        all_of.join(executions, list(tables.EXECUTION_KEY))
        .withColumn("day", _day())
        .groupBy("day", "job_name", "operator_key", "origin")
        .agg(
            f.min("subject").alias("subject"),
            f.count(f.lit(1)).alias("runs"),
            f.sum("rows").alias("rows"),
            f.sum("bytes").alias("bytes"),
            f.max("bytes").alias("largest_bytes"),
            *(f.sum(name).alias(name) for name in ("time_ms", "cost_wall_ms", "cost_task_ms")),
            f.sum("spill_bytes").alias("spill_bytes"),
            f.max("skew_ratio").alias("skew_ratio"),
            f.when(f.size(strategies) > 0, strategies).alias("strategies"),
        )
    )


def _operators(read: Read, operator: _Operator, ranges: Sequence[Range]) -> DataFrame:
    columns = [*tables.EXECUTION_KEY, "operator_key", "cost_wall_ms", "cost_task_ms", *operator.columns]
    return read(_TABLES[operator.subject], columns, ranges).where("operator_key IS NOT NULL")


def _union(frames: Sequence[DataFrame] | Iterator[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _day() -> Column:
    return f.to_date("started_at")


def _median(expression: str) -> Column:
    return f.expr(f"percentile({expression}, 0.5)")
