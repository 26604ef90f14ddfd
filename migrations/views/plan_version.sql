-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW plan_version AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (v.position - 1)::integer AS version,
    (v.version ->> 0)::timestamp with time zone AS planned_at,
    v.position = jsonb_array_length(o.versions) AS is_final,
    (v.version ->> 1)::text AS plan_fingerprint,
    (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'id', n.node -> 0, 'name', s.node -> 0, 'simple', s.node -> 1, 'cluster', n.node -> 1,
            'is_cluster', s.node -> 2, 'metrics', s.node -> 3
        ) ORDER BY n.position), '[]')
        FROM jsonb_array_elements(v.version -> 3) WITH ORDINALITY AS n (node, position)
        JOIN jsonb_array_elements(o.nodes) WITH ORDINALITY AS s (node, position) ON s.position = (n.node ->> 2)::int + 1
    ) AS nodes,
    v.version -> 2 AS edges
FROM execution_plans o, jsonb_array_elements(o.versions) WITH ORDINALITY AS v (version, position);
COMMENT ON VIEW plan_version IS 'A version of an execution''s physical plan. The last version is the final plan.';
COMMENT ON COLUMN plan_version.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN plan_version.application_id IS 'Spark''s application id';
COMMENT ON COLUMN plan_version.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN plan_version.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN plan_version.version IS '0 for the initial plan, incremented each time AQE replans';
COMMENT ON COLUMN plan_version.planned_at IS 'when the driver reported this plan';
COMMENT ON COLUMN plan_version.is_final IS 'whether it is the last known version';
COMMENT ON COLUMN plan_version.plan_fingerprint IS 'key of the plan, equal in all runs with the same plan';
COMMENT ON COLUMN plan_version.nodes IS 'nodes as Spark''s UI numbers them: id, name, simple, cluster, metrics (ids)';
COMMENT ON COLUMN plan_version.edges IS 'pairs of child and parent node id';
