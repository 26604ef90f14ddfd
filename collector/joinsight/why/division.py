"""Divides the change of a product over its factors, exactly and in no order: the logarithmic mean Divisia index.

For ``w = x1 * x2 * ... * xn`` the change from ``a`` to ``b`` is the sum over the factors of
``L(w_b, w_a) * ln(x_b / x_a)``, where ``L(p, q) = (p - q) / ln(p / q)`` is the logarithmic mean. There is no residual,
the order of the factors does not matter, and the change of a sum is the sum of the changes of its terms (Ang, 2004).
Where a product is zero, all of the change is that of the factors which were or became zero: the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high


def shares(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """How much each factor changed the product of all of them; both have the same factors, none below 0."""
    first, last = (math.prod(factors.values()) for factors in (before, after))
    if not (first and last):
        zero = [name for name in before if not (before[name] and after[name])]
        return {name: (last - first) / len(zero) if name in zero else 0.0 for name in before}
    mean = last if math.isclose(first, last, rel_tol=1e-12) else (last - first) / math.log(last / first)
    return {name: mean * math.log(after[name] / before[name]) for name in before}


def rounded(amounts: Mapping[str, float], whole: int, rest: str) -> dict[str, int]:
    """The amounts as integers that add up to `whole`; what is left over is that of `rest`."""
    found = {name: round(amount) for name, amount in amounts.items() if name != rest}
    found[rest] = whole - sum(found.values())
    return found


@dataclass(frozen=True, slots=True)
class Floor:
    """How much runs differ without a cause, whatever is known: shares of the shortest."""

    guessed: float
    """Where fewer than four runs are known."""
    least: float


USUAL = Floor(0.15, 0.05)
CALM, BUSY = Floor(0.3, 0.15), Floor(1.0, 0.7)
"""For two runs that did the same work, where tasks mostly had the CPU, and where they waited for it."""
BUSY_WITHOUT_WAITING = Floor(0.4, 0.2)
WARMING = Floor(3.0, 2.0)
"""For the first run of a query in an application, and a later one."""


def scatter(durations_ms: Sequence[float], shortest_ms: float, floor: Floor = USUAL) -> tuple[float, int]:
    """How much runs of a query differ without a cause, in milliseconds, and from how many that is known; 0: a guess.

    `durations_ms`: of earlier runs. Three robust standard deviations, each 1.4826 times the median distance from the
    median, more of fewer than nine runs, whose scatter is less certain (`spread_of`); or a share of `shortest_ms`. Two
    or three runs only tell that it is at least their difference.
    """
    runs = len(durations_ms)
    if runs < FEWEST_RUNS:
        apart = max(durations_ms) - min(durations_ms) if runs > 1 else 0.0
        return max(apart, floor.guessed * shortest_ms, _LEAST_MS), 0
    return max(spread_of(durations_ms), floor.least * shortest_ms, _LEAST_MS), runs


def spread_of(values: Sequence[float]) -> float:
    """Three robust standard deviations of at least four values, more of fewer than nine; 0 of fewer than four."""
    runs = len(values)
    if runs < FEWEST_RUNS:
        return 0.0
    middle = median_high(values)
    uncertain = max(1.0, (1 + _UNCERTAIN / runs) / (1 + _UNCERTAIN / _USUAL_RUNS))
    return 3 * 1.4826 * uncertain * median_high(abs(each - middle) for each in values)


FEWEST_RUNS = 4
"""Runs from which on the scatter is known."""
_UNCERTAIN, _USUAL_RUNS = 5, 9
"""As in `joinsight_alarm_above`: the scatter of n runs counts (1 + 5 / n) times, here compared with nine runs."""
_LEAST_MS = 200.0


__all__ = [
    *("BUSY", "BUSY_WITHOUT_WAITING", "CALM", "FEWEST_RUNS", "USUAL", "WARMING"),
    *("Floor", "rounded", "scatter", "shares", "spread_of"),
]
