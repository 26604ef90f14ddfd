-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW cost AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    c.kind,
    c.wall_ms,
    c.task_ms
FROM execution_costs o, LATERAL (VALUES
    ('join', o.join_wall_ms, o.join_task_ms),
    ('shuffle', o.shuffle_wall_ms, o.shuffle_task_ms),
    ('broadcast', o.broadcast_wall_ms, o.broadcast_task_ms),
    ('scan', o.scan_wall_ms, o.scan_task_ms),
    ('sort', o.sort_wall_ms, o.sort_task_ms),
    ('aggregate', o.aggregate_wall_ms, o.aggregate_task_ms),
    ('python', o.python_wall_ms, o.python_task_ms),
    ('write', o.write_wall_ms, o.write_task_ms),
    ('shared', o.shared_wall_ms, o.shared_task_ms),
    ('other', o.other_wall_ms, o.other_task_ms),
    ('waiting', o.waiting_wall_ms, NULL),
    ('driver', o.driver_wall_ms, NULL),
    ('nested', o.nested_wall_ms, NULL)
) AS c (kind, wall_ms, task_ms)
WHERE c.wall_ms IS NOT NULL OR c.task_ms IS NOT NULL;
COMMENT ON VIEW cost IS 'What a kind of work cost an execution; its kinds add up to the duration, and to the run time of its tasks.';
COMMENT ON COLUMN cost.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN cost.application_id IS 'Spark''s application id';
COMMENT ON COLUMN cost.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN cost.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN cost.kind IS 'the kind (docs/cost.md#by-kind-of-work)';
COMMENT ON COLUMN cost.wall_ms IS 'how long the execution waited for it, milliseconds; NULL: it has not ended';
COMMENT ON COLUMN cost.task_ms IS 'time of tasks, summed, milliseconds; NULL: no tasks do it, or nothing is known';
