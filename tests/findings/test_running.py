"""Findings while a query runs: those that missing numbers cannot refute, at each report."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.verdict.test_running import EVEN, LAST, running
from tests.verdict.test_verdict import document, stored

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution
from joinsight.findings import FindingsEngine
from joinsight.tables import FindingRow
from joinsight.verdict import judge


def found(e: Execution) -> list[FindingRow]:
    return FindingsEngine().rows(execution_rows(e))


@pytest.mark.parametrize(
    ("read", "made", "finding"),
    [(LAST, LAST, "skewed-shuffle"), (EVEN, LAST, "output-skew"), (EVEN, EVEN, "slow-host")],
)
def test_a_straggler_is_a_finding(read: str, made: str, finding: str) -> None:
    """What is at stake is a part of the time so far."""
    (row,) = found(running(read, made))
    assert row.finding == finding
    assert "1 of 8 tasks still runs, for 4 min" in row.title
    assert row.wall_ms == 177_750  # 243 s less a quarter of 21 s and 240 s


def test_a_join_that_explodes_is_a_finding_before_it_has_ended() -> None:
    """With the text and numbers of the verdict, at the time of its end here."""
    e = document("selfjoin")
    report = structs.replace(e, state="running", ended_at_ms=None, reported_at_ms=e.ended_at_ms)
    (row,) = found(report)
    assert (row.finding, row.wall_ms) == ("exploding-join", judge(stored("selfjoin")).wall_ms)


def test_others_wait_for_the_end() -> None:
    """Their numbers would change: the tasks of a stage that runs are not all known."""
    for name in ("tiny", "udf", "sort1"):
        e = document(name)
        assert not found(structs.replace(e, state="running", ended_at_ms=None, reported_at_ms=e.ended_at_ms))


@pytest.mark.parametrize("change", [{"reported_at_ms": None}, {"state": "lost"}, {"incomplete": ["events dropped"]}])
def test_what_is_not_known_is_no_finding(change: dict[str, object]) -> None:
    """An older listener tells no time of the report; of events that were dropped, one may be the end of the task."""
    assert not found(structs.replace(running(LAST, LAST), **change))
