-- The first schema. Each table with its comments, its indexes and, where it is partitioned by the month of the
-- execution's start, its default partition; the partitions of months are made at run time (store/partitions).

CREATE TABLE application (
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    name text NOT NULL,
    job_name text NOT NULL,
    state text NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    spark_user text,
    master text,
    spark_version text NOT NULL,
    origin text NOT NULL,
    listener_id text NOT NULL,
    listener_version text NOT NULL,
    tags jsonb,
    configuration jsonb,
    sequence bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_application PRIMARY KEY (application_id, attempt_id),
    CONSTRAINT ck_application_origin CHECK (origin IN ('live', 'event_log')),
    CONSTRAINT ck_application_state CHECK (state IN ('unknown', 'running', 'ended', 'lost'))
);
COMMENT ON TABLE application IS 'An application attempt.';
COMMENT ON COLUMN application.application_id IS 'Spark''s application id';
COMMENT ON COLUMN application.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN application.name IS 'spark.app.name';
COMMENT ON COLUMN application.job_name IS 'spark.joinsight.jobName, or the name; stable from run to run';
COMMENT ON COLUMN application.state IS 'running, ended, or lost (its driver is gone); unknown while only its executions have arrived';
COMMENT ON COLUMN application.started_at IS 'when the application started';
COMMENT ON COLUMN application.ended_at IS 'when it ended';
COMMENT ON COLUMN application.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN application.master IS 'spark.master';
COMMENT ON COLUMN application.spark_version IS 'version of Spark';
COMMENT ON COLUMN application.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN application.listener_id IS 'the listener instance, one per SparkContext';
COMMENT ON COLUMN application.listener_version IS 'version of Joinsight in the driver';
COMMENT ON COLUMN application.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN application.configuration IS 'allow-listed settings of the SparkConf';
COMMENT ON COLUMN application.sequence IS 'number of the document that this row comes from';
COMMENT ON COLUMN application.updated_at IS 'when this row was written';
CREATE INDEX ix_application_job_name_started_at ON application (job_name, started_at);
CREATE INDEX ix_application_name ON application (name);
CREATE INDEX ix_application_open ON application (application_id, attempt_id)
    WHERE state IN ('unknown', 'running') AND origin = 'live';


CREATE TABLE delivery (
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    listener_id text NOT NULL,
    sequences_arrived int8multirange NOT NULL,
    documents_arrived bigint NOT NULL,
    sequences_superseded int8multirange NOT NULL,
    sequences_refused int8multirange NOT NULL,
    sequences_dropped int8multirange NOT NULL,
    refused_reason text,
    first_heard_at timestamptz NOT NULL,
    last_heard_at timestamptz NOT NULL,
    sequence bigint NOT NULL,
    documents_made bigint,
    documents_dropped_by_cause jsonb,
    documents_dropped bigint NOT NULL,
    documents_refused bigint NOT NULL,
    documents_missing bigint,
    events_dropped bigint,
    listener_failures bigint,
    CONSTRAINT pk_delivery PRIMARY KEY (application_id, attempt_id, listener_id)
);
COMMENT ON TABLE delivery IS 'The delivery status of a listener''s documents: arrived, refused, dropped, missing.';
COMMENT ON COLUMN delivery.application_id IS 'Spark''s application id';
COMMENT ON COLUMN delivery.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN delivery.listener_id IS 'the listener instance, one per SparkContext';
COMMENT ON COLUMN delivery.sequences_arrived IS 'sequence numbers of the documents that arrived';
COMMENT ON COLUMN delivery.documents_arrived IS 'how many arrived';
COMMENT ON COLUMN delivery.sequences_superseded IS 'numbers that are no longer needed, because a newer document of the same execution or application arrived';
COMMENT ON COLUMN delivery.sequences_refused IS 'numbers of refused documents, as seen here or reported by the listener';
COMMENT ON COLUMN delivery.sequences_dropped IS 'numbers of documents that the listener dropped at a limit';
COMMENT ON COLUMN delivery.refused_reason IS 'why the last refused document was refused';
COMMENT ON COLUMN delivery.first_heard_at IS 'when the first document arrived';
COMMENT ON COLUMN delivery.last_heard_at IS 'when the last document or heartbeat arrived';
COMMENT ON COLUMN delivery.sequence IS 'number of the application document that the columns below come from; 0: none arrived';
COMMENT ON COLUMN delivery.documents_made IS 'documents that the listener had numbered by then';
COMMENT ON COLUMN delivery.documents_dropped_by_cause IS 'documents that it had dropped by then, by cause: memory, spool, failure; including those superseded since';
COMMENT ON COLUMN delivery.documents_dropped IS 'number of sequences_dropped that neither arrived nor were superseded';
COMMENT ON COLUMN delivery.documents_refused IS 'number of sequences_refused that did not arrive later';
COMMENT ON COLUMN delivery.documents_missing IS 'how many numbers up to the highest known one are in none of the sets; NULL until an application document arrives';
COMMENT ON COLUMN delivery.events_dropped IS 'events that Spark had dropped by then, unseen by its listeners; NULL: unknown';
COMMENT ON COLUMN delivery.listener_failures IS 'internal exceptions that the listener had caught by then';
CREATE INDEX ix_delivery_last_heard_at ON delivery (last_heard_at);


