"""Roll-ups: totals of days, and baselines, which joinsight_regressions takes where there are some of its moment."""

from __future__ import annotations

from types import ModuleType

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

WINDOW = """
CREATE FUNCTION joinsight_window(since timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(as_of), since) FROM baseline WHERE as_of <= since AND as_of > since - interval '1 day'
$$
"""
# As in 0008, but for `stored`, and what is taken from there
REGRESSIONS = """
CREATE OR REPLACE FUNCTION joinsight_regressions(
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

-- What `joinsight rollup` has stored of the time before the window, if it is of just this moment
), stored AS MATERIALIZED (
    SELECT ran.query, b.*
    FROM ran JOIN baseline b ON b.job_name = ran.job_name AND b.query_shape = ran.query_shape AND b.origin = ran.origin
    WHERE b.as_of = since AND baseline_runs = 20 AND minimum_runs >= 5

-- The last runs of queries, and those before the window where nothing is stored: as many as wanted, or as many spread over a day and over a week
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
    WHERE (period.is_recent OR ran.query NOT IN (SELECT s.query FROM stored s))
        AND r.number * period.wanted / r.found > (r.number - 1) * period.wanted / r.found
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
    SELECT u.query, u.subject, u.operator_key, m.number, m.measure, m.at_least, b.runs, b.baseline, v.current
    FROM usual u
    CROSS JOIN LATERAL (VALUES
        (1, u.runs_1, u.recent_1, u.baseline_1, u.current_1),
        (2, u.runs_2, u.recent_2, u.baseline_2, u.current_2),
        (3, u.runs_3, u.recent_3, u.baseline_3, u.current_3)
    ) AS v (number, runs, recent, baseline, current)
    JOIN measured m ON m.subject = u.subject AND m.number = v.number
    LEFT JOIN stored s ON s.query = u.query AND s.operator_key = u.operator_key AND s.measure = m.measure
    CROSS JOIN LATERAL (SELECT coalesce(s.runs, v.runs) AS runs, coalesce(s.median, v.baseline) AS baseline) AS b
    WHERE b.runs >= minimum_runs AND v.recent >= least_recent
        AND v.current >= b.baseline * (1 + minimum_change) AND v.current >= b.baseline + m.at_least

-- More than the scatter of the usual runs, which few of them tell less well
), scattered AS (
    SELECT c.query, c.subject, c.operator_key, c.number, c.measure, c.at_least, c.runs, c.baseline, c.current,
        coalesce(min(s.spread), 1.4826 * percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(o.value - c.baseline))
            FILTER (WHERE NOT o.is_recent)) AS spread,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE o.is_recent)
            / nullif(coalesce(min(s.data),
                percentile_cont(0.5) WITHIN GROUP (ORDER BY o.data) FILTER (WHERE NOT o.is_recent)), 0) AS data_factor,
        (array_agg(o.run ORDER BY abs(o.value - c.baseline), o.run) FILTER (WHERE NOT o.is_recent))[1] AS usual_run,
        (array_agg(o.run ORDER BY abs(o.value - c.current), o.run) FILTER (WHERE o.is_recent))[1] AS recent_run
    FROM candidate c JOIN (
        SELECT o.run, o.query, o.operator_key, o.is_recent, o.data, v.number, v.value
        FROM observed o CROSS JOIN LATERAL (VALUES (1, o.first), (2, o.second), (3, o.third)) AS v (number, value)
        WHERE o.query IN (SELECT c.query FROM candidate c) AND v.value IS NOT NULL
    ) AS o ON o.query = c.query AND o.operator_key = c.operator_key AND o.number = c.number
    LEFT JOIN stored s ON s.query = c.query AND s.operator_key = c.operator_key AND s.measure = c.measure
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
        greatest(0, sum(a.duration_ms - coalesce(s.median, u.baseline_1))) AS cost_ms
    FROM since_when w
    JOIN usual u ON u.query = w.query AND u.operator_key = ''
    LEFT JOIN stored s ON s.query = w.query AND s.operator_key = ''
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
    coalesce(s.started_at, before.started_at), coalesce(s.application_id, before.application_id),
    coalesce(s.attempt_id, before.attempt_id), coalesce(s.execution_id, before.execution_id),
    latest.started_at, latest.application_id, latest.attempt_id, latest.execution_id
FROM found f
JOIN ran ON ran.query = f.query
JOIN plan p ON p.query = f.query
JOIN since_when w ON w.query = f.query AND w.operator_key = f.operator_key AND w.number = f.number
JOIN cost c ON c.query = f.query AND c.operator_key = f.operator_key AND c.number = f.number
JOIN run latest ON latest.run = f.recent_run
LEFT JOIN run before ON before.run = f.usual_run
LEFT JOIN stored s ON s.query = f.query AND s.operator_key = f.operator_key AND s.measure = f.measure
;
END
$$
"""
VIEW = "CREATE OR REPLACE VIEW v_regressions AS SELECT * FROM joinsight_regressions({})"
COMMENTS = {
    "FUNCTION joinsight_window(timestamptz)": "When a window that shall begin at a time had best begin: at the latest baselines of the day before, if there are any.",
    "VIEW v_regressions": "What is worse in the last 7 days than before: joinsight_regressions(now() - interval '7 days'), and up to a day longer where there are baselines.",
}


