"""What an execution would have saved without an operator: with its share of the tasks' time gone, scheduled again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from joinsight.timing.cost import Attempt, CostBreakdown, CostSubject
from joinsight.timing.replay import Replay, ReplayStage
from joinsight.timing.savings import Savings


def subject(node_id: int) -> CostSubject:
    return CostSubject("operator", node_id=node_id)


WEIGHTS: Mapping[Attempt, Mapping[CostSubject, int]] = {
    (1, 0): {subject(7): 200, subject(8): 300},
    (2, 0): {subject(9): 100, CostSubject("shared", stage_id=2): 100},
    (3, 0): {subject(7): 100, subject(10): 400},
}
"""Shuffle 7 is written by stage 1 and read by stage 3, which also reads what stage 2 wrote."""
WAITS: Mapping[Attempt, Mapping[int, int]] = {(1, 0): {7: 200, 8: 300}, (3, 0): {7: 100, 10: 400}}
"""Stage 2 is not on the critical path."""
ATTEMPTS: list[Attempt] = [(1, 0), (2, 0), (3, 0)]


def savings(beside: float, slots: int = 2) -> Savings:
    """Stages 1 and 3 take 500 ms, with one task each; stage 2 runs beside the first."""
    stages = [
        ReplayStage(0, (), 0, (500,), job=1),
        ReplayStage(1, (), 0, (beside,), job=2),
        ReplayStage(2, (0, 1), 0, (500,), job=3),
    ]
    return Savings(CostBreakdown((), (), WAITS, WEIGHTS), Replay(stages, slots, 0), ATTEMPTS)


@pytest.mark.parametrize(
    ("beside", "slots", "saved"),
    [
        (100, 2, 300),
        (450, 2, 150),  # then stage 2 is the longest; reading is saved all the same
        (500, 2, 100),
        (450, 1, 300),  # with one slot, stage 2 waits for it: all is saved
    ],
)
def test_what_runs_beside_it_limits_it(beside: float, slots: int, saved: int) -> None:
    """Unless it waits for the same slots."""
    assert savings(beside, slots).of(7) == saved


def test_nothing_is_saved_that_nobody_waited_for() -> None:
    found = savings(100)
    assert [found.of(node_id) for node_id in (8, 9, 10, 11)] == [300, 0, 400, 0]


def test_an_execution_that_runs_tells_no_saving() -> None:
    assert Savings(CostBreakdown((), (), {}), Replay((), 1, 0), ()).of(7) == 0
