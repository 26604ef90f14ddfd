"""The events planted in the generated history: one story for each of the first jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from joinsight.analysis.rows import DEFAULT_BROADCAST_THRESHOLD

STAR_SIDE_BYTES = 120_000
"""The dimension of the template ``star``, broadcast or shuffled."""
_AT_THRESHOLD = DEFAULT_BROADCAST_THRESHOLD / STAR_SIDE_BYTES


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a story on the runs of one day: factors for their data and time, and other changes."""

    variant: str | None = None
    """The variant of the template that runs; None: the standard one."""
    large: float = 1.0
    small: float = 1.0
    time: float = 1.0
    largest_share: float | None = None
    """The share of the skewed shuffle's rows that its largest task reads."""
    spilled_share: float = 0.0
    """The share of the bytes sorted for joins that is spilled."""
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """What happens to a job with one query, on the day at `share` of the history's time."""

    kind: str
    query: str
    """The template, with its standard variant."""
    share: float
    effect: Callable[[int], Effect]
    """On so many days after the day of the story, or before it."""
    numbers: Mapping[str, float]
    """What was planted, for those who check what was found."""
    other_variant: str | None = None
    small: float = 4.0
    """The size of the dimensions on the day of the story, against the template."""


def _flip(time: float) -> Callable[[int], Effect]:
    """The dimension grows by 0.4 % a day; on the day it is over the threshold, and is shuffled from then on."""

    def effect(days: int) -> Effect:
        if days < 0:
            return Effect(small=1.004**days)
        return Effect("merge", small=1.004**days, time=time)

    return effect


def _from_then_on(then: Effect) -> Callable[[int], Effect]:
    return lambda days: then if days >= 0 else Effect()


STORIES = (
    Story("data_growth", "pair", 0.0, lambda days: Effect(large=1.35 ** (days / 30)), {"factor_per_month": 1.35}),
    Story(
        "broadcast_over_threshold",
        "star/broadcast",
        0.60,
        lambda days: Effect(small=1.02**days),
        {"threshold_bytes": DEFAULT_BROADCAST_THRESHOLD, "factor_per_day": 1.02},
        small=1.01 * _AT_THRESHOLD,
    ),
    Story(
        "join_flip",
        "star/broadcast",
        0.65,
        _flip(1.0),
        {"threshold_bytes": DEFAULT_BROADCAST_THRESHOLD},
        other_variant="merge",
        small=1.002 * _AT_THRESHOLD,
    ),
    Story(
        "plan_changed",
        "star/broadcast",
        0.70,
        _flip(2.0),
        {"threshold_bytes": DEFAULT_BROADCAST_THRESHOLD, "time_factor": 2.0},
        other_variant="merge",
        small=1.002 * _AT_THRESHOLD,
    ),
    Story("slower", "pair", 0.75, _from_then_on(Effect(time=2.2)), {"time_factor": 2.2}),
    Story("data_grew", "pair", 0.80, _from_then_on(Effect(large=2.5)), {"data_factor": 2.5, "time_factor": 2.5**0.85}),
    Story("skew", "pair", 0.55, _from_then_on(Effect(largest_share=0.45)), {"largest_share": 0.45}),
    Story("spill", "pair", 0.85, _from_then_on(Effect(spilled_share=0.6)), {"spilled_share": 0.6}),
    Story(
        "broadcast_failed",
        "star/broadcast",
        0.62,
        lambda days: Effect("failed" if 0 <= days < 3 else None),
        {"days": 3},
        other_variant="failed",
    ),
    Story("driver_lost", "totals", 0.72, lambda days: Effect(is_lost=days == 0), {"days": 1}),
)
