"""Regressions: each query and operator against its own past, by one definition for all who ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# What is compared of operators, besides the duration of their query; `data` is what explains that it grew.
# PostgreSQL inlines it, so that it is a look-up by key in each table.
MEASURES = """
CREATE FUNCTION joinsight_measures(
    of_started_at timestamptz, of_application_id text, of_attempt_id text, of_execution_id bigint
) RETURNS TABLE (
    subject text, operator_key text, data double precision,
    first double precision, second double precision, third double precision
) LANGUAGE sql STABLE AS $$
    SELECT 'join', operator_key, greatest(left_rows, right_rows)::float8,
        spill_bytes::float8, output_rows::float8 / nullif(greatest(left_rows, right_rows), 0), NULL::float8
    FROM joins
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
    UNION ALL
    SELECT 'shuffle', operator_key, rows_written::float8,
        bytes_written::float8, skew_ratio, fetch_wait_ms::float8
    FROM shuffle
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
    UNION ALL
    SELECT 'broadcast', operator_key, rows::float8,
        size_bytes::float8, (collect_ms + build_ms + broadcast_ms)::float8, NULL
    FROM broadcast
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
$$
"""

# A single statement: only the groups that pass one stage cost anything in the next. Runs are looked up by the index on
# (query_shape, started_at), their operators by key. These look-ups (LATERAL) are nested loops in any case; between the
# stages, whose sizes PostgreSQL cannot know, it is kept from any.
REGRESSIONS = """
CREATE FUNCTION joinsight_regressions(
    since timestamptz,
    baseline_runs integer DEFAULT 20,
    minimum_runs integer DEFAULT 5,
    recent_runs integer DEFAULT 5,
    mads double precision DEFAULT 3,
    minimum_change double precision DEFAULT 0.3
) RETURNS TABLE (
    {columns}
) LANGUAGE plpgsql STABLE
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_partitionwise_join = off
SET enable_nestloop = off
SET work_mem = '32MB'
AS $$
#variable_conflict use_column
DECLARE
    week_before timestamptz := since - interval '7 days';
    earliest timestamptz := since - interval '90 days';
    least_recent integer := least(3, recent_runs);
