"""The tables. Comments here become comments in PostgreSQL, and the data dictionary in the docs is generated from them.

Keys are natural: an application attempt is ``(application_id, attempt_id)``; a delivery adds the listener's id, an
execution its start and Spark's execution id. All that belongs to an execution carries its whole key, is partitioned by
the month of its start, and is replaced as a whole when a newer document of the execution comes. A value that was not
measured is NULL, never 0.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE, JSONB
from sqlalchemy.types import TypeEngine

from joinsight.rows import DRIVER_MS

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

EXECUTION_KEY = ("started_at", "application_id", "attempt_id", "execution_id")


def _column(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], comment: str, null: bool = True) -> Column[Any]:
    return Column(name, kind, nullable=null, comment=comment)


def _text(name: str, comment: str) -> Column[Any]:
    return _column(name, Text, comment)


def _long(name: str, comment: str) -> Column[Any]:
    return _column(name, BigInteger, comment)


def _int(name: str, comment: str) -> Column[Any]:
    return _column(name, Integer, comment)


def _time(name: str, comment: str) -> Column[Any]:
    return _column(name, DateTime(timezone=True), comment)


def _needed(column: Column[Any]) -> Column[Any]:
    column.nullable = False
    return column


def _execution_key() -> list[Column[Any]]:
    return [
        _needed(_time("started_at", "when the execution started; the partition's key")),
        _needed(_text("application_id", "Spark's application id")),
        _needed(_text("attempt_id", "Spark's application attempt id; empty where there is none")),
        _needed(_long("execution_id", "Spark's SQL execution id, unique within the application attempt")),
    ]


def _of_execution(name: str, comment: str, key: tuple[str, ...], *items: Any) -> Table:
    return Table(
        name,
        metadata,
        *_execution_key(),
        *items,
        PrimaryKeyConstraint(*EXECUTION_KEY, *key),
        comment=comment,
        postgresql_partition_by="RANGE (started_at)",
    )


def _largest(table: str, what: str, name: str | None = None) -> Index:
    """Serves a sort by `what`: the largest first, the newest of equals, and what was not measured last."""
    call = re.fullmatch(r"\w+\(.*\)", what)  # which needs no parentheses, and PostgreSQL shows it without
    return Index(
        f"ix_{table}_{name or what}_largest",
        text(f"{what if name is None or call else f'({what})'} DESC NULLS LAST"),
        text("started_at DESC"),
    )


application = Table(
    "application",
    metadata,
    _needed(_text("application_id", "Spark's application id")),
    _needed(_text("attempt_id", "Spark's application attempt id; empty where there is none")),
    _needed(_text("name", "spark.app.name")),
    _needed(_text("job_name", "spark.joinsight.jobName, else the name: stable from run to run")),
    _needed(
        _text("state", "running, ended, or lost (its driver is gone); unknown while only executions of it have arrived")
    ),
    _time("started_at", "when the application started"),
    _time("ended_at", "when it ended"),
    _text("spark_user", "the user that Spark ran as"),
    _text("master", "spark.master"),
    _needed(_text("spark_version", "version of Spark")),
    _needed(_text("origin", "live (listener) or event_log (backfill)")),
    _needed(_text("listener_id", "the listener instance, one per SparkContext")),
    _needed(_text("listener_version", "version of Joinsight in the driver")),
    _column("tags", JSONB, "spark.joinsight.tag.*"),
    _column("configuration", JSONB, "allow-listed settings of the SparkConf"),
    _needed(_long("sequence", "number of the document that this row came from")),
    _needed(_time("updated_at", "when this row was written")),
    PrimaryKeyConstraint("application_id", "attempt_id"),
    CheckConstraint("state IN ('unknown', 'running', 'ended', 'lost')", name="state"),
    CheckConstraint("origin IN ('live', 'event_log')", name="origin"),
    Index(None, "job_name", "started_at"),
    Index(None, "name"),
    Index(
        "ix_application_open",
        "application_id",
        "attempt_id",
        postgresql_where=text("state IN ('unknown', 'running') AND origin = 'live'"),
    ),
    comment="An application attempt.",
)

delivery = Table(
    "delivery",
    metadata,
    _needed(_text("application_id", "Spark's application id")),
    _needed(_text("attempt_id", "Spark's application attempt id; empty where there is none")),
    _needed(_text("listener_id", "the listener instance, one per SparkContext")),
    _needed(_column("sequences_arrived", INT8MULTIRANGE, "numbers (sequence) of the documents that arrived")),
    _needed(_long("documents_arrived", "how many these are")),
    _needed(
        _column(
            "sequences_superseded",
            INT8MULTIRANGE,
            "numbers that need not arrive: a newer document of the same execution, or of the application, has",
        )
    ),
    _needed(_column("sequences_refused", INT8MULTIRANGE, "numbers of those that were refused, here or as it said")),
    _needed(_column("sequences_dropped", INT8MULTIRANGE, "numbers of those that it gave up, at a limit")),
    _text("refused_reason", "why the last one was refused"),
    _needed(_time("first_heard_at", "when the first document came")),
    _needed(_time("last_heard_at", "when the last one came: the listener's last sign of life")),
    _needed(_long("sequence", "number of the application document that the columns below are from; 0: none came")),
    _long("documents_made", "documents that the listener had numbered by then"),
    _column(
        "documents_dropped_by_cause",
        JSONB(none_as_null=True),
        "documents that it had dropped by then, by cause: memory, spool, failure; also those superseded since",
    ),
    _needed(_long("documents_dropped", "how many of sequences_dropped neither arrived nor were superseded")),
    _needed(_long("documents_refused", "how many of sequences_refused did not arrive after all")),
    _long(
        "documents_missing",
        "how many numbers up to the highest one known are in none of the sets; NULL until the application has spoken",
    ),
    _long("events_dropped", "events that Spark had dropped by then before its listeners saw them; NULL: unknown"),
    _long("listener_failures", "exceptions that the listener had caught in itself by then"),
    PrimaryKeyConstraint("application_id", "attempt_id", "listener_id"),
    Index(None, "last_heard_at"),
    comment="What a listener's documents have come to: arrived, refused, dropped, missing.",
)

execution = _of_execution(
    "execution",
    "A SQL execution: one query as Spark ran it.",
    (),
    _needed(_long("root_execution_id", "the outermost execution that this one is nested in; itself if none")),
    _needed(_text("job_name", "spark.joinsight.jobName, else the application's name: stable from run to run")),
    _text("query_shape", "the same for the same query in another run, however Spark runs it; NULL: it had no plan"),
    _text("plan_fingerprint", "the same for the same final plan in another run; NULL: it had no plan"),
    _needed(_text("state", "running, succeeded, failed or lost")),
    _time("ended_at", "when it ended; NULL while it runs"),
    _long("duration_ms", "from start to end, milliseconds"),
    _needed(_text("description", "the job description, else the call site")),
    _needed(_text("call_site", "Spark's long call site")),
    _text("error", "why it failed"),
    _text("job_group", "Spark's job group"),
    _column("job_tags", ARRAY(Text), "Spark's job tags"),
    _text("streaming_query_id", "Structured Streaming: the query"),
    _long("streaming_batch_id", "Structured Streaming: the micro-batch"),
    _column("tags", JSONB, "spark.joinsight.tag.*"),
    _column("configuration", JSONB, "allow-listed settings of the session, as far as they differ from the defaults"),
    _int("jobs", "Spark jobs that it ran"),
    _int("stages", "stage attempts that ran (skipped ones not counted)"),
    _long("tasks", "tasks of these stages that succeeded"),
    _long("task_time_ms", "run time of all its tasks, milliseconds"),
    _long(
        "input_bytes",
        "bytes that its tasks read from sources, as Spark counts them: of columnar files the columns, not whole files;"
        " of Parquet and ORC far too few in Spark 4.3, whose vectored reads run in threads that it does not watch",
    ),
    _long("output_bytes", "bytes written to sinks"),
    _long("shuffle_write_bytes", "bytes that its tasks wrote for shuffles"),
    _long("shuffle_read_bytes", "bytes that its tasks read from shuffles, local and remote"),
    _long("broadcast_bytes", "bytes that it broadcast"),
    _long("memory_spilled_bytes", "bytes of deserialized data that were spilled"),
    _long("disk_spilled_bytes", "bytes written to disk by spilling"),
    _long("shuffle_partitions", "spark.sql.shuffle.partitions in force"),
    _long("broadcast_threshold_bytes", "spark.sql.autoBroadcastJoinThreshold in force; -1: switched off"),
    _needed(_column("is_adaptive", Boolean, "the plan ran under AQE")),
    _needed(_int("plan_versions", "how many plans it had; more than 1: AQE re-planned")),
    _column("incomplete", ARRAY(Text), "why its numbers may be partial; NULL: they are whole"),
    _column(
        "incomplete_codes",
        ARRAY(Text),
        "the same for programs, each once: docs/guarantees.md#completeness; NULL: whole, or of an older listener",
    ),
    _needed(_text("origin", "live (listener) or event_log (backfill)")),
    _needed(_text("listener_id", "the listener instance that measured")),
    _needed(_long("sequence", "number of the document that this row came from; a later one replaces it")),
    _needed(_time("updated_at", "when this row was written")),
    CheckConstraint("state IN ('running', 'succeeded', 'failed', 'lost')", name="state"),
    CheckConstraint("origin IN ('live', 'event_log')", name="origin"),
    Index(None, "application_id", "attempt_id", "execution_id"),
    Index(None, "execution_id", "started_at"),
    Index(None, "state", "started_at", postgresql_where=text("state <> 'succeeded'")),
    Index(None, "job_name", "started_at"),
    Index(None, "query_shape", "started_at"),
    Index(
        "ix_execution_comparable",
        "query_shape",
        "started_at",
        postgresql_include=[
            *("job_name", "origin", "application_id", "attempt_id", "execution_id", "plan_fingerprint"),
            *("duration_ms", "input_bytes", "shuffle_write_bytes"),
        ],
        postgresql_where=text("state = 'succeeded' AND incomplete IS NULL"),
    ),
    _largest("execution", "duration_ms"),
    _largest("execution", "shuffle_write_bytes"),
    _largest("execution", "disk_spilled_bytes"),
)

plan_version = _of_execution(
    "plan_version",
    "A physical plan as Spark had it from one moment on. The last version is the final plan.",
    ("version",),
    _needed(_int("version", "0 for the plan at the start, then one more for each re-plan of AQE")),
    _needed(_time("planned_at", "when the driver learned of this plan")),
    _needed(_column("is_final", Boolean, "the last version known")),
    _text("plan_fingerprint", "the same for the same plan in another run"),
    _needed(_column("nodes", JSONB, "nodes as Spark's UI numbers them: id, name, simple, cluster, metrics (ids)")),
    _needed(_column("edges", JSONB, "pairs of child and parent node id")),
)

plan_node = _of_execution(
    "plan_node",
    "A node of the final plan, numbered as in Spark's UI.",
    ("node_id",),
    _needed(_int("node_id", "Spark's node id, valid in this plan version only")),
    _text("operator_key", "the same for the same operator in another run; NULL: no exchange, broadcast or join"),
    _needed(_text("name", "the operator, e.g. SortMergeJoin")),
    _needed(_text("simple", "Spark's simpleString: the operator with its arguments")),
    _int("cluster_id", "node id of the WholeStageCodegen cluster around it"),
    _needed(_column("is_cluster", Boolean, "it is a WholeStageCodegen cluster")),
    _column("metadata", JSONB, "metadata of file scans: location, format, filters, read schema"),
)

plan_edge = _of_execution(
    "plan_edge",
    "An edge of the final plan. A reused exchange has an edge to every consumer.",
    ("position",),
    _needed(_int("position", "Spark's order of edges: a parent's inputs from left to right")),
    _needed(_int("child_id", "node id that the rows come from")),
    _needed(_int("parent_id", "node id that they go to")),
)

node_metric = _of_execution(
    "node_metric",
    "A metric of a plan node over its tasks, or of the driver. Units follow the type.",
    ("node_id", "accumulator_id"),
    _needed(_int("node_id", "node of the final plan; -1: the metric belongs to a node that AQE replaced")),
    _needed(_long("accumulator_id", "Spark's accumulator id; repeats across executions")),
    _needed(_text("name", "Spark's name of the metric")),
    _needed(_text("type", "sum (a number), size (bytes), timing (ms), nsTiming (ns), average (tenfold), v2Custom_*")),
    _long("count", "values that count: tasks and driver updates; NULL: nothing was reported"),
    _long("total", "sum of the values; NULL: not measured"),
    _long("min", "smallest value"),
    _long("median", "Spark's median: the element at count/2 of the sorted values"),
    _long("p95", "95th percentile: the element at count*95/100 of the sorted values"),
    _long("max", "largest value"),
    _int("max_stage_id", "stage of the largest value; NULL: the driver"),
    _int("max_stage_attempt", "attempt of that stage"),
    _long("max_task_id", "task of the largest value"),
    _text("text", "v2Custom metrics: what the metric's own class makes of the values"),
)

aqe_decision = _of_execution(
    "aqe_decision",
    "What AQE changed in a plan while it ran, named once, at the plan version that shows it first.",
    ("version", "position"),
    _needed(_int("version", "the plan version that it made")),
    _needed(_int("position", "from 0, within the version")),
    _needed(_time("decided_at", "when the driver learned of this version")),
    _needed(
        _text(
            "kind",
            "join_strategy, coalesced, skew_split, local_read, empty_relation (a part of the plan turned out to be"
            " empty), dropped_stage (an exchange is used no longer)",
        )
    ),
    _int("node_id", "the node in this version, not in the final plan; NULL: it is gone"),
    _text("operator_key", "key of the join or exchange that it is about; NULL: it is about neither"),
    _needed(_text("operator", "name of the node; if it is gone, of what it was before")),
    _text(
        "before",
        "join_strategy: the strategy. coalesced, local_read: partitions that the shuffle made. skew_split: partitions"
        " that are skewed. empty_relation: the operator that was there. dropped_stage: the partitioning or broadcast"
        " mode",
    ),
    _text(
        "after",
        "join_strategy: the strategy. coalesced, local_read: partitions that are read. skew_split: what the skewed ones"
        " were split into. empty_relation: the operator in its place; NULL: none. dropped_stage: NULL",
    ),
    _long(
        "bytes_before",
        "join_strategy: data size of the shuffle that fed the side it now builds: what AQE decided by. coalesced,"
        " skew_split, local_read: bytes that the shuffle wrote. empty_relation: data size of the exchanges right below."
        " dropped_stage: its data size; NULL: it did not run, or nothing came",
    ),
    _long(
        "bytes_after",
        "join_strategy: size of the relation that was built of it. coalesced, skew_split: sizes of the partitions read,"
        " summed, as AQE knew them",
    ),
    _long("rows_before", "rows of what bytes_before measures"),
    _long(
        "rows_after", "join_strategy: rows that were broadcast. coalesced, skew_split, local_read: rows that were read"
    ),
    CheckConstraint(
        "kind IN ('join_strategy', 'coalesced', 'skew_split', 'local_read', 'empty_relation', 'dropped_stage')",
        name="kind",
    ),
    Index(None, "operator_key", "started_at"),
)

shuffle = _of_execution(
    "shuffle",
    "A shuffle exchange of the final plan: what it wrote, what was read from it, how it spread.",
    ("node_id",),
    _needed(_int("node_id", "node of the final plan")),
    _text("operator_key", "the same for the same exchange in another run"),
    _text("partitioning", "e.g. hashpartitioning, rangepartitioning, SinglePartition, RoundRobinPartitioning"),
    _column("keys", ARRAY(Text), "what it partitions by, as Spark writes it"),
    _text("origin", "why it is there: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ..."),
    _long("partitions", "reduce partitions that it made"),
    _int("consumers", "plan nodes that read it; more than 1: it is reused"),
    _column("join_nodes", ARRAY(Integer), "node ids of the joins that it feeds"),
    _column("map_stages", ARRAY(Integer), "stages that wrote it"),
    _column("reduce_stages", ARRAY(Integer), "stages that read it"),
    _long("data_bytes", "size of the rows before serialization for the shuffle"),
    _long("bytes_written", "bytes written"),
    _long("rows_written", "rows written"),
    _long("write_time_ns", "time tasks took to write, summed, nanoseconds"),
    _long("local_bytes_read", "bytes read from the same executor or host"),
    _long("remote_bytes_read", "bytes read over the network"),
    _long("remote_bytes_read_to_disk", "of these, bytes that went to disk first"),
    _long("local_blocks_read", "blocks read from the same executor or host"),
    _long("remote_blocks_read", "blocks read over the network"),
    _long("rows_read", "rows read, over all consumers"),
    _long("fetch_wait_ms", "time tasks waited for blocks, summed, milliseconds"),
    _long("remote_requests_ms", "duration of remote requests, summed, milliseconds"),
    _long("corrupt_merged_block_chunks", "push-based: corrupt merged block chunks"),
    _long("merged_fetch_fallbacks", "push-based: merged fetches that fell back to original blocks"),
    _long("remote_merged_blocks_read", "push-based: merged blocks read over the network"),
    _long("local_merged_blocks_read", "push-based: merged blocks read from the same host"),
    _long("remote_merged_chunks_read", "push-based: merged chunks read over the network"),
    _long("local_merged_chunks_read", "push-based: merged chunks read from the same host"),
    _long("remote_merged_bytes_read", "push-based: merged bytes read over the network"),
    _long("local_merged_bytes_read", "push-based: merged bytes read from the same host"),
    _long("remote_merged_requests_ms", "push-based: duration of remote merged requests, summed, milliseconds"),
    _long("rows_read_median", "rows that the median task read"),
    _long("rows_read_max", "rows that the largest task read"),
    _long("rows_read_max_task_id", "that task"),
    _column("skew_ratio", Double, "rows_read_max / rows_read_median; NULL unless several tasks read it"),
    _column("aqe_read", ARRAY(Text), "how AQE reads it: coalesced, skewed, local; NULL: as planned"),
    _long("aqe_partitions", "partitions after AQE coalesced and split"),
    _long("aqe_coalesced_partitions", "partitions that AQE made by coalescing"),
    _long("aqe_skewed_partitions", "partitions that AQE found skewed"),
    _long("aqe_skewed_splits", "partitions that AQE made of the skewed ones"),
    _long("aqe_empty_partitions", "empty partitions (Spark 4.1 and later)"),
    _long("aqe_partition_bytes_median", "size of the median partition that AQE reads"),
    _long("aqe_partition_bytes_max", "size of the largest partition that AQE reads"),
    Index(None, "operator_key", "started_at"),
    Index(None, "application_id"),
    _largest("shuffle", "bytes_written"),
    _largest("shuffle", "write_time_ns / 1000000 + fetch_wait_ms", "time"),
    _largest("shuffle", "skew_ratio"),
)

_THRESHOLD = (
    "broadcast threshold in force for sizes that were measured: under AQE"
    " spark.sql.adaptive.autoBroadcastJoinThreshold if it is set, else spark.sql.autoBroadcastJoinThreshold;"
    " -1: switched off; NULL: unreadable"
)

broadcast = _of_execution(
    "broadcast",
    "A broadcast exchange of the final plan.",
    ("node_id",),
    _needed(_int("node_id", "node of the final plan")),
    _text("operator_key", "the same for the same broadcast in another run"),
    _text("mode", "HashedRelationBroadcastMode(...) for hash joins, IdentityBroadcastMode for nested-loop joins"),
    _needed(
        _text(
            "outcome",
            "succeeded, failed (its execution failed before it was ready), running, or unknown (not measured"
            " here: AQE did not need it, or an earlier execution of the same DataFrame made it)",
        )
    ),
    _long("size_bytes", "size of the relation in memory"),
    _long("rows", "rows"),
    _long("collect_ms", "from when the driver asked for the rows until it had them: the tasks that make them included"),
    _long("build_ms", "time the driver took to build the relation"),
    _long("broadcast_ms", "time the driver took to hand it to the block manager"),
    _int("consumers", "plan nodes that use it; more than 1: it is reused"),
    _column("join_nodes", ARRAY(Integer), "node ids of the joins that use it"),
    _long("threshold_bytes", _THRESHOLD),
    _long(
        "shuffled_bytes",
        "size of its rows as the shuffle right beneath it counted them: what AQE compares with the threshold;"
        " NULL: no shuffle there",
    ),
    CheckConstraint("outcome IN ('succeeded', 'failed', 'running', 'unknown')", name="outcome"),
    Index(None, "operator_key", "started_at"),
    Index(None, "application_id"),
    _largest("broadcast", "size_bytes"),
    _largest("broadcast", DRIVER_MS, "time"),
)

joins = _of_execution(
    "joins",
    "A join of the final plan.",
    ("node_id",),
    _needed(_int("node_id", "node of the final plan")),
    _text("operator_key", "the same for the same join in another run, whatever its strategy"),
    _needed(
        _text(
            "strategy",
            "BroadcastHashJoin, SortMergeJoin, SortMergeAsOfJoin, ShuffledHashJoin, BroadcastNestedLoopJoin,"
            " CartesianProduct",
        )
    ),
    _text("join_type", "Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, ExistenceJoin"),
    _text("build_side", "left or right: the side that is broadcast or hashed"),
    _column("left_keys", ARRAY(Text), "equi-join keys of the left side, as Spark writes them"),
    _column("right_keys", ARRAY(Text), "equi-join keys of the right side"),
    _text("condition", "the rest of the condition; of an as-of join, what it matches"),
    _needed(_column("is_skew", Boolean, "AQE marked it as a skew join")),
    _text(
        "hint",
        "the strategy hint of each side that has one, as Spark prints it: broadcast left; NULL: none, or not known",
    ),
    _long("output_rows", "rows out"),
    _column("output_ratio", Double, "output_rows / the larger of left_rows and right_rows; NULL where not measured"),
    _long("left_rows", "rows in from the left: of the nearest operator below that counts them"),
    _long("right_rows", "rows in from the right"),
    _long("left_bytes", "bytes in from the left: of the exchange or broadcast that feeds it"),
    _long("right_bytes", "bytes in from the right"),
    _long("build_bytes", "size of the relation that it built or that was broadcast to it"),
    _long("build_ms", "time to build it: of the tasks (shuffled hash) or of the driver (broadcast)"),
    _long("sort_ms", "time its two sorts took, summed over tasks (sort-merge)"),
    _long("spill_bytes", "bytes that it and its sorts spilled, as they were in memory: on disk they are fewer"),
    _int("left_exchange", "node id of the exchange that feeds it from the left"),
    _int("right_exchange", "node id of the exchange that feeds it from the right"),
    _long("threshold_bytes", _THRESHOLD),
    _text(
        "broadcast_verdict",
        "was_broadcast: it is a broadcast join. Of the others: possible (a side that may be broadcast was measured at"
        " or under the threshold), hinted (as possible, but a hint, the query's or one of AQE, made it the join that"
        " it is),"
        " over_threshold (each such side was measured over it, or over what Spark broadcasts at all), switched_off (the"
        " threshold is negative), forbidden_by_type (a full outer or as-of join), unknown (no size was measured, or not"
        " whole)",
    ),
    _text("broadcast_side", "left or right: the side that was broadcast; else the smaller measured one that may be"),
    _long(
        "broadcast_side_bytes",
        "was_broadcast: size of the relation in memory, many times that of its rows if these are few. Else what AQE"
        " would compare with the threshold: data size of the shuffle that feeds the side, whose rows are only sorted,"
        " filtered or aggregated in between. Without AQE Spark compares an estimate",
    ),
    CheckConstraint("broadcast_side IN ('left', 'right')", name="broadcast_side"),
    CheckConstraint(
        "broadcast_verdict IN ('was_broadcast', 'possible', 'hinted', 'over_threshold', 'switched_off',"
        " 'forbidden_by_type', 'unknown')",
        name="broadcast_verdict",
    ),
    CheckConstraint("build_side IN ('left', 'right')", name="build_side"),
    Index(None, "operator_key", "started_at"),
    Index(None, "application_id"),
    _largest("joins", "output_rows"),
    _largest("joins", "spill_bytes"),
)

stage = _of_execution(
    "stage",
    "An attempt of a stage of an execution; totals are over its tasks.",
    ("stage_id", "stage_attempt"),
    _needed(_int("stage_id", "Spark's stage id")),
    _needed(_int("stage_attempt", "attempt of the stage, from 0")),
    _needed(_text("name", "the stage's call site")),
    _needed(_text("state", "pending, running, succeeded, failed, or skipped (its shuffle was there already)")),
    _column("job_ids", ARRAY(Integer), "jobs that need it"),
    _time("submitted_at", "when it was submitted"),
    _time("completed_at", "when it completed"),
    _text("failure", "why it failed"),
    _needed(_int("tasks", "tasks that it has")),
    _needed(_int("succeeded_tasks", "tasks that succeeded")),
    _needed(_int("failed_tasks", "task attempts that failed")),
    _needed(_int("killed_tasks", "task attempts that were killed")),
    _long("run_time_ms", "executor run time"),
    _long("cpu_time_ns", "executor CPU time"),
    _long("gc_time_ms", "JVM garbage collection while its tasks ran"),
    _long("deserialize_time_ms", "executor deserialize time"),
    _long("result_bytes", "size of the results sent to the driver"),
    _long("memory_spilled_bytes", "bytes of deserialized data that were spilled"),
    _long("disk_spilled_bytes", "bytes written to disk by spilling"),
    _long("peak_memory_bytes", "largest peak execution memory of a task"),
    _long("input_bytes", "bytes read from sources"),
    _long("input_rows", "rows read from sources"),
    _long("output_bytes", "bytes written to sinks"),
    _long("output_rows", "rows written to sinks"),
    _long("shuffle_read_local_bytes", "shuffle bytes read locally"),
    _long("shuffle_read_remote_bytes", "shuffle bytes read over the network"),
    _long("shuffle_read_rows", "shuffle rows read"),
    _long("shuffle_fetch_wait_ms", "time tasks waited for shuffle blocks"),
    _long("shuffle_write_bytes", "shuffle bytes written"),
    _long("shuffle_write_rows", "shuffle rows written"),
    _long("shuffle_write_time_ns", "time tasks took to write shuffles"),
    *(
        _long(f"{measure}_{statistic}", f"{meaning} of a task: {statistic}")
        for measure, meaning in (
            ("run_time_ms", "run time"),
            ("shuffle_read_bytes", "shuffle bytes read"),
            ("shuffle_read_rows", "shuffle rows read"),
        )
        for statistic in ("min", "median", "p95", "max")
    ),
    CheckConstraint("state IN ('pending', 'running', 'succeeded', 'failed', 'skipped')", name="state"),
)

SEVERITY_RANK = "length(severity)"  # critical, warning, info: no expression is told from itself so surely as this
IMPACT = "GREATEST(impact_ms, impact_bytes / 100000)"
"""Milliseconds; bytes as if 100 MB were a second."""

finding = _of_execution(
    "finding",
    "Something worth a person's attention in an execution that has ended; docs/findings.md says what each means.",
    ("finding", "node_id"),
    _needed(_text("finding", "the kind, e.g. skewed-shuffle")),
    _needed(_int("node_id", "node of the final plan; -1: the whole execution")),
    _needed(_text("severity", "info, warning or critical")),
    _text("operator_key", "the same for the same operator in another run; NULL: no exchange, broadcast or join"),
    _needed(_text("title", "what it is, in a sentence with the numbers")),
    _needed(_column("evidence", JSONB, "the numbers by name, in the units of their names")),
    _needed(_text("advice", "what can be done")),
    _long("impact_ms", "time that it cost tasks or the driver, milliseconds; NULL: cannot be said"),
    _long("impact_bytes", "bytes that it is about: shuffled or spilled; NULL: cannot be said"),
    CheckConstraint("severity IN ('info', 'warning', 'critical')", name="severity"),
    Index(None, "finding", "started_at"),
    Index(None, "operator_key", "started_at"),
    _largest("finding", SEVERITY_RANK, "severity"),
    _largest("finding", IMPACT, "impact"),
)

rollup_day = Table(
    "rollup_day",
    metadata,
    _needed(_column("day", Date, "the day, of UTC, on which they started")),
    _needed(_text("job_name", "the job")),
    _needed(_text("query_shape", "the query; empty: executions without a plan")),
    _needed(_text("origin", "live (listener) or event_log (backfill)")),
    _needed(_text("description", "the description of one of them, its first 200 characters")),
    _needed(_long("executions", "executions that started")),
    _needed(_long("succeeded", "of these, those that succeeded")),
    _needed(_long("failed", "those that failed")),
    _needed(_long("lost", "those whose driver was lost")),
    _needed(_long("incomplete", "those whose numbers may be partial")),
    _needed(_long("plans", "different final plans (plan_fingerprint) that they had")),
    _long("duration_ms", "from start to end, summed, milliseconds"),
    _column("duration_ms_median", Double, "median duration of those that succeeded, milliseconds"),
    _long("duration_ms_max", "longest duration of those that succeeded, milliseconds"),
    _long("tasks", "tasks that succeeded"),
    _long("task_time_ms", "run time of all tasks, milliseconds"),
    _long("input_bytes", "bytes read from sources"),
    _long("output_bytes", "bytes written to sinks"),
    _long("shuffle_write_bytes", "bytes written for shuffles"),
    _long("shuffle_read_bytes", "bytes read from shuffles"),
    _long("broadcast_bytes", "bytes broadcast"),
    _long("disk_spilled_bytes", "bytes written to disk by spilling"),
    _needed(_time("newest_at", "when the newest row of `execution` that is counted here was written")),
    PrimaryKeyConstraint("day", "job_name", "query_shape", "origin"),
    Index(None, "job_name", "day"),
    Index(None, "query_shape", "day"),
    comment="What the executions of a query in a job came to in a day; `joinsight rollup` writes it.",
)

rollup_operator_day = Table(
    "rollup_operator_day",
    metadata,
    _needed(_column("day", Date, "the day, of UTC, on which their executions started")),
    _needed(_text("job_name", "the job")),
    _needed(_text("operator_key", "the operator")),
    _needed(_text("origin", "live (listener) or event_log (backfill)")),
    _needed(_text("subject", "join, shuffle or broadcast")),
    _needed(_long("runs", "how often it is in a final plan")),
    _long("rows", "join: rows out; shuffle: rows written; broadcast: rows; summed"),
    _long("bytes", "join: bytes in from both sides; shuffle: bytes written; broadcast: size in memory; summed"),
    _long("largest_bytes", "the same of the largest run"),
    _long(
        "time_ms",
        "join: sort_ms and build_ms; shuffle: write time and fetch wait; broadcast: driver_ms; summed, milliseconds",
    ),
    _long("spill_bytes", "bytes that joins spilled, as they were in memory; NULL for others"),
    _column("skew_ratio", Double, "the largest skew_ratio of shuffles; NULL for others"),
    _column("strategies", ARRAY(Text), "strategies of joins, by alphabet; NULL for others"),
    PrimaryKeyConstraint("day", "job_name", "operator_key", "origin"),
    Index(None, "operator_key", "day"),
    comment="What the runs of an operator in a job came to in a day; `joinsight rollup` writes it.",
)

baseline = Table(
    "baseline",
    metadata,
    _needed(_time("as_of", "runs before then are counted: a midnight of UTC")),
    _needed(_text("job_name", "the job")),
    _needed(_text("query_shape", "the query")),
    _needed(_text("origin", "live (listener) or event_log (backfill)")),
    _needed(_text("operator_key", "the operator; empty: the query as a whole")),
    _needed(_text("measure", "as in v_regressions: duration_ms, spill_bytes, ...")),
    _needed(_text("subject", "query, join, shuffle or broadcast")),
    _needed(_long("runs", "in how many of the last 20 runs it was measured")),
    _needed(_column("median", Double, "its median over these")),
    _needed(_column("spread", Double, "their median distance from it, times 1.4826: as much as a standard deviation")),
    _column("data", Double, "the median of what goes in: input bytes of the query, rows of the operator"),
    _column("plan_fingerprints", ARRAY(Text), "of the query: the plan of each of these runs; NULL for operators"),
    _needed(_time("started_at", "key of a typical run")),
    _needed(_text("application_id", "the same")),
    _needed(_text("attempt_id", "the same")),
    _needed(_long("execution_id", "the same")),
    PrimaryKeyConstraint("as_of", "job_name", "query_shape", "origin", "operator_key", "measure"),
    comment="What is usual of a query or an operator, as joinsight_regressions defines it; `joinsight rollup` writes"
    " it.",
)

ROLLUPS = (rollup_day, rollup_operator_day, baseline)
"""Written by `joinsight rollup`, and kept longer than what they were made of."""

event_log = Table(
    "event_log",
    metadata,
    _needed(_text("path", "where it is, as Spark's file system names it; without .inprogress")),
    _needed(_text("application_id", "Spark's application id, by the log's name")),
    _needed(_text("attempt_id", "Spark's application attempt id; empty where there is none")),
    _needed(_long("size_bytes", "size of its files when they were read")),
    _needed(_time("modified_at", "when the newest of them was last changed")),
    _needed(_column("is_open", Boolean, "its application had not ended it: it may grow")),
    _needed(_text("outcome", "whole, partial (not all of it can be read) or failed (it is tried again each time)")),
    _column("problems", ARRAY(Text), "why not all of it was read; NULL: it was"),
    _needed(_column("is_compacted", Boolean, "the History Server has removed from it what had ended")),
    _needed(_int("missing_files", "files of a rolling log that are not there")),
    _needed(_long("lines", "lines that were read")),
    _needed(_long("event_bytes", "bytes of these, uncompressed")),
    _needed(_long("executions", "executions that it told of")),
    _needed(_text("reader_version", "version of Joinsight that read it")),
    _needed(_time("read_at", "when it was read")),
    PrimaryKeyConstraint("path"),
    CheckConstraint("outcome IN ('whole', 'partial', 'failed')", name="outcome"),
    comment="An event log that `joinsight backfill` has read: one that has not changed since is not read again.",
)

PARTITIONED = tuple(
    table for table in metadata.sorted_tables if table not in (application, delivery, event_log, *ROLLUPS)
)
"""Tables that are partitioned by the month of the execution's start."""

CHILDREN = tuple(table for table in PARTITIONED if table is not execution)
"""Tables whose rows belong to an execution and are replaced with it."""