CREATE TABLE execution (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    root_execution_id bigint NOT NULL,
    job_name text NOT NULL,
    query_shape text,
    plan_fingerprint text,
    state text NOT NULL,
    ended_at timestamptz,
    duration_ms bigint,
    title text,
    called_from text,
    description text NOT NULL,
    call_site text NOT NULL,
    error text,
    job_group text,
    job_tags text[],
    user_name text,
    session_id text,
    operation_id text,
    user_tags text[],
    streaming_query_name text,
    streaming_query_id text,
    streaming_run_id text,
    streaming_batch_id bigint,
    is_outer boolean NOT NULL,
    tags jsonb,
    configuration jsonb,
    jobs integer,
    stages integer,
    tasks bigint,
    task_time_ms bigint,
    input_bytes bigint,
    output_bytes bigint,
    shuffle_write_bytes bigint,
    shuffle_read_bytes bigint,
    broadcast_bytes bigint,
    memory_spilled_bytes bigint,
    disk_spilled_bytes bigint,
    shuffle_partitions bigint,
    broadcast_threshold_bytes bigint,
    is_adaptive boolean NOT NULL,
    plan_versions integer NOT NULL,
    incomplete text[],
    incomplete_codes text[],
    origin text NOT NULL,
    listener_id text NOT NULL,
    words text[],
    sequence bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_execution PRIMARY KEY (started_at, application_id, attempt_id, execution_id),
    CONSTRAINT ck_execution_origin CHECK (origin IN ('live', 'event_log')),
    CONSTRAINT ck_execution_state CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled', 'lost'))
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE execution IS 'A SQL execution: one query as Spark ran it.';
COMMENT ON COLUMN execution.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN execution.application_id IS 'Spark''s application id';
COMMENT ON COLUMN execution.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN execution.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN execution.root_execution_id IS 'the outermost execution that contains this one; its own id if none';
COMMENT ON COLUMN execution.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN execution.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN execution.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN execution.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN execution.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN execution.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN execution.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN execution.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN execution.description IS 'the job description, or the call site';
COMMENT ON COLUMN execution.call_site IS 'Spark''s long call site';
COMMENT ON COLUMN execution.error IS 'why it failed';
COMMENT ON COLUMN execution.job_group IS 'Spark''s job group';
COMMENT ON COLUMN execution.job_tags IS 'the first 100 of Spark''s job tags';
COMMENT ON COLUMN execution.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN execution.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN execution.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN execution.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN execution.streaming_query_name IS 'Structured Streaming: the query''s name; NULL: it has none';
COMMENT ON COLUMN execution.streaming_query_id IS 'Structured Streaming: the query, equal in all its runs from a checkpoint';
COMMENT ON COLUMN execution.streaming_run_id IS 'Structured Streaming: the run of the query, from a start to its stop';
COMMENT ON COLUMN execution.streaming_batch_id IS 'Structured Streaming: the number of the micro-batch';
COMMENT ON COLUMN execution.is_outer IS 'whether its work is in another execution: a micro-batch in those nested in it, the result of a command in that which ran the command; tables of operators have nothing of it, and lists and totals leave it out';
COMMENT ON COLUMN execution.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN execution.configuration IS 'allow-listed settings of the session that differ from the defaults';
COMMENT ON COLUMN execution.jobs IS 'Spark jobs that it ran';
COMMENT ON COLUMN execution.stages IS 'stage attempts that ran (skipped ones not counted)';
COMMENT ON COLUMN execution.tasks IS 'successful tasks of these stages';
COMMENT ON COLUMN execution.task_time_ms IS 'run time of all its tasks, milliseconds';
COMMENT ON COLUMN execution.input_bytes IS 'bytes that its tasks read from sources, as counted by Spark: for columnar files the columns, not whole files; far too few for Parquet and ORC in Spark 4.3, whose vectored reads run in threads that Spark does not track';
COMMENT ON COLUMN execution.output_bytes IS 'bytes written to sinks';
COMMENT ON COLUMN execution.shuffle_write_bytes IS 'shuffle bytes written by its tasks';
COMMENT ON COLUMN execution.shuffle_read_bytes IS 'shuffle bytes read by its tasks, local and remote';
COMMENT ON COLUMN execution.broadcast_bytes IS 'bytes that it broadcast';
COMMENT ON COLUMN execution.memory_spilled_bytes IS 'bytes of deserialized data spilled';
COMMENT ON COLUMN execution.disk_spilled_bytes IS 'bytes written to disk by spilling';
COMMENT ON COLUMN execution.shuffle_partitions IS 'spark.sql.shuffle.partitions in force';
COMMENT ON COLUMN execution.broadcast_threshold_bytes IS 'spark.sql.autoBroadcastJoinThreshold in force; -1: disabled';
COMMENT ON COLUMN execution.is_adaptive IS 'whether the plan ran under AQE';
COMMENT ON COLUMN execution.plan_versions IS 'number of plans; more than 1: AQE replanned';
COMMENT ON COLUMN execution.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN execution.incomplete_codes IS 'the reasons as codes, each once: docs/guarantees.md#completeness; NULL: complete, or from an older listener';
COMMENT ON COLUMN execution.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN execution.listener_id IS 'the listener instance that measured it';
COMMENT ON COLUMN execution.words IS 'words of its job, description, tables and operators, by which it is searched';
COMMENT ON COLUMN execution.sequence IS 'number of the document that this row comes from; a later one replaces it';
COMMENT ON COLUMN execution.updated_at IS 'when this row was written';
CREATE INDEX ix_execution_application_id_attempt_id_execution_id ON execution (application_id, attempt_id, execution_id);
CREATE INDEX ix_execution_comparable ON execution (query_shape, started_at)
    INCLUDE (job_name, origin, application_id, attempt_id, execution_id, plan_fingerprint, duration_ms, input_bytes, shuffle_write_bytes)
    WHERE state = 'succeeded' AND incomplete IS NULL;
CREATE INDEX ix_execution_disk_spilled_bytes_largest ON execution (disk_spilled_bytes DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_execution_duration_ms_largest ON execution (duration_ms DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_execution_execution_id_started_at ON execution (execution_id, started_at);
CREATE INDEX ix_execution_job_name_started_at ON execution (job_name, started_at)
    INCLUDE (application_id, attempt_id, execution_id, is_outer, duration_ms, shuffle_write_bytes, disk_spilled_bytes);
CREATE INDEX ix_execution_query_shape_started_at ON execution (query_shape, started_at)
    INCLUDE (application_id, attempt_id, execution_id, is_outer, duration_ms, shuffle_write_bytes, disk_spilled_bytes);
CREATE INDEX ix_execution_session_id_started_at ON execution (session_id, started_at) WHERE session_id IS NOT NULL;
CREATE INDEX ix_execution_shuffle_write_bytes_largest ON execution (shuffle_write_bytes DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_execution_state_started_at ON execution (state, started_at) WHERE state <> 'succeeded';
CREATE INDEX ix_execution_user_name_started_at ON execution (user_name, started_at) WHERE user_name IS NOT NULL;
CREATE INDEX ix_execution_user_tags ON execution USING gin (user_tags);
CREATE INDEX ix_execution_words ON execution USING gin (array_to_tsvector(words));
CREATE TABLE execution_default PARTITION OF execution DEFAULT;


CREATE TABLE execution_plans (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    nodes jsonb NOT NULL,
    versions jsonb NOT NULL,
    CONSTRAINT pk_execution_plans PRIMARY KEY (started_at, application_id, attempt_id, execution_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE execution_plans IS 'The plan versions of an execution with each node once; see plan_version, plan_node and plan_edge.';
COMMENT ON COLUMN execution_plans.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN execution_plans.application_id IS 'Spark''s application id';
COMMENT ON COLUMN execution_plans.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN execution_plans.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN execution_plans.nodes IS 'for each node a list: name, simple, is_cluster, metrics; in the final plan also the other columns of plan_node';
COMMENT ON COLUMN execution_plans.versions IS 'for each version a list: planned_at, plan_fingerprint, edges, nodes (id, cluster, position in column nodes)';
CREATE TABLE execution_plans_default PARTITION OF execution_plans DEFAULT;


CREATE TABLE execution_metrics (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    metrics jsonb NOT NULL,
    CONSTRAINT pk_execution_metrics PRIMARY KEY (started_at, application_id, attempt_id, execution_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE execution_metrics IS 'The metrics of an execution''s nodes in one value, an eighth of the space of a row each; see node_metric.';
COMMENT ON COLUMN execution_metrics.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN execution_metrics.application_id IS 'Spark''s application id';
COMMENT ON COLUMN execution_metrics.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN execution_metrics.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN execution_metrics.metrics IS 'for each metric a list: the values of the columns of node_metric, from node_id on';
CREATE TABLE execution_metrics_default PARTITION OF execution_metrics DEFAULT;


CREATE TABLE execution_times (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    segments jsonb NOT NULL,
    task_times jsonb NOT NULL,
    CONSTRAINT pk_execution_times PRIMARY KEY (started_at, application_id, attempt_id, execution_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE execution_times IS 'Where the time of an execution went; see segment and task_time.';
COMMENT ON COLUMN execution_times.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN execution_times.application_id IS 'Spark''s application id';
COMMENT ON COLUMN execution_times.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN execution_times.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN execution_times.segments IS 'for each segment a list: the values of the columns of segment, from cause on';
COMMENT ON COLUMN execution_times.task_times IS 'for each part a list: the values of the columns of task_time, from stage_id on';
CREATE TABLE execution_times_default PARTITION OF execution_times DEFAULT;


CREATE TABLE execution_costs (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    job_name text NOT NULL,
    wall_ms bigint,
    task_ms bigint,
    join_wall_ms bigint,
    join_task_ms bigint,
    shuffle_wall_ms bigint,
    shuffle_task_ms bigint,
    broadcast_wall_ms bigint,
    broadcast_task_ms bigint,
    scan_wall_ms bigint,
    scan_task_ms bigint,
    sort_wall_ms bigint,
    sort_task_ms bigint,
    aggregate_wall_ms bigint,
    aggregate_task_ms bigint,
    python_wall_ms bigint,
    python_task_ms bigint,
    write_wall_ms bigint,
    write_task_ms bigint,
    shared_wall_ms bigint,
    shared_task_ms bigint,
    other_wall_ms bigint,
    other_task_ms bigint,
    waiting_wall_ms bigint,
    driver_wall_ms bigint,
    nested_wall_ms bigint,
    CONSTRAINT pk_execution_costs PRIMARY KEY (started_at, application_id, attempt_id, execution_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE execution_costs IS 'What an execution cost by kind of work, a column each, which add up faster than rows; see cost.';
COMMENT ON COLUMN execution_costs.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN execution_costs.application_id IS 'Spark''s application id';
COMMENT ON COLUMN execution_costs.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN execution_costs.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN execution_costs.job_name IS 'the job';
COMMENT ON COLUMN execution_costs.wall_ms IS 'sum of the kinds but nested, milliseconds; NULL: it has not ended';
COMMENT ON COLUMN execution_costs.task_ms IS 'time of tasks, summed over the kinds, milliseconds; NULL: nothing is known';
COMMENT ON COLUMN execution_costs.join_wall_ms IS 'wall_ms of kind join of cost';
COMMENT ON COLUMN execution_costs.join_task_ms IS 'task_ms of kind join of cost';
COMMENT ON COLUMN execution_costs.shuffle_wall_ms IS 'wall_ms of kind shuffle of cost';
COMMENT ON COLUMN execution_costs.shuffle_task_ms IS 'task_ms of kind shuffle of cost';
COMMENT ON COLUMN execution_costs.broadcast_wall_ms IS 'wall_ms of kind broadcast of cost';
COMMENT ON COLUMN execution_costs.broadcast_task_ms IS 'task_ms of kind broadcast of cost';
COMMENT ON COLUMN execution_costs.scan_wall_ms IS 'wall_ms of kind scan of cost';
COMMENT ON COLUMN execution_costs.scan_task_ms IS 'task_ms of kind scan of cost';
COMMENT ON COLUMN execution_costs.sort_wall_ms IS 'wall_ms of kind sort of cost';
COMMENT ON COLUMN execution_costs.sort_task_ms IS 'task_ms of kind sort of cost';
COMMENT ON COLUMN execution_costs.aggregate_wall_ms IS 'wall_ms of kind aggregate of cost';
COMMENT ON COLUMN execution_costs.aggregate_task_ms IS 'task_ms of kind aggregate of cost';
COMMENT ON COLUMN execution_costs.python_wall_ms IS 'wall_ms of kind python of cost';
COMMENT ON COLUMN execution_costs.python_task_ms IS 'task_ms of kind python of cost';
COMMENT ON COLUMN execution_costs.write_wall_ms IS 'wall_ms of kind write of cost';
COMMENT ON COLUMN execution_costs.write_task_ms IS 'task_ms of kind write of cost';
COMMENT ON COLUMN execution_costs.shared_wall_ms IS 'wall_ms of kind shared of cost';
COMMENT ON COLUMN execution_costs.shared_task_ms IS 'task_ms of kind shared of cost';
COMMENT ON COLUMN execution_costs.other_wall_ms IS 'wall_ms of kind other of cost';
COMMENT ON COLUMN execution_costs.other_task_ms IS 'task_ms of kind other of cost';
COMMENT ON COLUMN execution_costs.waiting_wall_ms IS 'wall_ms of kind waiting of cost';
COMMENT ON COLUMN execution_costs.driver_wall_ms IS 'wall_ms of kind driver of cost';
COMMENT ON COLUMN execution_costs.nested_wall_ms IS 'wall_ms of kind nested of cost';
CREATE TABLE execution_costs_default PARTITION OF execution_costs DEFAULT;


CREATE TABLE aqe_decision (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    version integer NOT NULL,
    position integer NOT NULL,
    decided_at timestamptz NOT NULL,
    kind text NOT NULL,
    node_id integer,
    operator_key text,
    operator text NOT NULL,
    before text,
    after text,
    bytes_before bigint,
    bytes_after bigint,
    rows_before bigint,
    rows_after bigint,
    CONSTRAINT pk_aqe_decision PRIMARY KEY (started_at, application_id, attempt_id, execution_id, version, position)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE aqe_decision IS 'A change that AQE made to a running plan, recorded once, at the first plan version that shows it.';
COMMENT ON COLUMN aqe_decision.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN aqe_decision.application_id IS 'Spark''s application id';
COMMENT ON COLUMN aqe_decision.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN aqe_decision.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN aqe_decision.version IS 'the plan version that it produced';
COMMENT ON COLUMN aqe_decision.position IS 'position within the version, from 0';
COMMENT ON COLUMN aqe_decision.decided_at IS 'when the driver reported this version';
COMMENT ON COLUMN aqe_decision.kind IS 'the kind of decision; docs/aqe.md lists the kinds and what before, after, bytes and rows mean for each';
COMMENT ON COLUMN aqe_decision.node_id IS 'the node in this version, not in the final plan; NULL: it no longer exists';
COMMENT ON COLUMN aqe_decision.operator_key IS 'key of the join or exchange concerned; NULL: neither';
COMMENT ON COLUMN aqe_decision.operator IS 'name of the node, or of the previous node if it no longer exists';
COMMENT ON COLUMN aqe_decision.before IS 'the previous strategy, number of partitions, operator or partitioning';
COMMENT ON COLUMN aqe_decision.after IS 'what replaced it; NULL: nothing';
COMMENT ON COLUMN aqe_decision.bytes_before IS 'size before, as counted by its shuffle; NULL: not measured';
COMMENT ON COLUMN aqe_decision.bytes_after IS 'size after; NULL: not measured';
COMMENT ON COLUMN aqe_decision.rows_before IS 'number of rows in bytes_before';
COMMENT ON COLUMN aqe_decision.rows_after IS 'number of rows in bytes_after';
CREATE INDEX ix_aqe_decision_operator_key_started_at ON aqe_decision (operator_key, started_at);
CREATE TABLE aqe_decision_default PARTITION OF aqe_decision DEFAULT;


CREATE TABLE shuffle (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    node_id integer NOT NULL,
    operator_key text,
    partitioning text,
    keys text[],
    origin text,
    partitions bigint,
    consumers integer,
    join_nodes integer[],
    map_stages integer[],
    reduce_stages integer[],
    data_bytes bigint,
    bytes_written bigint,
    rows_written bigint,
    write_time_ns bigint,
    local_bytes_read bigint,
    remote_bytes_read bigint,
    remote_bytes_read_to_disk bigint,
    local_blocks_read bigint,
    remote_blocks_read bigint,
    rows_read bigint,
    fetch_wait_ms bigint,
    remote_requests_ms bigint,
    corrupt_merged_block_chunks bigint,
    merged_fetch_fallbacks bigint,
    remote_merged_blocks_read bigint,
    local_merged_blocks_read bigint,
    remote_merged_chunks_read bigint,
    local_merged_chunks_read bigint,
    remote_merged_bytes_read bigint,
    local_merged_bytes_read bigint,
    remote_merged_requests_ms bigint,
    rows_read_median bigint,
    rows_read_max bigint,
    rows_read_max_task_id bigint,
    skew_ratio double precision,
    aqe_read text[],
    aqe_partitions bigint,
    aqe_coalesced_partitions bigint,
    aqe_skewed_partitions bigint,
    aqe_skewed_splits bigint,
    aqe_empty_partitions bigint,
    aqe_partition_bytes_median bigint,
    aqe_partition_bytes_max bigint,
    cost_wall_ms bigint,
    cost_task_ms bigint,
    CONSTRAINT pk_shuffle PRIMARY KEY (started_at, application_id, attempt_id, execution_id, node_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE shuffle IS 'A shuffle exchange of the final plan: writes, reads and skew.';
COMMENT ON COLUMN shuffle.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN shuffle.application_id IS 'Spark''s application id';
COMMENT ON COLUMN shuffle.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN shuffle.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN shuffle.node_id IS 'node of the final plan';
COMMENT ON COLUMN shuffle.operator_key IS 'key of the exchange, equal in all runs';
COMMENT ON COLUMN shuffle.partitioning IS 'e.g. hashpartitioning, rangepartitioning, SinglePartition, RoundRobinPartitioning';
COMMENT ON COLUMN shuffle.keys IS 'partitioning expressions, as Spark writes them';
COMMENT ON COLUMN shuffle.origin IS 'reason for the shuffle: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ...';
COMMENT ON COLUMN shuffle.partitions IS 'number of reduce partitions';
COMMENT ON COLUMN shuffle.consumers IS 'number of plan nodes that read it; more than 1: it is reused';
COMMENT ON COLUMN shuffle.join_nodes IS 'node ids of the joins that it feeds';
COMMENT ON COLUMN shuffle.map_stages IS 'stages that wrote it';
COMMENT ON COLUMN shuffle.reduce_stages IS 'stages that read it';
COMMENT ON COLUMN shuffle.data_bytes IS 'size of the rows before serialization for the shuffle';
COMMENT ON COLUMN shuffle.bytes_written IS 'bytes written';
COMMENT ON COLUMN shuffle.rows_written IS 'rows written';
COMMENT ON COLUMN shuffle.write_time_ns IS 'write time, summed over tasks, nanoseconds';
COMMENT ON COLUMN shuffle.local_bytes_read IS 'bytes read from the same executor or host';
COMMENT ON COLUMN shuffle.remote_bytes_read IS 'bytes read over the network';
COMMENT ON COLUMN shuffle.remote_bytes_read_to_disk IS 'of these, bytes stored on disk first';
COMMENT ON COLUMN shuffle.local_blocks_read IS 'blocks read from the same executor or host';
COMMENT ON COLUMN shuffle.remote_blocks_read IS 'blocks read over the network';
COMMENT ON COLUMN shuffle.rows_read IS 'rows read, over all consumers';
COMMENT ON COLUMN shuffle.fetch_wait_ms IS 'time that tasks waited for blocks, summed, milliseconds';
COMMENT ON COLUMN shuffle.remote_requests_ms IS 'duration of remote requests, summed, milliseconds';
COMMENT ON COLUMN shuffle.corrupt_merged_block_chunks IS 'push-based: corrupt merged block chunks';
COMMENT ON COLUMN shuffle.merged_fetch_fallbacks IS 'push-based: merged fetches that fell back to original blocks';
COMMENT ON COLUMN shuffle.remote_merged_blocks_read IS 'push-based: merged blocks read over the network';
COMMENT ON COLUMN shuffle.local_merged_blocks_read IS 'push-based: merged blocks read from the same host';
COMMENT ON COLUMN shuffle.remote_merged_chunks_read IS 'push-based: merged chunks read over the network';
COMMENT ON COLUMN shuffle.local_merged_chunks_read IS 'push-based: merged chunks read from the same host';
COMMENT ON COLUMN shuffle.remote_merged_bytes_read IS 'push-based: merged bytes read over the network';
COMMENT ON COLUMN shuffle.local_merged_bytes_read IS 'push-based: merged bytes read from the same host';
COMMENT ON COLUMN shuffle.remote_merged_requests_ms IS 'push-based: duration of remote merged requests, summed, milliseconds';
COMMENT ON COLUMN shuffle.rows_read_median IS 'rows that the median task read';
COMMENT ON COLUMN shuffle.rows_read_max IS 'rows that the largest task read';
COMMENT ON COLUMN shuffle.rows_read_max_task_id IS 'the task that read most rows';
COMMENT ON COLUMN shuffle.skew_ratio IS 'rows_read_max / rows_read_median; NULL unless several tasks read it';
COMMENT ON COLUMN shuffle.aqe_read IS 'how AQE reads it: coalesced, skewed, local; NULL: as planned';
COMMENT ON COLUMN shuffle.aqe_partitions IS 'partitions after AQE coalesced and split';
COMMENT ON COLUMN shuffle.aqe_coalesced_partitions IS 'partitions that AQE made by coalescing';
COMMENT ON COLUMN shuffle.aqe_skewed_partitions IS 'partitions that AQE found skewed';
COMMENT ON COLUMN shuffle.aqe_skewed_splits IS 'partitions into which AQE split the skewed ones';
COMMENT ON COLUMN shuffle.aqe_empty_partitions IS 'empty partitions (Spark 4.1 and later)';
COMMENT ON COLUMN shuffle.aqe_partition_bytes_median IS 'size of the median partition that AQE reads';
COMMENT ON COLUMN shuffle.aqe_partition_bytes_max IS 'size of the largest partition that AQE reads';
COMMENT ON COLUMN shuffle.cost_wall_ms IS 'how long the execution waited for tasks to write it and to wait for its blocks (docs/cost.md); NULL: unknown';
COMMENT ON COLUMN shuffle.cost_task_ms IS 'time of tasks that wrote it or waited for its blocks, summed; NULL: unknown';
CREATE INDEX ix_shuffle_application_id_attempt_id_execution_id ON shuffle (application_id, attempt_id, execution_id)
    INCLUDE (started_at, node_id, bytes_written, write_time_ns, fetch_wait_ms, skew_ratio);
CREATE INDEX ix_shuffle_bytes_written_largest ON shuffle (bytes_written DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_shuffle_operator_key_started_at ON shuffle (operator_key, started_at);
CREATE INDEX ix_shuffle_skew_ratio_largest ON shuffle (skew_ratio DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_shuffle_time_largest ON shuffle ((write_time_ns / 1000000 + fetch_wait_ms) DESC NULLS LAST, started_at DESC);
CREATE TABLE shuffle_default PARTITION OF shuffle DEFAULT;


CREATE TABLE broadcast (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    node_id integer NOT NULL,
    operator_key text,
    mode text,
    outcome text NOT NULL,
    size_bytes bigint,
    rows bigint,
    collect_ms bigint,
    build_ms bigint,
    broadcast_ms bigint,
    consumers integer,
    join_nodes integer[],
    threshold_bytes bigint,
    shuffled_bytes bigint,
    cost_wall_ms bigint,
    cost_task_ms bigint,
    CONSTRAINT pk_broadcast PRIMARY KEY (started_at, application_id, attempt_id, execution_id, node_id),
    CONSTRAINT ck_broadcast_outcome CHECK (outcome IN ('succeeded', 'failed', 'running', 'unknown'))
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE broadcast IS 'A broadcast exchange of the final plan.';
COMMENT ON COLUMN broadcast.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN broadcast.application_id IS 'Spark''s application id';
COMMENT ON COLUMN broadcast.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN broadcast.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN broadcast.node_id IS 'node of the final plan';
COMMENT ON COLUMN broadcast.operator_key IS 'key of the broadcast, equal in all runs';
COMMENT ON COLUMN broadcast.mode IS 'HashedRelationBroadcastMode(...) for hash joins, IdentityBroadcastMode for nested-loop joins';
COMMENT ON COLUMN broadcast.outcome IS 'succeeded, failed (its execution failed before it was ready), running, or unknown (not measured here: AQE did not need it, or an earlier execution of the same DataFrame made it)';
COMMENT ON COLUMN broadcast.size_bytes IS 'size of the relation in memory';
COMMENT ON COLUMN broadcast.rows IS 'rows';
COMMENT ON COLUMN broadcast.collect_ms IS 'time from the driver''s request for the rows until it had them, including the tasks that produce them';
COMMENT ON COLUMN broadcast.build_ms IS 'time that the driver took to build the relation';
COMMENT ON COLUMN broadcast.broadcast_ms IS 'time that the driver took to pass it to the block manager';
COMMENT ON COLUMN broadcast.consumers IS 'number of plan nodes that use it; more than 1: it is reused';
COMMENT ON COLUMN broadcast.join_nodes IS 'node ids of the joins that use it';
COMMENT ON COLUMN broadcast.threshold_bytes IS 'broadcast threshold in force for measured sizes: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if set, otherwise spark.sql.autoBroadcastJoinThreshold; -1: disabled; NULL: not readable';
COMMENT ON COLUMN broadcast.shuffled_bytes IS 'size of its rows as counted by the shuffle directly beneath it, which AQE compares with the threshold; NULL: no shuffle there';
COMMENT ON COLUMN broadcast.cost_wall_ms IS 'how long the execution waited for the driver to collect, build and send it, and for tasks to encode its rows; NULL: unknown';
COMMENT ON COLUMN broadcast.cost_task_ms IS 'time of tasks that encoded its rows, summed (docs/cost.md); NULL: unknown';
CREATE INDEX ix_broadcast_application_id_attempt_id_execution_id ON broadcast (application_id, attempt_id, execution_id)
    INCLUDE (started_at, node_id, size_bytes, collect_ms, build_ms, broadcast_ms);
CREATE INDEX ix_broadcast_operator_key_started_at ON broadcast (operator_key, started_at);
CREATE INDEX ix_broadcast_size_bytes_largest ON broadcast (size_bytes DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_broadcast_time_largest ON broadcast ((collect_ms + build_ms + broadcast_ms) DESC NULLS LAST, started_at DESC);
CREATE TABLE broadcast_default PARTITION OF broadcast DEFAULT;


CREATE TABLE joins (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    node_id integer NOT NULL,
    operator_key text,
    strategy text NOT NULL,
    join_type text,
    build_side text,
    left_keys text[],
    right_keys text[],
    condition text,
    is_skew boolean NOT NULL,
    hint text,
    output_rows bigint,
    output_ratio double precision,
    left_rows bigint,
    right_rows bigint,
    left_bytes bigint,
    right_bytes bigint,
    build_bytes bigint,
    build_ms bigint,
    sort_ms bigint,
    spill_bytes bigint,
    left_exchange integer,
    right_exchange integer,
    threshold_bytes bigint,
    broadcast_verdict text,
    broadcast_side text,
    broadcast_side_bytes bigint,
    cost_wall_ms bigint,
    cost_task_ms bigint,
    cost_is_partial boolean,
    CONSTRAINT pk_joins PRIMARY KEY (started_at, application_id, attempt_id, execution_id, node_id),
    CONSTRAINT ck_joins_broadcast_side CHECK (broadcast_side IN ('left', 'right')),
    CONSTRAINT ck_joins_broadcast_verdict CHECK (broadcast_verdict IN ('was_broadcast', 'possible', 'hinted', 'over_threshold', 'switched_off', 'forbidden_by_type', 'unknown')),
    CONSTRAINT ck_joins_build_side CHECK (build_side IN ('left', 'right'))
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE joins IS 'A join of the final plan.';
COMMENT ON COLUMN joins.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN joins.application_id IS 'Spark''s application id';
COMMENT ON COLUMN joins.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN joins.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN joins.node_id IS 'node of the final plan';
COMMENT ON COLUMN joins.operator_key IS 'key of the join, equal in all runs regardless of the strategy';
COMMENT ON COLUMN joins.strategy IS 'BroadcastHashJoin, SortMergeJoin, SortMergeAsOfJoin, ShuffledHashJoin, BroadcastNestedLoopJoin, CartesianProduct';
COMMENT ON COLUMN joins.join_type IS 'Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, ExistenceJoin';
COMMENT ON COLUMN joins.build_side IS 'left or right: the side that is broadcast or hashed';
COMMENT ON COLUMN joins.left_keys IS 'equi-join keys of the left side, as Spark writes them';
COMMENT ON COLUMN joins.right_keys IS 'equi-join keys of the right side';
COMMENT ON COLUMN joins.condition IS 'the rest of the condition; for an as-of join, its match condition';
COMMENT ON COLUMN joins.is_skew IS 'whether AQE marked it as a skew join';
COMMENT ON COLUMN joins.hint IS 'the strategy hint of each side that has one, as Spark prints it, e.g. broadcast left; NULL: none, or unknown';
COMMENT ON COLUMN joins.output_rows IS 'output rows';
COMMENT ON COLUMN joins.output_ratio IS 'output_rows / the larger of left_rows and right_rows; NULL: not measured';
COMMENT ON COLUMN joins.left_rows IS 'rows of the left input, from the nearest operator below that counts them';
COMMENT ON COLUMN joins.right_rows IS 'rows of the right input';
COMMENT ON COLUMN joins.left_bytes IS 'bytes of the left input, from the exchange or broadcast that feeds it';
COMMENT ON COLUMN joins.right_bytes IS 'bytes of the right input';
COMMENT ON COLUMN joins.build_bytes IS 'size of the relation that it built or received by broadcast';
COMMENT ON COLUMN joins.build_ms IS 'time to build it, by the tasks (shuffled hash) or the driver (broadcast)';
COMMENT ON COLUMN joins.sort_ms IS 'time of its two sorts, summed over tasks (sort-merge)';
COMMENT ON COLUMN joins.spill_bytes IS 'bytes that it and its sorts spilled, by size in memory; fewer on disk';
COMMENT ON COLUMN joins.left_exchange IS 'node id of the exchange that feeds it from the left';
COMMENT ON COLUMN joins.right_exchange IS 'node id of the exchange that feeds it from the right';
COMMENT ON COLUMN joins.threshold_bytes IS 'broadcast threshold in force for measured sizes: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if set, otherwise spark.sql.autoBroadcastJoinThreshold; -1: disabled; NULL: not readable';
COMMENT ON COLUMN joins.broadcast_verdict IS 'was_broadcast: it is a broadcast join. Otherwise: possible (the measured size of a side that may be broadcast was at or under the threshold), hinted (as possible, but a hint of the query or of AQE determined the strategy), over_threshold (each such side exceeded the threshold or the most that Spark can broadcast), switched_off (the threshold is negative), forbidden_by_type (a full outer or as-of join), unknown (no size was measured, or not in full)';
COMMENT ON COLUMN joins.broadcast_side IS 'left or right: the side that was broadcast, or the smaller measured side that may be';
COMMENT ON COLUMN joins.broadcast_side_bytes IS 'was_broadcast: size of the relation in memory, many times that of its rows if they are few. Otherwise the size that AQE would compare with the threshold: data size of the shuffle that feeds the side, whose rows are only sorted, filtered or aggregated in between. Without AQE Spark compares an estimate';
COMMENT ON COLUMN joins.cost_wall_ms IS 'how long the execution waited for it, and for the sorts, shuffles and broadcasts that only it needed (docs/cost.md); NULL: unknown';
COMMENT ON COLUMN joins.cost_task_ms IS 'the same in time of tasks, summed; NULL: unknown';
COMMENT ON COLUMN joins.cost_is_partial IS 'whether the costs are a lower bound, because operators of its stage could not be told apart';
CREATE INDEX ix_joins_application_id_attempt_id_execution_id ON joins (application_id, attempt_id, execution_id)
    INCLUDE (started_at, node_id, output_rows, spill_bytes, cost_wall_ms);
CREATE INDEX ix_joins_cost_wall_ms_largest ON joins (cost_wall_ms DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_joins_operator_key_started_at ON joins (operator_key, started_at);
CREATE INDEX ix_joins_output_rows_largest ON joins (output_rows DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_joins_spill_bytes_largest ON joins (spill_bytes DESC NULLS LAST, started_at DESC);
CREATE TABLE joins_default PARTITION OF joins DEFAULT;


CREATE TABLE cache (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    cache_id bigint NOT NULL,
    node_id integer NOT NULL,
    scans integer NOT NULL,
    table_name text,
    rows_read bigint,
    fill_stages integer[],
    fill_wall_ms bigint,
    fill_task_ms bigint,
    CONSTRAINT pk_cache PRIMARY KEY (started_at, application_id, attempt_id, execution_id, cache_id)
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE cache IS 'A cached table that the final plan of an execution reads.';
COMMENT ON COLUMN cache.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN cache.application_id IS 'Spark''s application id';
COMMENT ON COLUMN cache.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN cache.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN cache.cache_id IS 'the cached table, equal in all executions of its application that read it (docs/cost.md#cached-tables)';
COMMENT ON COLUMN cache.node_id IS 'the node that reads it, the first of several';
COMMENT ON COLUMN cache.scans IS 'nodes that read it';
COMMENT ON COLUMN cache.table_name IS 'its name; NULL: it is a DataFrame';
COMMENT ON COLUMN cache.rows_read IS 'rows that the nodes read, summed; NULL: not measured';
COMMENT ON COLUMN cache.fill_stages IS 'stages whose tasks filled a part of it; NULL: it was there';
COMMENT ON COLUMN cache.fill_wall_ms IS 'how long the execution waited for these stages while their tasks ran, milliseconds; NULL: it was there, or the execution has not ended';
COMMENT ON COLUMN cache.fill_task_ms IS 'run time of their tasks, summed, milliseconds; NULL: it was there';
CREATE INDEX ix_cache_application_id_attempt_id_cache_id ON cache (application_id, attempt_id, cache_id);
CREATE TABLE cache_default PARTITION OF cache DEFAULT;

CREATE TABLE stage (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    stage_id integer NOT NULL,
    stage_attempt integer NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    job_ids integer[],
    submitted_at timestamptz,
    completed_at timestamptz,
    failure text,
    parent_ids integer[],
    first_launch_at timestamptz,
    last_finish_at timestamptz,
    width integer,
    tail_at timestamptz,
    slack_ms bigint,
    tasks integer NOT NULL,
    succeeded_tasks integer NOT NULL,
    failed_tasks integer NOT NULL,
    killed_tasks integer NOT NULL,
    run_time_ms bigint,
    cpu_time_ns bigint,
    gc_time_ms bigint,
    deserialize_time_ms bigint,
    result_bytes bigint,
    memory_spilled_bytes bigint,
    disk_spilled_bytes bigint,
    peak_memory_bytes bigint,
    input_bytes bigint,
    input_rows bigint,
    output_bytes bigint,
    output_rows bigint,
    shuffle_read_local_bytes bigint,
    shuffle_read_remote_bytes bigint,
    shuffle_read_rows bigint,
    shuffle_fetch_wait_ms bigint,
    shuffle_write_bytes bigint,
    shuffle_write_rows bigint,
    shuffle_write_time_ns bigint,
    run_time_ms_min bigint,
    run_time_ms_median bigint,
    run_time_ms_p95 bigint,
    run_time_ms_max bigint,
    shuffle_read_bytes_min bigint,
    shuffle_read_bytes_median bigint,
    shuffle_read_bytes_p95 bigint,
    shuffle_read_bytes_max bigint,
    shuffle_read_rows_min bigint,
    shuffle_read_rows_median bigint,
    shuffle_read_rows_p95 bigint,
    shuffle_read_rows_max bigint,
    CONSTRAINT pk_stage PRIMARY KEY (started_at, application_id, attempt_id, execution_id, stage_id, stage_attempt),
    CONSTRAINT ck_stage_state CHECK (state IN ('pending', 'running', 'succeeded', 'failed', 'skipped'))
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE stage IS 'A stage attempt of an execution; totals are over its tasks.';
COMMENT ON COLUMN stage.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN stage.application_id IS 'Spark''s application id';
COMMENT ON COLUMN stage.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN stage.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN stage.stage_id IS 'Spark''s stage id';
COMMENT ON COLUMN stage.stage_attempt IS 'stage attempt, from 0';
COMMENT ON COLUMN stage.name IS 'the stage''s call site';
COMMENT ON COLUMN stage.state IS 'pending, running, succeeded, failed, or skipped (its shuffle already existed)';
COMMENT ON COLUMN stage.job_ids IS 'jobs that need it';
COMMENT ON COLUMN stage.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN stage.completed_at IS 'when it completed';
COMMENT ON COLUMN stage.failure IS 'why it failed';
COMMENT ON COLUMN stage.parent_ids IS 'stages whose shuffles it reads';
COMMENT ON COLUMN stage.first_launch_at IS 'when its first task was launched';
COMMENT ON COLUMN stage.last_finish_at IS 'when the last of its successful tasks finished';
COMMENT ON COLUMN stage.width IS 'most tasks that ran at once; NULL: unknown';
COMMENT ON COLUMN stage.tail_at IS 'since when, after the last launch, at most half of its width ran; NULL: never, or unknown';
COMMENT ON COLUMN stage.slack_ms IS 'how much later it could have ended without delaying the execution, milliseconds; 0: on the critical path; NULL: nothing is known to have waited for it';
COMMENT ON COLUMN stage.tasks IS 'number of tasks';
COMMENT ON COLUMN stage.succeeded_tasks IS 'successful tasks';
COMMENT ON COLUMN stage.failed_tasks IS 'failed task attempts';
COMMENT ON COLUMN stage.killed_tasks IS 'killed task attempts';
COMMENT ON COLUMN stage.run_time_ms IS 'executor run time';
COMMENT ON COLUMN stage.cpu_time_ns IS 'executor CPU time';
COMMENT ON COLUMN stage.gc_time_ms IS 'JVM garbage collection while its tasks ran';
COMMENT ON COLUMN stage.deserialize_time_ms IS 'executor deserialize time';
COMMENT ON COLUMN stage.result_bytes IS 'size of the results sent to the driver';
COMMENT ON COLUMN stage.memory_spilled_bytes IS 'bytes of deserialized data that were spilled';
COMMENT ON COLUMN stage.disk_spilled_bytes IS 'bytes written to disk by spilling';
COMMENT ON COLUMN stage.peak_memory_bytes IS 'largest peak execution memory of a task';
COMMENT ON COLUMN stage.input_bytes IS 'bytes read from sources';
COMMENT ON COLUMN stage.input_rows IS 'rows read from sources';
COMMENT ON COLUMN stage.output_bytes IS 'bytes written to sinks';
COMMENT ON COLUMN stage.output_rows IS 'rows written to sinks';
COMMENT ON COLUMN stage.shuffle_read_local_bytes IS 'shuffle bytes read locally';
COMMENT ON COLUMN stage.shuffle_read_remote_bytes IS 'shuffle bytes read over the network';
COMMENT ON COLUMN stage.shuffle_read_rows IS 'shuffle rows read';
COMMENT ON COLUMN stage.shuffle_fetch_wait_ms IS 'time tasks waited for shuffle blocks';
COMMENT ON COLUMN stage.shuffle_write_bytes IS 'shuffle bytes written';
COMMENT ON COLUMN stage.shuffle_write_rows IS 'shuffle rows written';
COMMENT ON COLUMN stage.shuffle_write_time_ns IS 'time tasks took to write shuffles';
COMMENT ON COLUMN stage.run_time_ms_min IS 'run time of a task: min';
COMMENT ON COLUMN stage.run_time_ms_median IS 'run time of a task: median';
COMMENT ON COLUMN stage.run_time_ms_p95 IS 'run time of a task: p95';
COMMENT ON COLUMN stage.run_time_ms_max IS 'run time of a task: max';
COMMENT ON COLUMN stage.shuffle_read_bytes_min IS 'shuffle bytes read by a task: min';
COMMENT ON COLUMN stage.shuffle_read_bytes_median IS 'shuffle bytes read by a task: median';
COMMENT ON COLUMN stage.shuffle_read_bytes_p95 IS 'shuffle bytes read by a task: p95';
COMMENT ON COLUMN stage.shuffle_read_bytes_max IS 'shuffle bytes read by a task: max';
COMMENT ON COLUMN stage.shuffle_read_rows_min IS 'shuffle rows read by a task: min';
COMMENT ON COLUMN stage.shuffle_read_rows_median IS 'shuffle rows read by a task: median';
COMMENT ON COLUMN stage.shuffle_read_rows_p95 IS 'shuffle rows read by a task: p95';
COMMENT ON COLUMN stage.shuffle_read_rows_max IS 'shuffle rows read by a task: max';
CREATE TABLE stage_default PARTITION OF stage DEFAULT;

CREATE TABLE finding (
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    finding text NOT NULL,
    node_id integer NOT NULL,
    severity text NOT NULL,
    operator_key text,
    title text NOT NULL,
    evidence jsonb NOT NULL,
    advice text NOT NULL,
    wall_ms bigint,
    wall_is_partial boolean NOT NULL,
    impact_ms bigint,
    impact_bytes bigint,
    CONSTRAINT pk_finding PRIMARY KEY (started_at, application_id, attempt_id, execution_id, finding, node_id),
    CONSTRAINT ck_finding_severity CHECK (severity IN ('info', 'warning', 'critical'))
) PARTITION BY RANGE (started_at);
COMMENT ON TABLE finding IS 'A problem that a heuristic found in a finished execution; docs/findings.md explains each kind.';
COMMENT ON COLUMN finding.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN finding.application_id IS 'Spark''s application id';
COMMENT ON COLUMN finding.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN finding.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN finding.finding IS 'the kind, e.g. skewed-shuffle';
COMMENT ON COLUMN finding.node_id IS 'node of the final plan; -1: the whole execution';
COMMENT ON COLUMN finding.severity IS 'info, warning or critical';
COMMENT ON COLUMN finding.operator_key IS 'key of the operator, equal in all runs; NULL: not an exchange, broadcast or join';
COMMENT ON COLUMN finding.title IS 'the problem in one sentence, with the numbers';
COMMENT ON COLUMN finding.evidence IS 'the numbers by name, in the units of their names';
COMMENT ON COLUMN finding.advice IS 'what to do';
COMMENT ON COLUMN finding.wall_ms IS 'wall time at stake, milliseconds: how long the execution waited for what docs/findings.md#wall-time says; NULL: unknown';
COMMENT ON COLUMN finding.wall_is_partial IS 'whether wall_ms is only what is known of it; it may be more';
COMMENT ON COLUMN finding.impact_ms IS 'time, milliseconds: docs/findings.md#impact says which; NULL: unknown';
COMMENT ON COLUMN finding.impact_bytes IS 'bytes: docs/findings.md#impact says which; NULL: unknown';
CREATE INDEX ix_finding_finding_started_at ON finding (finding, started_at);
CREATE INDEX ix_finding_impact_largest ON finding (GREATEST(impact_ms, impact_bytes / 100000) DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_finding_operator_key_started_at ON finding (operator_key, started_at);
CREATE INDEX ix_finding_severity_largest ON finding (array_position(ARRAY['info'::text, 'warning'::text, 'critical'::text], severity) DESC NULLS LAST, wall_ms DESC NULLS LAST, started_at DESC);
CREATE INDEX ix_finding_wall_ms_largest ON finding (wall_ms DESC NULLS LAST, started_at DESC);
CREATE TABLE finding_default PARTITION OF finding DEFAULT;


CREATE TABLE rollup_day (
    day date NOT NULL,
    job_name text NOT NULL,
    query_shape text NOT NULL,
    origin text NOT NULL,
    description text NOT NULL,
    executions bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    lost bigint NOT NULL,
    incomplete bigint NOT NULL,
    plans bigint NOT NULL,
    duration_ms bigint,
    duration_ms_median double precision,
    duration_ms_max bigint,
    tasks bigint,
    task_time_ms bigint,
    input_bytes bigint,
    output_bytes bigint,
    shuffle_write_bytes bigint,
    shuffle_read_bytes bigint,
    broadcast_bytes bigint,
    disk_spilled_bytes bigint,
    newest_at timestamptz NOT NULL,
    CONSTRAINT pk_rollup_day PRIMARY KEY (day, job_name, query_shape, origin)
);
COMMENT ON TABLE rollup_day IS 'Daily totals of the executions of a query in a job, written by `joinsight rollup`.';
COMMENT ON COLUMN rollup_day.day IS 'the day (UTC) on which they started';
COMMENT ON COLUMN rollup_day.job_name IS 'the job';
COMMENT ON COLUMN rollup_day.query_shape IS 'the query; empty: executions without a plan';
COMMENT ON COLUMN rollup_day.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN rollup_day.description IS 'the first 200 characters of the description of one of them';
COMMENT ON COLUMN rollup_day.executions IS 'executions that started';
COMMENT ON COLUMN rollup_day.succeeded IS 'of these, successful ones';
COMMENT ON COLUMN rollup_day.failed IS 'failed ones';
COMMENT ON COLUMN rollup_day.cancelled IS 'those that were cancelled';
COMMENT ON COLUMN rollup_day.lost IS 'those whose driver was lost';
COMMENT ON COLUMN rollup_day.incomplete IS 'those whose numbers may be partial';
COMMENT ON COLUMN rollup_day.plans IS 'number of distinct final plans (plan_fingerprint)';
COMMENT ON COLUMN rollup_day.duration_ms IS 'sum of durations, milliseconds';
COMMENT ON COLUMN rollup_day.duration_ms_median IS 'median duration of successful ones, milliseconds';
COMMENT ON COLUMN rollup_day.duration_ms_max IS 'longest duration of successful ones, milliseconds';
COMMENT ON COLUMN rollup_day.tasks IS 'successful tasks';
COMMENT ON COLUMN rollup_day.task_time_ms IS 'run time of all tasks, milliseconds';
COMMENT ON COLUMN rollup_day.input_bytes IS 'bytes read from sources';
COMMENT ON COLUMN rollup_day.output_bytes IS 'bytes written to sinks';
COMMENT ON COLUMN rollup_day.shuffle_write_bytes IS 'bytes written for shuffles';
COMMENT ON COLUMN rollup_day.shuffle_read_bytes IS 'bytes read from shuffles';
COMMENT ON COLUMN rollup_day.broadcast_bytes IS 'bytes broadcast';
COMMENT ON COLUMN rollup_day.disk_spilled_bytes IS 'bytes written to disk by spilling';
COMMENT ON COLUMN rollup_day.newest_at IS 'when the newest row of `execution` counted here was written';
CREATE INDEX ix_rollup_day_job_name_day ON rollup_day (job_name, day);
CREATE INDEX ix_rollup_day_query_shape_day ON rollup_day (query_shape, day);


CREATE TABLE rollup_operator_day (
    day date NOT NULL,
    job_name text NOT NULL,
    operator_key text NOT NULL,
    origin text NOT NULL,
    subject text NOT NULL,
    runs bigint NOT NULL,
    rows bigint,
    bytes bigint,
    largest_bytes bigint,
    time_ms bigint,
    cost_wall_ms bigint,
    cost_task_ms bigint,
    spill_bytes bigint,
    skew_ratio double precision,
    strategies text[],
    CONSTRAINT pk_rollup_operator_day PRIMARY KEY (day, job_name, operator_key, origin)
);
COMMENT ON TABLE rollup_operator_day IS 'Daily totals of the runs of an operator in a job, written by `joinsight rollup`.';
COMMENT ON COLUMN rollup_operator_day.day IS 'the day (UTC) on which their executions started';
COMMENT ON COLUMN rollup_operator_day.job_name IS 'the job';
COMMENT ON COLUMN rollup_operator_day.operator_key IS 'the operator';
COMMENT ON COLUMN rollup_operator_day.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN rollup_operator_day.subject IS 'join, shuffle or broadcast';
COMMENT ON COLUMN rollup_operator_day.runs IS 'number of times it is in a final plan';
COMMENT ON COLUMN rollup_operator_day.rows IS 'join: output rows; shuffle: rows written; broadcast: rows; summed';
COMMENT ON COLUMN rollup_operator_day.bytes IS 'join: input bytes of both sides; shuffle: bytes written; broadcast: size in memory; summed';
COMMENT ON COLUMN rollup_operator_day.largest_bytes IS 'the same for the largest run';
COMMENT ON COLUMN rollup_operator_day.time_ms IS 'join: sort_ms and build_ms; shuffle: write time and fetch wait; broadcast: driver_ms; summed, milliseconds';
COMMENT ON COLUMN rollup_operator_day.cost_wall_ms IS 'wall time that it cost, a join with what it needed (docs/cost.md), summed';
COMMENT ON COLUMN rollup_operator_day.cost_task_ms IS 'the same in time of tasks';
COMMENT ON COLUMN rollup_operator_day.spill_bytes IS 'bytes that joins spilled, by size in memory; NULL for others';
COMMENT ON COLUMN rollup_operator_day.skew_ratio IS 'the largest skew_ratio of shuffles; NULL for others';
COMMENT ON COLUMN rollup_operator_day.strategies IS 'strategies of joins, in alphabetical order; NULL for others';
CREATE INDEX ix_rollup_operator_day_operator_key_day ON rollup_operator_day (operator_key, day);


CREATE TABLE baseline (
    as_of timestamptz NOT NULL,
    job_name text NOT NULL,
    query_shape text NOT NULL,
    origin text NOT NULL,
    operator_key text NOT NULL,
    measure text NOT NULL,
    subject text NOT NULL,
    runs bigint NOT NULL,
    median double precision NOT NULL,
    spread double precision NOT NULL,
    data double precision,
    plan_fingerprints text[],
    started_at timestamptz NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    execution_id bigint NOT NULL,
    CONSTRAINT pk_baseline PRIMARY KEY (as_of, job_name, query_shape, origin, operator_key, measure)
);
COMMENT ON TABLE baseline IS 'The baseline of a query or an operator, as joinsight_regressions defines it, written by collectors.';
COMMENT ON COLUMN baseline.as_of IS 'only earlier runs count; a midnight (UTC)';
COMMENT ON COLUMN baseline.job_name IS 'the job';
COMMENT ON COLUMN baseline.query_shape IS 'the query';
COMMENT ON COLUMN baseline.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN baseline.operator_key IS 'the operator; empty: the query as a whole';
COMMENT ON COLUMN baseline.measure IS 'as in v_regressions: duration_ms, spill_bytes, ...';
COMMENT ON COLUMN baseline.subject IS 'query, join, shuffle or broadcast';
COMMENT ON COLUMN baseline.runs IS 'number of the last 20 runs in which it was measured';
COMMENT ON COLUMN baseline.median IS 'its median over these runs';
COMMENT ON COLUMN baseline.spread IS 'their median absolute deviation, times 1.4826 to match a standard deviation';
COMMENT ON COLUMN baseline.data IS 'the median of the input: input bytes of the query, rows of the operator';
COMMENT ON COLUMN baseline.plan_fingerprints IS 'for queries: the plan of each of these runs; NULL for operators';
COMMENT ON COLUMN baseline.started_at IS 'key of a typical run';
COMMENT ON COLUMN baseline.application_id IS 'the same';
COMMENT ON COLUMN baseline.attempt_id IS 'the same';
COMMENT ON COLUMN baseline.execution_id IS 'the same';


CREATE TABLE event_log (
    path text NOT NULL,
    application_id text NOT NULL,
    attempt_id text NOT NULL,
    size_bytes bigint NOT NULL,
    modified_at timestamptz NOT NULL,
    is_open boolean NOT NULL,
    outcome text NOT NULL,
    problems text[],
    is_compacted boolean NOT NULL,
    missing_files integer NOT NULL,
    lines bigint NOT NULL,
    event_bytes bigint NOT NULL,
    executions bigint NOT NULL,
    reader_version text NOT NULL,
    read_at timestamptz NOT NULL,
    CONSTRAINT pk_event_log PRIMARY KEY (path),
    CONSTRAINT ck_event_log_outcome CHECK (outcome IN ('whole', 'partial', 'failed'))
);
COMMENT ON TABLE event_log IS 'An event log that `joinsight backfill` has read; it is read again only after it has changed.';
COMMENT ON COLUMN event_log.path IS 'path as the file system of Spark names it; without .inprogress';
COMMENT ON COLUMN event_log.application_id IS 'Spark''s application id, from the log''s name';
COMMENT ON COLUMN event_log.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN event_log.size_bytes IS 'size of its files when they were read';
COMMENT ON COLUMN event_log.modified_at IS 'when the newest of its files was last modified';
COMMENT ON COLUMN event_log.is_open IS 'whether its application was still running or was killed: the log may grow';
COMMENT ON COLUMN event_log.outcome IS 'whole, partial (parts of it cannot be read) or failed (the next run tries it again)';
COMMENT ON COLUMN event_log.problems IS 'why parts of it were not read; NULL: everything was read';
COMMENT ON COLUMN event_log.is_compacted IS 'whether the History Server has removed finished executions from it';
COMMENT ON COLUMN event_log.missing_files IS 'number of missing files of a rolling log';
COMMENT ON COLUMN event_log.lines IS 'number of lines read';
COMMENT ON COLUMN event_log.event_bytes IS 'size of these lines, uncompressed';
COMMENT ON COLUMN event_log.executions IS 'number of executions in it';
COMMENT ON COLUMN event_log.reader_version IS 'version of Joinsight that read it';
COMMENT ON COLUMN event_log.read_at IS 'when it was read';
