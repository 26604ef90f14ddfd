-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW cost AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (c.cost ->> 0)::text AS kind,
    (c.cost ->> 1)::bigint AS wall_ms,
    (c.cost ->> 2)::bigint AS task_ms
FROM execution_times o, jsonb_array_elements(o.costs) AS c (cost);
COMMENT ON VIEW cost IS 'What a kind of work cost an execution; its kinds add up to the duration, and to the run time of its tasks.';
COMMENT ON COLUMN cost.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN cost.application_id IS 'Spark''s application id';
COMMENT ON COLUMN cost.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN cost.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN cost.kind IS 'the kind (docs/cost.md#by-kind-of-work)';
COMMENT ON COLUMN cost.wall_ms IS 'how long the execution waited for it, milliseconds; NULL: it has not ended';
COMMENT ON COLUMN cost.task_ms IS 'time of tasks, summed, milliseconds; NULL: no tasks do it, or nothing is known';
