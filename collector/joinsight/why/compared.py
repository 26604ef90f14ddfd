"""What is the same and what is not between two executions: plan, rows, slots, settings, how busy their hosts were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from joinsight.analysis.stored import StoredPlan
from joinsight.tables import Row
from joinsight.why.places import RunPlaces, matched
from joinsight.why.switched import can_replay, has_switched
from joinsight.why.witnesses import MOVED, all_files, has_other_cpu, has_other_skew, ratio

_BUSY = 0.6
"""The wait for CPUs to the CPU time of tasks, above which their hosts were busy."""
_OTHER_USE = 1.4
"""How many times as many slots one of them must have used, for that to be no scatter."""


class Compared:
    """Two executions, the second of which took longer or shorter."""

    def __init__(self, a: RunPlaces, b: RunPlaces) -> None:
        self.a, self.b = a, b
        self.pairs = list(matched(a, b))
        first, last = a.stored.execution, b.stored.execution
        self.difference = last["duration_ms"] - first["duration_ms"]
        self.tasks = sum(s.run_ms for s in b.stages) - sum(s.run_ms for s in a.stages)
        is_other = a.operators != b.operators
        self.is_another_plan = is_other and first["plan_fingerprint"] != last["plan_fingerprint"]
        attempts = [(sum(s.repeated for s in its.stages), sum(s.failed for s in its.stages)) for its in (a, b)]
        self.is_retried = attempts[0] != attempts[1]
        self.is_another_shape = a.skeleton != b.skeleton
        """Whether joins or exchanges differ; else only expressions do, which take more or less CPU a row."""
        self.is_another_engine = set(a.engines) != set(b.engines)
        """Whether a native engine ran operators of one of them only: each takes other times and bytes for a row."""
        slots = [each.known_slots for each in (a, b)]
        self.has_other_slots = min(slots) > 0 and ratio(*slots) >= MOVED
        self.is_edited = is_other and first["query_shape"] != last["query_shape"]
        read = [sum(s.total("input_rows") for s in each.stages) for each in (a, b)]
        self.is_more_data = ratio(*read) >= MOVED
        self.shorter_ms = min(each["duration_ms"] for each in (first, last))
        recordings = [each.stored.recording for each in (a, b)]
        self.has_switched = has_switched(self.pairs, self.shorter_ms) and all(map(can_replay, recordings))
        """Whether the path went through other stages."""

    @cached_property
    def is_busy(self) -> bool:
        """Whether tasks of both executions waited for CPUs and disks for much of their time."""
        return self.is_busy_on(self.a) and self.is_busy_on(self.b)

    @staticmethod
    def is_busy_on(run: RunPlaces) -> bool:
        """Whether tasks of an execution waited for CPUs and disks for much of their time."""
        cpu, python, wait = (sum(s.parts[name] for s in run.stages) for name in ("cpu", "python", "wait"))
        return wait / max(1.0, cpu + python) > _BUSY

    @cached_property
    def has_other_use(self) -> bool:
        """Whether the slower of them used far fewer slots while its stages ran."""
        first, last = (
            sum(s.run_ms for s in its.stages) / max(1, sum(s.wall_ms for s in its.stages)) for its in (self.a, self.b)
        )
        return ratio(first, last) >= _OTHER_USE and (first > last) == (self.difference > 0)

    @cached_property
    def is_warming(self) -> bool:
        """Whether the slower of them was the first run of the query in its application, which compiles code, and the
        other was not.
        """
        slower, other = (self.b, self.a) if self.difference > 0 else (self.a, self.b)
        return bool(self._is_first(slower.stored)) and self._is_first(other.stored) is False

    @property
    def of_warming(self) -> Sequence[str]:
        """Causes that only a first run in an application has, of two runs with the same query and plan."""
        is_same = not (self.is_edited or self.is_another_plan)
        return ("cpu_per_row", "driver") if self.is_warming and is_same else ()

    def _is_first(self, run: StoredPlan) -> bool | None:
        earlier = [row.get("application_id") for its in (self.a, self.b) for row in its.stored.earlier]
        if not any(earlier):
            return None  # unknown
        return run.execution["application_id"] not in [row["application_id"] for row in run.earlier]

    @cached_property
    def alike(self) -> Sequence[Row]:
        """Earlier runs that did the work of the first execution."""
        return max(([*filter(self._is_alike, its.stored.earlier)] for its in (self.b, self.a)), key=len)

    def _is_alike(self, earlier: Row) -> bool:
        """Whether an earlier run had the plan of the first execution and about as many rows, as far as is known."""
        if earlier["duration_ms"] is None:
            return False
        plan, rows = earlier.get("plan_fingerprint"), earlier.get("input_rows")
        is_plan = plan is None or plan == self.a.stored.execution["plan_fingerprint"]
        return is_plan and (rows is None or ratio(rows, sum(s.total("input_rows") for s in self.a.stages)) < MOVED)

    @cached_property
    def is_other_work(self) -> bool:
        """Whether a number with little scatter moved: plan, rows, files, tasks, attempts, settings, versions, CPU,
        slots.
        """
        if self.is_another_plan or self.is_retried or self.settings or self.memory_settings or self.has_other_slots:
            return True
        if any(one is None or other is None or ratio(other.filtered, 1) >= MOVED for one, other in self.pairs):
            return True
        is_known = self.is_edited or not self.is_warming
        if any(x and y and (has_other_skew(x, y) or (is_known and has_other_cpu(x, y))) for x, y in self.pairs):
            return True
        names = ("input_rows", "shuffle_read_rows", "succeeded_tasks")
        totals = [[sum(s.total(name) for s in its.stages) for name in names] for its in (self.a, self.b)]
        files = [all_files(its) for its in (self.a, self.b)]
        return any(ratio(*each) >= MOVED for each in (*zip(*totals, strict=True), files))

    @cached_property
    def memory_settings(self) -> list[str]:
        """Settings of the application's memory that differ."""
        first, last = (each.stored.settings for each in (self.a, self.b))
        return [
            f"{name} is {last.get(name, 'not set')}, {first.get(name, 'not set')} before"
            for name in sorted({*first, *last} if first and last else ())
            if "memory" in name and first.get(name) != last.get(name)
        ]

    @cached_property
    def settings(self) -> list[str]:
        """Engines and accepted advice that only one of them has or follows, versions and settings that differ."""
        first, last = (each.stored.execution["configuration"] or {} for each in (self.a, self.b))
        known = [run.stored.advice for run in (self.a, self.b)]
        advice = [*known[0], *(each for each in known[1] if each not in known[0])]  # it may be accepted in between
        before, after = (
            [each.text for each in replace(run.stored, advice=advice).not_followed] for run in (self.a, self.b)
        )
        return [
            *self.engines,
            *(f"it runs without accepted advice: {each}" for each in after if each not in before),
            *(f"it follows accepted advice now: {each}" for each in before if each not in after),
            *[self.versions] * bool(self.versions),
            *(
                f"{name} is {last.get(name, 'not set')}, {first.get(name, 'not set')} before"
                for name in sorted({*first, *last})
                if first.get(name) != last.get(name)
            ),
        ]

    @property
    def engines(self) -> list[str]:
        """Native engines that ran operators of one of them only."""
        names = sorted(set(self.a.engines) ^ set(self.b.engines))
        counts = [(name, self.b.engines.get(name, 0), self.a.engines.get(name, 0)) for name in names]
        return [f"{name} ran {last or 'no'} operators, {first or 'none'} before" for name, last, first in counts]

    @cached_property
    def versions(self) -> str:
        """Versions of Spark that differ; empty if they do not, or are unknown."""
        first, last = (each.stored.spark_version for each in (self.a, self.b))
        return f"Spark is {last}, {first} before" if first and last and first != last else ""


__all__ = ["Compared"]
