"""A query through time: what changed between its runs, where they are drawn, and which are offered to compare."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import stored_rows
from tests.pages import history
from tests.pages.plans import HOSTILE

from joinsight.pages.history import LEFT, RIGHT, WIDTH, draw_history
from joinsight.pages.home import PageSection
from joinsight.pages.query import QueryRuns, query_page
from joinsight.pages.runs import runs_of
from joinsight.tables import Row

SHAPE = "7f3a91c20d5be684"


def rows(job: str = history.JOB) -> list[Row]:
    """The runs as the store returns them, the oldest first."""
    found = []
    for e in history.runs(history.NOW_MS, job):
        [row] = stored_rows(e)["execution"]
        found.append({**row, "spark_version": e.listener.spark_version, "application_configuration": {}})
    return found


USUAL: Row = {"runs": 14, "median": 41_000.0, "spread": 1_500.0, "alarm_above": 53_300.0}


def page(found: list[Row], **details: Any) -> str:
    """The page of these runs, the oldest first."""
    jobs = [{"job_name": found[0]["job_name"], "executions": len(found), "last_at": found[-1]["started_at"]}]
    query = {"usual": None, "regressions": PageSection(), **details}
    return query_page(QueryRuns(SHAPE, found[0]["job_name"], query.pop("jobs", jobs), found[::-1], **query))


def test_what_changed_is_said_at_its_run() -> None:
    """A new plan, setting or version of Spark, at the first run that has it."""
    changed = {i: run.changes for i, run in enumerate(runs_of(rows())) if run.changes}
    assert list(changed) == [history.SETTINGS_FROM, history.SPARK_FROM, history.SLOWER_FROM]
    assert changed[history.SETTINGS_FROM] == ["spark.sql.shuffle.partitions: 200 → 400"]
    assert changed[history.SPARK_FROM] == ["Spark 4.2.0 → 4.3.0"]
    assert changed[history.SLOWER_FROM][0].startswith("plan A → B (")
    assert {run.plan for run in runs_of(rows())} == {"A", "B"}


def test_the_chart_has_every_run_in_its_place() -> None:
    """Runs from left to right by time, within the panels; changes and plans where they began."""
    found = rows()
    worse = {"current": 118_000.0, "first_bad_at": found[history.SLOWER_FROM]["started_at"]}
    drawn = draw_history(runs_of(found), USUAL, worse)
    assert [panel.title for panel in drawn.panels] == ["Duration", "Total task time", "Shuffled", "Broadcast"]
    for panel in drawn.panels:
        xs = [point.x for point in panel.points]
        assert xs == sorted(xs) and all(LEFT <= x <= WIDTH - RIGHT for x in xs)
        assert all(panel.top <= point.y <= panel.top + panel.height for point in panel.points)
    first = drawn.panels[0]
    assert [marker.letter for marker in drawn.markers] == ["S", "V", "P"]
    assert drawn.markers[2].x == first.points[history.SLOWER_FROM].x == drawn.lane[1][0]
    assert first.band is not None and first.band.alarm < first.band.top < first.band.median < first.band.bottom
    assert drawn.worse is not None and drawn.worse[2] < first.band.alarm
    assert len(drawn.panels[3].points) == history.SLOWER_FROM


def test_changes_of_one_run_are_flagged_side_by_side() -> None:
    """A run with other settings and another plan has two letters, and its line once; seconds tell close runs apart."""
    found = rows()[history.SLOWER_FROM - 2 : history.SLOWER_FROM + 1]
    start = found[0]["started_at"]
    for index, row in enumerate(found):
        row["started_at"] = start + timedelta(seconds=20 * index)
    found[-1]["configuration"] = {**found[-1]["configuration"], "spark.sql.shuffle.partitions": "7"}
    drawn = draw_history(runs_of(found), None, None)
    assert [(plan, label) for *_, plan, label in drawn.lane] == [("A", "Plan A"), ("B", "B")]
    assert {marker.letter for marker in drawn.markers} == {"P", "S"}
    assert len({marker.x for marker in drawn.markers}) == 1
    assert len({marker.flag for marker in drawn.markers}) == 2
    assert len({label for _, label in drawn.ticks}) == len(drawn.ticks)


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            *(st.none() | st.integers(0, 2**62) for _ in range(4)),
            st.sampled_from([None, "a" * 16, "b" * 16]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.none() | st.floats(0.5, 1e15),
)
def test_any_numbers_have_a_chart(numbers: list[tuple[Any, ...]], median: float | None) -> None:
    """Missing, equal and enormous numbers, runs at one time, and runs without a plan."""
    base = rows()[0]
    found = sorted(
        (
            {
                **base,
                "started_at": base["started_at"] + timedelta(seconds=at),
                "duration_ms": duration,
                "task_time_ms": tasks,
                "shuffle_write_bytes": shuffled,
                "broadcast_bytes": sent,
                "plan_fingerprint": plan,
            }
            for at, duration, tasks, shuffled, sent, plan in numbers
        ),
        key=lambda row: row["started_at"],
    )
    usual = median and {"runs": 5, "median": median, "spread": median / 9, "alarm_above": median * 1.3}
    text = page(found, usual=usual or None)
    assert not re.search(r"\b(nan|inf)\b", text)
    assert text.count('name="b"') == (len(found) if len(found) > 1 else 0)


def test_two_runs_are_chosen_to_compare() -> None:
    """The newest, with a typical one before a regression, else with the one before it; a single run says what to do."""

    def chosen(text: str) -> list[str]:
        return re.findall(r'name="[ab]" value="([^"@]*)@[^"]*" aria-label="[^"]*" checked', text)

    found = rows()
    assert chosen(page(found)) == [f"app-{history.RUNS - 1:03}-shop/0", f"app-{history.RUNS - 2:03}-shop/0"]
    usual = found[5]
    regression = {
        **{name: found[-1][name] for name in ("started_at", "application_id", "attempt_id", "execution_id")},
        **{f"baseline_{name}": usual[name] for name in ("started_at", "application_id", "attempt_id", "execution_id")},
        **{"measure": "duration_ms", "subject": "query", "baseline": 41_000.0, "current": 118_000.0, "factor": 2.9},
        **{"kind": "plan_changed", "first_bad_at": found[20]["started_at"], "bad_runs": 8, "cost_ms": 600_000},
        "reason": "",
        **{"level": "certain", "since": found[20]["started_at"]},
    }
    text = page(found, usual=USUAL, regressions=PageSection([regression]))
    assert chosen(text) == ["app-027-shop/0", "app-005-shop/0"]
    assert "/compare?a=app-005-shop/0@" in text and "plan changed, since" in text
    assert "This is the only run." in page(found[:1])


@pytest.mark.parametrize("job", [history.JOB, HOSTILE])
def test_texts_are_escaped(job: str) -> None:
    """Jobs, titles and settings may be anything."""
    text = page(rows(job), jobs=[{"job_name": job + "!", "executions": 1, "last_at": rows()[0]["started_at"]}] * 2)
    assert "<script" not in text and "<sales>" not in text and "<img" not in text
