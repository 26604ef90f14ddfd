"""The tables that `joinsight rollup` writes: totals of days, and baselines, which collectors write, too."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import Index

from joinsight.tables.declare import Bytes, Long, Ms, Ratio, Rows, TableRow, column, required, table_of


class RollupDayRow(TableRow, frozen=True, kw_only=True):
    """Daily totals of the executions of a query in a job, written by `joinsight rollup`."""

    day: date = required("the day (UTC) on which they started")
    job_name: str = required("the job")
    query_shape: str = required("the query; empty: executions without a plan")
    origin: str = required("live (listener) or event_log (backfill)")
    description: str = required("the first 200 characters of the description of one of them")
    executions: Long = required("executions that started")
    succeeded: Long = required("of these, successful ones")
    failed: Long = required("failed ones")
    cancelled: Long = required("those that were cancelled")
    lost: Long = required("those whose driver was lost")
    incomplete: Long = required("those whose numbers may be partial")
    plans: Long = required("number of distinct final plans (plan_fingerprint)")
    duration_ms: Ms | None = column("sum of durations, milliseconds")
    duration_ms_median: Ratio | None = column("median duration of successful ones, milliseconds")
    duration_ms_max: Ms | None = column("longest duration of successful ones, milliseconds")
    tasks: Long | None = column("successful tasks")
    task_time_ms: Ms | None = column("run time of all tasks, milliseconds")
    input_bytes: Bytes | None = column("bytes read from sources")
    output_bytes: Bytes | None = column("bytes written to sinks")
    shuffle_write_bytes: Bytes | None = column("bytes written for shuffles")
    shuffle_read_bytes: Bytes | None = column("bytes read from shuffles")
    broadcast_bytes: Bytes | None = column("bytes broadcast")
    disk_spilled_bytes: Bytes | None = column("bytes written to disk by spilling")
    newest_at: datetime = required("when the newest row of `execution` counted here was written")


rollup_day = table_of(
    RollupDayRow,
    "rollup_day",
    Index(None, "job_name", "day"),
    Index(None, "query_shape", "day"),
    key=("day", "job_name", "query_shape", "origin"),
)


class RollupOperatorDayRow(TableRow, frozen=True, kw_only=True):
    """Daily totals of the runs of an operator in a job, written by `joinsight rollup`."""

    day: date = required("the day (UTC) on which their executions started")
    job_name: str = required("the job")
    operator_key: str = required("the operator")
    origin: str = required("live (listener) or event_log (backfill)")
    subject: str = required("join, shuffle or broadcast")
    runs: Long = required("number of times it is in a final plan")
    rows: Rows | None = column("join: output rows; shuffle: rows written; broadcast: rows; summed")
    bytes: Bytes | None = column(
        "join: input bytes of both sides; shuffle: bytes written; broadcast: size in memory; summed"
    )
    largest_bytes: Bytes | None = column("the same for the largest run")
    time_ms: Ms | None = column(
        "join: sort_ms and build_ms; shuffle: write time and fetch wait; broadcast: driver_ms; summed, milliseconds"
    )
    cost_wall_ms: Ms | None = column("wall time that it cost, a join with what it needed (docs/cost.md), summed")
    cost_task_ms: Ms | None = column("the same in time of tasks")
    spill_bytes: Bytes | None = column("bytes that joins spilled, by size in memory; NULL for others")
    skew_ratio: Ratio | None = column("the largest skew_ratio of shuffles; NULL for others")
    strategies: list[str] | None = column("strategies of joins, in alphabetical order; NULL for others")


rollup_operator_day = table_of(
    RollupOperatorDayRow,
    "rollup_operator_day",
    Index(None, "operator_key", "day"),
    key=("day", "job_name", "operator_key", "origin"),
)


class BaselineRow(TableRow, frozen=True, kw_only=True):
    """The baseline of a query or an operator, as joinsight_regressions defines it, written by collectors."""

    as_of: datetime = required("only earlier runs count; a midnight (UTC)")
    job_name: str = required("the job")
    query_shape: str = required("the query")
    origin: str = required("live (listener) or event_log (backfill)")
    operator_key: str = required("the operator; empty: the query as a whole")
    measure: str = required("as in v_regressions: duration_ms, spill_bytes, ...")
    subject: str = required("query, join, shuffle or broadcast")
    runs: Long = required("number of the last 20 runs in which it was measured")
    median: float = required("its median over these runs")
    spread: float = required("their median absolute deviation, times 1.4826 to match a standard deviation")
    data: float | None = column("the median of the input: input bytes of the query, rows of the operator")
    plan_fingerprints: list[str] | None = column("for queries: the plan of each of these runs; NULL for operators")
    started_at: datetime = required("key of a typical run")
    application_id: str = required("the same")
    attempt_id: str = required("the same")
    execution_id: Long = required("the same")


baseline = table_of(
    BaselineRow, "baseline", key=("as_of", "job_name", "query_shape", "origin", "operator_key", "measure")
)


ROLLUPS = (rollup_day, rollup_operator_day, baseline)
"""Tables written by `joinsight rollup`, which outlive the rows that they are computed from."""
