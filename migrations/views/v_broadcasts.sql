-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_broadcasts AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    e.ended_at,
    e.duration_ms,
    e.state,
    e.error,
    a.name AS application_name,
    e.job_name,
    e.tags,
    a.spark_user,
    e.user_name,
    e.session_id,
    e.operation_id,
    e.user_tags,
    e.title,
    e.called_from,
    e.description,
    q.query_shape,
    e.plan_fingerprint,
    e.incomplete,
    e.origin,
    a.spark_version,
    o.node_id,
    o.operator_key,
    o.mode,
    o.outcome,
    o.size_bytes,
    o.rows,
    o.collect_ms,
    o.build_ms,
    o.broadcast_ms,
    o.consumers,
    o.join_nodes,
    o.threshold_bytes,
    o.shuffled_bytes,
    o.cost_wall_ms,
    o.cost_task_ms,
    o.collect_ms + o.build_ms + o.broadcast_ms AS driver_ms,
    CASE WHEN o.threshold_bytes > 0 THEN o.shuffled_bytes::double precision / o.threshold_bytes END AS threshold_share
FROM broadcast o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_broadcasts IS 'A broadcast exchange of a final plan, with its execution and application.';
COMMENT ON COLUMN v_broadcasts.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_broadcasts.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_broadcasts.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_broadcasts.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_broadcasts.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_broadcasts.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_broadcasts.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_broadcasts.error IS 'why it failed';
COMMENT ON COLUMN v_broadcasts.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_broadcasts.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_broadcasts.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_broadcasts.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_broadcasts.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_broadcasts.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_broadcasts.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_broadcasts.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_broadcasts.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_broadcasts.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_broadcasts.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_broadcasts.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_broadcasts.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_broadcasts.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_broadcasts.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_broadcasts.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_broadcasts.node_id IS 'node of the final plan';
COMMENT ON COLUMN v_broadcasts.operator_key IS 'key of the broadcast, equal in all runs';
COMMENT ON COLUMN v_broadcasts.mode IS 'HashedRelationBroadcastMode(...) for hash joins, IdentityBroadcastMode for nested-loop joins';
COMMENT ON COLUMN v_broadcasts.outcome IS 'succeeded, failed (its execution failed before it was ready, and worked on it or says so), running, or unknown (not measured here: AQE did not need it, or an earlier execution of the same DataFrame made it)';
COMMENT ON COLUMN v_broadcasts.size_bytes IS 'size of the relation in memory';
COMMENT ON COLUMN v_broadcasts.rows IS 'rows';
COMMENT ON COLUMN v_broadcasts.collect_ms IS 'time from the driver''s request for the rows until it had them, including the tasks that produce them';
COMMENT ON COLUMN v_broadcasts.build_ms IS 'time that the driver took to build the relation';
COMMENT ON COLUMN v_broadcasts.broadcast_ms IS 'time that the driver took to pass it to the block manager';
COMMENT ON COLUMN v_broadcasts.consumers IS 'number of plan nodes that use it; more than 1: it is reused';
COMMENT ON COLUMN v_broadcasts.join_nodes IS 'node ids of the joins that use it';
COMMENT ON COLUMN v_broadcasts.threshold_bytes IS 'broadcast threshold in force for measured sizes: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if set, otherwise spark.sql.autoBroadcastJoinThreshold; -1: disabled; NULL: not readable';
COMMENT ON COLUMN v_broadcasts.shuffled_bytes IS 'size of its rows as counted by the shuffle directly beneath it, which AQE compares with the threshold; NULL: no shuffle there';
COMMENT ON COLUMN v_broadcasts.cost_wall_ms IS 'how long the execution waited for the driver to collect, build and send it, and for tasks to encode its rows; NULL: unknown';
COMMENT ON COLUMN v_broadcasts.cost_task_ms IS 'time of tasks that encoded its rows, summed (docs/cost.md); NULL: unknown';
COMMENT ON COLUMN v_broadcasts.driver_ms IS 'collect_ms + build_ms + broadcast_ms, including the tasks that produce its rows';
COMMENT ON COLUMN v_broadcasts.threshold_share IS 'shuffled_bytes / threshold_bytes; NULL: Spark used an estimate, which it shows nowhere';
