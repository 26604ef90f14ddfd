"""Each question of docs/sql.md is asked as it stands there, and its answer is the one that Python finds in the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.cookbook.history import (
    GB,
    LONG_AGO,
    NOW,
    History,
    average,
    day,
    days_ago,
    grouped,
    hours,
    known,
    largest,
    month,
    percentile,
    since,
    total,
    week,
)

from joinsight.demo.history import Planted
from joinsight.rows import Row

PAGE = Path(__file__).parents[2] / "docs/sql.md"
QUESTIONS = dict(re.findall(r"^### (.*?)\n\n```sql\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
OPERATOR, SHAPE = "9cbf27f7c1d04b3e", "7f3a91c20d5be684"
MILLION = 1_000_000
MOMENT = r"(?:date_trunc\('\w+', timestamptz '[^']*'\)|timestamptz '[^']*')(?: - interval '[^']*')?"

Answer = Sequence[tuple[Any, ...]]
ANSWERS: dict[str, Callable[[History], Answer]] = {}


def answers(question: str) -> Callable[[Callable[[History], Answer]], Callable[[History], Answer]]:
    """Marks the function that finds the answer to a question without SQL."""

    def mark(function: Callable[[History], Answer]) -> Callable[[History], Answer]:
        ANSWERS[question] = function
        return function

    return mark


@pytest.fixture(scope="module")
def history(planted_engine: Engine, planted: tuple[str, Planted]) -> Iterator[History]:
    """Read once; it does not change."""
    with planted_engine.connect() as connection:
        yield History(connection, planted[1])


def asked(question: str, history: History) -> str:
    """A question with a history's own keys, at `NOW`."""
    of = history.planted.of
    operator = of("join_flip" if "one join" in question else "broadcast_over_threshold").operator_key
    sql: str = QUESTIONS[question].replace(SHAPE, of("plan_changed").query_shape).replace(OPERATOR, operator or "")
    return sql.replace("now()", f"timestamptz '{NOW.isoformat()}'")


def test_there_are_enough_questions() -> None:
    """The page has what it promises, and every question has an answer here."""
    assert len(QUESTIONS) >= 25
    assert PAGE.read_text().count("```sql") == len(QUESTIONS)
    assert "```\n\n#" not in PAGE.read_text(), "say how to read the answer"
    assert set(QUESTIONS) == set(ANSWERS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer(question: str, planted_engine: Engine, history: History) -> None:
    """The rows are those that Python finds, and stand in the order that the question asks for."""
    sql = re.sub(r" LIMIT \d+;", ";", asked(question, history))
    with planted_engine.connect() as connection:
        result = connection.exec_driver_sql(sql.replace("%", "%%"))
        names = list(result.keys())
        found = [plain(row) for row in result]
    expected = [plain(row) for row in ANSWERS[question](history)]
    assert found, "nothing was found: plant something"
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    first, *rest = re.findall(r"ORDER BY (.*);", sql)[-1].split(", ")[0].split()
    if first in names:
        assert in_order([row[names.index(first)] for row in found], descending="DESC" in rest)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_spares_other_months(question: str, planted_engine: Engine, history: History) -> None:
    """All tables are asked for a time. Questions that have none follow one key, by an index."""
    with planted_engine.connect() as connection:

        def moment(found: re.Match[str]) -> str:
            """A constant: what PostgreSQL works out of ``now()``, it only knows after planning."""
            return f"'{connection.exec_driver_sql(f'SELECT {found[0]}').scalar()}'"

        sql = re.sub(MOMENT, moment, asked(question, history))
        plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + sql.replace("%", "%%")))
    if "started_at >=" in sql:
        assert LONG_AGO not in plan
    elif "FROM rollup_" in sql:  # the whole of a small table at most
        assert "execution" not in plan
    else:
        assert re.search(rf"Index Scan (using|on) \w+_{LONG_AGO}_(operator_key|query_shape)_started_at_idx", plan)


def plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """Lists as tuples; numbers as floats of nine digits: sums and averages end in others here and there."""

    def value(each: Any) -> Any:
        if isinstance(each, list):
            return tuple(each)
        return float(f"{each:.9g}") if isinstance(each, int | float | Decimal) else each

    return tuple(value(each) for each in row)


def in_order(column: list[Any], *, descending: bool) -> bool:
    """NULLs are last."""
    there = [value for value in column if value is not None]
    if column[: len(there)] != there:
        return False
    return all(one >= other if descending else one <= other for one, other in pairwise(there))


