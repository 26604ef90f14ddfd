-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW node_metric AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (m.metric ->> 0)::integer AS node_id,
    (m.metric ->> 1)::bigint AS accumulator_id,
    (m.metric ->> 2)::text AS name,
    (m.metric ->> 3)::text AS type,
    (m.metric ->> 4)::bigint AS count,
    (m.metric ->> 5)::bigint AS total,
    (m.metric ->> 6)::bigint AS min,
    (m.metric ->> 7)::bigint AS median,
    (m.metric ->> 8)::bigint AS p95,
    (m.metric ->> 9)::bigint AS max,
    (m.metric ->> 10)::integer AS max_stage_id,
    (m.metric ->> 11)::integer AS max_stage_attempt,
    (m.metric ->> 12)::bigint AS max_task_id,
    (m.metric ->> 13)::text AS text
FROM execution_metrics o, jsonb_array_elements(o.metrics) AS m (metric);
COMMENT ON VIEW node_metric IS 'A metric of a plan node over its tasks, or of the driver. The type determines the unit.';
COMMENT ON COLUMN node_metric.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN node_metric.application_id IS 'Spark''s application id';
COMMENT ON COLUMN node_metric.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN node_metric.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN node_metric.node_id IS 'node of the final plan; -1: the metric belongs to a node that AQE replaced';
COMMENT ON COLUMN node_metric.accumulator_id IS 'Spark''s accumulator id; not unique across executions';
COMMENT ON COLUMN node_metric.name IS 'Spark''s name of the metric';
COMMENT ON COLUMN node_metric.type IS 'sum (a number), size (bytes), timing (ms), nsTiming (ns), average (tenfold), v2Custom_*';
COMMENT ON COLUMN node_metric.count IS 'number of values: tasks and driver updates; NULL: nothing was reported';
COMMENT ON COLUMN node_metric.total IS 'sum of the values; NULL: not measured';
COMMENT ON COLUMN node_metric.min IS 'smallest value';
COMMENT ON COLUMN node_metric.median IS 'Spark''s median: the element at count/2 of the sorted values';
COMMENT ON COLUMN node_metric.p95 IS '95th percentile: the element at count*95/100 of the sorted values';
COMMENT ON COLUMN node_metric.max IS 'largest value';
COMMENT ON COLUMN node_metric.max_stage_id IS 'stage of the largest value; NULL: the driver';
COMMENT ON COLUMN node_metric.max_stage_attempt IS 'attempt of that stage';
COMMENT ON COLUMN node_metric.max_task_id IS 'task of the largest value';
COMMENT ON COLUMN node_metric.text IS 'v2Custom metrics: the values as formatted by the metric''s own class';
