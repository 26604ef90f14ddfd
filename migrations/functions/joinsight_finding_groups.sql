-- Findings of a time: a row for each kind, at one operator of one query of a job. A plain query, so that PostgreSQL
-- merges it with the query that calls it: conditions on the job, query, kind or operator limit what is read.
CREATE FUNCTION joinsight_finding_groups(since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS TABLE (
    job_name text,
    query_shape text,
    query_title text,
    description text,
    finding text,
    operator_key text,
    severity text,
    title text,
    advice text,
    evidence jsonb,
    executions bigint,
    runs bigint,
    first_seen_at timestamptz,
    first_run_at timestamptz,
    last_run_at timestamptz,
    wall_ms bigint,
    wall_is_partial boolean,
    duration_ms bigint,
    impact_ms bigint,
    impact_bytes bigint,
    started_at timestamptz,
    application_id text,
    attempt_id text,
    execution_id bigint,
    node_id integer
) LANGUAGE sql STABLE AS $$
SELECT g.job_name, g.query_shape, newest.query_title, newest.description, g.finding, g.operator_key, g.severity,
    newest.title, newest.advice, newest.evidence,
    g.executions, greatest(ran.runs, g.executions), g.first_seen_at,
    coalesce(ran.first_run_at, g.first_seen_at), coalesce(ran.last_run_at, g.started_at),
    g.wall_ms, g.wall_is_partial, g.duration_ms, g.impact_ms, g.impact_bytes,
    g.started_at, g.application_id, g.attempt_id, g.execution_id, newest.node_id
FROM (
    SELECT e.job_name, e.query_shape, f.finding, f.operator_key,
        (ARRAY['critical', 'warning', 'info'])[
            min(array_position(ARRAY['critical', 'warning', 'info'], f.severity))] AS severity,
        count(DISTINCT (f.started_at, f.application_id, f.attempt_id, f.execution_id)) AS executions,
        min(f.started_at) AS first_seen_at, max(f.started_at) AS started_at,
        (array_agg(f.application_id ORDER BY f.started_at DESC, f.application_id, f.attempt_id, f.execution_id))[1]
            AS application_id,
        (array_agg(f.attempt_id ORDER BY f.started_at DESC, f.application_id, f.attempt_id, f.execution_id))[1]
            AS attempt_id,
        (array_agg(f.execution_id ORDER BY f.started_at DESC, f.application_id, f.attempt_id, f.execution_id))[1]
            AS execution_id,
        sum(f.wall_ms)::bigint AS wall_ms,
        bool_or(f.wall_is_partial) OR (count(f.wall_ms) BETWEEN 1 AND count(*) - 1) AS wall_is_partial,
        sum(coalesce(e.duration_ms, greatest(f.wall_ms, 1000 * EXTRACT(epoch FROM e.updated_at - e.started_at))))
            FILTER (WHERE f.wall_ms IS NOT NULL)::bigint AS duration_ms,
        sum(f.impact_ms)::bigint AS impact_ms, sum(f.impact_bytes)::bigint AS impact_bytes
    FROM finding f JOIN execution e
        ON (e.started_at, e.application_id, e.attempt_id, e.execution_id)
            = (f.started_at, f.application_id, f.attempt_id, f.execution_id)
    WHERE f.started_at >= since AND f.started_at < until AND e.started_at >= since AND e.started_at < until
    GROUP BY e.job_name, e.query_shape, f.finding, f.operator_key
) AS g
CROSS JOIN LATERAL (
    SELECT count(*) AS runs, min(e.started_at) AS first_run_at, max(e.started_at) AS last_run_at
    FROM execution e
    WHERE e.query_shape = g.query_shape AND e.job_name = g.job_name
        AND e.started_at >= since AND e.started_at < until AND e.state IN ('succeeded', 'failed') AND NOT e.is_outer
) AS ran
CROSS JOIN LATERAL (
    SELECT e.title AS query_title, e.description, f.title, f.advice, f.evidence, f.node_id
    FROM finding f JOIN execution e
        ON (e.started_at, e.application_id, e.attempt_id, e.execution_id)
            = (f.started_at, f.application_id, f.attempt_id, f.execution_id)
    WHERE (f.started_at, f.application_id, f.attempt_id, f.execution_id)
            = (g.started_at, g.application_id, g.attempt_id, g.execution_id)
        AND f.started_at >= since AND f.started_at < until AND e.started_at >= since AND e.started_at < until
        AND f.finding = g.finding AND f.operator_key IS NOT DISTINCT FROM g.operator_key
    ORDER BY f.wall_ms DESC NULLS LAST, greatest(f.impact_ms, f.impact_bytes / 100000) DESC NULLS LAST, f.node_id
    LIMIT 1
) AS newest
$$;
COMMENT ON FUNCTION joinsight_finding_groups IS 'Findings of executions that started in a time, one row for each kind, query of a job, and operator. Columns: v_finding_groups. docs/findings.md';
