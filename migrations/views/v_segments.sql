-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_segments AS
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
    o.position,
    o.cause,
    o.start_ms,
    o.end_ms,
    o.stage_id,
    o.stage_attempt,
    o.node_id,
    o.nested_execution_id,
    o.end_ms - o.start_ms AS segment_ms,
    (o.end_ms - o.start_ms)::double precision / nullif(e.duration_ms, 0) AS time_share
FROM segment o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_segments IS 'A part of an execution''s time on its critical path, with its execution and application. To add them up over executions, leave out cause nested.';
COMMENT ON COLUMN v_segments.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_segments.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_segments.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_segments.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_segments.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_segments.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_segments.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_segments.error IS 'why it failed';
COMMENT ON COLUMN v_segments.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_segments.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_segments.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_segments.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_segments.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_segments.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_segments.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_segments.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_segments.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_segments.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_segments.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_segments.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_segments.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_segments.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_segments.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_segments.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_segments.position IS '0 for the first, in the order of time';
COMMENT ON COLUMN v_segments.cause IS 'what the time went into (docs/critical-path.md)';
COMMENT ON COLUMN v_segments.start_ms IS 'from when, milliseconds since the start of the execution';
COMMENT ON COLUMN v_segments.end_ms IS 'until when, milliseconds since the start of the execution; the next one starts there';
COMMENT ON COLUMN v_segments.stage_id IS 'the stage that ran, or waited for slots; NULL: the driver';
COMMENT ON COLUMN v_segments.stage_attempt IS 'attempt of that stage';
COMMENT ON COLUMN v_segments.node_id IS 'node of the final plan: the shuffle that the stage writes, or the broadcast';
COMMENT ON COLUMN v_segments.nested_execution_id IS 'the execution that ran inside this one';
COMMENT ON COLUMN v_segments.segment_ms IS 'its length: end_ms - start_ms';
COMMENT ON COLUMN v_segments.time_share IS 'segment_ms / duration_ms';
