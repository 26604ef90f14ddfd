"""History and regressions: what became worse, since when and why, and one query's runs over time."""

from __future__ import annotations

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import HIDDEN, KEY, LAST, LAST_RUN, RUNS, Column
from dashboards.links import of_row, to, to_query
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Panel, dashboard, number, rows, series
from dashboards.sql import (
    EXECUTION_KEY,
    FIRST_THIRD,
    HERE,
    JOB,
    LAST_THIRD,
    LATEST,
    PERIOD,
    QUERY_TITLE,
    TAGGED_APPLICATION,
    TIME,
    TITLE,
    first_fifty,
    in_words,
)
from dashboards.style import WARNING

WORSE = f"FROM joinsight_regressions(joinsight_window($__timeFrom())) WHERE {JOB} AND {TAGGED_APPLICATION}"
SHAPE = "('${query_shape}' = '' OR query_shape = '${query_shape}')"
OF_QUERY = f"{HERE} AND {SHAPE}"
RUNS_OF_QUERY = f"FROM execution {OF_QUERY}"
DONE = f"{OF_QUERY} AND state = 'succeeded'"
CAUSES = f"FROM (SELECT * {RUNS_OF_QUERY}) AS slow JOIN cause USING ({EXECUTION_KEY}) WHERE {TIME} AND code <> 'normal'"
JOB_COLUMN = Column("Job", links=[to("Only this job", "history", of_row(job="job_name"))], width=210)
ONLY_THIS = to("Only this query", "history", of_row(job="job_name", query_shape="query_shape"))


def history() -> dashboard.Dashboard:
    """For a weekly review, and to find out since when something is slow."""
    return page(
        "history",
        "Joinsight: History and regressions",
        "What became worse since the time range began, why and since when; and how queries have developed over time."
        " Regressions compare the last runs in the range with those before it.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("query_shape", "Query", "A query_shape; links fill it. Empty: all."),
        ],
        [
            ("What became worse?", [*_numbers(), REGRESSIONS, ALARMS, CAUSES_PANEL, CAUSES_OVER_TIME]),
            ("What will break?", [FORECASTS]),
            ("Queries", [QUERIES]),
            ("The chosen query or job over time", [DURATIONS, INPUT, PLANS, STATES, OPERATORS]),
        ],
        annotations=[failures(RUNS_OF_QUERY), plan_changes(RUNS_OF_QUERY), deployments()],
    )


def _numbers() -> list[Panel]:
    def count(kind: str, description: str) -> Panel:
        words = kind.replace("_", " ")
        return number(
            f"Slower: {words}",
            description,
            f"SELECT count(*) AS queries {WORSE} AND subject = 'query' AND kind = '{kind}'",
            levels={1: WARNING},
            span=6,
        )

    return [
        count(
            "plan_changed",
            "Queries that are slower and most of whose last runs have a plan that was rare before. Open the run now and"
            " the run before and compare: a join that changed its strategy, a broadcast that is gone.",
        ),
        count(
            "data_grew",
            "Queries that are slower because there is about as much more data. Nothing is broken; see whether it has to"
            " grow like this.",
        ),
        count(
            "same_plan",
            "Queries that are slower with the plan and the data of before: the cluster, another user, a skew, a disk.",
        ),
        number(
            "Cost of it",
            "Time that queries took longer than their median before, summed over the runs since they became slower.",
            f"SELECT coalesce(sum(cost_ms), 0)::bigint AS cost_ms {WORSE} AND subject = 'query'",
            "ms",
            span=6,
        ),
    ]


def _of_measure(column: str) -> str:
    return f"""CASE measure WHEN 'duration_ms' THEN round({column}::numeric / 1000, 1) || ' s'
                    ELSE round({column}::numeric * 100) || ' %' END"""


def _of_kind(column: str) -> str:
    return f"""CASE kind WHEN 'shuffle_partitions' THEN round({column})::text
                    ELSE pg_size_pretty({column}::bigint) END"""


