-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_findings AS
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
    e.title AS query_title,
    e.called_from,
    e.description,
    q.query_shape,
    e.plan_fingerprint,
    e.incomplete,
    e.origin,
    a.spark_version,
    o.finding,
    o.node_id,
    o.severity,
    o.operator_key,
    o.title,
    o.evidence,
    o.advice,
    o.wall_ms,
    o.wall_is_partial,
    o.impact_ms,
    o.impact_bytes,
    o.wall_ms::double precision / nullif(e.duration_ms, 0) AS wall_share
FROM finding o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_findings IS 'A finding, with its execution and application; the execution''s title is query_title.';
COMMENT ON COLUMN v_findings.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_findings.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_findings.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_findings.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_findings.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_findings.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_findings.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_findings.error IS 'why it failed';
COMMENT ON COLUMN v_findings.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_findings.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_findings.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_findings.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_findings.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_findings.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_findings.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_findings.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_findings.query_title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_findings.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_findings.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_findings.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_findings.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_findings.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_findings.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_findings.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_findings.finding IS 'the kind, e.g. skewed-shuffle';
COMMENT ON COLUMN v_findings.node_id IS 'node of the final plan; -1: the whole execution';
COMMENT ON COLUMN v_findings.severity IS 'info, warning or critical';
COMMENT ON COLUMN v_findings.operator_key IS 'key of the operator, equal in all runs; NULL: not an exchange, broadcast or join';
COMMENT ON COLUMN v_findings.title IS 'the problem in one sentence, with the numbers';
COMMENT ON COLUMN v_findings.evidence IS 'the numbers by name, in the units of their names';
COMMENT ON COLUMN v_findings.advice IS 'what to do';
COMMENT ON COLUMN v_findings.wall_ms IS 'wall time at stake, milliseconds: how long the execution waited for what docs/findings.md#wall-time says; NULL: unknown';
COMMENT ON COLUMN v_findings.wall_is_partial IS 'whether wall_ms is only what is known of it; it may be more';
COMMENT ON COLUMN v_findings.impact_ms IS 'time, milliseconds: docs/findings.md#impact says which; NULL: unknown';
COMMENT ON COLUMN v_findings.impact_bytes IS 'bytes: docs/findings.md#impact says which; NULL: unknown';
COMMENT ON COLUMN v_findings.wall_share IS 'wall_ms / duration_ms: its share of the time of the execution';
