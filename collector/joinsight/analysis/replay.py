"""The replay of a stored execution: `timing.replay`, from rows of `stage`. docs/replay.md says what it assumes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from statistics import median_low

from joinsight.tables import Row
from joinsight.timing.replay import MOST_TASKS, ORDERS, Replay, ReplayStage, TaskModel, makespan

_QUANTILES = (("min", 0.0), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p95", 0.95), ("max", 1.0))
_BETWEEN_TASKS_MS = 3.0
"""How long a slot is free between two tasks. Of the scheduler's delay the rest passes while the slot has the next."""
_LEAST_STRETCH = 1.25
"""How much longer than its tasks need a stage must have taken, for others to have held its slots, or the driver; how
much shorter, for it to have had more slots than are known."""
_FEW_WAVES = 4
"""Tasks for each slot up to which their order may also be why; of more, less is needed."""
_MOST_BESIDE = 0.1
"""For which part of a stage's time others may run, for the slots to be its own."""
_MOST_FITTED = 100
"""Stages for which the order of tasks and the share of slots are looked for, those with most run time."""
_MOST_VALUES, _FEWEST_VALUES = 40_000, 20
"""Values for the tasks of all stages, and of each at least."""
_MOST_ORDERED = 8
"""Stages that ran at the same time as others for which the order of tasks is looked for."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An attempt of a stage as it ran; times are milliseconds since the start of the execution."""

    row: Row
    submitted: int
    launched: int
    finished: int
    """The last of its tasks."""
    ready: int
    """Its result could be used."""

    @property
    def tasks(self) -> int:
        """Tasks that ran."""
        row = self.row
        return int(row["succeeded_tasks"] + row["failed_tasks"] + row["killed_tasks"]) or int(row["tasks"])

    @property
    def delay_ms(self) -> float:
        """The scheduler's delay of a task: until it runs, and until the driver knows of its end."""
        return float(row_total(self.row, "scheduler_delay_ms", "getting_result_time_ms")) / max(1, self.tasks)

    @property
    def latency_ms(self) -> float:
        """How much later than the slot of its last task is free the driver knows that the stage is done."""
        return max(0.0, self.delay_ms - _BETWEEN_TASKS_MS)

    @property
    def held_ms(self) -> float:
        """How long a task holds its slot without running, on average."""
        extra = row_total(self.row, "deserialize_time_ms", "result_serialization_time_ms") / max(1, self.tasks)
        is_known = self.row["scheduler_delay_ms"] is not None
        return extra + (min(self.delay_ms, _BETWEEN_TASKS_MS) if is_known else _BETWEEN_TASKS_MS)

    @property
    def model(self) -> TaskModel:
        """Its tasks, as if all slots were theirs, in no known order."""
        mean = self.row["run_time_ms"] / max(1, self.tasks)
        values = [(share, self.row[f"run_time_ms_{name}"]) for name, share in _QUANTILES]
        shape = [(share, value / mean) for share, value in values if value is not None] if mean else []
        return TaskModel(self.tasks, mean, shape if len(shape) > 1 else (), self.held_ms)


def row_total(row: Row, *names: str) -> int:
    """The sum of some columns; NULL counts as 0."""
    return sum(row[name] or 0 for name in names)


