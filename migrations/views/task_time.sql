-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW task_time AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (t.position - 1)::integer AS position,
    (t.time ->> 0)::integer AS stage_id,
    (t.time ->> 1)::integer AS stage_attempt,
    (t.time ->> 2)::text AS part,
    (t.time ->> 3)::integer AS node_id,
    (t.time ->> 4)::bigint AS samples,
    (t.time ->> 5)::bigint AS task_time_ms,
    (t.time ->> 6)::bigint AS task_time_error_ms,
    (t.time ->> 7)::text AS method,
    (t.time ->> 8)::text AS work
FROM execution_times o, jsonb_array_elements(o.task_times) WITH ORDINALITY AS t (time, position);
COMMENT ON VIEW task_time IS 'A part of the run time of a stage attempt; the parts of an attempt add up to its run_time_ms.';
COMMENT ON COLUMN task_time.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN task_time.application_id IS 'Spark''s application id';
COMMENT ON COLUMN task_time.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN task_time.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN task_time.position IS '0 for the first; the parts of a stage attempt follow one another, the largest first';
COMMENT ON COLUMN task_time.stage_id IS 'the stage';
COMMENT ON COLUMN task_time.stage_attempt IS 'attempt of that stage';
COMMENT ON COLUMN task_time.part IS 'what the tasks were at (docs/task-time.md)';
COMMENT ON COLUMN task_time.node_id IS 'node of the final plan: the operator, or the codegen stage if its code holds several; NULL: unknown';
COMMENT ON COLUMN task_time.samples IS 'number of samples; NULL: not sampled';
COMMENT ON COLUMN task_time.task_time_ms IS 'the time, summed over tasks';
COMMENT ON COLUMN task_time.task_time_error_ms IS 'its standard error; NULL: not sampled';
COMMENT ON COLUMN task_time.method IS 'sampled; metrics: measured by Spark; stage: the rest of a stage without samples';
COMMENT ON COLUMN task_time.work IS 'kind of work inside of it (docs/task-time.md#kinds-of-work); NULL: none that is known';