def _in_unit(column: str) -> str:
    return f"""CASE WHEN right(measure, 3) = '_ms' THEN round({column}::numeric / 1000, 1) || ' s'
                    WHEN measure ~ 'bytes' THEN pg_size_pretty({column}::bigint)
                    ELSE round({column}::numeric, 1) || '×' END"""


def _run_before() -> dict[str, object]:
    """A link to a run before the time range: up to 90 days, as far back as a baseline."""
    names = {name: f"baseline_{name}" for name in KEY}
    return {
        "title": "Open a typical run before",
        "url": "/d/joinsight-query?from=now-180d&to=now&${postgresql:queryparam}&${job:queryparam}&" + of_row(**names),
    }


REGRESSIONS = rows(
    "What has regressed?",
    "Each query and operator against its own past, the most costly first: the median of its last runs in the time"
    " range compared with that of the runs before. Grew is the growth of the input. Now opens a typical recent run,"
    " Before an earlier one; `joinsight diff` compares them side by side. regressions.md explains the rules.",
    f"""
    SELECT job_name, {TITLE} AS title, subject, measure, kind, {_in_unit("baseline")} AS before,
        {_in_unit("current")} AS now, factor, data_factor,
        first_bad_at, bad_runs, cost_ms, query_shape, application_id, attempt_id, execution_id,
        baseline_application_id, baseline_attempt_id, baseline_execution_id
    {WORSE}
    ORDER BY cost_ms DESC, job_name, query_shape, subject <> 'query', factor DESC LIMIT 100
    """,
    {
        "job_name": JOB_COLUMN,
        "title": Column("Query", links=[ONLY_THIS]),
        "subject": Column("Of", width=85),
        "measure": Column("Measure", width=110),
        "kind": Column("Why", coloured="reasons", width=105),
        "before": Column("Before", links=[_run_before()], width=85),
        "now": Column("Now", links=[to_query()], width=85),
        "factor": Column("Factor", "x", width=75),
        "data_factor": Column("Grew", "x", width=75),
        "first_bad_at": Column("Since", "dateTimeAsIso", width=165),
        "bad_runs": Column("Runs since", "short", width=85),
        "cost_ms": Column("Cost", "ms", bar=True, width=150),
        "query_shape": HIDDEN,
        **KEY,
        **{f"baseline_{name}": HIDDEN for name in KEY},
    },
    height=10,
)

ALARMS = rows(
    "What is certain?",
    "Regressions that are no chance, by the rate of false alarms that is set, and open or over in the time range:"
    " slower, or failing or cancelled more often. Open ones first. Before and now are the median duration, or the"
    " share of runs. regressions.md explains the evidence.",
    f"""
    SELECT job_name, coalesce(title, 'query ' || left(query_shape, 8)) AS title, measure, kind,
        causes -> 0 ->> 'code' AS cause, {_of_measure("before")} AS before, {_of_measure("after")} AS now,
        since, raised_at, coalesce(outcome, 'open') AS outcome, query_shape, application_id,
        attempt_id, execution_id
    FROM alarm
    WHERE {JOB} AND {TAGGED_APPLICATION} AND (closed_at IS NULL OR $__timeFilter(closed_at))
    ORDER BY closed_at IS NOT NULL, raised_at DESC LIMIT 100
    """,
    {
        "job_name": JOB_COLUMN,
        "title": Column("Query", links=[ONLY_THIS]),
        "measure": Column("Measure", width=110),
        "kind": Column("Why", coloured="reasons", width=105),
        "cause": Column("First cause", width=110),
        "before": Column("Before", width=85),
        "now": Column("Now", links=[to_query()], width=85),
        "since": Column("Since", "dateTimeAsIso", width=165),
        "raised_at": Column("Certain", "dateTimeAsIso", width=165),
        "outcome": Column("Outcome", width=100),
        "query_shape": HIDDEN,
        **KEY,
    },
)

