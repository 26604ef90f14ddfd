-- The columns first (1) to fifth (5) of joinsight_measures; `at_least`: a change by less is none; `with_query`: it must have
-- grown by more than the query's duration, which all operators of a slower query do otherwise.
CREATE FUNCTION joinsight_measure_names() RETURNS TABLE (
    subject text, number integer, measure text, at_least double precision, with_query boolean
) LANGUAGE sql IMMUTABLE AS $$
    VALUES
        ('query', 1, 'duration_ms', 1000::float8, false),
        ('join', 1, 'spill_bytes', 64 * 1048576, false),
        ('join', 2, 'output_ratio', 0.5, false),
        ('join', 3, 'cost_wall_ms', 1000, true),
        ('join', 4, 'cost_task_ms', 10000, true),
        ('shuffle', 1, 'bytes_written', 64 * 1048576, false),
        ('shuffle', 2, 'skew_ratio', 1, false),
        ('shuffle', 3, 'fetch_wait_ms', 10000, false),
        ('shuffle', 4, 'cost_wall_ms', 1000, true),
        ('shuffle', 5, 'cost_task_ms', 10000, true),
        ('broadcast', 1, 'size_bytes', 1048576, false),
        ('broadcast', 2, 'driver_ms', 1000, false),
        ('broadcast', 3, 'cost_wall_ms', 1000, true),
        ('broadcast', 4, 'cost_task_ms', 10000, true)
$$;
COMMENT ON FUNCTION joinsight_measure_names IS 'The measures that joinsight_regressions compares. Internal: it may change.';
