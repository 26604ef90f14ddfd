"""When a number that grows reaches a limit: a robust line through its logarithms, with an interval.

The slope is the median of the slopes between all pairs of points (Theil and Sen); its interval leaves out as many of
the smallest and largest as Kendall's test allows at 90 %. A line is assumed: what grows by steps or saturates is not
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST = 10
"""Runs that a forecast needs."""
LEAST_DAYS = 7.0
HORIZON_DAYS = 90.0
"""What is reached later is not forecast."""
MOST = 60
_NORMAL = 1.645
"""The 95 % quantile of a normal variable: both ends leave out 5 %."""
_LEAST_TIES = 1e-9


@dataclass(frozen=True, slots=True)
class Forecast:
    """Days from the last point on."""

    days: float
    earliest_days: float
    latest_days: float | None
    """None: it may not be reached within the horizon."""
    growth_a_day: float
    """As a share: 0.02 is 2 % a day."""


def forecast(days: Sequence[float], values: Sequence[float], limit: float) -> Forecast | None:
    """When the values reach the limit; None if it is reached, or that they will is not certain, soon or known.

    `days` are the times of the values, the earliest first, which are above 0.
    """
    days, values = days[-MOST:], values[-MOST:]
    if len(values) < FEWEST or days[-1] - days[0] < LEAST_DAYS or values[-1] >= limit:
        return None
    logarithms = [math.log(each) for each in values]
    pairs = (
        (logarithms[j] - logarithms[i]) / (days[j] - days[i])
        for i in range(len(days))
        for j in range(i + 1, len(days))
        if days[j] - days[i] > _LEAST_TIES
    )
    slopes = sorted(pairs)
    n = len(days)
    kendall = _NORMAL * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    outside = max(0, math.floor((len(slopes) - kendall) / 2))
    slow, slope, fast = slopes[outside], median(slopes), slopes[len(slopes) - 1 - outside]
    if slow <= 0:
        return None  # it may not grow
    last = days[-1]
    levels = [value - slope * (day - last) for value, day in zip(logarithms, days, strict=True)]
    level = median(levels)
    scatter = 1.4826 * median(abs(each - level) for each in levels)
    missing = math.log(limit) - level
    at = max(0.0, missing / slope)
    if at > HORIZON_DAYS:
        return None
    earliest, latest = max(0.0, (missing - 2 * scatter) / fast), max(0.0, (missing + 2 * scatter) / slow)
    return Forecast(at, earliest, latest if latest <= 2 * HORIZON_DAYS else None, math.expm1(slope))
