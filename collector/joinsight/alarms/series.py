"""What is known of the runs of a query, an hour at a time: its last points, and the evidence that it has changed.

A point is an hour in which it ran: the median duration, and how most of these runs ended. So a query that runs every
second is as much work as one that runs every hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from joinsight.alarms.detector import NONE, WINDOW, Evidence, changed_at, larger, more_frequent, score
from joinsight.tables import CANCELLED, DURATION, FAILED

LEAST_WEEKS: Mapping[str, float] = {DURATION: 2000.0, FAILED: 4000.0, CANCELLED: 4000.0}
"""Evidence that an alarm needs: together they raise at most one false alarm in 1,000 weeks of a query."""
LEAST_CHANGE, LEAST_MS = 1.1, 1000.0
"""A query that became slower by less than this, as a factor or in milliseconds, raises no alarm."""
OUTCOMES = 60
"""Points whose outcomes are kept."""
SUCCEEDED, _FAILED, _CANCELLED = 0, 1, 2
_CODES: Mapping[str, int] = {FAILED: _FAILED, CANCELLED: _CANCELLED}
_MOST_MS = 2**31 - 1
_HOURS_A_WEEK, _HOURS_A_DAY = 168, 24
_LEAST_LOGARITHM_MS = 100
RECOVERED_POINTS = 5
"""Points that must look as before the change."""


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of a query that started in an hour."""

    hour: int
    """Since 1970."""
    duration_ms: int | None
    """Median of successful, complete ones; None: there is none."""
    succeeded: int
    failed: int
    """Also lost ones."""
    cancelled: int


@dataclass(frozen=True, slots=True)
class LevelChange:
    """What an alarm says."""

    since_hour: int
    before: float
    after: float
    points: int


@dataclass(slots=True)
class Series:
    """The columns are those of table `watched_query`."""

    seen_until: int = 0
    """Hour."""
    hours: list[int] = field(default_factory=list)
    durations_ms: list[int] = field(default_factory=list)
    ended_hours: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    evidence: dict[str, Evidence] = field(default_factory=lambda: dict.fromkeys((DURATION, FAILED, CANCELLED), NONE))

    def add(self, point: Point, open_alarms: Sequence[str] = ()) -> None:
        """Take a later point; a measure of which an alarm is open gathers no further evidence."""
        self.seen_until = point.hour + 1
        if point.duration_ms is not None:
            self._add_duration(point.hour, point.duration_ms, is_open=DURATION in open_alarms)
        ended = point.succeeded + point.failed + point.cancelled
        if ended:
            self._add_outcome(point, ended, open_alarms)

    def _add_duration(self, hour: int, duration_ms: int, *, is_open: bool) -> None:
        value = min(duration_ms, _MOST_MS)
        if self.hours and not is_open:
            found = score(
                [_logarithm(each) for each in self.durations_ms],
                [_weekday(each) for each in self.hours],
                _logarithm(value),
                _weekday(hour),
            )
            if found is not None:
                weeks = _weeks(self.hours[-1], hour)
                self.evidence[DURATION] = larger(self.evidence[DURATION], found, weeks)
        self.hours = [*self.hours, hour][-WINDOW:]
        self.durations_ms = [*self.durations_ms, value][-WINDOW:]

    def _add_outcome(self, point: Point, ended: int, open_alarms: Sequence[str]) -> None:
        numbers = {FAILED: point.failed, CANCELLED: point.cancelled}
        outcome = next((code for name, code in _CODES.items() if 2 * numbers[name] >= ended), SUCCEEDED)
        if self.outcomes:
            weeks = _weeks(self.ended_hours[-1], point.hour)
            for name, code in _CODES.items():
                if name not in open_alarms:
                    earlier = [each == code for each in self.outcomes]
                    self.evidence[name] = more_frequent(self.evidence[name], earlier, outcome == code, weeks)
        self.ended_hours = [*self.ended_hours, point.hour][-OUTCOMES:]
        self.outcomes = [*self.outcomes, outcome][-OUTCOMES:]

    def change(self, measure: str) -> LevelChange | None:
        """What changed, if it did by enough to tell anybody."""
        if measure != DURATION:
            return self._more_frequent(_CODES[measure])
        if len(self.hours) < 2 * RECOVERED_POINTS:
            return None
        i = changed_at([_logarithm(each) for each in self.durations_ms])
        before, after = median(self.durations_ms[:i]), median(self.durations_ms[i:])
        if after < LEAST_CHANGE * before or after < before + LEAST_MS:
            return None
        return LevelChange(self.hours[i], before, after, len(self.hours) - i)

    def _more_frequent(self, code: int) -> LevelChange | None:
        """Since when those predominate most."""
        balance, most, i = 0, 0, len(self.outcomes)
        for number in range(len(self.outcomes) - 1, -1, -1):
            balance += 1 if self.outcomes[number] == code else -1
            if balance > most:
                most, i = balance, number
        if i == len(self.outcomes):
            return None
        before, after = (
            sum(each == code for each in its) / max(1, len(its)) for its in (self.outcomes[:i], self.outcomes[i:])
        )
        return LevelChange(self.ended_hours[i], before, after, len(self.outcomes) - i)

    def has_recovered(self, measure: str, raised_hour: int, before: float, after: float) -> bool:
        """Whether the last points look more like before than after the change."""
        if measure == DURATION:
            later = [ms for hour, ms in zip(self.hours, self.durations_ms, strict=True) if hour >= raised_hour]
            now = later[-RECOVERED_POINTS:]
            return len(now) == RECOVERED_POINTS and median(now) < (before + after) / 2
        code = _CODES[measure]
        outcomes = [
            each == code for hour, each in zip(self.ended_hours, self.outcomes, strict=True) if hour >= raised_hour
        ]
        now_so = outcomes[-RECOVERED_POINTS:]
        return len(now_so) == RECOVERED_POINTS and sum(now_so) <= 1

    def accept(self, measure: str, since_hour: int) -> None:
        """Take what it is since then for normal."""
        if measure == DURATION:
            i = next((i for i, hour in enumerate(self.hours) if hour >= since_hour), len(self.hours))
            self.hours, self.durations_ms = self.hours[i:], self.durations_ms[i:]
        self.evidence[measure] = NONE

    def weeks(self, measure: str) -> float:
        """The evidence, in weeks."""
        return sum(self.evidence[measure])


def _logarithm(milliseconds: int) -> float:
    return math.log(max(milliseconds, _LEAST_LOGARITHM_MS))


def _weekday(hour: int) -> int:
    return hour // _HOURS_A_DAY % 7


def _weeks(before: int, hour: int) -> float:
    return min(1.0, (hour - before) / _HOURS_A_WEEK)
