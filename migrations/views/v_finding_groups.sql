-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_finding_groups AS
SELECT * FROM joinsight_finding_groups(now() - interval '30 days');
COMMENT ON VIEW v_finding_groups IS 'Findings of the last 30 days, one row for each kind, query of a job, and operator: joinsight_finding_groups(now() - interval ''30 days'').';
COMMENT ON COLUMN v_finding_groups.job_name IS 'the job';
COMMENT ON COLUMN v_finding_groups.query_shape IS 'the query; NULL: it has no plan';
COMMENT ON COLUMN v_finding_groups.query_title IS 'the title of the newest execution with the finding';
COMMENT ON COLUMN v_finding_groups.description IS 'its description';
COMMENT ON COLUMN v_finding_groups.finding IS 'the kind, e.g. skewed-shuffle; job, query, kind and operator identify a row';
COMMENT ON COLUMN v_finding_groups.operator_key IS 'the operator, equal in all runs; NULL: not an exchange, broadcast or join';
COMMENT ON COLUMN v_finding_groups.severity IS 'the worst of its findings: info, warning or critical';
COMMENT ON COLUMN v_finding_groups.title IS 'the problem in one sentence, with the numbers of the newest execution';
COMMENT ON COLUMN v_finding_groups.advice IS 'what to do, as of the newest execution';
COMMENT ON COLUMN v_finding_groups.evidence IS 'the numbers of the newest execution by name, in the units of their names';
COMMENT ON COLUMN v_finding_groups.executions IS 'executions with the finding';
COMMENT ON COLUMN v_finding_groups.runs IS 'executions of the query in this job that succeeded or failed';
COMMENT ON COLUMN v_finding_groups.first_seen_at IS 'start of the first execution with the finding';
COMMENT ON COLUMN v_finding_groups.first_run_at IS 'start of the first of the runs; if equal, it may be older';
COMMENT ON COLUMN v_finding_groups.last_run_at IS 'start of the last of the runs; later than started_at: it is gone';
COMMENT ON COLUMN v_finding_groups.wall_ms IS 'sum of the findings'' wall_ms (docs/findings.md#wall-time), milliseconds; NULL: unknown';
COMMENT ON COLUMN v_finding_groups.wall_is_partial IS 'whether wall_ms is only what is known of it; it may be more';
COMMENT ON COLUMN v_finding_groups.duration_ms IS 'sum of the durations of the executions whose wall_ms is known, milliseconds';
COMMENT ON COLUMN v_finding_groups.impact_ms IS 'sum of the findings'' impact_ms (docs/findings.md#impact); NULL: unknown';
COMMENT ON COLUMN v_finding_groups.impact_bytes IS 'sum of the findings'' impact_bytes; NULL: unknown';
COMMENT ON COLUMN v_finding_groups.started_at IS 'when it was last seen; key of the newest execution with it';
COMMENT ON COLUMN v_finding_groups.application_id IS 'the same';
COMMENT ON COLUMN v_finding_groups.attempt_id IS 'the same';
COMMENT ON COLUMN v_finding_groups.execution_id IS 'the same';
COMMENT ON COLUMN v_finding_groups.node_id IS 'node of its final plan; -1: the whole execution';
