-- The usual duration of a query at a time: of the runs before that joinsight_regressions compares with, by its defaults.
CREATE FUNCTION joinsight_usual(
    of_job_name text, of_query_shape text, of_origin text, since timestamptz,
    baseline_runs integer DEFAULT 20,
    mads double precision DEFAULT 3,
    minimum_change double precision DEFAULT 0.3
) RETURNS TABLE (
    runs bigint, median double precision, spread double precision, alarm_above double precision
) LANGUAGE sql STABLE AS $$
    WITH run AS MATERIALIZED (
        SELECT r.duration_ms::float8 AS value
        FROM joinsight_runs(
            of_job_name, of_query_shape, of_origin, since - interval '90 days', since, baseline_runs, (
                SELECT count(*) FROM execution e
                WHERE e.query_shape = of_query_shape AND e.job_name = of_job_name AND e.origin = of_origin
                    AND e.started_at >= since - interval '7 days' AND e.started_at < since
                    AND e.state = 'succeeded' AND e.incomplete IS NULL
            )) AS r
    ), usual AS (
        SELECT count(r.value) AS runs, percentile_cont(0.5) WITHIN GROUP (ORDER BY r.value) AS median FROM run r
    ), scattered AS (
        SELECT u.runs, u.median,
            1.4826 * percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(r.value - u.median)) AS spread
        FROM usual u CROSS JOIN run r
        GROUP BY u.runs, u.median
    )
    SELECT s.runs, s.median, s.spread,
        joinsight_alarm_above(s.median, s.spread, s.runs, m.at_least, mads, minimum_change)
    FROM scattered s JOIN joinsight_measure_names() m ON m.measure = 'duration_ms'
$$;
COMMENT ON FUNCTION joinsight_usual IS 'The usual duration of a query, as joinsight_regressions takes it. Internal: it may change.';
