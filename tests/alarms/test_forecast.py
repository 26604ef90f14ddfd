"""Forecasts name the day on which growth reaches a limit, and none where nothing is known to grow."""

from __future__ import annotations

import math
from random import Random

import pytest

from joinsight.alarms.forecast import HORIZON_DAYS, forecast

DAYS = [float(day) for day in range(40)]


def grown(a_day: float, scatter: float = 0.0, seed: int = 1) -> list[float]:
    random = Random(seed)
    return [100 * (1 + a_day) ** day * math.exp(random.gauss(0, scatter)) for day in DAYS]


def test_growth_without_scatter_has_an_exact_day() -> None:
    found = forecast(DAYS, grown(0.02), 100 * 1.02**59)
    assert found is not None and found.growth_a_day == pytest.approx(0.02)
    assert (found.days, found.earliest_days, found.latest_days) == pytest.approx((20, 20, 20))


def test_the_interval_has_the_day() -> None:
    """It has it in at least 85 of 100 histories with 10 % scatter, and is not endless."""
    limit, inside = 100 * 1.02**59, 0
    for seed in range(100):
        found = forecast(DAYS, grown(0.02, 0.1, seed), limit)
        if found and found.latest_days is not None:
            inside += found.earliest_days <= 20 <= found.latest_days
            assert found.latest_days - found.earliest_days < 80
    assert inside >= 85


def test_an_outlier_changes_little() -> None:
    """One value of a hundred times does not move the day by much."""
    values = grown(0.02)
    values[30] *= 100
    found = forecast(DAYS, values, 100 * 1.02**59)
    assert found is not None and found.days == pytest.approx(20, abs=1)


@pytest.mark.parametrize(
    ("days", "values", "limit"),
    [
        (DAYS[:9], grown(0.02)[:9], 150.0),
        ([day / 10 for day in DAYS], grown(0.02), 1000.0),
        (DAYS, grown(0.0, 0.1), 200.0),
        (DAYS, grown(-0.02), 200.0),
        (DAYS, grown(0.02), 150.0),
        (DAYS, grown(0.02), 100 * 1.02 ** (41 + HORIZON_DAYS)),
    ],
    ids=["nine runs", "four days", "no growth", "it shrinks", "it is reached", "it is far away"],
)
def test_no_forecast(days: list[float], values: list[float], limit: float) -> None:
    assert forecast(days, values, limit) is None