class Recording:
    """What ran in an execution, from its rows of `execution` and `stage`; nothing before its end."""

    def __init__(self, execution: Row, stages: Sequence[Row], slots: int | None) -> None:
        """`slots`: of the application, for stages that tell none."""
        self._start: datetime = execution["started_at"]
        self.wall_ms = int(execution["duration_ms"] or 0)
        found = [self._recorded(row) for row in stages if row["submitted_at"] and row["run_time_ms"] is not None]
        its = (each for each in found if each.submitted < self.wall_ms)
        self.stages = sorted(its, key=lambda each: (each.submitted, each.launched, each.row["stage_id"]))
        self.slots = max([row[name] for row in stages for name in ("slots", "width") if row[name]] + [slots or 1])

    def _ms(self, time: datetime) -> int:
        return round((time - self._start).total_seconds() * 1_000)

    def _recorded(self, row: Row) -> Recorded:
        submitted = self._ms(row["submitted_at"])
        launched = max(submitted, self._ms(row["first_launch_at"] or row["submitted_at"]))
        finished = max(launched, self._ms(row["last_finish_at"] or row["completed_at"] or row["submitted_at"]))
        completed = max(finished, self._ms(row["completed_at"]) if row["completed_at"] else finished)
        ready = max(finished, min(completed + (row["broadcast_ms"] or 0), self.wall_ms))
        return Recorded(row, submitted, launched, finished, ready)

    @cached_property
    def waits_for(self) -> Sequence[tuple[int, ...]]:
        """By stage attempt, the positions of those that it waited for.

        Rows of release 0.1 do not tell: then what was ready last before it was submitted.
        """
        by_ready = sorted(range(len(self.stages)), key=lambda i: self.stages[i].ready)
        ready = [self.stages[i].ready for i in by_ready]
        last: dict[int, int] = {}  # attempt of a stage
        found = []
        for i, each in enumerate(self.stages):
            row = each.row
            stages = [*((row["parent_ids"] if row["waits_for"] is None else row["waits_for"]) or ())]
            if row["stage_attempt"]:
                stages.append(row["stage_id"])
            its = [last[stage] for stage in stages if stage in last]
            if not its and row["waits_for"] is None:
                position = bisect_right(ready, each.submitted)
                its = by_ready[max(0, position - 1) : position]
            found.append(tuple(sorted({j for j in its if j < i and self.stages[j].finished <= each.submitted})))
            last[row["stage_id"]] = i
        return found

    @cached_property
    def _is_alone(self) -> Sequence[bool]:
        """By stage attempt, whether no other of the execution ran while it waited or ran."""
        by_launch = sorted(range(len(self.stages)), key=lambda i: self.stages[i].launched)
        launched = [self.stages[i].launched for i in by_launch]
        latest: list[tuple[int, ...]] = [()]  # the two that finished last of those launched until then
        for i in by_launch:
            latest.append(tuple(sorted((*latest[-1], i), key=lambda j: -self.stages[j].finished)[:2]))
        return [
            all(
                j == i or self.stages[j].finished <= each.submitted
                for j in latest[bisect_left(launched, each.finished)]
            )
            for i, each in enumerate(self.stages)
        ]

    @cached_property
    def _launch_ms(self) -> Sequence[int]:
        """By stage attempt, from its submission until a task could be launched, without waiting for own stages."""
        took = [each.launched - each.submitted for each in self.stages]
        usual = median_low([ms for ms, is_alone in zip(took, self._is_alone, strict=True) if is_alone] or [0])
        return [ms if is_alone else min(ms, usual) for ms, is_alone in zip(took, self._is_alone, strict=True)]

    @cached_property
    def models(self) -> Sequence[TaskModel]:
        """The tasks by stage attempt, in the order with which it starts and ends as it did."""
        largest = sorted(range(len(self.stages)), key=lambda i: -self.stages[i].row["run_time_ms"])[:_MOST_FITTED]
        most = max(_FEWEST_VALUES, min(MOST_TASKS, _MOST_VALUES // max(1, len(self.stages))))
        models = [replace(each.model, most=most) for each in self.stages]
        for i in largest:
            models[i] = self._alone(i, models[i])
        if sum(min(model.count, model.most) for model in models) > _MOST_FITTED * MOST_TASKS // 8:
            return models
        beside = [i for i, is_alone in enumerate(self._is_alone) if not is_alone and models[i].count > 2]
        for i in sorted(sorted(beside, key=lambda i: -models[i].count * models[i].mean_ms)[:_MOST_ORDERED]):
            known = self.scheduled(models)
            possible = [replace(models[i], order=order) for order in range(ORDERS)]
            models[i] = min(possible, key=lambda model: self._distance(known, i, model))
        return models

    def _alone(self, i: int, model: TaskModel) -> TaskModel:
        """The tasks of a stage; if it ran alone, as they fit its time."""
        each = self.stages[i]
        if not self._has_slots_alone(i):
            return model
        took = each.finished - each.launched - each.latency_ms
        spans = [makespan(replace(model, order=order).tasks(self.slots), self.slots) for order in range(ORDERS)]
        order = min(range(ORDERS), key=lambda order: abs(spans[order] - took))
        stretch = took / max(1.0, spans[order])
        least = 1 + (_LEAST_STRETCH - 1) * min(1.0, _FEW_WAVES * self.slots / max(1, model.count))
        return replace(model, order=order, stretch=1.0 if 1 / _LEAST_STRETCH < stretch < least else stretch)

    def _has_slots_alone(self, i: int) -> bool:
        """Whether hardly any other stage of the execution ran while it ran."""
        if self._is_alone[i]:
            return True
        its = self.stages[i]
        both = sum(
            max(0, min(its.finished, each.finished) - max(its.launched, each.launched))
            for j, each in enumerate(self.stages)
            if j != i
        )
        return both <= _MOST_BESIDE * (its.finished - its.launched)

    def _distance(self, known: Replay, i: int, model: TaskModel) -> float:
        """How far the stage is from when it ran, if these are its tasks."""
        span, its = known.with_tasks({i: model.tasks(self.slots)}).spans()[i], self.stages[i]
        return abs(span.end_ms + its.latency_ms - its.finished) + abs(span.start_ms - its.launched)

    @cached_property
    def replay(self) -> Replay:
        """The execution as it was."""
        return self.scheduled(self.models)

    def scheduled(self, models: Sequence[TaskModel], slots: int | None = None) -> Replay:
        """The execution with these tasks, by stage attempt, on its own slots or others."""
        slots = slots or self.slots
        stages = [
            ReplayStage(
                i,
                self.waits_for[i],
                self.delay_ms[i],
                models[i].tasks(slots),
                each.ready - each.finished + each.latency_ms,
                job=min(each.row["job_ids"] or [0]),
            )
            for i, each in enumerate(self.stages)
        ]
        last = max((each.ready + each.latency_ms for each in self.stages), default=0.0)
        return Replay(stages, slots, max(0.0, self.wall_ms - last))

    @cached_property
    def delay_ms(self) -> Sequence[int]:
        """By stage attempt, from when the last was ready for which it waited until a task could be launched."""
        ready = [max((self.stages[j].ready for j in waits_for), default=0) for waits_for in self.waits_for]
        return [max(0, each.submitted - ready[i]) + self._launch_ms[i] for i, each in enumerate(self.stages)]
