"""What `try_advice` tries first, and why it refuses a variant whose run was stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.verdict.test_verdict import document

from joinsight.measuring.advice import Stopped, _Trials
from joinsight.measuring.measurement import measured_execution
from joinsight.measuring.proposals import TASKS, Proposal, proposals


@pytest.mark.parametrize(
    ("left_s", "reason"),
    [
        (1000.0, "Stopped after 30 s: slower than the query as it is."),
        (-1.0, "The budget of 60 s is too small to decide."),
    ],
)
def test_a_run_that_was_stopped(left_s: float, reason: str) -> None:
    """By the end of the budget, or because it took three times as long as the query: only that is slower."""
    trials: Any = object.__new__(_Trials)
    trials._deadline, trials._longest_s, trials._budget_s, trials._refused = time.monotonic() + left_s, 30.0, 60, []
    with trials._refusing(Proposal("variant", "code", TASKS), True):
        raise Stopped("stopped")
    [decided] = trials._refused
    assert decided.reason == reason


def test_what_takes_most_of_the_time_is_tried_first() -> None:
    """Tasks that are too small took 95 of 127 s; AQE, which is off, would help the whole query."""
    found = [each.variant for each in proposals(measured_execution(document("tiny-stages")))]
    assert found == ["2 shuffle partitions", "adaptive query execution"]
