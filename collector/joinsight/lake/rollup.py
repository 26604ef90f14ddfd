"""`joinsight rollup`: totals of days and baselines, computed by Spark and written back into small tables.

Days are written whole, each by one task in one transaction, and a day's executions after its operators: a run that dies
leaves days that the next one finds wanting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from sqlalchemy import Engine, Table, delete, text

from joinsight.lake.copying import replacer
from joinsight.lake.read import Range, read_from
from joinsight.rows import DRIVER_MS, DRIVER_PHASES
from joinsight.store import models
from joinsight.store.database import conninfo

BASELINE_DAYS = 90
"""No run before `as_of` counts that is older."""
BASELINE_RUNS = 20
MINIMUM_RUNS = 5
"""With fewer a query has no baseline: joinsight_regressions says nothing of it, either."""
BASELINES_KEPT = timedelta(days=35)
"""So that windows of a week and of a month find theirs, where it is run every night."""
_LATE = timedelta(days=1)
"""Days that ended no longer ago are rolled up again in any case."""

# A day is rolled up as far as it was known then: more executions, or newer ones, are news
_STALE = """
    SELECT e.day FROM (
        SELECT CAST(started_at AT TIME ZONE 'UTC' AS date) AS day, count(*) AS executions, max(updated_at) AS newest_at
        FROM execution GROUP BY 1
    ) AS e LEFT JOIN (
        SELECT day, sum(executions) AS executions, max(newest_at) AS newest_at FROM rollup_day GROUP BY day
    ) AS r ON r.day = e.day
    WHERE e.day BETWEEN :oldest AND :today
        AND (e.day >= :late OR r.executions IS DISTINCT FROM e.executions OR r.newest_at < e.newest_at)
    ORDER BY 1
"""
Read = Callable[[str, Sequence[str], Sequence[Range]], DataFrame]
"""Columns of a table, of executions that started in these ranges."""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What was written."""

    days: int
    queries: int
    """Rows of rollup_day."""
    operators: int
    baselines: int
    as_of: datetime


def baseline_moment(now: datetime) -> datetime:
    """The midnight that a week ago was the last one."""
    return datetime.combine((now - timedelta(days=7)).astimezone(timezone.utc).date(), time(0), timezone.utc)


def stale_days(engine: Engine, oldest: date, now: datetime) -> list[date]:
    """Days with executions that no roll-up knows, and today and yesterday; in order, none before or after these."""
    today = now.astimezone(timezone.utc).date()
    with engine.connect() as connection:
        days = connection.scalars(text(_STALE), {"oldest": oldest, "late": today - _LATE, "today": today})
        return list(days)


def days_since(since: datetime, now: datetime) -> list[date]:
    """All days up to `now`, with that of `since`."""
    first, today = since.astimezone(timezone.utc).date(), now.astimezone(timezone.utc).date()
    return [first + timedelta(days=number) for number in range((today - first).days + 1)]


def stretches(days: Sequence[date]) -> list[Range]:
    """Days in order, as ranges: those that follow each other make one."""
    found: list[Range] = []
    for day in days:
        starts = datetime.combine(day, time(0), timezone.utc)
        ends = starts + timedelta(days=1) if day < date.max else datetime.max.replace(tzinfo=timezone.utc)
        if found and found[-1][1] == starts:
            found[-1] = (found[-1][0], ends)
        else:
            found.append((starts, ends))
    return found


def of_postgres(spark: SparkSession, engine: Engine, connections: int) -> Read:
    """From the tables themselves."""

    def read(table: str, columns: Sequence[str], ranges: Sequence[Range]) -> DataFrame:
        return read_from(spark, engine, table, columns, ranges, connections)

    return read


def of_parquet(spark: SparkSession, path: str) -> Read:
    """From what `joinsight export` has written."""

    def read(table: str, columns: Sequence[str], ranges: Sequence[Range]) -> DataFrame:
        day, started_at = f.col("day"), f.col("started_at")
        within = [
            (day >= f.lit(since.date()))
            & (day <= f.lit(until.date()))
            & (started_at >= f.lit(since))
            & (started_at < f.lit(until))
            for since, until in ranges
        ]
        return spark.read.parquet(f"{path}/{table}").where(reduce(Column.__or__, within)).select(*columns)

    return read


def roll_up(engine: Engine, read: Read, ranges: Sequence[Range], as_of: datetime, connections: int) -> RolledUp:
    """Write the days of these ranges, and the baselines as of a midnight; delete baselines that are out of use."""
    queries = operators = 0
    if ranges:
        operators = _replace(engine, operator_days(read, ranges), models.rollup_operator_day, ["day"], connections)
        queries = _replace(engine, query_days(read, ranges), models.rollup_day, ["day"], connections)
    baselines = _replace(
        engine, baselines_of(read, as_of), models.baseline, ["as_of", "job_name", "query_shape", "origin"], connections
    )
    with engine.begin() as connection:
        connection.execute(delete(models.baseline).where(models.baseline.c.as_of < as_of - BASELINES_KEPT))
    days = sum(round((until - since) / timedelta(days=1)) for since, until in ranges)
    return RolledUp(days, queries, operators, baselines, as_of)