FORECASTS = rows(
    "What will reach a limit?",
    "Numbers of operators that grow: a broadcast that will pass its threshold or Spark's limit, a join that will"
    " spill, a shuffle that will have more than 2,000 partitions. When it does if it grows as before, and when at"
    " the earliest. alerts.md explains each.",
    f"""
    SELECT job_name, coalesce(title, 'query ' || left(query_shape, 8)) AS title,
        replace(kind, '_', ' ') AS what, operator_key, {_of_kind("current")} AS now,
        {_of_kind("limit_value")} AS limit_value, growth_a_day, reaches_at, earliest_at,
        query_shape, application_id, attempt_id, execution_id
    FROM forecast
    WHERE {JOB} AND {TAGGED_APPLICATION} AND computed_at = (SELECT max(computed_at) FROM forecast)
    ORDER BY reaches_at LIMIT 100
    """,
    {
        "job_name": JOB_COLUMN,
        "title": Column("Query", links=[ONLY_THIS]),
        "what": Column("What", width=150),
        "operator_key": Column("Operator", width=150),
        "now": Column("Now", links=[to_query()], width=85),
        "limit_value": Column("Limit", width=85),
        "growth_a_day": Column("Growth a day", "percentunit", width=110),
        "reaches_at": Column("Reaches it", "dateTimeAsIso", width=165),
        "earliest_at": Column("Earliest", "dateTimeAsIso", width=165),
        "query_shape": HIDDEN,
        **KEY,
    },
)

CAUSES_PANEL = rows(
    "Why did runs take longer?",
    "Time that runs took longer than the typical run before, by its cause: `joinsight why` for each run that took"
    " 15 % longer than usual. Below 0: less of it made runs shorter. The last run is an example. why.md explains"
    " the causes.",
    f"""
    SELECT job_name, code, count(*) AS runs, sum(wall_ms)::bigint AS wall_ms, {LATEST}
    {CAUSES}
    GROUP BY job_name, code ORDER BY sum(wall_ms) DESC LIMIT 100
    """,
    {
        "job_name": JOB_COLUMN,
        "code": Column("Cause", width=120),
        "runs": RUNS,
        "wall_ms": Column("Longer", "ms", bar=True, width=140),
        **LAST,
    },
    span=14,
)

CAUSES_OVER_TIME = series(
    "Causes over time",
    "The same by when the runs started. A cause that appears on one day is a change of that day; look for a"
    " deployment.",
    f"""
    SELECT {PERIOD}, code AS metric, sum(greatest(wall_ms, 0))::bigint AS wall_ms
    {CAUSES}
    GROUP BY time, metric ORDER BY time, metric
    """,
    "ms",
    Drawn(interval="1h"),
    span=10,
    height=9,
)

QUERIES = rows(
    "Which queries take longest, and how have they changed?",
    "Queries by the time of all their runs that succeeded. Median before and now are of the first and the last"
    " third of the time range. Several plans mean that its data is near the limit of some decision. The query"
    " limits the panels below to it.",
    f"""
    SELECT job_name, query_shape, title, runs, total_ms, median_before, median_now,
        median_now / nullif(median_before, 0) AS factor, plans, last_run,
        application_id, attempt_id, execution_id
    FROM (
        SELECT job_name, query_shape, {QUERY_TITLE} AS title, count(*) AS runs,
            sum(duration_ms)::bigint AS total_ms, count(DISTINCT plan_fingerprint) AS plans,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE {FIRST_THIRD})
                AS median_before,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE {LAST_THIRD})
                AS median_now, {LATEST}
        FROM execution {DONE}
        GROUP BY job_name, query_shape
    ) AS queries
    ORDER BY total_ms DESC LIMIT 100
    """,
    {
        "job_name": JOB_COLUMN,
        "query_shape": HIDDEN,
        "title": Column("Query", links=[ONLY_THIS]),
        "runs": RUNS,
        "total_ms": Column("Time of all runs", "ms", bar=True, width=190),
        "median_before": Column("Median before", "ms", width=110),
        "median_now": Column("Median now", "ms", width=100),
        "factor": Column("Factor", "x", width=75),
        "plans": Column("Plans", "short", width=65),
        "last_run": LAST_RUN,
        **KEY,
    },
)

