-- The rows of table `baseline` for a moment: what joinsight_regressions would work out of the time before it, of all
-- queries that ran often enough.
CREATE FUNCTION joinsight_baselines(moment timestamptz) RETURNS SETOF baseline LANGUAGE plpgsql STABLE
SET jit = off
SET enable_partitionwise_join = off
SET enable_nestloop = off
AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH ran AS MATERIALIZED (
    SELECT row_number() OVER () AS query, e.job_name, e.query_shape, e.origin,
        count(*) FILTER (WHERE e.started_at >= moment - interval '7 days') AS in_week
    FROM execution e
    WHERE e.started_at >= moment - interval '90 days' AND e.started_at < moment
        AND e.state = 'succeeded' AND e.incomplete IS NULL AND e.query_shape IS NOT NULL
    GROUP BY e.job_name, e.query_shape, e.origin
    HAVING count(*) >= 5
), run AS MATERIALIZED (
    SELECT row_number() OVER () AS run, ran.query, r.*
    FROM ran CROSS JOIN LATERAL joinsight_runs(
        ran.job_name, ran.query_shape, ran.origin, moment - interval '90 days', moment, 20, ran.in_week) AS r
), observed AS MATERIALIZED (
    SELECT r.run, r.query, m.subject, m.operator_key COLLATE "C" AS operator_key, m.data, v.number, v.value
    FROM run r CROSS JOIN LATERAL joinsight_measures(
        r.started_at, r.application_id, r.attempt_id, r.execution_id,
        r.duration_ms, r.input_bytes, r.shuffle_write_bytes, r.is_sampled, moment - interval '90 days', NULL) AS m
    CROSS JOIN LATERAL (
        VALUES (1, m.first), (2, m.second), (3, m.third), (4, m.fourth), (5, m.fifth)
    ) AS v (number, value)
    WHERE v.value IS NOT NULL
), usual AS MATERIALIZED (
    SELECT o.query, o.operator_key, o.number, min(o.subject) AS subject, count(*) AS runs,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.value) AS median,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) AS data
    FROM observed o
    GROUP BY o.query, o.operator_key, o.number
), scattered AS (
    SELECT u.query, u.operator_key, u.number,
        1.4826 * percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(o.value - u.median)) AS spread,
        (array_agg(o.run ORDER BY abs(o.value - u.median), o.run))[1] AS typical
    FROM usual u JOIN observed o ON o.query = u.query AND o.operator_key = u.operator_key AND o.number = u.number
    GROUP BY u.query, u.operator_key, u.number
), plan AS (
    SELECT r.query, array_agg(r.plan_fingerprint) AS fingerprints FROM run r GROUP BY r.query
)
SELECT moment, ran.job_name, ran.query_shape, ran.origin, u.operator_key, m.measure, u.subject, u.runs, u.median, s.spread,
    u.data, CASE u.operator_key WHEN '' THEN p.fingerprints END,
    r.started_at, r.application_id, r.attempt_id, r.execution_id
FROM usual u
JOIN joinsight_measure_names() m ON m.subject = u.subject AND m.number = u.number
JOIN scattered s ON s.query = u.query AND s.operator_key = u.operator_key AND s.number = u.number
JOIN ran ON ran.query = u.query
JOIN plan p ON p.query = u.query
JOIN run r ON r.run = s.typical;
END
$$;
COMMENT ON FUNCTION joinsight_baselines IS 'What joinsight rollup stores in table baseline as of a moment. Internal: it may change.';