def forget(engine: Engine, before: date) -> int:
    """Delete the totals of earlier days; returns how many rows that were."""
    with engine.begin() as connection:
        tables = (models.rollup_day, models.rollup_operator_day)
        return sum(connection.execute(delete(table).where(table.c.day < before)).rowcount for table in tables)


def _replace(engine: Engine, frame: DataFrame, table: Table, unit: list[str], connections: int) -> int:
    """All rows of a unit, a day say, are one task's, and take the place of those that are there."""
    columns = list(table.columns.keys())
    keys = [column.name for column in table.primary_key]
    write = replacer(conninfo(engine), table.name, columns, keys, unit)
    # Ordered by key: tasks that write the same, because one was started twice, wait for each other in turn
    tasks = min(connections, frame.sparkSession.sparkContext.defaultParallelism)
    ordered = frame.select(*columns).repartition(tasks, *unit).sortWithinPartitions(*keys)
    written = ordered.mapInArrow(write, "rows bigint").agg(f.sum("rows")).collect()[0][0]
    return int(written or 0)


_SUMS = (
    *("tasks", "task_time_ms", "input_bytes", "output_bytes", "shuffle_write_bytes", "shuffle_read_bytes"),
    *("broadcast_bytes", "disk_spilled_bytes"),
)


def query_days(read: Read, ranges: Sequence[Range]) -> DataFrame:
    """Rows of `rollup_day`."""
    columns = ["started_at", "job_name", "query_shape", "origin", "description", "state", "incomplete"]
    more = ["plan_fingerprint", "duration_ms", "updated_at"]
    succeeded = f.col("state") == "succeeded"

    def those(condition: Column) -> Column:
        return f.coalesce(f.sum(condition.cast("bigint")), f.lit(0))

    return (
        read("execution", [*columns, *more, *_SUMS], ranges)
        .withColumn("day", _day())
        .withColumn("query_shape", f.coalesce("query_shape", f.lit("")))
        .groupBy("day", "job_name", "query_shape", "origin")
        .agg(
            f.min(f.substring("description", 1, 200)).alias("description"),
            f.count(f.lit(1)).alias("executions"),
            *(those(f.col("state") == state).alias(state) for state in ("succeeded", "failed", "lost")),
            those(f.col("incomplete").isNotNull()).alias("incomplete"),
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
    """How the columns of an operator's table become those of roll-ups and baselines."""

    subject: str
    columns: tuple[str, ...]
    rows: str
    bytes: str
    time_ms: str
    measures: dict[str, str]
    data: str


_OPERATORS = (
    _Operator(
        "join",
        ("strategy", "output_rows", "left_rows", "right_rows", "left_bytes", "right_bytes", "build_ms", "sort_ms",
         "spill_bytes"),
        "output_rows",
        "coalesce(left_bytes + right_bytes, left_bytes, right_bytes)",
        "coalesce(build_ms + sort_ms, build_ms, sort_ms)",
        {
            "spill_bytes": "double(spill_bytes)",
            "output_ratio": "double(output_rows) / nullif(greatest(left_rows, right_rows), 0)",
        },
        "greatest(left_rows, right_rows)",
    ),
    _Operator(
        "shuffle",
        ("bytes_written", "rows_written", "write_time_ns", "fetch_wait_ms", "skew_ratio"),
        "rows_written",
        "bytes_written",
        "coalesce(write_time_ns div 1000000 + fetch_wait_ms, write_time_ns div 1000000, fetch_wait_ms)",
        {
            "bytes_written": "double(bytes_written)",
            "skew_ratio": "skew_ratio",
            "fetch_wait_ms": "double(fetch_wait_ms)",
        },
        "rows_written",
    ),
    _Operator(
        "broadcast",
        ("size_bytes", "rows", *DRIVER_PHASES),
        "rows",
        "size_bytes",
        DRIVER_MS,
        {"size_bytes": "double(size_bytes)", "driver_ms": f"double({DRIVER_MS})"},
        "rows",
    ),
)  # fmt: skip
_TABLES = {"join": "joins", "shuffle": "shuffle", "broadcast": "broadcast"}


def operator_days(read: Read, ranges: Sequence[Range]) -> DataFrame:
    """Rows of `rollup_operator_day`."""
    executions = read("execution", [*models.EXECUTION_KEY, "job_name", "origin"], ranges)
    all_of = _union(
        _operators(read, operator, ranges).selectExpr(
            *models.EXECUTION_KEY,
            "operator_key",
            f"'{operator.subject}' AS subject",
            f"{operator.rows} AS rows",
            f"{operator.bytes} AS bytes",
            f"{operator.time_ms} AS time_ms",
            f"{'spill_bytes' if operator.subject == 'join' else 'CAST(NULL AS bigint)'} AS spill_bytes",
            f"{'skew_ratio' if operator.subject == 'shuffle' else 'CAST(NULL AS double)'} AS skew_ratio",
            f"{'strategy' if operator.subject == 'join' else 'CAST(NULL AS string)'} AS strategy",
        )
        for operator in _OPERATORS
    )
    strategies = f.array_sort(f.collect_set("strategy"))
    return (
        all_of.join(executions, list(models.EXECUTION_KEY))
        .withColumn("day", _day())
        .groupBy("day", "job_name", "operator_key", "origin")
        .agg(
            f.min("subject").alias("subject"),
            f.count(f.lit(1)).alias("runs"),
            f.sum("rows").alias("rows"),
            f.sum("bytes").alias("bytes"),
            f.max("bytes").alias("largest_bytes"),
            f.sum("time_ms").alias("time_ms"),
            f.sum("spill_bytes").alias("spill_bytes"),
            f.max("skew_ratio").alias("skew_ratio"),
            f.when(f.size(strategies) > 0, strategies).alias("strategies"),
        )
    )


def baselines_of(read: Read, as_of: datetime) -> DataFrame:
    """Rows of `baseline`: as joinsight_regressions takes runs before a window, and what it makes of their measures."""
    before = [(as_of - timedelta(days=BASELINE_DAYS), as_of)]
    query = ["job_name", "query_shape", "origin"]
    comparable = read(
        "execution",
        [*models.EXECUTION_KEY, *query, "state", "incomplete", "plan_fingerprint", "duration_ms", "input_bytes",
         "shuffle_write_bytes"],
        before,
    ).where("state = 'succeeded' AND incomplete IS NULL AND query_shape IS NOT NULL")  # fmt: skip
    of_query = Window.partitionBy(*query)
    week_before = f.lit(as_of - timedelta(days=7))
    runs = (
        comparable.withColumn("number", f.row_number().over(of_query.orderBy(f.col("started_at").desc())))
        .withColumn("in_week", f.count(f.when(f.col("started_at") >= week_before, 1)).over(of_query))
        .withColumn("in_all", f.count(f.lit(1)).over(of_query))
        .where(f"in_all >= {MINIMUM_RUNS}")
        .withColumn("found", f.expr(f"least(in_all, greatest({BASELINE_RUNS}, in_week))"))
        .where("number <= found")
        # As many as wanted, spread over those found
        .where(f"number * {BASELINE_RUNS} div found > (number - 1) * {BASELINE_RUNS} div found")
        .withColumn("data", f.expr("double(coalesce(nullif(input_bytes, 0), shuffle_write_bytes))"))
    )
    keyed = [*models.EXECUTION_KEY, *query]
    measured = [
        runs.selectExpr(
            *keyed, "'query' AS subject", "'' AS operator_key", "'duration_ms' AS measure",
            "double(duration_ms) AS value", "data", "plan_fingerprint",
        )
    ]  # fmt: skip
    for operator in _OPERATORS:
        pairs = ", ".join(f"'{name}', {value}" for name, value in operator.measures.items())
        found = _operators(read, operator, before).selectExpr(
            *models.EXECUTION_KEY,
            "operator_key",
            f"double({operator.data}) AS data",
            f"stack({len(operator.measures)}, {pairs}) AS (measure, value)",
        )
        measured.append(
            found.join(runs.select(*keyed), list(models.EXECUTION_KEY)).selectExpr(
                *keyed, f"'{operator.subject}' AS subject", "operator_key", "measure", "value", "data",
                "CAST(NULL AS string) AS plan_fingerprint",
            )
        )  # fmt: skip
    unit = [*query, "operator_key", "measure"]
    all_of = _union(measured).where("value IS NOT NULL")
    run = f.struct(*models.EXECUTION_KEY)
    medians = all_of.groupBy(*unit).agg(_median("value").alias("median"))
    plans = f.collect_list("plan_fingerprint")
    return (
        all_of.join(medians, unit)
        .withColumn("distance", f.expr("abs(value - median)"))
        .groupBy(*unit)
        .agg(
            f.min("subject").alias("subject"),
            f.count(f.lit(1)).alias("runs"),
            f.first("median").alias("median"),
            (_median("distance") * 1.4826).alias("spread"),
            _median("data").alias("data"),
            f.when(f.col("operator_key") == "", plans).alias("plan_fingerprints"),
            f.min(f.struct("distance", run.alias("run"))).alias("typical"),
        )
        .select("*", *(f.col(f"typical.run.{name}").alias(name) for name in models.EXECUTION_KEY))
        .withColumn("as_of", f.lit(as_of))
    )


def _operators(read: Read, operator: _Operator, ranges: Sequence[Range]) -> DataFrame:
    columns = [*models.EXECUTION_KEY, "operator_key", *operator.columns]
    return read(_TABLES[operator.subject], columns, ranges).where("operator_key IS NOT NULL")


def _union(frames: Sequence[DataFrame] | Iterator[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _day() -> Column:
    return f.to_date("started_at")


def _median(what: str) -> Column:
    return f.expr(f"percentile({what}, 0.5)")
