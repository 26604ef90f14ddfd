"""Evidence that a series has changed, which may be looked at after every run, for ever: a Shiryaev-Roberts e-detector.

**Theorem** (Shin, Ramdas and Rinaldo, *E-detectors*, arXiv 2203.03532, here with time in weeks). Let ``w_n >= 0`` and
``L_n >= 0`` be such that ``w_n`` is known before run ``n``, and ``E[L_n | all runs before] <= 1``. Let ``M_0 = 0``,
``M_n = L_n * (M_(n-1) + w_n)``, and set ``M_n`` to 0 whenever an alarm is raised, which needs ``M_n >= c``. Then the
expected number of alarms up to any stopping time ``T`` is at most ``E[w_1 + ... + w_T] / c``. *Proof.* Let ``S_n`` be
``M_n`` plus all that alarms took away. Then ``E[S_n | all runs before] <= S_(n-1) + w_n``, so ``S_n - (w_1 + ... +
w_n)`` is a supermartingale, and ``c * alarms <= S_T``.

With ``w_n`` the weeks since the run before, ``c = 1000`` means: at most one false alarm in 1,000 weeks. Rates of
several series add up, however they depend on each other. A mean of such ``M`` (here: for several sizes of a change)
is one, too. A share of false alarms cannot be promised for series that are watched for ever, only such a rate
(Dandapanthula and Ramdas, arXiv 2501.04130); `certain` is their e-d-BH procedure.

**Assumption.** ``L_n = exp(d * z - d * d / 2)`` has mean 1 for a standard normal ``z``, and rises with it: what is
needed is that, given all runs before, ``score`` exceeds each value no more often than a standard normal variable
does. It is made so that it holds for runs that scatter around a constant level, with tails like Student's t with 8
degrees of freedom, that may differ by weekday and depend on the run before. It does not hold for series that wander:
there, more alarms are raised (docs/benchmarks.md#certain-alarms).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TypeVar

FEWEST = 20
"""Points that must be known before a series is watched."""
LAG = 21
"""The latest points, with which new ones are not compared: slow growth would else hide itself."""
WINDOW = 91
"""Points that are kept."""
CHANGES = (0.75, 1.5, 2.5)
"""Changes that are looked for, in spreads."""
SHARES = (0.2, 0.5, 0.9)
"""Shares of failures that are looked for."""

_MOST_SCORE = 3.0
"""However slow one run was, it is not enough for an alarm."""
_LEAST_SPREAD = 0.03
_TAIL = 2.0
"""``2 * asinh(r / 2)`` of a variable with the tails of Student's t (8 degrees of freedom) has about normal ones."""
_UPPER_DECILE = 2 * math.sinh(1.2816 / 2)
_NORMAL = 1.4826
_MEDIAN_ERRORS = 1.5
"""How uncertain the level is, in spreads / sqrt(points): 1.25 is the standard error of a median."""
_SPREAD_ERRORS = 5
"""A spread of n points is taken to be (1 + 5 / n) times as large, as in `joinsight_alarm_above`."""
_WEEKDAY_RUNS, _WEEKDAY_ERRORS = 4, 2.5
_MOST_CORRELATION = 0.9
_LEAST_SHARE = 0.02
_MOST_WEEKS = 1e9
"""Evidence of a change that is too small for an alarm does not grow for ever; less of it is as valid."""

Key = TypeVar("Key")
Evidence = tuple[float, ...]
"""The evidence for each size of a change, in weeks: their sum is the e-detector."""
NONE: Evidence = (0.0, 0.0, 0.0)


def score(values: Sequence[float], weekdays: Sequence[int], value: float, weekday: int) -> float | None:
    """How unusually large a value is, like a standard normal variable or smaller if nothing changed; None: too few.

    `values` are earlier ones, the oldest first, `weekdays` theirs.
    """
    if len(values) < FEWEST:
        return None
    known = max(FEWEST, len(values) - LAG)
    usual = _levels(values[:known], weekdays[:known])
    level = usual.pop(-1)
    around = [v - level - usual.get(day, 0.0) for v, day in zip(values[:known], weekdays[:known], strict=True)]
    middle = median(around)
    around = [each - middle for each in around]
    most = 3 * max(_spread(around), _LEAST_SPREAD)
    around = [max(-most, min(most, each)) for each in around]
    correlation = _correlation(around)
    before = values[-1] - level - middle - usual.get(weekdays[-1], 0.0)
    rest = value - level - middle - usual.get(weekday, 0.0) - correlation * max(-most, min(most, before))
    if correlation:
        around = [b - correlation * a for a, b in pairwise(around)]
        middle = median(around)
        rest -= middle
        around = [each - middle for each in around]
    spread = max(_spread(around), _LEAST_SPREAD)
    spreads = (rest - _MEDIAN_ERRORS * spread / math.sqrt(known)) / (spread * (1 + _SPREAD_ERRORS / known))
    return min(_MOST_SCORE, _TAIL * math.asinh(spreads / _TAIL))


