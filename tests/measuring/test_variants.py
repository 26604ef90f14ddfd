"""When a comparison of variants is decided, and when its budget is spent."""

from __future__ import annotations

from typing import Any

import pytest

from joinsight.base.errors import JoinsightError
from joinsight.measuring.variants import _decided, _is_last, compare


def test_ratios_decide_if_they_scatter_little() -> None:
    """In both directions; two rounds decide nothing, nor do rounds that disagree."""
    assert _decided([0.5, 0.52, 0.49]) == "faster"
    assert _decided([2.0, 2.1, 1.95]) == "slower"
    assert _decided([0.5, 0.5]) == _decided([0.9, 1.1, 0.95, 1.05]) == _decided([]) == ""


def test_a_round_that_does_not_fit_is_not_begun() -> None:
    """The warm-up and three rounds took 8 s, so the next takes 2 s."""
    assert not _is_last(3, 8.0, 10.0)
    assert _is_last(3, 8.0, 9.9)


@pytest.mark.parametrize("budget_s", [0, -1, float("nan"), "10 min", "600", True])
def test_a_budget_must_be_some_time(budget_s: Any) -> None:
    """What is wrong is named before anything runs."""
    with pytest.raises(JoinsightError, match=r"budget_s=.* is not a number of seconds above 0"):
        compare({"a": lambda: 1 / 0, "b": lambda: 1}, 5, True, budget_s)
