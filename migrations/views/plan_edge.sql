-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW plan_edge AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (e.position - 1)::integer AS position,
    (e.edge ->> 0)::integer AS child_id,
    (e.edge ->> 1)::integer AS parent_id
FROM execution_plans o, jsonb_array_elements(o.versions -> -1 -> 2) WITH ORDINALITY AS e (edge, position);
COMMENT ON VIEW plan_edge IS 'An edge of the final plan. A reused exchange has an edge to every consumer.';
COMMENT ON COLUMN plan_edge.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN plan_edge.application_id IS 'Spark''s application id';
COMMENT ON COLUMN plan_edge.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN plan_edge.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN plan_edge.position IS 'Spark''s order of edges: a parent''s inputs from left to right';
COMMENT ON COLUMN plan_edge.child_id IS 'node id that the rows come from';
COMMENT ON COLUMN plan_edge.parent_id IS 'node id that the rows go to';