BEGIN
RETURN QUERY
WITH measured (subject, number, measure, at_least) AS (VALUES
    ('query', 1, 'duration_ms', 1000::float8),
    ('join', 1, 'spill_bytes', 64 * 1048576),
    ('join', 2, 'output_ratio', 0.5),
    ('shuffle', 1, 'bytes_written', 64 * 1048576),
    ('shuffle', 2, 'skew_ratio', 1),
    ('shuffle', 3, 'fetch_wait_ms', 10000),
    ('broadcast', 1, 'size_bytes', 1048576),
    ('broadcast', 2, 'driver_ms', 1000)

-- Queries that ran in the window, and how often
), ran AS MATERIALIZED (
    SELECT row_number() OVER () AS query, e.job_name, e.query_shape, e.origin,
        count(*) FILTER (WHERE e.started_at < since) AS in_week_before,
        count(*) FILTER (WHERE e.started_at >= since)
            / greatest(1, extract(epoch FROM max(e.started_at) - since) / 86400) AS in_a_day
    FROM execution e
    WHERE e.started_at >= week_before
        AND e.state = 'succeeded' AND e.incomplete IS NULL AND e.query_shape IS NOT NULL
    GROUP BY e.job_name, e.query_shape, e.origin
    HAVING count(*) FILTER (WHERE e.started_at >= since) >= least_recent

-- Their last runs, and those before the window: as many as wanted, or as many spread over a day and over a week
), run AS MATERIALIZED (
    SELECT row_number() OVER () AS run, ran.query, period.is_recent, r.*
    FROM ran CROSS JOIN LATERAL (VALUES
        (true, since, timestamptz 'infinity', recent_runs, ran.in_a_day::bigint),
        (false, earliest, since, baseline_runs, ran.in_week_before)
    ) AS period (is_recent, starts, ends, wanted, usually)
    CROSS JOIN LATERAL (
        SELECT e.*, row_number() OVER (ORDER BY e.started_at DESC) AS number, count(*) OVER () AS found
        FROM (
            SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id, e.plan_fingerprint,
                e.duration_ms::float8 AS duration_ms,
                coalesce(nullif(e.input_bytes, 0), e.shuffle_write_bytes)::float8 AS data
            FROM execution e
            WHERE e.query_shape = ran.query_shape AND e.job_name = ran.job_name AND e.origin = ran.origin
                AND e.started_at >= period.starts AND e.started_at < period.ends
                AND e.state = 'succeeded' AND e.incomplete IS NULL
            ORDER BY e.started_at DESC
            LIMIT greatest(period.wanted, period.usually)
        ) AS e
    ) AS r
    WHERE r.number * period.wanted / r.found > (r.number - 1) * period.wanted / r.found
), observed AS MATERIALIZED (
    SELECT run, query, is_recent, 'query' AS subject, '' AS operator_key, data,
        duration_ms AS first, NULL::float8 AS second, NULL::float8 AS third
    FROM run
    UNION ALL
    SELECT r.run, r.query, r.is_recent, m.*
    FROM run r CROSS JOIN LATERAL joinsight_measures(
        r.started_at, r.application_id, r.attempt_id, r.execution_id) AS m

-- What is usual, and what is now
), usual AS MATERIALIZED (
    SELECT o.query, min(o.subject) AS subject, o.operator_key COLLATE "C" AS operator_key,
        count(o.first) FILTER (WHERE NOT o.is_recent) AS runs_1,
        count(o.second) FILTER (WHERE NOT o.is_recent) AS runs_2,
        count(o.third) FILTER (WHERE NOT o.is_recent) AS runs_3,
        count(o.first) FILTER (WHERE o.is_recent) AS recent_1,
        count(o.second) FILTER (WHERE o.is_recent) AS recent_2,
        count(o.third) FILTER (WHERE o.is_recent) AS recent_3,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.first) FILTER (WHERE NOT o.is_recent) AS baseline_1,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.second) FILTER (WHERE NOT o.is_recent) AS baseline_2,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.third) FILTER (WHERE NOT o.is_recent) AS baseline_3,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.first) FILTER (WHERE o.is_recent) AS current_1,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.second) FILTER (WHERE o.is_recent) AS current_2,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.third) FILTER (WHERE o.is_recent) AS current_3
    FROM observed o
    GROUP BY o.query, o.operator_key COLLATE "C"
), candidate AS MATERIALIZED (
    SELECT u.query, u.subject, u.operator_key, m.number, m.measure, m.at_least, v.runs, v.baseline, v.current
    FROM usual u
    CROSS JOIN LATERAL (VALUES
        (1, u.runs_1, u.recent_1, u.baseline_1, u.current_1),
        (2, u.runs_2, u.recent_2, u.baseline_2, u.current_2),
        (3, u.runs_3, u.recent_3, u.baseline_3, u.current_3)
    ) AS v (number, runs, recent, baseline, current)
    JOIN measured m ON m.subject = u.subject AND m.number = v.number
    WHERE v.runs >= minimum_runs AND v.recent >= least_recent
        AND v.current >= v.baseline * (1 + minimum_change) AND v.current >= v.baseline + m.at_least

-- More than the scatter of the usual runs, which few of them tell less well
), scattered AS (
    SELECT c.query, c.subject, c.operator_key, c.number, c.measure, c.at_least, c.runs, c.baseline, c.current,
        1.4826 * percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(o.value - c.baseline))
            FILTER (WHERE NOT o.is_recent) AS spread,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE o.is_recent)
            / nullif(percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE NOT o.is_recent), 0)
            AS data_factor,
        (array_agg(o.run ORDER BY abs(o.value - c.baseline), o.run) FILTER (WHERE NOT o.is_recent))[1] AS usual_run,
        (array_agg(o.run ORDER BY abs(o.value - c.current), o.run) FILTER (WHERE o.is_recent))[1] AS recent_run
    FROM candidate c JOIN (
        SELECT o.run, o.query, o.operator_key, o.is_recent, o.data, v.number, v.value
        FROM observed o CROSS JOIN LATERAL (VALUES (1, o.first), (2, o.second), (3, o.third)) AS v (number, value)
        WHERE o.query IN (SELECT c.query FROM candidate c) AND v.value IS NOT NULL
    ) AS o ON o.query = c.query AND o.operator_key = c.operator_key AND o.number = c.number
    GROUP BY c.query, c.subject, c.operator_key, c.number, c.measure, c.at_least, c.runs, c.baseline, c.current
), found AS MATERIALIZED (
    SELECT s.*, a.alarm_above
    FROM scattered s CROSS JOIN LATERAL (SELECT greatest(
        s.baseline * (1 + minimum_change), s.baseline + s.at_least, s.baseline + mads * (1 + 5.0 / s.runs) * s.spread
    ) AS alarm_above) AS a
    WHERE s.current > a.alarm_above

-- Whether the plan that it has now was rare
), plan AS (
    SELECT r.query, p.recent_plan,
        4 * count(*) FILTER (WHERE r.plan_fingerprint = p.recent_plan) < count(*) AS is_new,
        mode() WITHIN GROUP (ORDER BY r.plan_fingerprint) AS usual_plan
    FROM run r JOIN (
        SELECT r.query, mode() WITHIN GROUP (ORDER BY r.plan_fingerprint) AS recent_plan
        FROM run r WHERE r.is_recent AND r.query IN (SELECT f.query FROM found f)
        GROUP BY r.query
    ) AS p ON p.query = r.query
    WHERE NOT r.is_recent
    GROUP BY r.query, p.recent_plan

-- All their runs in the window, the last one first: since when do bad ones prevail?
), again AS MATERIALIZED (
    SELECT ran.query, e.*
    FROM ran CROSS JOIN LATERAL (
        SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id, e.duration_ms::float8 AS duration_ms
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
    FROM (
        SELECT a.*, 'query' AS subject, '' AS operator_key, a.duration_ms AS first, NULL::float8 AS second, NULL::float8 AS third
        FROM again a
        UNION ALL
        SELECT a.*, m.subject, m.operator_key, m.first, m.second, m.third
        FROM again a CROSS JOIN LATERAL joinsight_measures(
            a.started_at, a.application_id, a.attempt_id, a.execution_id) AS m
        WHERE a.query IN (SELECT f.query FROM found f WHERE f.subject <> 'query')
    ) AS a
    CROSS JOIN LATERAL (VALUES (1, a.first), (2, a.second), (3, a.third)) AS v (number, value)
    JOIN found f ON f.query = a.query AND f.operator_key = a.operator_key AND f.number = v.number
    WHERE v.value IS NOT NULL
), since_when AS (
    SELECT DISTINCT ON (b.query, b.operator_key, b.number) b.query, b.operator_key, b.number, b.started_at AS first_bad_at
    FROM balanced b
    ORDER BY b.query, b.operator_key, b.number, b.balance DESC, b.started_at DESC
), cost AS (
    SELECT w.query, w.operator_key, w.number, count(*) AS bad_runs,
        greatest(0, sum(a.duration_ms - u.baseline_1)) AS cost_ms
    FROM since_when w
    JOIN usual u ON u.query = w.query AND u.operator_key = ''
    JOIN again a ON a.query = w.query AND a.started_at >= w.first_bad_at
    GROUP BY w.query, w.operator_key, w.number
)
SELECT ran.job_name, ran.query_shape, ran.origin, (
        SELECT e.description FROM execution e
        WHERE (e.started_at, e.application_id, e.attempt_id, e.execution_id)
            = (latest.started_at, latest.application_id, latest.attempt_id, latest.execution_id)
    ),
    f.subject, nullif(f.operator_key, ''), f.measure,
    CASE WHEN p.is_new THEN 'plan_changed'
        WHEN f.data_factor - 1 >= 2.0 / 3 * coalesce(f.current / nullif(f.baseline, 0) - 1, minimum_change) THEN 'data_grew'
        ELSE 'same_plan' END,
    f.baseline, f.spread, f.runs, f.alarm_above, f.current, f.current / nullif(f.baseline, 0), f.data_factor,
    p.usual_plan, p.recent_plan, w.first_bad_at, c.bad_runs, c.cost_ms::bigint,
    before.started_at, before.application_id, before.attempt_id, before.execution_id,
    latest.started_at, latest.application_id, latest.attempt_id, latest.execution_id
FROM found f
JOIN ran ON ran.query = f.query
JOIN plan p ON p.query = f.query
JOIN since_when w ON w.query = f.query AND w.operator_key = f.operator_key AND w.number = f.number
JOIN cost c ON c.query = f.query AND c.operator_key = f.operator_key AND c.number = f.number
JOIN run before ON before.run = f.usual_run
JOIN run latest ON latest.run = f.recent_run
;
END
$$
"""

COLUMNS = (
    ("job_name", "text", "the job; with shape and origin, what is compared with its own past"),
    ("query_shape", "text", "the query"),
    ("origin", "text", "live (listener) or event_log (backfill): one is compared with its like only"),
    ("description", "text", "the description of a run as they are now"),
    ("subject", "text", "query, join, shuffle or broadcast"),
    ("operator_key", "text", "the operator; NULL for the query as a whole"),
    (
        "measure",
        "text",
        "what got worse. query: duration_ms; join: spill_bytes, output_ratio (rows out per row of the larger side);"
        " shuffle: bytes_written, skew_ratio, fetch_wait_ms; broadcast: size_bytes, driver_ms",
    ),
    (
        "kind",
        "text",
        "plan_changed: most runs now have a plan that was rare; data_grew: the input grew about as much;"
        " same_plan: neither explains it",
    ),
    ("baseline", "double precision", "median of the measure over the runs before the window"),
    (
        "baseline_spread",
        "double precision",
        "their median distance from it, times 1.4826: as much as a standard deviation",
    ),
    ("baseline_runs_found", "bigint", "how many runs that is"),
    ("alarm_above", "double precision", "what the current value had to exceed: the baseline by each of the thresholds"),
    ("current", "double precision", "median of the measure over the last runs"),
    ("factor", "double precision", "current / baseline; NULL if the baseline is 0"),
    (
        "data_factor",
        "double precision",
        "the same of what goes in: input bytes of the query (shuffled bytes where it reads none), rows of the operator",
    ),
    ("baseline_plan_fingerprint", "text", "the plan that most runs of the baseline had"),
    ("plan_fingerprint", "text", "the plan that most of the last runs had"),
    ("first_bad_at", "timestamptz", "start of the first run of the window from which on it is worse"),
    ("bad_runs", "bigint", "runs since then, that one included"),
    ("cost_ms", "bigint", "time that the query took in these runs beyond its median of the baseline, milliseconds"),
    ("baseline_started_at", "timestamptz", "key of a typical run of the baseline, to compare with"),
    ("baseline_application_id", "text", "the same"),
    ("baseline_attempt_id", "text", "the same"),
    ("baseline_execution_id", "bigint", "the same"),
    ("started_at", "timestamptz", "key of a typical run as they are now"),
    ("application_id", "text", "the same"),
    ("attempt_id", "text", "the same"),
    ("execution_id", "bigint", "the same"),
)
FUNCTION = "joinsight_regressions(timestamptz, integer, integer, integer, double precision, double precision)"
COMMENTS = {
    "FUNCTION joinsight_measures(timestamptz, text, text, bigint)": "What joinsight_regressions compares of an execution's operators. Internal: it may change.",
    f"FUNCTION {FUNCTION}": "Queries and operators whose last runs since a time are worse than those before. baseline_runs: runs to compare with; minimum_runs: fewer say nothing; recent_runs: last runs that count; mads, minimum_change: both must be exceeded. docs/regressions.md",
    "VIEW v_regressions": "What is worse in the last 7 days than before: joinsight_regressions(now() - interval '7 days').",
    **{f"COLUMN v_regressions.{name}": comment for name, _, comment in COLUMNS},
}


# What the function reads of runs, without their rows, which are wide
COMPARABLE = "ix_execution_comparable"
INCLUDED = (
    *("job_name", "origin", "application_id", "attempt_id", "execution_id", "plan_fingerprint"),
    *("duration_ms", "input_bytes", "shuffle_write_bytes"),
)


def upgrade() -> None:
    op.create_index(
        COMPARABLE,
        "execution",
        ["query_shape", "started_at"],
        postgresql_include=INCLUDED,
        postgresql_where=sa.text("state = 'succeeded' AND incomplete IS NULL"),
    )
    op.execute(MEASURES)
    op.execute(REGRESSIONS.replace("{columns}", ", ".join(f"{name} {kind}" for name, kind, _ in COLUMNS)))
    op.execute("CREATE VIEW v_regressions AS SELECT * FROM joinsight_regressions(now() - interval '7 days')")
    for what, comment in COMMENTS.items():
        quoted = comment.replace("'", "''")
        op.execute(f"COMMENT ON {what} IS '{quoted}'")


def downgrade() -> None:
    op.execute("DROP VIEW v_regressions")
    op.execute(f"DROP FUNCTION {FUNCTION}")
    op.execute("DROP FUNCTION joinsight_measures(timestamptz, text, text, bigint)")
    op.drop_index(COMPARABLE, table_name="execution")
