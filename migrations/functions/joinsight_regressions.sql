-- Queries and operators that became worse: the last runs since a time against those before. A single statement: only the
-- groups that pass one stage cost anything in the next. Runs are looked up by the index on (query_shape, started_at),
-- their operators by key. These look-ups (LATERAL, with OFFSET 0 where it could be a join) are nested loops in any case;
-- between the stages, whose sizes PostgreSQL cannot know, it is kept from any.
CREATE FUNCTION joinsight_regressions(
    since timestamptz,
    baseline_runs integer DEFAULT 20,
    minimum_runs integer DEFAULT 5,
    recent_runs integer DEFAULT 5,
    mads double precision DEFAULT 3,
    minimum_change double precision DEFAULT 0.3,
    job text DEFAULT NULL,
    shape text DEFAULT NULL
) RETURNS TABLE (
    job_name text,
    query_shape text,
    origin text,
    title text,
    description text,
    subject text,
    operator_key text,
    measure text,
    kind text,
    baseline double precision,
    baseline_spread double precision,
    baseline_runs_found bigint,
    alarm_above double precision,
    current double precision,
    factor double precision,
    data_factor double precision,
    baseline_plan_fingerprint text,
    plan_fingerprint text,
    first_bad_at timestamptz,
    bad_runs bigint,
    cost_ms bigint,
    baseline_started_at timestamptz,
    baseline_application_id text,
    baseline_attempt_id text,
    baseline_execution_id bigint,
    started_at timestamptz,
    application_id text,
    attempt_id text,
    execution_id bigint
) LANGUAGE plpgsql STABLE
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_partitionwise_join = off
SET enable_nestloop = off
SET work_mem = '32MB'
AS $$
#variable_conflict use_column
DECLARE
    earliest timestamptz := since - interval '90 days';
    least_recent integer := least(3, recent_runs);
