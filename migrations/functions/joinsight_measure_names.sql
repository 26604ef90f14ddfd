-- The columns first (1), second (2) and third (3) of joinsight_measures; `at_least`: a change by less is none.
CREATE FUNCTION joinsight_measure_names() RETURNS TABLE (
    subject text, number integer, measure text, at_least double precision
) LANGUAGE sql IMMUTABLE AS $$
    VALUES
        ('query', 1, 'duration_ms', 1000::float8),
        ('join', 1, 'spill_bytes', 64 * 1048576),
        ('join', 2, 'output_ratio', 0.5),
        ('shuffle', 1, 'bytes_written', 64 * 1048576),
        ('shuffle', 2, 'skew_ratio', 1),
        ('shuffle', 3, 'fetch_wait_ms', 10000),
        ('broadcast', 1, 'size_bytes', 1048576),
        ('broadcast', 2, 'driver_ms', 1000)
$$;
COMMENT ON FUNCTION joinsight_measure_names IS 'The measures that joinsight_regressions compares. Internal: it may change.';
