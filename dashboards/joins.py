"""Joins and AQE: strategies, what could be better, and what AQE decided while queries ran."""

from __future__ import annotations

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import LAST, RUNS, Column, of_job, of_operator
from dashboards.limits import EXPLODING, MANY_PAIRS, PAIRS, PAIRWISE
from dashboards.limits import in_words as limit
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Sql, dashboard, number, rows, series
from dashboards.sql import EXECUTION_KEY, LATEST, OF_OPERATORS, PERIOD, first_fifty, in_words
from dashboards.style import BAD, GROUPS, WARNING
from joinsight.plan.operators import BROADCAST_HASH_JOIN

OPERATOR = of_operator("join", "joins")
JOB = of_job("joins")
STRATEGIES = tuple(GROUPS["strategies"])
DECISIONS = tuple(GROUPS["decisions"])
DECIDED = f"FROM aqe_decision JOIN execution USING ({EXECUTION_KEY}) {OF_OPERATORS}"


def joins() -> dashboard.Dashboard:
    """A row of numbers, two charts, and the queries of docs/sql.md on joins and AQE."""
    return page(
        "joins",
        "Joinsight: Joins and AQE",
        "Which strategies joins use, which joins could be better, and what adaptive execution decided.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("operator", "Operator", "An operator_key; links fill it. Empty: all."),
        ],
        [
            ("All joins", [*NUMBERS, STRATEGIES_PANEL, DECISIONS_PANEL]),
            ("Which joins?", [FLIPPED, MISSED, MULTIPLYING, SPILLING]),
            ("Adaptive execution", [KINDS, LATE]),
        ],
        annotations=[failures(), plan_changes(is_on=False), deployments()],
    )


def _of(what: str, condition: str = "") -> Sql:
    return Sql(f"SELECT {what} FROM v_joins {OF_OPERATORS} {condition}")


NUMBERS = [
    number(
        "Changed strategy",
        "Joins that succeeded with more than one strategy in the time range. A side that grew past the threshold is"
        " the usual reason; the table below shows both strategies.",
        f"""
        SELECT count(*) AS operators FROM (
            SELECT FROM v_joins {OF_OPERATORS} AND state = 'succeeded'
            GROUP BY job_name, operator_key HAVING count(DISTINCT strategy) > 1
        ) AS flipped
        """,
        levels={1: WARNING},
        span=6,
    ),
    number(
        "Could have been broadcast",
        "Joins that shuffled both sides although the measured size of one was under the broadcast threshold. A"
        " hint or fresh statistics would save the shuffles. Joins whose strategy a hint set do not count.",
        _of("count(DISTINCT operator_key) AS operators", "AND broadcast_verdict = 'possible'"),
        levels={1: WARNING},
        span=6,
    ),
    number(
        "Compare all pairs",
        "Joins without an equality that compare every row with every other, from"
        f" {limit('nested_loop_pairs')} pairs on.",
        _of("count(DISTINCT operator_key) AS operators", f"AND {MANY_PAIRS}"),
        levels={1: BAD},
        span=6,
    ),
    number(
        "Spilled",
        "Bytes that joins and the sorts below them spilled for lack of memory, by size in memory; fewer on disk.",
        _of("coalesce(sum(spill_bytes), 0)::bigint AS spill_bytes"),
        "bytes",
        span=6,
    ),
]

STRATEGIES_PANEL = series(
    "Joins by strategy",
    "How many joins ran, by strategy and by when their executions started. A changed global setting shows here"
    " first. Purple is broadcast, orange sort-merge; red compares all pairs.",
    f"""
    SELECT {PERIOD}, strategy AS metric, count(*) AS joins FROM v_joins {OF_OPERATORS}
    GROUP BY time, metric ORDER BY time, metric
    """,
    "short",
    Drawn(named=STRATEGIES),
)

DECISIONS_PANEL = series(
    "Decisions of AQE",
    "Changes by adaptive execution to running queries, by kind: aqe.md explains each. Red, dropped_stage, is"
    " discarded work. No bars at all: AQE is off, or had nothing to do.",
    f"""
    SELECT {PERIOD}, kind AS metric, count(*) AS decisions {DECIDED}
    GROUP BY time, metric ORDER BY time, metric
    """,
    "short",
    Drawn(named=DECISIONS),
)

FLIPPED = rows(
    "Which changed their strategy?",
    "Joins that succeeded with more than one strategy in the time range, with the largest side that was or could"
    " have been broadcast, and the threshold. operator_key does not depend on the strategy.",
    first_fifty(
        f"""
        SELECT job_name, operator_key, (array_agg(strategy ORDER BY started_at))[1] AS first_strategy,
            (array_agg(strategy ORDER BY started_at DESC))[1] AS last_strategy, count(*) AS runs,
            max(broadcast_side_bytes) FILTER (WHERE broadcast_verdict <> 'was_broadcast') AS side_bytes,
            max(threshold_bytes) AS threshold_bytes, max(started_at) AS last_run
        FROM v_joins {OF_OPERATORS} AND state = 'succeeded'
        GROUP BY job_name, operator_key HAVING count(DISTINCT strategy) > 1
        """,
        "last_run DESC",
        of="v_joins",
    ),
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "first_strategy": Column("First", coloured="strategies"),
        "last_strategy": Column("Now", coloured="strategies"),
        "runs": RUNS,
        "side_bytes": Column("Side when shuffled", "bytes", width=150),
        "threshold_bytes": Column("Threshold", "bytes", width=90),
        **LAST,
    },
)

