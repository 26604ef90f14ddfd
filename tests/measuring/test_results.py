"""Results are equal in whatever order rows are, and whatever the last digits of floats are."""

from __future__ import annotations

import pytest

from joinsight.measuring.results import Result, same

ONE = Result(3, 17, {"f0_sum": 10.0, "f0_size": 12.0, "f0_square": 9.0})


@pytest.mark.parametrize("change", [{"f0_sum": 10.0 + 1e-9}, {"f0_sum": 10.0 - 5e-9}])
def test_the_last_digits_of_sums_may_differ(change: dict[str, float]) -> None:
    """By a billionth of the absolute values."""
    assert same(ONE, Result(3, 17, {**ONE.floats, **change}))


@pytest.mark.parametrize(
    "other",
    [
        Result(4, 17, ONE.floats),
        Result(3, 18, ONE.floats),
        Result(3, 17, {**ONE.floats, "f0_sum": 10.001}),
        Result(3, 17, {**ONE.floats, "f0_square": 8.0}),
        Result(3, 17, {}),
    ],
)
def test_all_else_must_be_the_same(other: Result) -> None:
    assert not same(ONE, other)


def test_results_of_functions_are_compared_as_they_are() -> None:
    """What is no DataFrame has its own equality."""
    assert same(7, 7) and not same(7, 8) and not same(ONE, 7)
    assert str(ONE) == "3 rows (hash 00000011)"


def test_what_differs_is_named() -> None:
    """A hash knows nothing of floats, so it is not shown where only they differ."""
    assert Result(4, 17, {}).difference(ONE) == "4 rows (hash 00000011) instead of 3 rows (hash 00000011)"
    assert Result(3, 17, {"f0_sum": 9.0}).difference(ONE) == "other floating-point numbers in 3 rows"