BEGIN
RETURN QUERY
-- Queries that ran in the window, and how often
WITH ran AS MATERIALIZED (
    SELECT row_number() OVER () AS query, e.job_name, e.query_shape, e.origin,
        count(*) / greatest(1, extract(epoch FROM max(e.started_at) - since) / 86400) AS in_a_day
    FROM execution e
    WHERE e.started_at >= since
        AND e.state = 'succeeded' AND e.incomplete IS NULL AND e.query_shape IS NOT NULL
        AND (job IS NULL OR e.job_name = job) AND (shape IS NULL OR e.query_shape = shape)
    GROUP BY e.job_name, e.query_shape, e.origin
    HAVING count(*) >= least_recent

-- What `joinsight rollup` has stored of the time before the window, if it is of just this moment
), stored AS MATERIALIZED (
    SELECT ran.query, b.*
    FROM ran JOIN baseline b ON b.job_name = ran.job_name AND b.query_shape = ran.query_shape AND b.origin = ran.origin
    WHERE b.as_of = since AND baseline_runs = 20 AND minimum_runs >= 5

-- The last runs of queries, and those before the window where nothing is stored
), run AS MATERIALIZED (
    SELECT row_number() OVER () AS run, r.*
    FROM (
        SELECT ran.query, true AS is_recent, r.*
        FROM ran CROSS JOIN LATERAL joinsight_runs(
            ran.job_name, ran.query_shape, ran.origin, since, 'infinity', recent_runs, ran.in_a_day::bigint) AS r
        UNION ALL
        SELECT ran.query, false, r.*
        FROM ran CROSS JOIN LATERAL joinsight_runs(
            ran.job_name, ran.query_shape, ran.origin, earliest, since, baseline_runs, (
                SELECT count(*) FROM execution e
                WHERE e.query_shape = ran.query_shape AND e.job_name = ran.job_name AND e.origin = ran.origin
                    AND e.started_at >= since - interval '7 days' AND e.started_at < since
                    AND e.state = 'succeeded' AND e.incomplete IS NULL
            )) AS r
        WHERE ran.query NOT IN (SELECT s.query FROM stored s)
    ) AS r
), observed AS MATERIALIZED (
    SELECT r.run, r.query, r.is_recent, m.*
    FROM run r CROSS JOIN LATERAL joinsight_measures(
        r.started_at, r.application_id, r.attempt_id, r.execution_id,
        r.duration_ms, r.input_bytes, r.shuffle_write_bytes, r.is_sampled, earliest, NULL) AS m

-- What is usual, and what is now
), usual AS MATERIALIZED (
    SELECT o.query, min(o.subject) AS subject, o.operator_key COLLATE "C" AS operator_key,
        count(o.first) FILTER (WHERE NOT o.is_recent) AS runs_1,
        count(o.second) FILTER (WHERE NOT o.is_recent) AS runs_2,
        count(o.third) FILTER (WHERE NOT o.is_recent) AS runs_3,
        count(o.fourth) FILTER (WHERE NOT o.is_recent) AS runs_4,
        count(o.fifth) FILTER (WHERE NOT o.is_recent) AS runs_5,
        count(o.first) FILTER (WHERE o.is_recent) AS recent_1,
        count(o.second) FILTER (WHERE o.is_recent) AS recent_2,
        count(o.third) FILTER (WHERE o.is_recent) AS recent_3,
        count(o.fourth) FILTER (WHERE o.is_recent) AS recent_4,
        count(o.fifth) FILTER (WHERE o.is_recent) AS recent_5,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.first) FILTER (WHERE NOT o.is_recent) AS baseline_1,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.second) FILTER (WHERE NOT o.is_recent) AS baseline_2,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.third) FILTER (WHERE NOT o.is_recent) AS baseline_3,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.fourth) FILTER (WHERE NOT o.is_recent) AS baseline_4,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.fifth) FILTER (WHERE NOT o.is_recent) AS baseline_5,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.first) FILTER (WHERE o.is_recent) AS current_1,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.second) FILTER (WHERE o.is_recent) AS current_2,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.third) FILTER (WHERE o.is_recent) AS current_3,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.fourth) FILTER (WHERE o.is_recent) AS current_4,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.fifth) FILTER (WHERE o.is_recent) AS current_5
    FROM observed o
    GROUP BY o.query, o.operator_key COLLATE "C"
), slower AS MATERIALIZED (
    SELECT u.query, greatest(1, u.current_1 / nullif(coalesce(s.median, u.baseline_1), 0)) AS factor
    FROM usual u LEFT JOIN stored s ON s.query = u.query AND s.operator_key = ''
    WHERE u.operator_key = ''
), candidate AS MATERIALIZED (
    SELECT u.query, u.subject, u.operator_key, m.number, m.measure, m.at_least, b.runs, b.baseline, v.current,
        b.baseline * grew.factor * (1 + minimum_change) AS more_than
    FROM usual u
    CROSS JOIN LATERAL (VALUES
        (1, u.runs_1, u.recent_1, u.baseline_1, u.current_1),
        (2, u.runs_2, u.recent_2, u.baseline_2, u.current_2),
        (3, u.runs_3, u.recent_3, u.baseline_3, u.current_3),
        (4, u.runs_4, u.recent_4, u.baseline_4, u.current_4),
        (5, u.runs_5, u.recent_5, u.baseline_5, u.current_5)
    ) AS v (number, runs, recent, baseline, current)
    JOIN joinsight_measure_names() m ON m.subject = u.subject AND m.number = v.number
    LEFT JOIN stored s ON s.query = u.query AND s.operator_key = u.operator_key AND s.measure = m.measure
    CROSS JOIN LATERAL (SELECT coalesce(s.runs, v.runs) AS runs, coalesce(s.median, v.baseline) AS baseline) AS b
    LEFT JOIN slower ON slower.query = u.query
    CROSS JOIN LATERAL (SELECT CASE WHEN m.with_query THEN coalesce(slower.factor, 1) ELSE 1 END AS factor) AS grew
    WHERE b.runs >= minimum_runs AND v.recent >= least_recent
        AND v.current >= b.baseline * grew.factor * (1 + minimum_change) AND v.current >= b.baseline + m.at_least

-- More than the scatter of the usual runs, which few of them tell less well
), scattered AS (
    SELECT c.query, c.subject, c.operator_key, c.number, c.measure, c.at_least, c.runs, c.baseline, c.current,
        c.more_than,
        coalesce(min(s.spread), 1.4826 * percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(o.value - c.baseline))
            FILTER (WHERE NOT o.is_recent)) AS spread,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE o.is_recent)
            / nullif(coalesce(min(s.data),
                percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE NOT o.is_recent)), 0) AS data_factor,
        (array_agg(o.run ORDER BY abs(o.value - c.baseline), o.run) FILTER (WHERE NOT o.is_recent))[1] AS usual_run,
        (array_agg(o.run ORDER BY abs(o.value - c.current), o.run) FILTER (WHERE o.is_recent))[1] AS recent_run
    FROM candidate c JOIN (
        SELECT o.run, o.query, o.operator_key, o.is_recent, o.data, v.number, v.value
        FROM observed o CROSS JOIN LATERAL (
            VALUES (1, o.first), (2, o.second), (3, o.third), (4, o.fourth), (5, o.fifth)
        ) AS v (number, value)
        WHERE o.query IN (SELECT c.query FROM candidate c) AND v.value IS NOT NULL
    ) AS o ON o.query = c.query AND o.operator_key = c.operator_key AND o.number = c.number
    LEFT JOIN stored s ON s.query = c.query AND s.operator_key = c.operator_key AND s.measure = c.measure
    GROUP BY c.query, c.subject, c.operator_key, c.number, c.measure, c.at_least, c.runs, c.baseline, c.current,
        c.more_than
), found AS MATERIALIZED (
    SELECT s.*, a.alarm_above
    FROM scattered s CROSS JOIN LATERAL (SELECT
        greatest(joinsight_alarm_above(s.baseline, s.spread, s.runs, s.at_least, mads, minimum_change), s.more_than)
            AS alarm_above
    ) AS a
    WHERE s.current > a.alarm_above

-- Whether the plan that it has now was rare
), plan AS (
    SELECT r.query, p.recent_plan,
        4 * count(*) FILTER (WHERE r.plan_fingerprint = p.recent_plan) < count(*) AS is_new,
        mode() WITHIN GROUP (ORDER BY r.plan_fingerprint) AS usual_plan
    FROM (
        SELECT r.query, r.plan_fingerprint FROM run r WHERE NOT r.is_recent
        UNION ALL
        SELECT s.query, unnest(s.plan_fingerprints) FROM stored s WHERE s.operator_key = ''
    ) AS r JOIN (
        SELECT r.query, mode() WITHIN GROUP (ORDER BY r.plan_fingerprint) AS recent_plan
        FROM run r WHERE r.is_recent AND r.query IN (SELECT f.query FROM found f)
        GROUP BY r.query
    ) AS p ON p.query = r.query
    GROUP BY r.query, p.recent_plan

-- All their runs in the window, the last one first: since when do bad ones prevail?
), again AS MATERIALIZED (
    SELECT ran.query, e.*
    FROM ran CROSS JOIN LATERAL (
        SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id, e.duration_ms, e.is_sampled
        FROM execution e
        WHERE e.query_shape = ran.query_shape AND e.job_name = ran.job_name AND e.origin = ran.origin
            AND e.started_at >= since AND e.state = 'succeeded' AND e.incomplete IS NULL
        OFFSET 0
    ) AS e
    WHERE ran.query IN (SELECT f.query FROM found f)
), balanced AS (
    SELECT f.query, f.operator_key, f.number, a.started_at,
        sum(CASE WHEN v.value > (f.baseline + f.current) / 2 THEN 1 ELSE -1 END) OVER (
            PARTITION BY f.query, f.operator_key, f.number
            ORDER BY a.started_at DESC, a.application_id, a.execution_id ROWS UNBOUNDED PRECEDING
        ) AS balance
    FROM again a
    JOIN found f ON f.query = a.query
    CROSS JOIN LATERAL joinsight_measures(
        a.started_at, a.application_id, a.attempt_id, a.execution_id,
        a.duration_ms, NULL, NULL, a.is_sampled, since, f.subject) AS m
    CROSS JOIN LATERAL (
        VALUES (1, m.first), (2, m.second), (3, m.third), (4, m.fourth), (5, m.fifth)
    ) AS v (number, value)
    WHERE m.operator_key = f.operator_key AND v.number = f.number AND v.value IS NOT NULL
), since_when AS (
    SELECT DISTINCT ON (b.query, b.operator_key, b.number) b.query, b.operator_key, b.number, b.started_at AS first_bad_at
    FROM balanced b
    ORDER BY b.query, b.operator_key, b.number, b.balance DESC, b.started_at DESC
), cost AS (
    SELECT w.query, w.operator_key, w.number, count(*) AS bad_runs,
        greatest(0, sum(a.duration_ms - coalesce(s.median, u.baseline_1))) AS cost_ms
    FROM since_when w
    JOIN usual u ON u.query = w.query AND u.operator_key = ''
    LEFT JOIN stored s ON s.query = w.query AND s.operator_key = ''
    JOIN again a ON a.query = w.query AND a.started_at >= w.first_bad_at
    GROUP BY w.query, w.operator_key, w.number
)
SELECT ran.job_name, ran.query_shape, ran.origin, named.title, named.description,
    f.subject, nullif(f.operator_key, ''), f.measure,
    CASE WHEN p.is_new THEN 'plan_changed'
        WHEN f.data_factor - 1 >= 2.0 / 3 * coalesce(f.current / nullif(f.baseline, 0) - 1, minimum_change) THEN 'data_grew'
        ELSE 'same_plan' END,
    f.baseline, f.spread, f.runs, f.alarm_above, f.current, f.current / nullif(f.baseline, 0), f.data_factor,
    p.usual_plan, p.recent_plan, w.first_bad_at, c.bad_runs, c.cost_ms::bigint,
    coalesce(s.started_at, before.started_at), coalesce(s.application_id, before.application_id),
    coalesce(s.attempt_id, before.attempt_id), coalesce(s.execution_id, before.execution_id),
    latest.started_at, latest.application_id, latest.attempt_id, latest.execution_id
FROM found f
JOIN ran ON ran.query = f.query
JOIN plan p ON p.query = f.query
JOIN since_when w ON w.query = f.query AND w.operator_key = f.operator_key AND w.number = f.number
JOIN cost c ON c.query = f.query AND c.operator_key = f.operator_key AND c.number = f.number
JOIN run latest ON latest.run = f.recent_run
LEFT JOIN LATERAL (
    SELECT e.title, e.description FROM execution e
    WHERE (e.started_at, e.application_id, e.attempt_id, e.execution_id)
        = (latest.started_at, latest.application_id, latest.attempt_id, latest.execution_id)
    OFFSET 0
) named ON true
LEFT JOIN run before ON before.run = f.usual_run
LEFT JOIN stored s ON s.query = f.query AND s.operator_key = f.operator_key AND s.measure = f.measure
;
END
$$;
COMMENT ON FUNCTION joinsight_regressions IS 'Queries and operators whose last runs since a time are worse than those before. baseline_runs: runs to compare with; minimum_runs: fewer say nothing; recent_runs: last runs that count; mads, minimum_change: both must be exceeded; job, shape: only of this job or query. docs/regressions.md';
