"""Whether a variant is faster: a test of paired runs that may be looked at after every pair, and stopped at any time.

Each pair is a run of the baseline and one of the variant, next to each other. Its log ratio ``log(baseline / variant)``
is above 0 if the variant is faster. The assumption: log ratios of pairs are independent and normal, with one mean and
one variance, both unknown; what drifts slowly slows both runs of a pair and cancels out.

For a fixed effect size (mean / standard deviation), the likelihood ratio against effect 0, in which the scale of the
data is integrated out, is a martingale with mean 1 while the mean is 0 (Lai 1976; Wang and Ramdas 2024, "Anytime-valid
t-tests"), and falls if it is below. So is a mixture over effect sizes. By Ville's inequality, it ever reaches ``1 / a``
with probability at most ``a``, however often one looks.

The pairs alone say little about their scatter, so a large effect would need many. Two things say more: what is usual,
as if two other pairs had been seen; and the log ratios of successive runs of the baseline, `noise`. These share runs
with the pairs, and what is usual may not hold, so the bound of Ville is no longer exact: see docs/benchmarks.md for how
often useless variants pass in simulations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

ENOUGH = 100.0
"""Evidence from which on a variant is faster: reached by chance once in 100 useless variants."""
LEAST_SAVING = 0.03
"""A smaller share of the wall time is not worth a change of code."""
_EFFECTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Mean / standard deviation; 8: half the time, with 9 % of scatter."""
_USUAL_PAIRS, _USUAL_SCATTER = 2, 0.15
"""What is known of scatter before any run: as if so many pairs had been seen with this standard deviation."""
_STEPS = 400
_WIDEST = 20.0
"""A log ratio that no two runs have."""


def log_ratio(first_ms: float, second_ms: float) -> float:
    """Above 0 if the second run is faster."""
    return math.log(max(1, first_ms) / max(1, second_ms))


def evidence(log_ratios: Sequence[float], noise: Sequence[float] = ()) -> float:
    """How many times likelier the log ratios are with a mean above 0: 100 is reached by chance once in 100 trials.

    `noise` are log ratios of runs that differ by chance only.
    """
    known = _USUAL_PAIRS + len(noise)
    squares = _USUAL_PAIRS * _USUAL_SCATTER**2 + sum(each * each for each in (*log_ratios, *noise))
    score = sum(log_ratios) / math.sqrt(squares)
    return sum(_likelihood_ratio(len(log_ratios), known, score, effect) for effect in _EFFECTS) / len(_EFFECTS)


@dataclass(frozen=True)
class Pairs:
    """Log ratios of pairs in a measure, with those of runs that differ by chance only."""

    log_ratios: Sequence[float]
    noise: Sequence[float] = ()

    @cached_property
    def mean(self) -> float:
        return sum(self.log_ratios) / max(1, len(self.log_ratios))

    @cached_property
    def evidence(self) -> float:
        return evidence(self.log_ratios, self.noise)


def together(wall: Pairs, calm: Pairs) -> float:
    """The evidence of both measures: their mean, which chance makes as large as seldom as each of them."""
    return (wall.evidence + calm.evidence) / 2


def is_faster(wall: Pairs, calm: Pairs | None = None) -> bool:
    """Whether the variant is certainly faster, by what is worth a change; never of one pair.

    `calm` is the wall time without what tasks waited for processors: if the variant waits more than the query by
    nature, not by chance, it saves less wall time. So that must have fallen by half as much, too.
    """
    calm = calm or wall
    least = max(LEAST_SAVING, calm.mean / 2)
    return len(wall.log_ratios) > 1 and wall.mean >= least and together(wall, calm) >= ENOUGH


def is_hopeless(wall: Pairs, calm: Pairs | None = None) -> bool:
    """Whether more pairs are a waste: slower in two, hardly faster in three, or in eight nothing speaks for it."""
    number, calm = len(wall.log_ratios), calm or wall
    saved = max(wall.mean, calm.mean)
    return number >= 2 and (saved < (0 if number < 3 else LEAST_SAVING) or (number >= 8 and together(wall, calm) <= 1))


def _likelihood_ratio(pairs: int, known: int, score: float, effect: float) -> float:
    """That of an effect size against 0, with the scale integrated out under its Haar measure.

    The integral over w of ``w^(n-1) exp(-w^2/2 + effect w score - pairs effect^2/2) / (2^(n/2-1) gamma(n/2))``, where
    n is the number of pairs and of other log ratios, which are known to have mean 0.
    """
    number = pairs + known
    slope = effect * score
    peak = (slope + math.sqrt(slope * slope + 4 * (number - 1))) / 2
    low, high = max(0.0, peak - 10), peak + 10
    width = (high - low) / _STEPS
    constant = pairs * effect * effect / 2 + (number / 2 - 1) * math.log(2) + math.lgamma(number / 2)
    total = 0.0
    for step in range(_STEPS):
        w = low + (step + 0.5) * width
        total += math.exp((number - 1) * math.log(w) - w * w / 2 + slope * w - constant)
    return total * width


def interval(log_ratios: Sequence[float], noise: Sequence[float] = (), certainty: float = 0.95) -> tuple[float, float]:
    """Bounds of the mean log ratio that hold with this certainty at all times; infinite with too few pairs."""
    least = 2 / (1 - certainty)
    mean = sum(log_ratios) / len(log_ratios) if log_ratios else 0.0
    return -_bound([-each for each in log_ratios], noise, -mean, least), _bound(log_ratios, noise, mean, least)


def _bound(log_ratios: Sequence[float], noise: Sequence[float], mean: float, least: float) -> float:
    """The smallest mean above that of the data which the data speak against."""

    def is_refuted(candidate: float) -> bool:
        return evidence([candidate - each for each in log_ratios], noise) >= least

    low, high = mean, mean + _WIDEST
    if not is_refuted(high):
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high