MISSED = rows(
    "Which could have been broadcast?",
    "Spark learned the size of a side too late: both were already shuffled. Give that side the hint BROADCAST, or"
    " run ANALYZE TABLE on its tables.",
    f"""
    SELECT job_name, operator_key, min(strategy) AS strategy, min(join_type) AS join_type,
        min(broadcast_side) AS side, count(*) AS runs, max(broadcast_side_bytes) AS side_bytes,
        max(threshold_bytes) AS threshold_bytes,
        sum(left_bytes + right_bytes)::bigint AS shuffled_bytes, {LATEST}
    FROM v_joins {OF_OPERATORS} AND broadcast_verdict = 'possible'
    GROUP BY job_name, operator_key
    ORDER BY shuffled_bytes DESC NULLS LAST LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "strategy": Column("Strategy", coloured="strategies"),
        "join_type": Column("Type", width=100),
        "side": Column("Side", width=60),
        "runs": RUNS,
        "side_bytes": Column("Side's bytes", "bytes", width=100),
        "threshold_bytes": Column("Threshold", "bytes", width=90),
        "shuffled_bytes": Column("Shuffled for it", "bytes", width=110),
        **LAST,
    },
)

MULTIPLYING = rows(
    "Which multiply rows or compare all pairs?",
    f"{limit('exploding_ratio')} times more rows out than the larger side has, {limit('exploding_rows')} at least:"
    " keys that repeat on both sides, or a condition that is missing. Or joins without an equality, with the"
    " pairs of rows that they compare (at least, for a cartesian product): find an equality to join on.",
    f"""
    SELECT job_name, operator_key, strategy, join_type, count(*) AS runs, max(left_rows) AS left_rows,
        max(right_rows) AS right_rows, max(output_rows) AS output_rows, max(output_ratio) AS output_ratio,
        max({PAIRS}) FILTER (WHERE {PAIRWISE}) AS pairs, {LATEST}
    FROM v_joins {OF_OPERATORS} AND (
        ({EXPLODING})
        OR {PAIRWISE}
    )
    GROUP BY job_name, operator_key, strategy, join_type
    ORDER BY greatest(max(output_rows), max({PAIRS}) FILTER (WHERE {PAIRWISE})) DESC NULLS LAST LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "strategy": Column("Strategy", coloured="strategies"),
        "join_type": Column("Type", width=100),
        "runs": RUNS,
        "left_rows": Column("Left rows", "short", width=90),
        "right_rows": Column("Right rows", "short", width=90),
        "output_rows": Column("Rows out", "short", width=90),
        "output_ratio": Column("Out per row in", "x", width=110),
        "pairs": Column("Pairs", "short", width=90),
        **LAST,
    },
)

SPILLING = rows(
    "Which spill?",
    "Bytes that the join and the sorts below it spilled, by size in memory, most first. More partitions, more"
    " memory per task, or splitting a skew prevent it. The time is that of the sorts, summed over tasks.",
    f"""
    SELECT job_name, operator_key, strategy, {in_words("min(left_keys)")} AS keys, count(*) AS runs,
        sum(spill_bytes)::bigint AS spill_bytes, sum(sort_ms)::bigint AS sort_ms, {LATEST}
    FROM v_joins {OF_OPERATORS} AND spill_bytes > 0
    GROUP BY job_name, operator_key, strategy
    ORDER BY spill_bytes DESC LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "strategy": Column("Strategy", coloured="strategies"),
        "keys": Column("On"),
        "runs": RUNS,
        "spill_bytes": Column("Spilled, in memory", "bytes", bar=True, width=190),
        "sort_ms": Column("Sort time", "ms", width=90),
        **LAST,
    },
)

KINDS = rows(
    "What does AQE decide?",
    "Decisions in the time range by kind. aqe.md explains bytes before and after. A large dropped_stage is"
    " wasted work: see the table next to this.",
    f"""
    SELECT kind, count(*) AS times, count(DISTINCT job_name) AS jobs,
        sum(bytes_before)::bigint AS bytes_before, sum(bytes_after)::bigint AS bytes_after
    {DECIDED}
    GROUP BY kind
    ORDER BY times DESC
    """,
    {
        "kind": Column("Decision", coloured="decisions"),
        "times": Column("Times", "short", width=80),
        "jobs": Column("Jobs", "short", width=70),
        "bytes_before": Column("Bytes before", "bytes", width=110),
        "bytes_after": Column("Bytes after", "bytes", width=110),
    },
    span=9,
)

LATE = rows(
    "Which joins does AQE broadcast only after shuffling them?",
    "If AQE makes the same decision in every run, Spark could know it in advance. Give that side the hint"
    " BROADCAST, or run ANALYZE TABLE on its tables, to avoid the shuffles altogether.",
    f"""
    SELECT job_name, operator_key, count(*) AS runs, avg(bytes_before)::bigint AS side_bytes,
        percentile_cont(0.5) WITHIN GROUP (
            ORDER BY extract(epoch FROM decided_at - started_at)::float8
        ) AS decided_after, {LATEST}
    {DECIDED} AND kind = 'join_strategy' AND after = '{BROADCAST_HASH_JOIN}'
    GROUP BY job_name, operator_key
    ORDER BY runs DESC LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "runs": RUNS,
        "side_bytes": Column("Bytes of the side", "bytes", width=130),
        "decided_after": Column("Decided after", "s", width=110),
        **LAST,
    },
    span=15,
)
