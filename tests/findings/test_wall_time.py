"""The wall time at stake: how long the execution waited for what a finding is about, NULL where that is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs
from tests.findings.recorded import SMALL, UNLIMITED, recordings

from joinsight.analysis.rows import Rows, execution_rows
from joinsight.base.severity import rank
from joinsight.contract.document import Execution
from joinsight.findings import HEURISTICS, Finding, FindingsEngine, Heuristic, PlanContext
from joinsight.findings.finding import Waited
from joinsight.tables import FindingRow, ShuffleRow


def found(execution: Execution, kind: str) -> tuple[Rows, FindingRow]:
    """The rows of an execution, and its finding of this kind."""
    rows = execution_rows(execution)
    return rows, next(row for row in FindingsEngine(SMALL, UNLIMITED).rows(rows) if row.finding == kind)


def spent(rows: Rows, *causes: str, stages: tuple[int, ...] = ()) -> int:
    """The time of segments."""
    its = (each for each in rows.segment if each.cause in causes and (not stages or each.stage_id in stages))
    return sum(each.end_ms - each.start_ms for each in its)


def of_broadcast(rows: Rows) -> int | None:
    return rows.broadcast[0].cost_wall_ms


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("broadcast-timeout", "broadcast-failed", lambda rows: rows.execution.duration_ms),
        ("broadcast-slow", "broadcast-not-worth-it", of_broadcast),
        ("broadcast-slow", "driver-collect", lambda rows: spent(rows, "broadcast")),
        ("collected", "driver-collect", lambda rows: spent(rows, "finish")),
        ("broadcast-missed", "missed-broadcast", lambda rows: rows.joins[0].cost_wall_ms),
        ("fetch-wait", "fetch-wait", lambda rows: max(row.cost_wall_ms for row in rows.shuffle if row.cost_wall_ms)),
        ("cache-filled", "cache-read-once", lambda rows: spent(rows, "running", stages=(173, 175))),
    ],
)
def test_it_is_what_the_execution_waited_for(name: str, kind: str, expected: Callable[[Rows], int]) -> None:
    """Each kind says what it waits for; joins of stages without samples are known in part."""
    rows, row = found(recordings()[name], kind)
    assert row.wall_ms == expected(rows) > 0
    assert row.wall_is_partial == (kind == "missed-broadcast")


def test_of_repeated_shuffles_those_after_the_first_count() -> None:
    """If one of them is unknown, the sum is partial."""
    first, *others = execution_rows(recordings()["shuffle-repeated"]).shuffle[:2]
    context = PlanContext(execution_rows(recordings()["shuffle-repeated"]))

    def costing(ms: int | None) -> ShuffleRow:
        return structs.replace(first, cost_wall_ms=ms)

    assert others
    assert context.waited_for_exchanges([costing(30)]) == (30, False)
    assert context.waited_for_exchanges([costing(30), costing(70)]) == (100, False)
    assert context.waited_for_exchanges([costing(30), costing(None)]) == (30, True)
    assert context.waited_for_exchanges([costing(None)]) == (None, False)


def test_without_a_critical_path_it_is_unknown() -> None:
    """An end before the start leaves no time to divide."""
    cached = recordings()["cache-filled"]
    _, row = found(structs.replace(cached, ended_at_ms=cached.started_at_ms), "cache-read-once")
    assert (row.wall_ms, row.wall_is_partial) == (None, False)


def test_together_it_is_no_more_than_the_execution_took() -> None:
    """Those that say why go first, then the largest; others have what is left, if it is enough for a finding."""
    rows = execution_rows(recordings()["cache-filled"])
    rows = replace(rows, execution=structs.replace(rows.execution, duration_ms=10_000))

    def costing(kind: str, wall_ms: int, is_place: bool = False) -> Heuristic:
        made = Finding(kind, "warning", "", {}, "", waited=Waited(wall_ms))
        return Heuristic(kind, lambda context: iter([made]), is_place=is_place)

    heuristics = (
        costing("where", 9_000, True),
        costing("small", 2_500),
        costing("large", 4_000),
        costing("rest", 2_200),
    )
    found = FindingsEngine(heuristics=heuristics).rows(rows)
    assert {row.finding: row.wall_ms for row in found} == {"large": 4_000, "small": 2_500, "rest": 2_200}
    found = FindingsEngine(heuristics=heuristics[:3]).rows(rows)
    assert {row.finding: row.wall_ms for row in found} == {"large": 4_000, "small": 2_500, "where": 3_500}


def test_findings_are_ranked() -> None:
    """By severity, then by wall time, then by impact; what is unknown comes last."""
    ranked = [
        ("critical", None, None, None),
        ("warning", 700, None, None),
        ("warning", 280, 10**9, None),
        ("warning", 0, None, 10**9),
        ("warning", None, 3, None),
        ("warning", None, 2, 250_000),
        ("warning", None, None, None),
        ("info", 10**9, 10**9, 10**9),
    ]
    assert sorted(ranked[3:] + ranked[:3], key=lambda row: rank(*row)) == ranked
    for name in ("broadcast-slow",):
        rows = FindingsEngine(SMALL, UNLIMITED).rows(execution_rows(recordings()[name]))
        assert len(rows) == 2
        assert rows == sorted(rows, key=lambda row: rank(row.severity, row.wall_ms, row.impact_ms, row.impact_bytes))


def test_each_kind_says_what_it_waits_for() -> None:
    """For the documentation."""
    assert [heuristic.id for heuristic in HEURISTICS if not heuristic.waits_for] == []