# Broadcasts


@answers("Which broadcasts come within 20 % of the threshold this month?")
def _(h: History) -> Answer:
    rows = [
        r | {"share": r["shuffled_bytes"] / r["threshold_bytes"]}
        for r in since(h.broadcasts, datetime(2026, 11, 1, tzinfo=NOW.tzinfo))
        if r["shuffled_bytes"] and r["shuffled_bytes"] >= 0.8 * r["threshold_bytes"] > 0
    ]
    assert "near/a" in {r["job_name"] for r in rows}
    return [
        (*key, len(g), *(largest(g, name) for name in ("share", "shuffled_bytes", "started_at")))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]


@answers("Which joins were not broadcast, though a side was small enough?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.joins, days_ago(7)) if r["broadcast_verdict"] == "possible"]
    return [
        (*key, len(g), largest(g, "broadcast_side_bytes"), largest(g, "threshold_bytes"))
        for key, g in grouped(rows, "job_name", "operator_key", "strategy", "join_type").items()
    ]


@answers("Which broadcasts have grown most in a month?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(since(h.broadcasts, days_ago(35)), "job_name", "operator_key").items():
        now = since(g, days_ago(7))
        before = average([r for r in g if r["started_at"] < days_ago(28)], "rows")
        after = average(now, "rows")
        if before and after and after > before:
            found.append((*key, before, after, largest(now, "size_bytes"), after / before))
    event = h.planted.of("broadcast_over_threshold")
    assert max(found, key=lambda row: row[-1])[:2] == (event.job_name, event.operator_key)
    return found


@answers("How large has a broadcast become, month by month?")
def _(h: History) -> Answer:
    event = h.planted.of("broadcast_over_threshold")
    rows = [r for r in h.broadcasts if r["operator_key"] == event.operator_key]
    return [
        (*key, len(g), round(average(g, "rows")), largest(g, "size_bytes"), max(driver_ms(r) for r in g))
        for key, g in grouped(rows, lambda r: day(r).replace(day=1)).items()
    ]


def driver_ms(r: dict[str, Any]) -> int:
    return int(r["collect_ms"] + r["build_ms"] + r["broadcast_ms"])


@answers("Which broadcasts failed, and why?")
def _(h: History) -> Answer:
    failed = [r for r in since(h.broadcasts, days_ago(30)) if r["outcome"] == "failed"]
    event = h.planted.of("broadcast_failed")
    assert {r["job_name"] for r in failed} == {event.job_name}
    assert len({day(r) for r in failed}) == event.numbers["days"]
    columns = ("started_at", "job_name", "application_id", "execution_id", "operator_key")
    return [(*(r[c] for c in columns), r["error"][:200]) for r in failed]


@answers("Which broadcasts keep the driver busy?")
def _(h: History) -> Answer:
    rows = [r | {"driver_ms": driver_ms(r)} for r in since(h.broadcasts, days_ago(7)) if r["collect_ms"] is not None]
    times = ("collect_ms", "build_ms", "broadcast_ms")
    return [
        (*key, len(g), total(g, "driver_ms"), largest(g, "driver_ms"), *(average(g, time) for time in times))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]


@answers("Which broadcasts come near Spark's own limits?")
def _(h: History) -> Answer:
    rows = [
        r
        for r in since(h.broadcasts, days_ago(30))
        if (r["size_bytes"] or 0) > 2 * GB or (r["rows"] or 0) > 128 * MILLION
    ]
    assert {"huge/a", "huge/b"} <= {r["job_name"] for r in rows}
    found = []
    for key, g in grouped(rows, "job_name", "operator_key").items():
        size, most = largest(g, "size_bytes"), largest(g, "rows")
        found.append((*key, size, most, max(size / (8 * GB), most / (512 * MILLION))))
    return found


# Joins


@answers("Which joins flipped strategy since Monday?")
def _(h: History) -> Answer:
    monday = datetime(2026, 11, 16, tzinfo=NOW.tzinfo)
    rows = [r for r in since(h.joins, datetime(2026, 11, 2, tzinfo=NOW.tzinfo)) if r["state"] == "succeeded"]
    found = []
    for key, g in grouped(rows, "job_name", "operator_key").items():
        before = sorted({r["strategy"] for r in g if r["started_at"] < monday})
        after = sorted({r["strategy"] for r in g if r["started_at"] >= monday})
        if before and after and not set(after) <= set(before):
            found.append((*key, before, after))
    assert [row[::2] for row in found] == [("flip", ["BroadcastHashJoin"])]
    return found


@answers("How has one join gone, run after run?")
def _(h: History) -> Answer:
    event = h.planted.of("join_flip")
    rows = [r for r in since(h.joins, days_ago(30)) if r["operator_key"] == event.operator_key]
    before = {r["strategy"] for r in rows if r["started_at"] < event.day}
    after = {r["strategy"] for r in rows if r["started_at"] >= event.day}
    assert (before, after) == ({"BroadcastHashJoin"}, {"SortMergeJoin"})
    columns = (
        "started_at", "strategy", "build_side", "left_rows", "right_rows", "output_rows", "left_bytes", "right_bytes",
        "build_bytes", "spill_bytes", "duration_ms",
    )  # fmt: skip
    return [tuple(r[c] for c in columns) for r in rows]


@answers("Which strategies do joins use, week by week?")
def _(h: History) -> Answer:
    groups = grouped(since(h.joins, days_ago(90)), week, "strategy")
    return [(*key, len(g), total(g, "output_rows")) for key, g in groups.items()]


@answers("Which joins explode?")
def _(h: History) -> Answer:
    rows = [
        r | {"larger": larger, "ratio": r["output_rows"] / larger}
        for r in since(h.joins, days_ago(7))
        if (larger := max(r["left_rows"] or 0, r["right_rows"] or 0)) and (r["output_rows"] or 0) >= MILLION
    ]
    found = [
        (*key, *(largest(g, name) for name in ("ratio", "output_rows", "larger")))
        for key, g in grouped((r for r in rows if r["ratio"] >= 10), "job_name", "operator_key", "strategy").items()
    ]
    assert {"explosion/a", "explosion/b"} <= {row[0] for row in found}
    return found


@answers("Which joins compare every row with every other?")
def _(h: History) -> Answer:
    rows = [
        r | {"pairs": r["left_rows"] * r["right_rows"]}
        for r in since(h.joins, days_ago(7))
        if r["strategy"] in ("CartesianProduct", "BroadcastNestedLoopJoin")
    ]
    return [
        (*key, *(largest(g, name) for name in ("left_rows", "right_rows", "pairs", "duration_ms")))
        for key, g in grouped(rows, "job_name", "operator_key", "strategy").items()
    ]


@answers("Which joins spill most?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.joins, days_ago(7)) if (r["spill_bytes"] or 0) > 0]
    assert h.planted.of("spill").operator_key in {r["operator_key"] for r in rows}
    return [
        (*key, len(g), total(g, "spill_bytes"), largest(g, "sort_ms"))
        for key, g in grouped(rows, "job_name", "operator_key", "strategy").items()
    ]


# Shuffles


def read_partitions(r: dict[str, Any]) -> Any:
    return r["partitions"] if r["aqe_partitions"] is None else r["aqe_partitions"]


@answers("What is each job's largest shuffle of the week?")
def _(h: History) -> Answer:
    found = []
    for g in grouped(since(h.shuffles, days_ago(7)), "job_name").values():
        r = max(g, key=lambda r: (r["bytes_written"] or -1, r["started_at"]))
        columns = ("partitioning", "keys", "operator_key", "started_at", "application_id", "execution_id")
        found.append(
            (r["job_name"], r["bytes_written"], r["rows_written"], read_partitions(r), *(r[c] for c in columns))
        )
    return found


@answers("Which shuffles are skewed?")
def _(h: History) -> Answer:
    event = h.planted.of("skew")
    rows = [r for r in since(h.shuffles, days_ago(30)) if (r["skew_ratio"] or 0) >= 3 and r["rows_read"] >= 100_000]
    found = [
        (*key, len(g), largest(g, "skew_ratio"), largest(g, "rows_read_max"), min(known(g, "started_at")))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]
    (planted,) = (row for row in found if row[1] == event.operator_key)
    assert planted[-1].date() == event.day.date()
    return found


@answers("How many bytes does each team shuffle a day?")
def _(h: History) -> Answer:
    groups = grouped(since(h.executions, days_ago(30)), day, lambda r: (r["tags"] or {}).get("team"))
    return [(*key, total(g, "shuffle_write_bytes")) for key, g in groups.items()]


@answers("Which keys is data shuffled by again and again?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.shuffles, days_ago(7)) if r["partitioning"] == "hashpartitioning" and r["join_nodes"]]

    def shuffled_by(r: dict[str, Any]) -> str:
        return ", ".join(re.sub(r"#\d+L?", "", key) for key in r["keys"])

    return [
        (*key, len({r["operator_key"] for r in g}), len(g), total(g, "bytes_written"))
        for key, g in grouped(rows, shuffled_by).items()
    ]


@answers("Where do tasks wait for shuffled data?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.shuffles, days_ago(7)) if (r["fetch_wait_ms"] or 0) > 0]
    assert {"waiting/a", "waiting/b"} <= {r["job_name"] for r in rows}
    found = []
    for key, g in grouped(rows, "job_name", "operator_key").items():
        remote = total(g, "remote_bytes_read")
        read = total(g, "local_bytes_read") + remote
        found.append((*key, total(g, "fetch_wait_ms"), read, remote / read))
    return found


def in_pieces(h: History) -> list[dict[str, Any]]:
    return [
        r | {"read": read_partitions(r), "piece": r["bytes_written"] // read_partitions(r)}
        for r in since(h.shuffles, days_ago(7))
        if r["bytes_written"] is not None and read_partitions(r)
    ]


@answers("Which shuffles are cut into too small pieces?")
def _(h: History) -> Answer:
    rows = [r for r in in_pieces(h) if r["read"] >= 100 and r["piece"] < 1 << 20]
    assert "waiting/a" in {r["job_name"] for r in rows}
    return [
        (*key, len(g), average(g, "read"), average(g, "piece"))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]


@answers("Which shuffles are cut into too large pieces?")
def _(h: History) -> Answer:
    rows = [r for r in in_pieces(h) if r["piece"] > GB // 4]
    assert {"large/a", "large/b"} <= {r["job_name"] for r in rows}
    return [
        (*key, len(g), average(g, "read"), largest(g, "piece"))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]


@answers("What did the reuse of exchanges save?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.shuffles, days_ago(7)) if r["consumers"] > 1]
    return [
        (*key, len(g), sum(r["bytes_written"] * (r["consumers"] - 1) for r in g))
        for key, g in grouped(rows, "job_name").items()
    ]


# Adaptive execution


@answers("What did AQE save us?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(since(h.shuffles, days_ago(30)), week).items():
        coalesced = [r["partitions"] - r["aqe_partitions"] for r in g if "coalesced" in (r["aqe_read"] or ())]
        local = [r for r in g if "local" in (r["aqe_read"] or ())]
        found.append((*key, sum(coalesced), total(g, "aqe_skewed_partitions"), len(local)))
    return found


@answers("What does AQE decide?")
def _(h: History) -> Answer:
    rows = since(h.decisions, days_ago(7))
    assert len({r["kind"] for r in rows}) > 2
    return [
        (*key, len(g), len({r["job_name"] for r in g}), total(g, "bytes_before"), total(g, "bytes_after"))
        for key, g in grouped(rows, "kind").items()
    ]


@answers("Which joins does AQE broadcast only after it has shuffled them?")
def _(h: History) -> Answer:
    found = []
    rows = [r for r in since(h.decisions, days_ago(7)) if r["after"] == "BroadcastHashJoin"]
    for key, g in grouped(rows, "job_name", "operator_key").items():
        after = [{"s": (r["decided_at"] - r["started_at"]).total_seconds()} for r in g]
        mean = average(g, "bytes_before")
        found.append((*key, len(g), mean and round(mean), percentile(after, "s", 0.5)))
    return found


@answers("Where does AQE coalesce most?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.shuffles, days_ago(7)) if "coalesced" in (r["aqe_read"] or ())]
    return [
        (*key, len(g), average(g, "partitions"), average(g, "aqe_partitions"))
        for key, g in grouped(rows, "job_name", "operator_key").items()
    ]


@answers("Which queries does AQE plan anew most often?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.executions, days_ago(7)) if r["plan_versions"] > 1]
    return [
        (
            *key,
            min(known(g, "description")),
            len(g),
            average(g, "plan_versions"),
            len(set(known(g, "plan_fingerprint"))),
        )
        for key, g in grouped(rows, "job_name", "query_shape").items()
    ]


# A query over time


def runs_of_one_query(h: History) -> list[dict[str, Any]]:
    shape = h.planted.of("plan_changed").query_shape
    return [r for r in h.executions if r["query_shape"] == shape and r["state"] == "succeeded"]


@answers("How has a query's duration changed over the weeks?")
def _(h: History) -> Answer:
    return [
        (
            *key,
            len(g),
            *(percentile(g, "duration_ms", share) for share in (0.5, 0.95)),
            round(average(g, "input_bytes")),
        )
        for key, g in grouped(runs_of_one_query(h), week).items()
    ]


@answers("Which of its plans was the fastest?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(runs_of_one_query(h), "plan_fingerprint").items():
        first, last = min(known(g, "started_at")), largest(g, "started_at")
        found.append((*key, len(g), first, last, percentile(g, "duration_ms", 0.5), round(average(g, "input_bytes"))))
    fast, slow = sorted(found, key=lambda row: row[4])
    assert fast[3] < h.planted.of("plan_changed").day <= slow[2]
    return found


@answers("What changed the day it became slow?")
def _(h: History) -> Answer:
    event = h.planted.of("plan_changed")
    days = sorted(grouped(since(runs_of_one_query(h), days_ago(30)), day).items())
    found: list[tuple[Any, ...]] = []
    for (midnight,), g in days:
        median = percentile(g, "duration_ms", 0.5)
        times = median / found[-1][2] if found and median else None
        plans = sorted({r["plan_fingerprint"] for r in g})
        sizes = [round(average(g, name)) for name in ("input_bytes", "shuffle_write_bytes", "disk_spilled_bytes")]
        found.append((midnight, len(g), median, times, plans, *sizes, len({repr(r["configuration"]) for r in g})))
    slowest = max(found[1:], key=lambda row: row[3])
    assert slowest[0] == event.day and slowest[4] != found[found.index(slowest) - 1][4]
    return found


@answers("Which queries became slower this week?")
def _(h: History) -> Answer:
    found = []
    rows = [r for r in since(h.executions, days_ago(35)) if r["state"] == "succeeded" and r["query_shape"]]
    for key, g in grouped(rows, "job_name", "query_shape").items():
        before, now = [r for r in g if r["started_at"] < days_ago(7)], since(g, days_ago(7))
        if len(before) >= 5 and len(now) >= 3:
            old, new = percentile(before, "duration_ms", 0.5), percentile(now, "duration_ms", 0.5)
            if old and new and new > 1.5 * old:
                found.append((*key, min(known(g, "description")), old, new, new / old))
    assert {row[0] for row in found} >= {h.planted.of(kind).job_name for kind in ("slower", "plan_changed")}
    return found


# Jobs, teams, people


@answers("What does each job cost a week?")
def _(h: History) -> Answer:
    return [
        (*key, len(g), hours(g), total(g, "input_bytes"), total(g, "shuffle_write_bytes"))
        for key, g in grouped(since(h.executions, days_ago(30)), week, "job_name").items()
    ]


@answers("Who runs the most expensive queries?")
def _(h: History) -> Answer:
    return [
        (*key, len(g), hours(g), largest(g, "task_time_ms") and largest(g, "task_time_ms") / 3_600_000)
        for key, g in grouped(since(h.executions, days_ago(7)), "spark_user").items()
    ]


@answers("Which jobs spill most?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.executions, days_ago(7)) if (r["disk_spilled_bytes"] or 0) > 0]
    assert "spilling/a" in {r["job_name"] for r in rows}
    return [
        (*key, len(g), total(g, "disk_spilled_bytes"), total(g, "disk_spilled_bytes") / total(g, "shuffle_write_bytes"))
        for key, g in grouped(rows, "job_name").items()
    ]


@answers("Which hours of the week is the cluster busiest?")
def _(h: History) -> Answer:
    groups = grouped(
        since(h.executions, days_ago(28)), lambda r: r["started_at"].isoweekday(), lambda r: r["started_at"].hour
    )
    return [(*key, len(g), hours(g)) for key, g in groups.items()]


@answers("What is computed more than once a day?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.executions, days_ago(7)) if r["query_shape"]]
    return [
        (*key, min(known(g, "description")), len(g), len({r["job_name"] for r in g}), hours(g))
        for key, g in grouped(rows, day, "query_shape").items()
        if len(g) > 1
    ]


@answers("Which tables are read most?")
def _(h: History) -> Answer:
    groups = grouped(since(h.files_read, days_ago(1)), "scan")
    return [(*key, len(g), total(g, "total")) for key, g in groups.items()]


@answers("Which stages wait for one slow task?")
def _(h: History) -> Answer:
    rows = [
        r | {"wait": r["run_time_ms_max"] - r["run_time_ms_median"]}
        for r in since(h.stages, days_ago(7))
        if r["run_time_ms_max"] and r["run_time_ms_max"] > max(3 * r["run_time_ms_median"], 10_000)
    ]
    assert ("spilling/a", "save at x") in {(r["job_name"], r["name"]) for r in rows}
    return [
        (*key, len(g), largest(g, "run_time_ms_max"), largest(g, "wait"))
        for key, g in grouped(rows, "job_name", "name").items()
    ]


@answers("Which jobs lose time to garbage collection?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(since(h.stages, days_ago(7)), "job_name").items():
        if total(g, "gc_time_ms"):
            found.append((*key, hours(g, "gc_time_ms"), total(g, "gc_time_ms") / total(g, "run_time_ms")))
    return found


# Over the years


def since_a_year(rows: Iterable[Row]) -> list[Row]:
    """Roll-ups know days only."""
    return [r for r in rows if day(r) >= NOW.replace(year=NOW.year - 1)]


@answers("How has a query gone over the year?")
def _(h: History) -> Answer:
    shape = h.planted.of("plan_changed").query_shape
    rows = [r for r in since_a_year(h.executions) if r["query_shape"] == shape]
    return [
        (
            *(*key, len(g), sum(r["state"] == "failed" for r in g)),
            largest([r for r in g if r["state"] == "succeeded"], "duration_ms"),
            *(total(g, "shuffle_write_bytes"), total(g, "disk_spilled_bytes")),
        )
        for key, g in grouped(rows, month).items()
    ]


@answers("What has each job cost, month by month?")
def _(h: History) -> Answer:
    return [
        (*key, len(g), hours(g), total(g, "input_bytes"), total(g, "shuffle_write_bytes"))
        for key, g in grouped(since_a_year(h.executions), month, "job_name").items()
    ]


@answers("How has an operator grown over the year?")
def _(h: History) -> Answer:
    key = h.planted.of("broadcast_over_threshold").operator_key
    parts = ("collect_ms", "build_ms", "broadcast_ms")
    rows = [
        r | {"driver_ms": sum(r[part] for part in parts) if all(r[part] is not None for part in parts) else None}
        for r in since_a_year(h.broadcasts)
        if r["operator_key"] == key
    ]
    return [
        (*of, "broadcast", len(g), total(g, "rows") // len(g), largest(g, "size_bytes"), total(g, "driver_ms"))
        for of, g in grouped(rows, month).items()
    ]


# What was found


@answers("What was found this week, and where?")
def _(h: History) -> Answer:
    groups = grouped(since(h.findings, days_ago(7)), "severity", "finding")
    return [
        (*key, len(g), len({r["job_name"] for r in g}), hours(g, "impact_ms"), total(g, "impact_bytes"))
        for key, g in groups.items()
    ]


@answers("What is found at the same place in every run?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(since(h.findings, days_ago(30)), "job_name", "finding", "operator_key").items():
        last = max(g, key=lambda r: r["started_at"])
        if len(g) >= 5:
            first = min(known(g, "started_at"))
            found.append((*key, len(g), first, last["started_at"], last["title"]))
    return found


@answers("What was found this week for the first time?")
def _(h: History) -> Answer:
    found = []
    for key, g in grouped(since(h.findings, days_ago(35)), "job_name", "finding", "operator_key").items():
        first = min(known(g, "started_at"))
        if first >= days_ago(7):
            found.append((*key, first, len(g)))
    assert ("fine, then too slow", "broadcast-failed", 2) in [(*row[:2], row[-1]) for row in found]
    return found


# What can be trusted


@answers("Which numbers are partial, and why?")
def _(h: History) -> Answer:
    rows = [r | {"reason": reason} for r in since(h.executions, days_ago(30)) for reason in r["incomplete_codes"] or ()]
    found = [(*key, len(g), largest(g, "started_at")) for key, g in grouped(rows, "job_name", "reason").items()]
    assert ("partial/a", "task_ends_not_seen", 4) in [row[:3] for row in found]
    return found


@answers("Which drivers were lost?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.executions, days_ago(30)) if r["state"] == "lost"]
    event = h.planted.of("driver_lost")
    assert {day(r) for r in rows if not r["job_name"].startswith("lost/")} == {event.day}
    return [
        (*key, len(g), min(known(g, "started_at")), hours(g))
        for key, g in grouped(rows, "application_id", "attempt_id", "job_name").items()
    ]


@answers("What fails, and how often?")
def _(h: History) -> Answer:
    rows = [r for r in since(h.executions, days_ago(30)) if r["state"] == "failed"]
    return [
        (*key, len(g), largest(g, "started_at"))
        for key, g in grouped(rows, "job_name", lambda r: r["error"].split("\n")[0][:120]).items()
    ]