def before() -> ModuleType:
    """The migration that has the function as it was."""
    scripts = op.get_context().script
    assert scripts is not None
    module: ModuleType = scripts.get_revision("0008").module
    return module


def regressions(definition: str) -> str:
    """With its columns, which stay as they are."""
    return definition.replace("{columns}", ", ".join(f"{name} {kind}" for name, kind, _ in before().COLUMNS))


def upgrade() -> None:
    op.create_table(
        "rollup_day",
        sa.Column("day", sa.Date(), nullable=False, comment="the day, of UTC, on which they started"),
        sa.Column("job_name", sa.Text(), nullable=False, comment="the job"),
        sa.Column("query_shape", sa.Text(), nullable=False, comment="the query; empty: executions without a plan"),
        sa.Column("origin", sa.Text(), nullable=False, comment="live (listener) or event_log (backfill)"),
        sa.Column(
            "description", sa.Text(), nullable=False, comment="the description of one of them, its first 200 characters"
        ),
        sa.Column("executions", sa.BigInteger(), nullable=False, comment="executions that started"),
        sa.Column("succeeded", sa.BigInteger(), nullable=False, comment="of these, those that succeeded"),
        sa.Column("failed", sa.BigInteger(), nullable=False, comment="those that failed"),
        sa.Column("lost", sa.BigInteger(), nullable=False, comment="those whose driver was lost"),
        sa.Column("incomplete", sa.BigInteger(), nullable=False, comment="those whose numbers may be partial"),
        sa.Column(
            "plans", sa.BigInteger(), nullable=False, comment="different final plans (plan_fingerprint) that they had"
        ),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True, comment="from start to end, summed, milliseconds"),
        sa.Column(
            "duration_ms_median",
            sa.Double(),
            nullable=True,
            comment="median duration of those that succeeded, milliseconds",
        ),
        sa.Column(
            "duration_ms_max",
            sa.BigInteger(),
            nullable=True,
            comment="longest duration of those that succeeded, milliseconds",
        ),
        sa.Column("tasks", sa.BigInteger(), nullable=True, comment="tasks that succeeded"),
        sa.Column("task_time_ms", sa.BigInteger(), nullable=True, comment="run time of all tasks, milliseconds"),
        sa.Column("input_bytes", sa.BigInteger(), nullable=True, comment="bytes read from sources"),
        sa.Column("output_bytes", sa.BigInteger(), nullable=True, comment="bytes written to sinks"),
        sa.Column("shuffle_write_bytes", sa.BigInteger(), nullable=True, comment="bytes written for shuffles"),
        sa.Column("shuffle_read_bytes", sa.BigInteger(), nullable=True, comment="bytes read from shuffles"),
        sa.Column("broadcast_bytes", sa.BigInteger(), nullable=True, comment="bytes broadcast"),
        sa.Column("disk_spilled_bytes", sa.BigInteger(), nullable=True, comment="bytes written to disk by spilling"),
        sa.Column(
            "newest_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the newest row of `execution` that is counted here was written",
        ),
        sa.PrimaryKeyConstraint("day", "job_name", "query_shape", "origin", name=op.f("pk_rollup_day")),
        comment="What the executions of a query in a job came to in a day; `joinsight rollup` writes it.",
    )
    op.create_index(op.f("ix_rollup_day_job_name_day"), "rollup_day", ["job_name", "day"])
    op.create_index(op.f("ix_rollup_day_query_shape_day"), "rollup_day", ["query_shape", "day"])
    op.create_table(
        "rollup_operator_day",
        sa.Column("day", sa.Date(), nullable=False, comment="the day, of UTC, on which their executions started"),
        sa.Column("job_name", sa.Text(), nullable=False, comment="the job"),
        sa.Column("operator_key", sa.Text(), nullable=False, comment="the operator"),
        sa.Column("origin", sa.Text(), nullable=False, comment="live (listener) or event_log (backfill)"),
        sa.Column("subject", sa.Text(), nullable=False, comment="join, shuffle or broadcast"),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="how often it is in a final plan"),
        sa.Column(
            "rows",
            sa.BigInteger(),
            nullable=True,
            comment="join: rows out; shuffle: rows written; broadcast: rows; summed",
        ),
        sa.Column(
            "bytes",
            sa.BigInteger(),
            nullable=True,
            comment="join: bytes in from both sides; shuffle: bytes written; broadcast: size in memory; summed",
        ),
        sa.Column("largest_bytes", sa.BigInteger(), nullable=True, comment="the same of the largest run"),
        sa.Column(
            "time_ms",
            sa.BigInteger(),
            nullable=True,
            comment="join: sort_ms and build_ms; shuffle: write time and fetch wait; broadcast: driver_ms; summed, milliseconds",
        ),
        sa.Column("spill_bytes", sa.BigInteger(), nullable=True, comment="bytes that joins spilled; NULL for others"),
        sa.Column(
            "skew_ratio", sa.Double(), nullable=True, comment="the largest skew_ratio of shuffles; NULL for others"
        ),
        sa.Column(
            "strategies",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="strategies of joins, by alphabet; NULL for others",
        ),
        sa.PrimaryKeyConstraint("day", "job_name", "operator_key", "origin", name=op.f("pk_rollup_operator_day")),
        comment="What the runs of an operator in a job came to in a day; `joinsight rollup` writes it.",
    )
    op.create_index(op.f("ix_rollup_operator_day_operator_key_day"), "rollup_operator_day", ["operator_key", "day"])
    op.create_table(
        "baseline",
        sa.Column(
            "as_of",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="runs before then are counted: a midnight of UTC",
        ),
        sa.Column("job_name", sa.Text(), nullable=False, comment="the job"),
        sa.Column("query_shape", sa.Text(), nullable=False, comment="the query"),
        sa.Column("origin", sa.Text(), nullable=False, comment="live (listener) or event_log (backfill)"),
        sa.Column("operator_key", sa.Text(), nullable=False, comment="the operator; empty: the query as a whole"),
        sa.Column("measure", sa.Text(), nullable=False, comment="as in v_regressions: duration_ms, spill_bytes, ..."),
        sa.Column("subject", sa.Text(), nullable=False, comment="query, join, shuffle or broadcast"),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="in how many of the last 20 runs it was measured"),
        sa.Column("median", sa.Double(), nullable=False, comment="its median over these"),
        sa.Column(
            "spread",
            sa.Double(),
            nullable=False,
            comment="their median distance from it, times 1.4826: as much as a standard deviation",
        ),
        sa.Column(
            "data",
            sa.Double(),
            nullable=True,
            comment="the median of what goes in: input bytes of the query, rows of the operator",
        ),
        sa.Column(
            "plan_fingerprints",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="of the query: the plan of each of these runs; NULL for operators",
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False, comment="key of a typical run"),
        sa.Column("application_id", sa.Text(), nullable=False, comment="the same"),
        sa.Column("attempt_id", sa.Text(), nullable=False, comment="the same"),
        sa.Column("execution_id", sa.BigInteger(), nullable=False, comment="the same"),
        sa.PrimaryKeyConstraint(
            "as_of", "job_name", "query_shape", "origin", "operator_key", "measure", name=op.f("pk_baseline")
        ),
        comment="What is usual of a query or an operator, as joinsight_regressions defines it; `joinsight rollup` writes it.",
    )

    op.execute(WINDOW)
    op.execute(regressions(REGRESSIONS))
    op.execute(VIEW.format("joinsight_window(now() - interval '7 days')"))
    for what, comment in COMMENTS.items():
        quoted = comment.replace("'", "''")
        op.execute(f"COMMENT ON {what} IS '{quoted}'")


def downgrade() -> None:
    op.execute(VIEW.format("now() - interval '7 days'"))
    op.execute(
        "COMMENT ON VIEW v_regressions IS '{}'".format(before().COMMENTS["VIEW v_regressions"].replace("'", "''"))
    )
    op.execute(regressions(before().REGRESSIONS).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    op.execute("DROP FUNCTION joinsight_window")
    op.drop_table("baseline")
    op.drop_table("rollup_operator_day")
    op.drop_table("rollup_day")
