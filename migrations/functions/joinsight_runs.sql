-- The runs of a query that count in a period: the last `wanted`; or, where it usually has more, as many, spread over the
-- last `usually`. Their columns are those of ix_execution_comparable, in whose order they are found.
CREATE FUNCTION joinsight_runs(
    of_job_name text, of_query_shape text, of_origin text,
    starts timestamptz, ends timestamptz, wanted bigint, usually bigint
) RETURNS TABLE (
    started_at timestamptz, application_id text, attempt_id text, execution_id bigint, plan_fingerprint text,
    duration_ms bigint, input_bytes bigint, shuffle_write_bytes bigint, is_sampled boolean
) LANGUAGE sql STABLE AS $$
    SELECT r.started_at, r.application_id, r.attempt_id, r.execution_id, r.plan_fingerprint,
        r.duration_ms, r.input_bytes, r.shuffle_write_bytes, r.is_sampled
    FROM (
        SELECT e.*, row_number() OVER (ORDER BY e.started_at DESC) AS number, count(*) OVER () AS found
        FROM (
            SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id, e.plan_fingerprint,
                e.duration_ms, e.input_bytes, e.shuffle_write_bytes, e.is_sampled
            FROM execution e
            WHERE e.query_shape = of_query_shape AND e.job_name = of_job_name AND e.origin = of_origin
                AND e.started_at >= starts AND e.started_at < ends
                AND e.state = 'succeeded' AND e.incomplete IS NULL
            ORDER BY e.started_at DESC
            LIMIT greatest(wanted, usually)
        ) AS e
    ) AS r
    WHERE r.number * wanted / r.found > (r.number - 1) * wanted / r.found
$$;
COMMENT ON FUNCTION joinsight_runs IS 'The runs of a query that joinsight_regressions compares. Internal: it may change.';
