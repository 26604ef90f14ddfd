-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW plan_node AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (s.node ->> 4)::integer AS node_id,
    (s.node ->> 5)::text AS operator_key,
    (s.node ->> 0)::text AS name,
    (s.node ->> 1)::text AS simple,
    (s.node ->> 6)::integer AS cluster_id,
    (s.node ->> 2)::boolean AS is_cluster,
    (s.node ->> 7)::bigint AS task_time_ms,
    (s.node ->> 8)::bigint AS task_time_error_ms,
    (s.node ->> 9)::text AS task_time_method,
    (s.node ->> 10)::jsonb AS metadata
FROM execution_plans o, jsonb_array_elements(o.nodes) AS s (node)
WHERE jsonb_array_length(s.node) > 4;
COMMENT ON VIEW plan_node IS 'A node of the final plan, numbered as in Spark''s UI.';
COMMENT ON COLUMN plan_node.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN plan_node.application_id IS 'Spark''s application id';
COMMENT ON COLUMN plan_node.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN plan_node.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN plan_node.node_id IS 'Spark''s node id, valid in this plan version only';
COMMENT ON COLUMN plan_node.operator_key IS 'key of the operator, equal in all runs; NULL: a frame or reader, and in older rows all but exchanges and joins';
COMMENT ON COLUMN plan_node.name IS 'the operator, e.g. SortMergeJoin';
COMMENT ON COLUMN plan_node.simple IS 'Spark''s simpleString: the operator with its arguments';
COMMENT ON COLUMN plan_node.cluster_id IS 'node id of the WholeStageCodegen cluster around it';
COMMENT ON COLUMN plan_node.is_cluster IS 'whether it is a WholeStageCodegen cluster';
COMMENT ON COLUMN plan_node.task_time_ms IS 'run time of tasks that went into it (docs/task-time.md); NULL: unknown';
COMMENT ON COLUMN plan_node.task_time_error_ms IS 'its standard error; NULL: not sampled';
COMMENT ON COLUMN plan_node.task_time_method IS 'sampled, or metrics: measured by Spark';
COMMENT ON COLUMN plan_node.metadata IS 'of file scans: location, format, filters, read schema; of commands that print only their name: Command, Table; Fallback: why Spark ran it, and not Comet';
