"""Table `execution`: a SQL execution."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

from sqlalchemy import ColumnElement, FromClause, Index, false, func, or_, text

from joinsight.contract.document import ExecutionState, Origin
from joinsight.tables.declare import Bytes, ExecutionKey, Int, Long, Ms, Strings, column, largest, required, table_of


class ExecutionRow(ExecutionKey, frozen=True, kw_only=True):
    """A SQL execution: one query as Spark ran it."""

    root_execution_id: Long = required("the outermost execution that contains this one; its own id if none")
    job_name: str = required("spark.joinsight.jobName, or the application's name; stable from run to run")
    query_shape: str | None = column("key of the query, equal in all its runs regardless of the plan; NULL: no plan")
    plan_fingerprint: str | None = column("key of the final plan, equal in all runs with the same plan; NULL: no plan")
    state: str = required(
        "running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query"
        " stopped) or lost (its driver is gone)",
        one_of=get_args(ExecutionState),
    )
    ended_at: datetime | None = column("when it ended; NULL while it is running")
    duration_ms: Ms | None = column("duration from start to end, milliseconds")
    title: str | None = column(
        "what to call it, in one line: the description or statement that the user gave, else what its plan reads, does"
        " and writes; NULL: no description and no plan"
    )
    called_from: str | None = column(
        "the line of the user's code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)"
    )
    description: str = required("the job description, or the call site")
    call_site: str = required("Spark's long call site")
    error: str | None = column("why it failed")
    job_group: str | None = column("Spark's job group")
    job_tags: list[str] | None = column("the first 100 of Spark's job tags")
    user_name: str | None = column(
        "who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)"
    )
    session_id: str | None = column(
        "the session of the Spark Connect or Thrift server, elsewhere Spark's own; NULL: unknown (before Spark 4.0)"
    )
    operation_id: str | None = column(
        "the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server"
    )
    user_tags: list[str] | None = column(
        "the first 100 tags that the user set (addTag, addJobTag), as the user wrote them"
    )
    streaming_query_name: str | None = column("Structured Streaming: the query's name; NULL: it has none")
    streaming_query_id: str | None = column("Structured Streaming: the query, equal in all its runs from a checkpoint")
    streaming_run_id: str | None = column("Structured Streaming: the run of the query, from a start to its stop")
    streaming_batch_id: Long | None = column("Structured Streaming: the number of the micro-batch")
    is_outer: bool = required(
        "whether its work is in another execution: a micro-batch in those nested in it, the result of a command in"
        " that which ran the command; or whether it is the query of joinsight doctor: tables of operators have nothing"
        " of it, and lists and totals leave it out"
    )
    nested: Int | None = column(
        "executions that it started and that Spark nests in it, 1000 at most; NULL: stored before schema 9"
    )
    tags: Strings | None = column("spark.joinsight.tag.*")
    configuration: Strings | None = column("allow-listed settings of the session that differ from the defaults")
    jobs: Int | None = column("Spark jobs that it ran")
    stages: Int | None = column("stage attempts that ran (skipped ones not counted)")
    tasks: Long | None = column("successful tasks of these stages")
    task_time_ms: Ms | None = column("run time of all its tasks, milliseconds")
    is_sampled: bool = required(
        "whether tasks of it were sampled (docs/task-time.md); false in rows of before schema 2", earlier="false"
    )
    input_bytes: Bytes | None = column(
        "bytes that its tasks read from sources, as counted by Spark: for columnar files the columns, not"
        " whole files; far too few for Parquet and ORC in Spark 4.3, whose vectored reads run in threads that"
        " Spark does not track"
    )
    output_bytes: Bytes | None = column("bytes written to sinks")
    shuffle_write_bytes: Bytes | None = column("shuffle bytes written by its tasks")
    shuffle_read_bytes: Bytes | None = column("shuffle bytes read by its tasks, local and remote")
    broadcast_bytes: Bytes | None = column("bytes that it broadcast")
    memory_spilled_bytes: Bytes | None = column("bytes of deserialized data spilled")
    disk_spilled_bytes: Bytes | None = column("bytes written to disk by spilling")
    shuffle_partitions: Long | None = column("spark.sql.shuffle.partitions in force")
    broadcast_threshold_bytes: Bytes | None = column("spark.sql.autoBroadcastJoinThreshold in force; -1: disabled")
    is_adaptive: bool = required("whether the plan ran under AQE")
    plan_versions: Int = required("number of plans; more than 1: AQE replanned")
    incomplete: list[str] | None = column("why its numbers may be partial; NULL: complete")
    incomplete_codes: list[str] | None = column(
        "the reasons as codes, each once: docs/guarantees.md#completeness; NULL: complete, or from an older listener"
    )
    origin: str = required("live (listener) or event_log (backfill)", one_of=get_args(Origin))
    listener_id: str = required("the listener instance that measured it")
    words: list[str] | None = column("words of its job, description, tables and operators, by which it is searched")
    sequence: Long = required("number of the document that this row comes from; a later one replaces it")
    updated_at: datetime | None = required("when this row was written", default=None)


_LOOKED_UP = (
    *("application_id", "attempt_id", "execution_id", "is_outer"),
    *("duration_ms", "shuffle_write_bytes", "disk_spilled_bytes"),
)
"""With these, a job's or query's executions are sorted, and their operators looked up, without reading their rows."""

execution = table_of(
    ExecutionRow,
    "execution",
    Index(None, "application_id", "attempt_id", "execution_id"),
    Index(None, "execution_id", "started_at"),
    Index(None, "state", "started_at", postgresql_where=text("state <> 'succeeded'")),
    Index(None, "job_name", "started_at", postgresql_include=_LOOKED_UP),
    Index(None, "query_shape", "started_at", postgresql_include=_LOOKED_UP),
    Index(None, "user_name", "started_at", postgresql_where=text("user_name IS NOT NULL")),
    Index(None, "session_id", "started_at", postgresql_where=text("session_id IS NOT NULL")),
    Index("ix_execution_user_tags", "user_tags", postgresql_using="gin"),
    Index("ix_execution_words", text("array_to_tsvector(words)"), postgresql_using="gin"),
    Index(
        "ix_execution_comparable",
        "query_shape",
        "started_at",
        postgresql_include=[
            *("job_name", "origin", "application_id", "attempt_id", "execution_id", "plan_fingerprint"),
            *("duration_ms", "input_bytes", "shuffle_write_bytes", "is_sampled"),
        ],
        postgresql_where=text("state = 'succeeded' AND incomplete IS NULL"),
    ),
    largest("execution", "duration_ms"),
    largest("execution", "shuffle_write_bytes"),
    largest("execution", "disk_spilled_bytes"),
)

WITHOUT_WORK_MS = 1_000
"""A success that took less, without a Spark job, did no work of its own: `CREATE VIEW`, `SHOW TABLES`."""


def has_work(executions: FromClause) -> ColumnElement[bool]:
    """Whether lists and `last` show an execution: whether it may have done work of its own."""
    c = executions.c
    may_have_run_jobs = or_(c.state != "succeeded", c.jobs.is_distinct_from(0), c.incomplete.is_not(None), c.nested > 0)
    return ~c.is_outer & (may_have_run_jobs | (c.duration_ms >= WITHOUT_WORK_MS))


def is_part(executions: FromClause) -> ColumnElement[bool]:
    """Whether it is part of the execution that started it, which lists show instead, and whose duration includes it.

    Not what a micro-batch runs: its outer execution is not listed. Of two equal columns PostgreSQL expects one row in
    200, and would sort all of a history; of a `coalesce`, half of them.
    """
    c = executions.c
    return ~func.coalesce(c.root_execution_id == c.execution_id, false()) & c.streaming_query_id.is_(None)


IS_PART = "NOT coalesce(root_execution_id = execution_id, false) AND streaming_query_id IS NULL"
"""`is_part`, in SQL."""