DURATIONS = series(
    "Duration",
    "Median, 95th percentile and longest of the runs that succeeded, by when they started. Of all queries it is a"
    " mixture; choose one above. If the input grows alike, it simply has more to do.",
    f"""
    SELECT {PERIOD}, percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) AS median,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) AS p95, max(duration_ms) AS largest
    FROM execution {DONE} AND duration_ms IS NOT NULL
    GROUP BY time ORDER BY time
    """,
    "ms",
    Drawn(bars=False, stacked=False, named=("median", "p95", "largest"), interval="1h"),
)

INPUT = series(
    "Bytes of a run",
    "What a run read, shuffled, broadcast and spilled on average. More shuffled with the same input means that the"
    " plan changed; more of everything means more data.",
    f"""
    SELECT {PERIOD}, avg(input_bytes)::bigint AS "read by tasks",
        avg(shuffle_write_bytes)::bigint AS "shuffle written", avg(broadcast_bytes)::bigint AS broadcast,
        avg(disk_spilled_bytes)::bigint AS "spilled to disk"
    FROM execution {DONE}
    GROUP BY time ORDER BY time
    """,
    "bytes",
    Drawn(
        bars=False,
        stacked=False,
        named=("read by tasks", "shuffle written", "broadcast", "spilled to disk"),
        interval="1h",
    ),
)

PLANS = series(
    "Runs by plan",
    "How many runs had which plan, of the ten most frequent (the first digits of plan_fingerprint). One colour that"
    " gives way to another is the day on which the plan changed. Choose a query first.",
    f"""
    WITH found AS (
        SELECT {PERIOD}, left(plan_fingerprint, 8) AS metric, count(*) AS value
        FROM execution {DONE} AND plan_fingerprint IS NOT NULL GROUP BY time, metric
    )
    SELECT time, metric, value FROM found
    WHERE metric IN (SELECT metric FROM found GROUP BY metric ORDER BY sum(value) DESC LIMIT 10)
    ORDER BY time, metric
    """,
    "short",
    Drawn(interval="1h"),
)

STATES = series(
    "Runs by state",
    "How the runs ended. Failures do not count in durations and regressions: a query that only fails is not slower.",
    f"""
    SELECT {PERIOD}, state AS metric, count(*) AS executions FROM execution {OF_QUERY}
    GROUP BY time, metric ORDER BY time, metric
    """,
    "short",
    Drawn(named=("succeeded", "failed", "cancelled", "lost", "running"), interval="1h"),
)

OPERATORS = rows(
    "How have its joins changed?",
    "Each join of the chosen query or job, mean rows and spill of the first and the last third of the time range,"
    " and its strategies. The join leads to all its runs on Joins and AQE.",
    first_fifty(
        f"""
        SELECT job_name, operator_key, {in_words("min(left_keys)")} AS keys,
            string_agg(DISTINCT strategy, ', ') AS strategies, count(*) AS runs,
            avg(output_rows) FILTER (WHERE {FIRST_THIRD})::bigint AS rows_before,
            avg(output_rows) FILTER (WHERE {LAST_THIRD})::bigint AS rows_now,
            avg(spill_bytes) FILTER (WHERE {FIRST_THIRD})::bigint AS spill_before,
            avg(spill_bytes) FILTER (WHERE {LAST_THIRD})::bigint AS spill_now, max(started_at) AS last_run
        FROM v_joins {DONE}
        GROUP BY job_name, operator_key
        """,
        "abs(ln(greatest(rows_now, 1)::float8 / greatest(rows_before, 1))) DESC NULLS LAST",
        of="v_joins",
    ),
    {
        "job_name": JOB_COLUMN,
        "operator_key": Column(
            "Join", links=[to("All its runs", "joins", of_row(job="job_name", operator="operator_key"))], width=150
        ),
        "keys": Column("On"),
        "strategies": Column("Strategies"),
        "runs": RUNS,
        "rows_before": Column("Rows before", "short", width=100),
        "rows_now": Column("Rows now", "short", width=95),
        "spill_before": Column("Spill before", "bytes", width=100),
        "spill_now": Column("Spill now", "bytes", width=95),
        **LAST,
    },
)
