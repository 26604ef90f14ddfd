"""Whether two executions differ by more than runs of a query do without a cause. docs/why.md has the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from statistics import median_high

from joinsight.why.amounts import Amount
from joinsight.why.compared import Compared
from joinsight.why.division import BUSY, BUSY_WITHOUT_WAITING, CALM, USUAL, WARMING, Floor, scatter
from joinsight.why.places import RunPlaces

_WAITS_APART, _WHERE_CALM, _AS_RUNS = 0.5, 0.35, 4
"""How much the logarithm of the wait to the CPU time differs between runs that nobody changed, as a standard deviation,
on busy hosts and on others; for how many runs' worth that counts beside what is known of a query's."""
_SURE, _LEAST_WAIT = 2.0, 0.1
"""How many standard deviations it must be off, for busy hosts to be the cause; a wait that is added to all."""
_MORE_WORK = 1.25
"""How many times the CPU time of known runs other work must take, to be more than other times."""
_MOST = 0.45
"""Share of the difference that the first cause must have for runs on busy hosts that did the same work."""
_FEW = 5
"""One of how many known runs may be an exception."""


class Scatter:
    """How much runs differ without a cause; `lead`: the code of the first cause of the difference."""

    def __init__(self, both: Compared, found: Mapping[str, Amount], lead: str) -> None:
        self.both, self.found, self.lead = both, found, lead
        self.ms, self.runs = self._scatter()
        """In milliseconds; from how many runs that is known, 0: it is a guess."""
        self.is_normal = abs(both.difference) <= self.ms and not (
            self._is_more_than_busy() or self._is_more_work() or self._is_steady_cause()
        )
        """Whether the difference is no more."""
        if lead == "contention" and both.difference > 0 and not both.is_other_work:
            least = scatter([], both.shorter_ms, CALM)[0]
            self.ms = least if self.is_busier else max(self.ms, both.difference)
            self.is_normal = both.difference <= self.ms

    def _scatter(self) -> tuple[float, int]:
        """How much runs of the query differ without a cause, and from how many runs that is known."""
        floor = self._floor(BUSY)
        return scatter([row["duration_ms"] for row in self.both.alike], self.both.shorter_ms, floor)

    def _floor(self, busy: Floor) -> Floor:
        """`busy`: for runs on busy hosts that did the same work."""
        if self.both.is_other_work:
            return USUAL
        return WARMING if self.both.is_warming else busy if self.both.is_busy else CALM

    def _is_more_than_busy(self) -> bool:
        """Whether the difference without the time in which tasks waited for CPUs, which scatters most, is a cause's."""
        first, last = (each.stored.execution["duration_ms"] - self._waited(each) for each in (self.both.a, self.both.b))
        slots = max((s.slots for s in self.both.a.stages), default=1)
        quiet = [row["duration_ms"] - (row.get("waited_ms") or 0) / slots for row in self.both.alike]
        least = scatter(quiet, self.both.shorter_ms, self._floor(BUSY_WITHOUT_WAITING))[0]
        # Many small ones are those of a busy host
        is_one = self.both.is_other_work or abs(self.found[self.lead].wall) > least
        return bool(is_one and abs(last - first) > least)

    @cached_property
    def is_busier(self) -> bool:
        """Whether tasks waited for their CPU time as they do by chance in one of 100 runs or fewer, by what is known.

        Compared with the first execution and the median of the known runs, by a prediction of the next run's logarithm
        whose variance is that of the known runs and of `_AS_RUNS` others.
        """
        first, last = (
            _wait(*(sum(getattr(s, name) for s in its.stages) for name in ("cpu_ms", "waited_ms")))
            for its in (self.both.a, self.both.b)
        )
        known = [_wait(row["cpu_time_ms"], row["waited_ms"]) for row in self.both.alike if row.get("cpu_time_ms")]
        known = known or [first]
        middle = median_high(known)
        expected = _WAITS_APART if self.both.is_busy_on(self.both.a) else _WHERE_CALM
        squares = _AS_RUNS * expected**2 + sum((each - middle) ** 2 for each in known)
        apart = math.sqrt(squares / (_AS_RUNS + len(known) - 1) * (1 + 1 / len(known)))
        return last - max(first, middle) >= _SURE * apart

    def _is_more_work(self) -> bool:
        """Whether other work took other CPU time, which scatters less than wall time, and it took as much longer."""
        if self.both.a.is_threaded or self.both.b.is_threaded:
            return False
        first, last = (
            sum(s.parts["cpu"] + s.parts["python"] for s in its.stages) for its in (self.both.a, self.both.b)
        )
        known = sorted([first, *(row["cpu_time_ms"] for row in self.both.alike if row.get("cpu_time_ms"))])
        few = len(known) // _FEW
        is_more = last > _MORE_WORK * known[-1 - few] if self.both.difference > 0 else _MORE_WORK * last < known[few]
        is_long = abs(self.both.difference) > USUAL.guessed * self.both.shorter_ms
        return bool(self.both.is_other_work and is_more and is_long)

    def _is_steady_cause(self) -> bool:
        """Whether the cause is a commit, or that far fewer slots were used: both scatter less than wall time."""
        if self.lead == "commit":
            its = abs(self.found[self.lead].wall)
            return bool(its >= _MOST * abs(self.both.difference) and its > CALM.guessed * self.both.shorter_ms)
        is_long = abs(self.both.difference) > USUAL.guessed * self.both.shorter_ms
        return bool(self.lead in ("slots", "skew", "partitions", "driver") and self.both.has_other_use and is_long)

    @staticmethod
    def _waited(run: RunPlaces) -> float:
        """Wall time in which tasks waited for CPUs and disks, as if all slots always ran."""
        return sum(s.parts["wait"] / s.slots for s in run.stages)

    def is_of_busy_hosts(self) -> bool:
        """Whether a bit of everything took longer on busy hosts, or tasks or the driver waited less than on these."""
        both, wall = self.both, abs(self.found[self.lead].wall) if self.lead in self.found else 0.0
        is_less = self.lead in ("contention", "driver") and both.difference < 0 and both.is_busy_on(both.a)
        is_many = both.is_busy and wall < _MOST * abs(both.difference)
        return not both.is_other_work and (is_less or is_many)


def _wait(cpu_ms: float, waited_ms: float) -> float:
    """The logarithm of how long tasks waited for a millisecond of CPU time."""
    return math.log(_LEAST_WAIT + waited_ms / max(1.0, cpu_ms))


__all__ = ["Scatter"]
