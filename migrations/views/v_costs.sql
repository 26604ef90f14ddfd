-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_costs AS
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
    o.kind,
    o.wall_ms,
    o.task_ms
FROM cost o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_costs IS 'What a kind of work cost an execution, with the execution and its application.';
COMMENT ON COLUMN v_costs.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_costs.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_costs.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_costs.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_costs.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_costs.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_costs.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_costs.error IS 'why it failed';
COMMENT ON COLUMN v_costs.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_costs.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_costs.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_costs.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_costs.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_costs.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_costs.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_costs.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_costs.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_costs.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_costs.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_costs.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_costs.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_costs.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_costs.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_costs.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_costs.kind IS 'the kind (docs/cost.md#by-kind-of-work)';
COMMENT ON COLUMN v_costs.wall_ms IS 'how long the execution waited for it, milliseconds; NULL: it has not ended';
COMMENT ON COLUMN v_costs.task_ms IS 'time of tasks, summed, milliseconds; NULL: no tasks do it, or nothing is known';
