"""Rules that raise alarms: each takes durations of nights, in milliseconds, and returns the nights of its alarms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from statistics import fmean, median, stdev
from typing import Any

from joinsight.alarms.series import LEAST_WEEKS, Point, Series
from joinsight.tables import DURATION

Alarms = Callable[[Sequence[int]], Sequence[int]]
"""From the durations of all nights to the nights of alarms."""
_QUIET = 14
"""Nights after an alarm in which a rule's further ones are the same."""
_HOUR = 490_000 // 168 * 168


def certain(durations: Sequence[int]) -> list[int]:
    """Certain regressions; after an alarm the history begins again."""
    series, found = Series(), list[int]()
    for night, each in enumerate(durations):
        hour = _HOUR + 24 * night
        series.add(Point(hour, each, 1, 0, 0))
        if series.weeks(DURATION) >= LEAST_WEEKS[DURATION] and (change := series.change(DURATION)):
            found.append(night)
            series.accept(DURATION, change.since_hour)
    return found


def suspected(durations: Sequence[int]) -> list[int]:
    """The rule of `joinsight_regressions`: the last 5 nights of 7 against the 20 before these 7."""

    def is_worse(known: Sequence[int]) -> bool:
        if len(known) < 12:
            return False
        before, now = known[-27:-7], median(known[-5:])
        usual = median(before)
        spread = 1.4826 * median(abs(each - usual) for each in before)
        return now > max(1.3 * usual, usual + 1000, usual + 3 * (1 + 5 / len(before)) * spread)

    return _starts(durations, is_worse)


def three_sigma(durations: Sequence[int]) -> list[int]:
    """The last run is above the mean of the 30 before by three standard deviations."""

    def is_worse(known: Sequence[int]) -> bool:
        before = known[-31:-1]
        return len(before) >= 20 and known[-1] > fmean(before) + 3 * stdev(before)

    return _starts(durations, is_worse)


def otava() -> Alarms | None:
    """Apache Otava with its defaults, asked each night about the last 90; None if it is not installed."""
    try:
        analysis: Any = importlib.import_module("otava.analysis")
    except ImportError:
        return None

    def alarms(durations: Sequence[int]) -> list[int]:
        known: set[int] = set()
        found = []
        for night in range(20, len(durations)):
            first = max(0, night - 89)
            points, _ = analysis.compute_change_points(list(map(float, durations[first : night + 1])))
            for point in points:
                at = first + point.index
                is_up = point.stats.mean_2 > point.stats.mean_1
                if is_up and not any(abs(at - each) <= _QUIET for each in known):
                    found.append(night)
                known.add(at)
        return found

    return alarms


def _starts(durations: Sequence[int], is_worse: Callable[[Sequence[int]], bool]) -> list[int]:
    found: list[int] = []
    last = -_QUIET
    for night in range(1, len(durations) + 1):
        if is_worse(durations[max(0, night - 31) : night]):
            if night - last >= _QUIET:
                found.append(night - 1)
            last = night
    return found
