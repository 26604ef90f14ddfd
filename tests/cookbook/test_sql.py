"""Each query in docs/sql.md runs as written there, on a history with known facts to find."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine
from tests.cookbook.planted import GB, LONG_AGO
from tests.history import END, Planted

PAGE = Path(__file__).parents[2] / "docs/sql.md"
QUESTIONS = dict(re.findall(r"^### (.*?)\n\n```sql\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
OPERATOR, SHAPE = "9cbf27f7c1d04b3e", "7f3a91c20d5be684"
MOMENT = r"(?:date_trunc\('\w+', timestamptz '[^']*'\)|timestamptz '[^']*')(?: - interval '[^']*')?"
Row = Mapping[str, Any]


def day(month: int, day: int, hour: int = 0) -> datetime:
    """A time of the year of the history."""
    return datetime(2026, month, day, hour, tzinfo=timezone.utc)


# By hand, runs are 3, 5, 9 and 25 days old; /b has other numbers than /a: see `planted.py`. Other jobs are generated.
KNOWN: Mapping[str, Sequence[Row]] = {
    "Which broadcasts come within 20 % of the threshold this month?": [
        {"job_name": "near/a", "runs": 3, "largest_bytes": 8_388_608 + 90_000, "last_run": day(11, 17, 12)},
        {"job_name": "near/b", "runs": 3, "nearest": (8_388_608 + 180_000) / 10_485_760},
    ],
    "Which joins were not broadcast, though a side was small enough?": [
        {"job_name": "explosion/a", "strategy": "SortMergeJoin", "runs": 2, "smaller_bytes": 10_000_000},
        {"job_name": "flip", "runs": 1, "threshold_bytes": 10_485_760},
    ],
    "Which broadcasts have grown most in a month?": [
        {"job_name": "orders/revenue_daily", "growth": pytest.approx(1.02**26, rel=0.05)}
    ],
    "How large has a broadcast become, month by month?": [
        {"month": day(10, 1), "runs": 11, "rows": 341_790},
        {"month": day(11, 1), "runs": 20, "largest_bytes": 13_431_464},
    ],
    "Which broadcasts failed, and why?": [
        {"job_name": "finance/invoices_daily", "started_at": day(11, number), "execution_id": 0}
        for number in (9, 10, 11)
    ],
    "Which broadcasts keep the driver busy?": [
        {"job_name": "huge/a", "runs": 2, "driver_ms": 234, "slowest_ms": 117, "collect_ms": 50, "broadcast_ms": 7}
    ],
    "Which broadcasts come near Spark's own limits?": [
        {"job_name": "huge/a", "largest_bytes": 2 * GB + 27, "most_rows": 800, "share_of_limit": pytest.approx(0.25)}
    ],
    "Which joins flipped strategy since Monday?": [
        {"job_name": "flip", "before": ["BroadcastHashJoin"], "since": ["SortMergeJoin"]}
    ],
    "How has one join developed, run after run?": [
        {"started_at": day(11, 9), "strategy": "BroadcastHashJoin", "build_side": "right", "spill_bytes": None},
        {"started_at": day(11, 10), "strategy": "SortMergeJoin", "build_side": None, "spill_bytes": 0},
    ],
    "Which strategies do joins use, week by week?": [
        {"week": day(11, 16), "strategy": "CartesianProduct", "joins": 2, "rows_out": 13 + 16},
        {"week": day(11, 9), "strategy": "CartesianProduct", "joins": 4},
    ],
    "Which joins explode?": [
        {"job_name": "explosion/a", "output_rows": 1_000_008, "output_ratio": 1_000_008 / 9_000},
        {"job_name": "explosion/b", "larger_side_rows": 9_000},
    ],
    "Which joins compare every row with every other?": [
        {"job_name": "crossed/a", "strategy": "CartesianProduct", "left_rows": 3_000, "pairs": 60_000}
    ],
    "Which joins spill most?": [
        {"job_name": "spilling/a", "runs": 2, "spill_bytes": 500 * (9 + 11), "sort_ms": 15},
        {"job_name": "supply/revenue_daily", "runs": 5},
    ],
    "What is each job's largest shuffle of the week?": [
        {"job_name": "large/a", "bytes_written": 10 * (GB + 10), "read_partitions": 10, "started_at": day(11, 15, 12)},
        {"job_name": "flip", "bytes_written": 30_000_000, "rows_written": 9_000, "keys": ["k#1"]},
    ],
    "Which shuffles are skewed?": [{"job_name": "growth/revenue_daily", "runs": 15, "skewed_since": day(11, 6)}],
    "How many bytes does each team shuffle a day?": [
        {"day": day(11, 17), "team": "by hand", "shuffle_bytes": 2 * 2_000},
        {"day": day(11, 18), "team": "by hand", "shuffle_bytes": None},
    ],
    "Which keys is data shuffled by again and again?": [
        {"shuffled_by": "k", "operators": 2, "bytes_written": 22 * 35_000_000}
    ],
    "Where do tasks wait for shuffled data?": [
        {"job_name": "waiting/a", "wait_ms": 2 * 4_000 + 7 + 9, "bytes_read": 2 * 6_000 + 16_000, "remote_share": 3 / 7}
    ],
    "Which shuffles have too small partitions?": [
        {"job_name": "waiting/a", "runs": 2, "partitions": 400, "bytes_per_partition": 20}
    ],
    "Which shuffles have too large partitions?": [
        {"job_name": "large/a", "runs": 2, "partitions": 9, "bytes_per_partition": GB + 10}
    ],
    "What did exchange reuse save?": [{"job_name": "spark-aqe-reused-joins", "reused": 4, "bytes_not_written": 58_192}],
    "What did AQE save us?": [
        {"week": day(10, 26), "read_without_network": 2 + 5},  # planted, and in the recordings
        {"week": day(11, 2), "read_without_network": 0},
    ],
    "What does AQE decide?": [{"kind": "dropped_stage", "times": 16, "jobs": 4}],
    "Which joins does AQE broadcast only after shuffling them?": [
        {"job_name": "spark-aqe-dropped-shuffle", "runs": 2, "bytes_of_the_side": 320, "decided_after_s": 0.306}
    ],
    "Where does AQE coalesce most?": [
        {"job_name": "finance/invoices_daily", "operator_key": "9099149ad2382c7d", "planned": 200, "read": 1}
    ],
    "Which queries does AQE replan most often?": [
        {"job_name": "spark-aqe-dropped-shuffle", "runs": 2, "plans": 7, "different_final_plans": 1}
    ],
    "How has a query's duration changed over the weeks?": [
        {"week": day(10, 26), "runs": 7, "median_ms": pytest.approx(220_000, rel=0.05)},
        {"week": day(11, 16), "runs": 5, "median_ms": pytest.approx(2 * 220_000, rel=0.15)},
    ],
    "Which of its plans was the fastest?": [
        {"runs": 21, "last_run": day(11, 10), "median_ms": pytest.approx(220_000, rel=0.05)},
        {"runs": 10, "first_run": day(11, 11), "median_ms": pytest.approx(2 * 220_000, rel=0.15)},
    ],
    "What changed the day it became slow?": [
        {"day": day(11, 11), "runs": 1, "times_the_day_before": pytest.approx(2, rel=0.15), "spilled_bytes": 0}
    ],
    "Which queries became slower this week?": [
        {"job_name": "risk/revenue_daily", "times_slower": pytest.approx(2.2, rel=0.1)},
        {"job_name": "logistics/revenue_daily", "times_slower": pytest.approx(2, rel=0.1)},
    ],
    "What does each job cost per week?": [
        {"week": day(10, 26), "job_name": "spilling/a", "executions": 1, "task_hours": 62_031 / 3.6e6}
    ],
    "Who runs the most expensive queries?": [
        {"user_name": "ann", "executions": 57, "most_expensive_hours": 62_016 / 3.6e6}
    ],
    "Which jobs spill most?": [
        {"job_name": "spilling/a", "executions": 2, "spilled_bytes": 5_000 * (9 + 11), "times_shuffled": 25}
    ],
    "Which hours of the week is the cluster busiest?": [{"weekday": 7, "hour": 12}],
    "What is computed more than once a day?": [
        {"day": day(11, 19), "description": "Top invoices by store", "times": 24, "jobs": 1}
    ],
    "Which tables are read most?": [{"scan": "Scan parquet spark_catalog.marketing.invoices", "reads": 24}],
    "Which stages wait for one slow task?": [
        {
            "job_name": "spilling/a",
            "stage": "save at x",
            "runs": 2,
            "slowest_task_ms": 60_011,
            "longest_wait_ms": 59_000,
        }
    ],
    "Which jobs lose time to garbage collection?": [
        {"job_name": "spilling/a", "gc_hours": 900 * 20 / 3.6e6, "gc_share": 18_000 / (2 * 62_000 + 20)}
    ],
    "How has a query developed over the year?": [
        {"month": day(10, 1), "runs": 11, "failed": 0},
        {"month": day(11, 1), "runs": 20, "failed": 0},
    ],
    "What has each job cost, month by month?": [
        {
            "month": day(10, 1),
            "job_name": "spilling/a",
            "runs": 1,
            "task_hours": 62_031 / 3.6e6,
            "shuffled_bytes": 2_000,
        },
        {"month": day(11, 1), "job_name": "spilling/a", "runs": 3, "shuffled_bytes": 6_000},
    ],
    "How has an operator grown over the year?": [
        {"month": day(10, 1), "subject": "broadcast", "runs": 11, "rows": 341_789},
        {"month": day(11, 1), "subject": "broadcast", "runs": 20, "largest_bytes": 13_431_464},
    ],
    "Which cached tables were filled, but hardly read?": [
        {"job_name": "filling/a", "first_used": day(11, 15, 12), "fill_task_ms": 40_016, "reads": 0}
    ],
    "What was found this week, and where?": [
        {"severity": "warning", "finding": "spill", "times": 5, "jobs": 1, "hours": None},
        {"severity": "warning", "finding": "skewed-shuffle", "times": 7, "jobs": 1, "bytes": None},
    ],
    "How much time is at stake by job and week?": [
        {
            **{"week": day(11, 9), "job_name": "finance/invoices_daily", "finding": "broadcast-failed"},
            **{"findings": 3, "share": 1, "is_partial": False},
        },
        {"week": day(11, 16), "job_name": "supply/revenue_daily", "finding": "spill", "findings": 5},
    ],
    "Which findings recur at the same operator?": [
        {"job_name": "growth/revenue_daily", "finding": "skewed-shuffle", "runs": 15, "first": day(11, 6)}
    ],
    "What was found this week for the first time?": [
        {"job_name": "fine, then too slow", "finding": "broadcast-failed", "first": day(11, 18, 12), "runs": 2},
        {"job_name": "supply/revenue_daily", "finding": "spill", "first": day(11, 16), "runs": 5},
    ],
    "Which numbers are partial, and why?": [
        {"job_name": "partial/a", "reason": "task_ends_not_seen", "executions": 4, "last_run": day(11, 17, 12)},
        {"job_name": "orders/invoices_daily", "reason": "driver_lost", "executions": 1},
    ],
    "Which drivers were lost?": [
        {"job_name": "lost/a", "executions": 1, "first_start": day(11, 17, 12), "task_hours": None},
        {"job_name": "orders/invoices_daily", "executions": 1, "first_start": day(11, 12)},
    ],
    "What fails, and how often?": [
        {"job_name": "failing/a", "error": "Out of memory", "failures": 4, "last_failure": day(11, 17, 12)},
        {"job_name": "flip, then failure", "error": "Boom", "failures": 1},
    ],
}
"""Columns of rows that must be found, to each question. A midnight is any time of its day."""

ONLY = {
    "Which broadcasts come within 20 % of the threshold this month?": {"near/a", "near/b"},
    "Which broadcasts failed, and why?": {"finance/invoices_daily"},
    "Which broadcasts come near Spark's own limits?": {"huge/a", "huge/b"},
    "Which joins flipped strategy since Monday?": {"flip"},
    "Which joins explode?": {"explosion/a", "explosion/b"},
    "Which joins spill most?": {"spilling/a", "spilling/b", "supply/revenue_daily"},
    "Which shuffles are skewed?": {"growth/revenue_daily"},
    "Which shuffles have too small partitions?": {"waiting/a", "waiting/b"},
    "Which shuffles have too large partitions?": {"large/a", "large/b"},
    "Which queries became slower this week?": {f"{team}/revenue_daily" for team in ("logistics", "risk", "support")},
    "Which jobs spill most?": {"spilling/a", "spilling/b", "supply/revenue_daily"},
    "What was found this week for the first time?": {"fine, then too slow", "supply/revenue_daily"},
    "Which numbers are partial, and why?": {"partial/a", "partial/b", "orders/invoices_daily"},
    "Which drivers were lost?": {"lost/a", "lost/b", "orders/invoices_daily"},
}
"""All jobs in an answer: what is like what is asked for, and is not, is planted too."""


def asked(question: str, planted: Planted) -> str:
    """A question with a history's own keys, at its end."""
    operator = planted.of("join_flip" if "one join" in question else "broadcast_over_threshold").operator_key
    sql: str = QUESTIONS[question].replace(SHAPE, planted.of("plan_changed").query_shape)
    return sql.replace(OPERATOR, operator or "").replace("now()", f"timestamptz '{END.isoformat()}'")