def _levels(values: Sequence[float], weekdays: Sequence[int]) -> dict[int, float]:
    """The usual value (-1), and how weekdays differ from it by more than their uncertainty."""
    level = median(values)
    by_day: dict[int, list[float]] = {}
    for value, day in zip(values, weekdays, strict=True):
        by_day.setdefault(day, []).append(value)
    medians = {day: median(its) for day, its in by_day.items() if len(its) >= _WEEKDAY_RUNS}
    rests = [abs(value - medians.get(day, level)) for value, day in zip(values, weekdays, strict=True)]
    spread = max(_NORMAL * median(rests), _LEAST_SPREAD)
    certain = {
        day: its - level
        for day, its in medians.items()
        if abs(its - level) > _WEEKDAY_ERRORS * spread / math.sqrt(len(by_day[day]))
    }
    return certain | {-1: level}


def _spread(around: Sequence[float]) -> float:
    """The scatter of values around 0, by their median distance or their upper tail, whichever is larger."""
    upper = sorted(around)[min(len(around) - 1, int(0.9 * len(around)))]
    return max(_NORMAL * median(map(abs, around)), upper / _UPPER_DECILE)


def _correlation(around: Sequence[float]) -> float:
    """The correlation of neighbours around 0, from how often both are above or below; 0 if it is negative."""
    pairs = list(pairwise(around))
    same = sum((a > 0) == (b > 0) for a, b in pairs) / len(pairs)
    return min(_MOST_CORRELATION, max(0.0, math.sin(math.pi / 2 * (2 * same - 1))))


def larger(evidence: Evidence, score: float, weeks: float) -> Evidence:
    """The evidence that values have become larger, after a further one; `weeks`: since the one before."""
    return tuple(
        min(_MOST_WEEKS, math.exp(change * score - change * change / 2) * (each + weeks / len(CHANGES)))
        for change, each in zip(CHANGES, evidence, strict=True)
    )


def more_frequent(evidence: Evidence, earlier: Sequence[bool], is_so: bool, weeks: float) -> Evidence:
    """The evidence that something happens more often, after a further run; `earlier`: whether it did in earlier runs.

    The assumption: given all before, it happens no more often than in ``(1 + times) / (2 + runs)`` of the runs, or 2 %.
    """
    share = max(_LEAST_SHARE, (1 + sum(earlier)) / (2 + len(earlier)))
    factors = [(now / share if is_so else (1 - now) / (1 - share)) if now > share else 1.0 for now in SHARES]
    return tuple(
        min(_MOST_WEEKS, factor * (each + weeks / len(SHARES))) for factor, each in zip(factors, evidence, strict=True)
    )


def changed_at(values: Sequence[float]) -> int:
    """The index from which on a series has another level: where two levels fit best, each of three values or more."""
    middle = median(values)
    most = 5 * max(_NORMAL * median(abs(v - middle) for v in values), _LEAST_SPREAD)
    clipped = [max(-most, min(most, value - middle)) for value in values]
    whole, first = sum(clipped), 0.0
    best, found = -1.0, len(values) - 1
    for i, value in enumerate(clipped[:-3], 1):
        first += value
        n, m = i, len(clipped) - i
        gain = n * m / (n + m) * ((whole - first) / m - first / n) ** 2
        if i >= 3 and gain > best:
            best, found = gain, i
    return found


def certain(evidence: Mapping[Key, float], series: int, least: Mapping[Key, float], share: float) -> list[Key]:
    """Which series have changed, by the rate of false alarms of each, and by e-Benjamini-Hochberg over all of them.

    `evidence`, in weeks, of those of `series` in all that have some; `least`: what each needs, less counts as none.
    `share`: of false alarms among the alarms, for each week that is watched.
    """
    enough = sorted((each for each in evidence if evidence[each] >= least[each]), key=lambda each: -evidence[each])
    count = max((k for k, each in enumerate(enough, 1) if evidence[each] >= series / (k * share)), default=0)
    return enough[:count]


__all__ = [
    "CHANGES",
    "FEWEST",
    "LAG",
    "NONE",
    "SHARES",
    "WINDOW",
    "Evidence",
    "certain",
    "changed_at",
    "larger",
    "more_frequent",
    "score",
]
