"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PARTITIONED = (
    "execution",
    "plan_version",
    "plan_node",
    "plan_edge",
    "node_metric",
    "shuffle",
    "broadcast",
    "joins",
    "stage",
)


def upgrade() -> None:
    op.create_table(
        "application",
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column("name", sa.Text(), nullable=False, comment="spark.app.name"),
        sa.Column(
            "job_name",
            sa.Text(),
            nullable=False,
            comment="spark.joinsight.jobName, else the name: stable from run to run",
        ),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="running or ended; unknown while only executions of it have arrived",
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True, comment="when the application started"),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="when it ended"),
        sa.Column("spark_user", sa.Text(), nullable=True, comment="the user that Spark ran as"),
        sa.Column("master", sa.Text(), nullable=True, comment="spark.master"),
        sa.Column("spark_version", sa.Text(), nullable=False, comment="version of Spark"),
        sa.Column("origin", sa.Text(), nullable=False, comment="live (listener) or event_log (backfill)"),
        sa.Column("listener_id", sa.Text(), nullable=False, comment="the listener instance, one per SparkContext"),
        sa.Column("listener_version", sa.Text(), nullable=False, comment="version of Joinsight in the driver"),
        sa.Column("tags", postgresql.JSONB(astext_type=sa.Text()), nullable=True, comment="spark.joinsight.tag.*"),
        sa.Column(
            "configuration",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="allow-listed settings of the SparkConf",
        ),
        sa.Column(
            "documents_made",
            sa.BigInteger(),
            nullable=True,
            comment="documents that the listener made, said when the application started or ended",
        ),
        sa.Column(
            "documents_dropped", sa.BigInteger(), nullable=True, comment="documents dropped in the driver at a limit"
        ),
        sa.Column("documents_refused", sa.BigInteger(), nullable=True, comment="documents that the collector refused"),
        sa.Column(
            "listener_failures", sa.BigInteger(), nullable=True, comment="exceptions that the listener caught in itself"
        ),
        sa.Column(
            "events_dropped",
            sa.BigInteger(),
            nullable=True,
            comment="events that Spark dropped before its listeners saw them",
        ),
        sa.Column(
            "sequence", sa.BigInteger(), nullable=False, comment="number of the document that this row came from"
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="when this row was written"),
        sa.CheckConstraint("origin IN ('live', 'event_log')", name=op.f("ck_application_origin")),
        sa.CheckConstraint("state IN ('unknown', 'running', 'ended')", name=op.f("ck_application_state")),
        sa.PrimaryKeyConstraint("application_id", "attempt_id", name=op.f("pk_application")),
        comment="An application attempt.",
    )
    op.create_index(op.f("ix_application_job_name_started_at"), "application", ["job_name", "started_at"], unique=False)
    op.create_table(
        "broadcast",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("node_id", sa.Integer(), nullable=False, comment="node of the final plan"),
        sa.Column(
            "mode",
            sa.Text(),
            nullable=True,
            comment="HashedRelationBroadcastMode(...) for hash joins, IdentityBroadcastMode for nested-loop joins",
        ),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=False,
            comment="succeeded, failed (its execution failed before it was ready), running, or unknown (not measured here: AQE did not need it, or an earlier execution of the same DataFrame made it)",
        ),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True, comment="size of the relation in memory"),
        sa.Column("rows", sa.BigInteger(), nullable=True, comment="rows"),
        sa.Column("collect_ms", sa.BigInteger(), nullable=True, comment="time the driver took to collect the rows"),
        sa.Column("build_ms", sa.BigInteger(), nullable=True, comment="time the driver took to build the relation"),
        sa.Column(
            "broadcast_ms",
            sa.BigInteger(),
            nullable=True,
            comment="time the driver took to hand it to the block manager",
        ),
        sa.Column(
            "consumers", sa.Integer(), nullable=True, comment="plan nodes that use it; more than 1: it is reused"
        ),
        sa.Column(
            "join_nodes", postgresql.ARRAY(sa.Integer()), nullable=True, comment="node ids of the joins that use it"
        ),
        sa.Column(
            "threshold_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="spark.sql.autoBroadcastJoinThreshold in force; -1: switched off",
        ),
        sa.CheckConstraint(
            "outcome IN ('succeeded', 'failed', 'running', 'unknown')", name=op.f("ck_broadcast_outcome")
        ),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "node_id", name=op.f("pk_broadcast")
        ),
        comment="A broadcast exchange of the final plan.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(op.f("ix_broadcast_size_bytes"), "broadcast", ["size_bytes"], unique=False)
    op.create_table(
        "execution",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column(
            "root_execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="the outermost execution that this one is nested in; itself if none",
        ),
        sa.Column(
            "job_name",
            sa.Text(),
            nullable=False,
            comment="spark.joinsight.jobName, else the application's name: stable from run to run",
        ),
        sa.Column("state", sa.Text(), nullable=False, comment="running, succeeded, failed or lost"),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="when it ended; NULL while it runs"),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True, comment="from start to end, milliseconds"),
        sa.Column("description", sa.Text(), nullable=False, comment="the job description, else the call site"),
        sa.Column("call_site", sa.Text(), nullable=False, comment="Spark's long call site"),
        sa.Column("error", sa.Text(), nullable=True, comment="why it failed"),
        sa.Column("job_group", sa.Text(), nullable=True, comment="Spark's job group"),
        sa.Column("job_tags", postgresql.ARRAY(sa.Text()), nullable=True, comment="Spark's job tags"),
        sa.Column("streaming_query_id", sa.Text(), nullable=True, comment="Structured Streaming: the query"),
        sa.Column(
            "streaming_batch_id", sa.BigInteger(), nullable=True, comment="Structured Streaming: the micro-batch"
        ),
        sa.Column("tags", postgresql.JSONB(astext_type=sa.Text()), nullable=True, comment="spark.joinsight.tag.*"),
        sa.Column(
            "configuration",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="allow-listed settings of the session, as far as they differ from the defaults",
        ),
        sa.Column("jobs", sa.Integer(), nullable=True, comment="Spark jobs that it ran"),
        sa.Column("stages", sa.Integer(), nullable=True, comment="stage attempts that ran (skipped ones not counted)"),
        sa.Column("tasks", sa.BigInteger(), nullable=True, comment="tasks of these stages that succeeded"),
        sa.Column("task_time_ms", sa.BigInteger(), nullable=True, comment="run time of all its tasks, milliseconds"),
        sa.Column("input_bytes", sa.BigInteger(), nullable=True, comment="bytes read from sources"),
        sa.Column("output_bytes", sa.BigInteger(), nullable=True, comment="bytes written to sinks"),
        sa.Column(
            "shuffle_write_bytes", sa.BigInteger(), nullable=True, comment="bytes that its tasks wrote for shuffles"
        ),
        sa.Column(
            "shuffle_read_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="bytes that its tasks read from shuffles, local and remote",
        ),
        sa.Column("broadcast_bytes", sa.BigInteger(), nullable=True, comment="bytes that it broadcast"),
        sa.Column(
            "memory_spilled_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="bytes of deserialized data that were spilled",
        ),
        sa.Column("disk_spilled_bytes", sa.BigInteger(), nullable=True, comment="bytes written to disk by spilling"),
        sa.Column(
            "shuffle_partitions", sa.BigInteger(), nullable=True, comment="spark.sql.shuffle.partitions in force"
        ),
        sa.Column(
            "broadcast_threshold_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="spark.sql.autoBroadcastJoinThreshold in force; -1: switched off",
        ),
        sa.Column("is_adaptive", sa.Boolean(), nullable=False, comment="the plan ran under AQE"),
        sa.Column(
            "plan_versions", sa.Integer(), nullable=False, comment="how many plans it had; more than 1: AQE re-planned"
        ),
        sa.Column(
            "incomplete",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="why its numbers may be partial; NULL: they are whole",
        ),
        sa.Column("origin", sa.Text(), nullable=False, comment="live (listener) or event_log (backfill)"),
        sa.Column("listener_id", sa.Text(), nullable=False, comment="the listener instance that measured"),
        sa.Column(
            "sequence",
            sa.BigInteger(),
            nullable=False,
            comment="number of the document that this row came from; a later one replaces it",
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="when this row was written"),
        sa.CheckConstraint("origin IN ('live', 'event_log')", name=op.f("ck_execution_origin")),
        sa.CheckConstraint("state IN ('running', 'succeeded', 'failed', 'lost')", name=op.f("ck_execution_state")),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", name=op.f("pk_execution")
        ),
        comment="A SQL execution: one query as Spark ran it.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(
        op.f("ix_execution_application_id_attempt_id_execution_id"),
        "execution",
        ["application_id", "attempt_id", "execution_id"],
        unique=False,
    )
    op.create_index(op.f("ix_execution_job_name_started_at"), "execution", ["job_name", "started_at"], unique=False)
    op.create_table(
        "joins",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("node_id", sa.Integer(), nullable=False, comment="node of the final plan"),
        sa.Column(
            "strategy",
            sa.Text(),
            nullable=False,
            comment="BroadcastHashJoin, SortMergeJoin, ShuffledHashJoin, BroadcastNestedLoopJoin, CartesianProduct",
        ),
        sa.Column(
            "join_type",
            sa.Text(),
            nullable=True,
            comment="Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, ExistenceJoin",
        ),
        sa.Column(
            "build_side", sa.Text(), nullable=True, comment="left or right: the side that is broadcast or hashed"
        ),
        sa.Column(
            "left_keys",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="equi-join keys of the left side, as Spark writes them",
        ),
        sa.Column("right_keys", postgresql.ARRAY(sa.Text()), nullable=True, comment="equi-join keys of the right side"),
        sa.Column("condition", sa.Text(), nullable=True, comment="the rest of the condition"),
        sa.Column("is_skew", sa.Boolean(), nullable=False, comment="AQE marked it as a skew join"),
        sa.Column("output_rows", sa.BigInteger(), nullable=True, comment="rows out"),
        sa.Column(
            "left_rows",
            sa.BigInteger(),
            nullable=True,
            comment="rows in from the left: of the nearest operator below that counts them",
        ),
        sa.Column("right_rows", sa.BigInteger(), nullable=True, comment="rows in from the right"),
        sa.Column(
            "left_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="bytes in from the left: of the exchange or broadcast that feeds it",
        ),
        sa.Column("right_bytes", sa.BigInteger(), nullable=True, comment="bytes in from the right"),
        sa.Column(
            "build_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="size of the relation that it built or that was broadcast to it",
        ),
        sa.Column(
            "build_ms",
            sa.BigInteger(),
            nullable=True,
            comment="time to build it: of the tasks (shuffled hash) or of the driver (broadcast)",
        ),
        sa.Column(
            "sort_ms", sa.BigInteger(), nullable=True, comment="time its two sorts took, summed over tasks (sort-merge)"
        ),
        sa.Column("spill_bytes", sa.BigInteger(), nullable=True, comment="bytes that it and its sorts spilled"),
        sa.Column(
            "left_exchange", sa.Integer(), nullable=True, comment="node id of the exchange that feeds it from the left"
        ),
        sa.Column(
            "right_exchange",
            sa.Integer(),
            nullable=True,
            comment="node id of the exchange that feeds it from the right",
        ),
        sa.Column(
            "threshold_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="spark.sql.autoBroadcastJoinThreshold in force; -1: switched off",
        ),
        sa.CheckConstraint("build_side IN ('left', 'right')", name=op.f("ck_joins_build_side")),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "node_id", name=op.f("pk_joins")
        ),
        comment="A join of the final plan.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(op.f("ix_joins_strategy"), "joins", ["strategy"], unique=False)
    op.create_table(
        "node_metric",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column(
            "node_id",
            sa.Integer(),
            nullable=False,
            comment="node of the final plan; -1: the metric belongs to a node that AQE replaced",
        ),
        sa.Column(
            "accumulator_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's accumulator id; repeats across executions",
        ),
        sa.Column("name", sa.Text(), nullable=False, comment="Spark's name of the metric"),
        sa.Column(
            "type",
            sa.Text(),
            nullable=False,
            comment="sum (a number), size (bytes), timing (ms), nsTiming (ns), average (tenfold), v2Custom_*",
        ),
        sa.Column(
            "count",
            sa.BigInteger(),
            nullable=True,
            comment="values that count: tasks and driver updates; NULL: nothing was reported",
        ),
        sa.Column("total", sa.BigInteger(), nullable=True, comment="sum of the values; NULL: not measured"),
        sa.Column("min", sa.BigInteger(), nullable=True, comment="smallest value"),
        sa.Column(
            "median",
            sa.BigInteger(),
            nullable=True,
            comment="Spark's median: the element at count/2 of the sorted values",
        ),
        sa.Column(
            "p95",
            sa.BigInteger(),
            nullable=True,
            comment="95th percentile: the element at count*95/100 of the sorted values",
        ),
        sa.Column("max", sa.BigInteger(), nullable=True, comment="largest value"),
        sa.Column("max_stage_id", sa.Integer(), nullable=True, comment="stage of the largest value; NULL: the driver"),
        sa.Column("max_stage_attempt", sa.Integer(), nullable=True, comment="attempt of that stage"),
        sa.Column("max_task_id", sa.BigInteger(), nullable=True, comment="task of the largest value"),
        sa.Column(
            "text",
            sa.Text(),
            nullable=True,
            comment="v2Custom metrics: what the metric's own class makes of the values",
        ),
        sa.PrimaryKeyConstraint(
            "started_at",
            "application_id",
            "attempt_id",
            "execution_id",
            "node_id",
            "accumulator_id",
            name=op.f("pk_node_metric"),
        ),
        comment="A metric of a plan node over its tasks, or of the driver. Units follow the type.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_table(
        "plan_edge",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column(
            "position",
            sa.Integer(),
            nullable=False,
            comment="Spark's order of edges: a parent's inputs from left to right",
        ),
        sa.Column("child_id", sa.Integer(), nullable=False, comment="node id that the rows come from"),
        sa.Column("parent_id", sa.Integer(), nullable=False, comment="node id that they go to"),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "position", name=op.f("pk_plan_edge")
        ),
        comment="An edge of the final plan. A reused exchange has an edge to every consumer.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_table(
        "plan_node",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("node_id", sa.Integer(), nullable=False, comment="Spark's node id, valid in this plan version only"),
        sa.Column("name", sa.Text(), nullable=False, comment="the operator, e.g. SortMergeJoin"),
        sa.Column("simple", sa.Text(), nullable=False, comment="Spark's simpleString: the operator with its arguments"),
        sa.Column(
            "cluster_id", sa.Integer(), nullable=True, comment="node id of the WholeStageCodegen cluster around it"
        ),
        sa.Column("is_cluster", sa.Boolean(), nullable=False, comment="it is a WholeStageCodegen cluster"),
        sa.Column(
            "metadata",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="metadata of file scans: location, format, filters, read schema",
        ),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "node_id", name=op.f("pk_plan_node")
        ),
        comment="A node of the final plan, numbered as in Spark's UI.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_table(
        "plan_version",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column(
            "version",
            sa.Integer(),
            nullable=False,
            comment="0 for the plan at the start, then one more for each re-plan of AQE",
        ),
        sa.Column(
            "planned_at", sa.DateTime(timezone=True), nullable=False, comment="when the driver learned of this plan"
        ),
        sa.Column("is_final", sa.Boolean(), nullable=False, comment="the last version known"),
        sa.Column(
            "nodes",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="nodes as Spark's UI numbers them: id, name, simple, cluster, metrics (ids)",
        ),
        sa.Column(
            "edges",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="pairs of child and parent node id",
        ),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "version", name=op.f("pk_plan_version")
        ),
        comment="A physical plan as Spark had it from one moment on. The last version is the final plan.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_table(
        "shuffle",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("node_id", sa.Integer(), nullable=False, comment="node of the final plan"),
        sa.Column(
            "partitioning",
            sa.Text(),
            nullable=True,
            comment="e.g. hashpartitioning, rangepartitioning, SinglePartition, RoundRobinPartitioning",
        ),
        sa.Column(
            "keys", postgresql.ARRAY(sa.Text()), nullable=True, comment="what it partitions by, as Spark writes it"
        ),
        sa.Column(
            "origin", sa.Text(), nullable=True, comment="why it is there: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ..."
        ),
        sa.Column("partitions", sa.BigInteger(), nullable=True, comment="reduce partitions that it made"),
        sa.Column(
            "consumers", sa.Integer(), nullable=True, comment="plan nodes that read it; more than 1: it is reused"
        ),
        sa.Column("map_stages", postgresql.ARRAY(sa.Integer()), nullable=True, comment="stages that wrote it"),
        sa.Column("reduce_stages", postgresql.ARRAY(sa.Integer()), nullable=True, comment="stages that read it"),
        sa.Column(
            "data_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="size of the rows before serialization for the shuffle",
        ),
        sa.Column("bytes_written", sa.BigInteger(), nullable=True, comment="bytes written"),
        sa.Column("rows_written", sa.BigInteger(), nullable=True, comment="rows written"),
        sa.Column(
            "write_time_ns", sa.BigInteger(), nullable=True, comment="time tasks took to write, summed, nanoseconds"
        ),
        sa.Column(
            "local_bytes_read", sa.BigInteger(), nullable=True, comment="bytes read from the same executor or host"
        ),
        sa.Column("remote_bytes_read", sa.BigInteger(), nullable=True, comment="bytes read over the network"),
        sa.Column(
            "remote_bytes_read_to_disk",
            sa.BigInteger(),
            nullable=True,
            comment="of these, bytes that went to disk first",
        ),
        sa.Column(
            "local_blocks_read", sa.BigInteger(), nullable=True, comment="blocks read from the same executor or host"
        ),
        sa.Column("remote_blocks_read", sa.BigInteger(), nullable=True, comment="blocks read over the network"),
        sa.Column("rows_read", sa.BigInteger(), nullable=True, comment="rows read, over all consumers"),
        sa.Column(
            "fetch_wait_ms",
            sa.BigInteger(),
            nullable=True,
            comment="time tasks waited for blocks, summed, milliseconds",
        ),
        sa.Column(
            "remote_requests_ms",
            sa.BigInteger(),
            nullable=True,
            comment="duration of remote requests, summed, milliseconds",
        ),
        sa.Column(
            "corrupt_merged_block_chunks",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: corrupt merged block chunks",
        ),
        sa.Column(
            "merged_fetch_fallbacks",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged fetches that fell back to original blocks",
        ),
        sa.Column(
            "remote_merged_blocks_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged blocks read over the network",
        ),
        sa.Column(
            "local_merged_blocks_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged blocks read from the same host",
        ),
        sa.Column(
            "remote_merged_chunks_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged chunks read over the network",
        ),
        sa.Column(
            "local_merged_chunks_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged chunks read from the same host",
        ),
        sa.Column(
            "remote_merged_bytes_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged bytes read over the network",
        ),
        sa.Column(
            "local_merged_bytes_read",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: merged bytes read from the same host",
        ),
        sa.Column(
            "remote_merged_requests_ms",
            sa.BigInteger(),
            nullable=True,
            comment="push-based: duration of remote merged requests, summed, milliseconds",
        ),
        sa.Column("rows_read_median", sa.BigInteger(), nullable=True, comment="rows that the median task read"),
        sa.Column("rows_read_max", sa.BigInteger(), nullable=True, comment="rows that the largest task read"),
        sa.Column("rows_read_max_task_id", sa.BigInteger(), nullable=True, comment="that task"),
        sa.Column(
            "skew_ratio",
            sa.Double(),
            nullable=True,
            comment="rows_read_max / rows_read_median; NULL unless several tasks read it",
        ),
        sa.Column(
            "aqe_read",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="how AQE reads it: coalesced, skewed, local; NULL: as planned",
        ),
        sa.Column("aqe_partitions", sa.BigInteger(), nullable=True, comment="partitions after AQE coalesced and split"),
        sa.Column(
            "aqe_coalesced_partitions", sa.BigInteger(), nullable=True, comment="partitions that AQE made by coalescing"
        ),
        sa.Column("aqe_skewed_partitions", sa.BigInteger(), nullable=True, comment="partitions that AQE found skewed"),
        sa.Column(
            "aqe_skewed_splits", sa.BigInteger(), nullable=True, comment="partitions that AQE made of the skewed ones"
        ),
        sa.Column(
            "aqe_empty_partitions", sa.BigInteger(), nullable=True, comment="empty partitions (Spark 4.1 and later)"
        ),
        sa.Column(
            "aqe_partition_bytes_median",
            sa.BigInteger(),
            nullable=True,
            comment="size of the median partition that AQE reads",
        ),
        sa.Column(
            "aqe_partition_bytes_max",
            sa.BigInteger(),
            nullable=True,
            comment="size of the largest partition that AQE reads",
        ),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "node_id", name=op.f("pk_shuffle")
        ),
        comment="A shuffle exchange of the final plan: what it wrote, what was read from it, how it spread.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(op.f("ix_shuffle_bytes_written"), "shuffle", ["bytes_written"], unique=False)
    op.create_table(
        "stage",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("stage_id", sa.Integer(), nullable=False, comment="Spark's stage id"),
        sa.Column("stage_attempt", sa.Integer(), nullable=False, comment="attempt of the stage, from 0"),
        sa.Column("name", sa.Text(), nullable=False, comment="the stage's call site"),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="pending, running, succeeded, failed, or skipped (its shuffle was there already)",
        ),
        sa.Column("job_ids", postgresql.ARRAY(sa.Integer()), nullable=True, comment="jobs that need it"),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True, comment="when it was submitted"),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True, comment="when it completed"),
        sa.Column("failure", sa.Text(), nullable=True, comment="why it failed"),
        sa.Column("tasks", sa.Integer(), nullable=False, comment="tasks that it has"),
        sa.Column("succeeded_tasks", sa.Integer(), nullable=False, comment="tasks that succeeded"),
        sa.Column("failed_tasks", sa.Integer(), nullable=False, comment="task attempts that failed"),
        sa.Column("killed_tasks", sa.Integer(), nullable=False, comment="task attempts that were killed"),
        sa.Column("run_time_ms", sa.BigInteger(), nullable=True, comment="executor run time"),
        sa.Column("cpu_time_ns", sa.BigInteger(), nullable=True, comment="executor CPU time"),
        sa.Column("gc_time_ms", sa.BigInteger(), nullable=True, comment="JVM garbage collection while its tasks ran"),
        sa.Column("deserialize_time_ms", sa.BigInteger(), nullable=True, comment="executor deserialize time"),
        sa.Column("result_bytes", sa.BigInteger(), nullable=True, comment="size of the results sent to the driver"),
        sa.Column(
            "memory_spilled_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="bytes of deserialized data that were spilled",
        ),
        sa.Column("disk_spilled_bytes", sa.BigInteger(), nullable=True, comment="bytes written to disk by spilling"),
        sa.Column(
            "peak_memory_bytes", sa.BigInteger(), nullable=True, comment="largest peak execution memory of a task"
        ),
        sa.Column("input_bytes", sa.BigInteger(), nullable=True, comment="bytes read from sources"),
        sa.Column("input_rows", sa.BigInteger(), nullable=True, comment="rows read from sources"),
        sa.Column("output_bytes", sa.BigInteger(), nullable=True, comment="bytes written to sinks"),
        sa.Column("output_rows", sa.BigInteger(), nullable=True, comment="rows written to sinks"),
        sa.Column("shuffle_read_local_bytes", sa.BigInteger(), nullable=True, comment="shuffle bytes read locally"),
        sa.Column(
            "shuffle_read_remote_bytes", sa.BigInteger(), nullable=True, comment="shuffle bytes read over the network"
        ),
        sa.Column("shuffle_read_rows", sa.BigInteger(), nullable=True, comment="shuffle rows read"),
        sa.Column(
            "shuffle_fetch_wait_ms", sa.BigInteger(), nullable=True, comment="time tasks waited for shuffle blocks"
        ),
        sa.Column("shuffle_write_bytes", sa.BigInteger(), nullable=True, comment="shuffle bytes written"),
        sa.Column("shuffle_write_rows", sa.BigInteger(), nullable=True, comment="shuffle rows written"),
        sa.Column("shuffle_write_time_ns", sa.BigInteger(), nullable=True, comment="time tasks took to write shuffles"),
        sa.Column("run_time_ms_min", sa.BigInteger(), nullable=True, comment="run time of a task: min"),
        sa.Column("run_time_ms_median", sa.BigInteger(), nullable=True, comment="run time of a task: median"),
        sa.Column("run_time_ms_p95", sa.BigInteger(), nullable=True, comment="run time of a task: p95"),
        sa.Column("run_time_ms_max", sa.BigInteger(), nullable=True, comment="run time of a task: max"),
        sa.Column(
            "shuffle_read_bytes_min", sa.BigInteger(), nullable=True, comment="shuffle bytes read of a task: min"
        ),
        sa.Column(
            "shuffle_read_bytes_median", sa.BigInteger(), nullable=True, comment="shuffle bytes read of a task: median"
        ),
        sa.Column(
            "shuffle_read_bytes_p95", sa.BigInteger(), nullable=True, comment="shuffle bytes read of a task: p95"
        ),
        sa.Column(
            "shuffle_read_bytes_max", sa.BigInteger(), nullable=True, comment="shuffle bytes read of a task: max"
        ),
        sa.Column("shuffle_read_rows_min", sa.BigInteger(), nullable=True, comment="shuffle rows read of a task: min"),
        sa.Column(
            "shuffle_read_rows_median", sa.BigInteger(), nullable=True, comment="shuffle rows read of a task: median"
        ),
        sa.Column("shuffle_read_rows_p95", sa.BigInteger(), nullable=True, comment="shuffle rows read of a task: p95"),
        sa.Column("shuffle_read_rows_max", sa.BigInteger(), nullable=True, comment="shuffle rows read of a task: max"),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'skipped')", name=op.f("ck_stage_state")
        ),
        sa.PrimaryKeyConstraint(
            "started_at",
            "application_id",
            "attempt_id",
            "execution_id",
            "stage_id",
            "stage_attempt",
            name=op.f("pk_stage"),
        ),
        comment="An attempt of a stage of an execution; totals are over its tasks.",
        postgresql_partition_by="RANGE (started_at)",
    )
    for table in PARTITIONED:  # monthly partitions are made as rows come; this one takes what fits no month
        op.execute(f'CREATE TABLE "{table}_default" PARTITION OF "{table}" DEFAULT')


def downgrade() -> None:
    op.drop_table("stage")
    op.drop_index(op.f("ix_shuffle_bytes_written"), table_name="shuffle")
    op.drop_table("shuffle")
    op.drop_table("plan_version")
    op.drop_table("plan_node")
    op.drop_table("plan_edge")
    op.drop_table("node_metric")
    op.drop_index(op.f("ix_joins_strategy"), table_name="joins")
    op.drop_table("joins")
    op.drop_index(op.f("ix_execution_job_name_started_at"), table_name="execution")
    op.drop_index(op.f("ix_execution_application_id_attempt_id_execution_id"), table_name="execution")
    op.drop_table("execution")
    op.drop_index(op.f("ix_broadcast_size_bytes"), table_name="broadcast")
    op.drop_table("broadcast")
    op.drop_index(op.f("ix_application_job_name_started_at"), table_name="application")
    op.drop_table("application")