def answer(connection: Connection, sql: str) -> list[Row]:
    """All rows: the history is small."""
    result = connection.exec_driver_sql(re.sub(r" LIMIT \d+;", ";", sql).replace("%", "%%"))
    return [dict(row) for row in result.mappings()]


def is_in(known: Row, row: Row) -> bool:
    """Whether a row has these columns."""

    def same(name: str) -> bool:
        want, found = known[name], row[name]
        if isinstance(want, datetime) and want.hour == 0:
            return bool(found.date() == want.date())
        if isinstance(found, float | Decimal):
            found = float(found)
            return bool(found == (pytest.approx(want, rel=1e-9) if isinstance(want, int | float) else want))
        return bool(found == want)

    return all(map(same, known))


def test_there_are_enough_questions() -> None:
    """The page has what it promises, and of every question something is known."""
    assert len(QUESTIONS) >= 25
    assert PAGE.read_text().count("```sql") == len(QUESTIONS)
    assert "```\n\n#" not in PAGE.read_text(), "say how to read the answer"
    assert set(QUESTIONS) == set(KNOWN)


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_was_planted_is_found(question: str, planted_engine: Engine, planted: tuple[str, Planted]) -> None:
    """The rows are there, and in the order that the question asks for; what only looks like them is not."""
    sql = asked(question, planted[1])
    with planted_engine.connect() as connection:
        rows = answer(connection, sql)
    for known in KNOWN[question]:
        assert len([row for row in rows if is_in(known, row)]) == 1, (known, rows[:20])
    if question in ONLY:
        assert {row["job_name"] for row in rows} == ONLY[question]
    first, *rest = re.findall(r"ORDER BY (.*);", sql)[-1].split(", ")[0].removesuffix(" LIMIT 20").split()
    if first in rows[0]:
        assert in_order([row[first] for row in rows], descending="DESC" in rest)


def in_order(column: list[Any], *, descending: bool) -> bool:
    """NULLs are last."""
    there = [value for value in column if value is not None]
    if column[: len(there)] != there:
        return False
    return all(one >= other if descending else one <= other for one, other in pairwise(there))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_spares_other_months(question: str, planted_engine: Engine, planted: tuple[str, Planted]) -> None:
    """All tables are asked for a time. Questions that have none follow one key, by an index."""
    with planted_engine.connect() as connection:

        def moment(found: re.Match[str]) -> str:
            """A constant: what PostgreSQL works out of ``now()``, it only knows after planning."""
            return f"'{connection.exec_driver_sql(f'SELECT {found[0]}').scalar()}'"

        sql = re.sub(MOMENT, moment, asked(question, planted[1]))
        plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + sql.replace("%", "%%")))
    if "started_at >=" in sql:
        assert LONG_AGO not in plan
    elif "FROM rollup_" in sql:  # the whole of a small table at most
        assert "execution" not in plan
    else:
        assert re.search(rf"Index Scan (using|on) \w+_{LONG_AGO}_(operator_key|query_shape)_started_at_\w*idx", plan)
