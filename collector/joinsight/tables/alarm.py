"""Tables `watched_query` and `alarm`: what collectors know of the runs of a query, and certain regressions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index, text

from joinsight.tables.declare import Int, Json, Long, TableRow, column, required, table_of

DURATION, FAILED, CANCELLED = MEASURES = ("duration_ms", "failed", "cancelled")


class WatchedQueryRow(TableRow, frozen=True, kw_only=True):
    """The last runs of a query in a job, and the evidence that they have changed, written by collectors."""

    job_name: str = required("the job")
    query_shape: str = required("the query")
    origin: str = required("live (listener) or event_log (backfill)")
    title: str | None = column("the title of a recent run")
    seen_until: datetime = required("runs that started before this are in it")
    edited_at: datetime | None = column(
        "since when it is the query: the runs before were those of another shape with the same title; NULL: all along"
    )
    hours: list[int] = required("hours since 1970 in which successful runs started; the last 91 of them")
    durations_ms: list[int] = required("the median duration of these runs by hour, milliseconds")
    ended_hours: list[int] = required("hours since 1970 in which runs started that have ended; the last 60 of them")
    outcomes: list[int] = required(
        "how at least half of these runs ended by hour: 1 failed or lost, 2 cancelled, 0 otherwise"
    )
    slower_weeks: list[float] = required("evidence that it became slower, by size of the change (docs/regressions.md)")
    failed_weeks: list[float] = required("evidence that it fails more often")
    cancelled_weeks: list[float] = required("evidence that it is cancelled more often")


watched_query = table_of(WatchedQueryRow, "watched_query", key=("job_name", "query_shape", "origin"))


class AlarmRow(TableRow, frozen=True, kw_only=True):
    """A certain regression (docs/regressions.md#certain-regressions), written by collectors."""

    job_name: str = required("the job")
    query_shape: str = required("the query")
    origin: str = required("live (listener) or event_log (backfill)")
    measure: str = required("what got worse: duration_ms, or how often it failed or was cancelled", one_of=MEASURES)
    raised_at: datetime = required("when it became certain: after the last run that it took")
    title: str | None = column("the title of a recent run")
    since: datetime = required("start of the hour of the first run since the change")
    before: float = required("median duration before, milliseconds; share of runs that failed or were cancelled")
    after: float = required("the same since the change")
    runs: Long = required("hours with runs between the change and the alarm")
    evidence_weeks: float = required("weeks of watching in which this much evidence is expected once without a change")
    kind: str = required(
        "plan_changed, data_grew or same_plan, by a typical run before and one since; edited: the shape is new; failing"
    )
    closed_at: datetime | None = column("when it was over; NULL: it is not")
    outcome: str | None = column(
        "recovered; accepted: it was so for 4 weeks; edited: it has another shape; gone: it ran no more; NULL: open"
    )
    baseline_started_at: datetime | None = column("key of a typical run before; NULL: there is none")
    baseline_application_id: str | None = column("the same")
    baseline_attempt_id: str | None = column("the same")
    baseline_execution_id: Long | None = column("the same")
    started_at: datetime | None = column("key of a typical run since the change; NULL: there is none")
    application_id: str | None = column("the same")
    attempt_id: str | None = column("the same")
    execution_id: Long | None = column("the same")
    causes: Json | None = column("the first causes of joinsight why for these two; NULL: not divided")


alarm = table_of(
    AlarmRow,
    "alarm",
    Index(
        "ix_alarm_open",
        *("job_name", "query_shape", "origin", "measure"),
        unique=True,
        postgresql_where=text("closed_at IS NULL"),
    ),
    Index(None, "raised_at"),
    key=("job_name", "query_shape", "origin", "measure", "raised_at"),
)


class NotificationRow(TableRow, frozen=True, kw_only=True):
    """What the webhook is told, each once (docs/alerts.md), written by collectors."""

    notification_id: str = required("what it is about: the alarm or forecast, and when it was raised")
    created_at: datetime = required("when it was to be told")
    body: Json = required("the message")
    attempts: Int = required("how often it was sent, without success but for the last time")
    next_at: datetime | None = column("when it is sent again; NULL: it was delivered, or given up")
    delivered_at: datetime | None = column("when the receiver took it; NULL: it did not")
    problem: str | None = column("why the last attempt failed")


notification = table_of(
    NotificationRow,
    "notification",
    Index("ix_notification_waiting", "next_at", postgresql_where=text("next_at IS NOT NULL")),
    key=("notification_id",),
)


FORECAST_KINDS = ("broadcast_threshold", "broadcast_limit", "join_spill", "shuffle_partitions")


class ForecastRow(TableRow, frozen=True, kw_only=True):
    """A number of an operator that grows and will reach a limit (docs/alerts.md#forecasts), written by collectors."""

    job_name: str = required("the job")
    origin: str = required("live (listener) or event_log (backfill)")
    kind: str = required(
        "broadcast_threshold: no longer small enough to be broadcast; broadcast_limit: more than Spark can broadcast,"
        " so that the query fails; join_spill: a task of the join's stage needs more memory than it has;"
        " shuffle_partitions: more than 2,000, from where on AQE knows only averages of their sizes",
        one_of=FORECAST_KINDS,
    )
    operator_key: str = required("the broadcast, join or shuffle")
    query_shape: str | None = column("the query of its latest run")
    title: str | None = column("its title")
    current: float = required("the number in its latest run: bytes, or partitions")
    limit_value: float = required("the limit, in the same unit")
    days: Long = required("days with runs from which it is known")
    growth_a_day: float = required("by how much it grows a day, as a share: 0.02 is 2 %")
    reaches_at: datetime = required("when it reaches the limit, if it grows as before")
    earliest_at: datetime = required("the beginning of the interval")
    latest_at: datetime | None = column("its end; NULL: more than half a year away")
    started_at: datetime = required("key of the latest run")
    application_id: str = required("the same")
    attempt_id: str = required("the same")
    execution_id: Long = required("the same")
    node_id: Int = required("node of its final plan")
    first_forecast_at: datetime = required("when it was forecast first")
    computed_at: datetime = required("when it was forecast last; older than the newest of all rows: no more")


forecast = table_of(ForecastRow, "forecast", key=("job_name", "origin", "kind", "operator_key"))


class CauseRow(TableRow, frozen=True, kw_only=True):
    """Why a run took longer than the typical run before (docs/why.md#over-many-runs), written by collectors."""

    code: str = required("as in docs/why.md: data, plan, skew, ..., not_explained; normal: within the scatter")
    started_at: datetime = required("when the execution started")
    application_id: str = required("Spark's application id")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    execution_id: Long = required("Spark's SQL execution id, unique within the application attempt")
    wall_ms: Long = required("how much longer it took for this, milliseconds; below 0: how much less")
    task_ms: Long = required("the same in run time of tasks")
    stage_id: Int | None = column("the stage in which most of it is; NULL: none, or unknown")
    evidence: list[str] | None = column("what moved")
    compared_with: str = required("the name of the run that it is compared with")


cause = table_of(CauseRow, "cause", key=("started_at", "application_id", "attempt_id", "execution_id", "code"))
