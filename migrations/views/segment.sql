-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW segment AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    (t.position - 1)::integer AS position,
    (t.time ->> 0)::text AS cause,
    (t.time ->> 1)::bigint AS start_ms,
    (t.time ->> 2)::bigint AS end_ms,
    (t.time ->> 3)::integer AS stage_id,
    (t.time ->> 4)::integer AS stage_attempt,
    (t.time ->> 5)::integer AS node_id,
    (t.time ->> 6)::bigint AS nested_execution_id
FROM execution_times o, jsonb_array_elements(o.segments) WITH ORDINALITY AS t (time, position);
COMMENT ON VIEW segment IS 'A part of an execution''s time on its critical path; the segments of an execution add up to its duration.';
COMMENT ON COLUMN segment.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN segment.application_id IS 'Spark''s application id';
COMMENT ON COLUMN segment.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN segment.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN segment.position IS '0 for the first, in the order of time';
COMMENT ON COLUMN segment.cause IS 'what the time went into (docs/critical-path.md)';
COMMENT ON COLUMN segment.start_ms IS 'from when, milliseconds since the start of the execution';
COMMENT ON COLUMN segment.end_ms IS 'until when, milliseconds since the start of the execution; the next one starts there';
COMMENT ON COLUMN segment.stage_id IS 'the stage that ran, or waited for slots; NULL: the driver';
COMMENT ON COLUMN segment.stage_attempt IS 'attempt of that stage';
COMMENT ON COLUMN segment.node_id IS 'node of the final plan: the shuffle that the stage writes, or the broadcast';
COMMENT ON COLUMN segment.nested_execution_id IS 'the execution that ran inside this one';
