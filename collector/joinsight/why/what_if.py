"""How long an execution would have taken with something changed: its replay, with that changed. docs/what-if.md.

::

    execution ──► replay as it was ──► its error
        │
        └──► one change: slots, tasks of equal length, partitions, a broadcast ──► replay ──► wall time, an interval
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from joinsight.analysis.replay import Recording
from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError, NotFound
from joinsight.base.units import bytes_text, duration_text
from joinsight.contract.document import ENDED
from joinsight.plan import operators
from joinsight.plan.broadcastable import DEFAULT_MAX_BYTES
from joinsight.plan.metrics import Input
from joinsight.plan.texts import join_text
from joinsight.present.values import execution_name
from joinsight.timing.replay import Replay, ReplayStage, TaskModel
from joinsight.why.division import scatter

_UNEVEN = 1.5
"""How many times the mean the longest task of a stage must be to be called skewed."""
_BROADCAST_BYTES_PER_MS = (10_000, 50_000, 200_000)
"""Collecting, building and sending a broadcast: slow, usual and fast, where the execution made none."""
_LEAST_BROADCAST_MS = 20
_LONGEST_FIRST, _LONGEST_LAST = 1, 3
_MOST_STAYS = 5
_LEAST_CHANGE = 0.01
"""Share of the time below which a prediction is called no difference."""
_NEXT_TASK_MS = 10.0
"""How long a task holds its slot without running, from the second one of a stage in that slot on, at most."""
_Models = list[TaskModel]


@dataclass(frozen=True, slots=True)
class Stays:
    """A part of the predicted time."""

    what: str
    ms: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The fields are those of ``joinsight what-if --json``: docs/what-if.md."""

    execution: str
    change: str
    measured_ms: int
    replay_ms: int
    """What the replay takes with nothing changed."""
    predicted_ms: int
    low_ms: int
    high_ms: int
    difference_ms: int
    """Predicted less measured."""
    stays: Sequence[Stays]
    """What the predicted time goes into, the largest first."""
    limits: Sequence[str]
    """What the prediction does not know."""
    text: str


@dataclass(frozen=True)
class _Change:
    """What is different: its name, and replays with the tasks in a given order each."""

    name: str
    replays: Sequence[Callable[[_Models], Replay]]
    """The usual one first; others that are as possible."""
    limits: Sequence[str]


def more_slots(stored: StoredPlan, slots: int) -> WhatIf:
    """It with other slots. Raises `JoinsightError` if the execution cannot be scheduled again."""
    recording = _recording(stored)
    limits = ["Stages keep their tasks and these their times: CPU, memory and disks are as free as they were."]
    if any(model.stretch > 1 for model in recording.models):
        limits.append("Other queries held some of its slots; it is assumed that they hold the same share.")
    change = _Change(f"With {slots} slots", [lambda models: recording.scheduled(models, slots)], limits)
    return _predicted(stored, recording, change)


def without_skew(stored: StoredPlan) -> WhatIf:
    """It with tasks of equal length in each skewed stage. Raises `JoinsightError`."""
    recording = _recording(stored)
    skewed = [i for i, model in enumerate(recording.models) if _longest(model) >= _UNEVEN]
    if not skewed:
        raise JoinsightError(
            f"No stage of {execution_name(stored.execution)} is skewed: no task took long for its stage."
        )
    limits = ["Each stage keeps the sum of its tasks' times, and their number."]

    def even(models: _Models) -> Replay:
        return recording.scheduled([replace(m, shape=()) if i in skewed else m for i, m in enumerate(models)])

    return _predicted(stored, recording, _Change("Without skew", [even], limits))


def _longest(model: TaskModel) -> float:
    """Run time of the longest task to the mean."""
    return model.shape[-1][1] if model.shape and model.count > 1 else 1.0


def other_partitions(stored: StoredPlan, partitions: int) -> WhatIf:
    """It with another number of tasks in the stages that read shuffles by key. Raises `JoinsightError`."""
    recording = _recording(stored)
    ids = {
        stage
        for shuffle in stored.shuffles
        if shuffle["partitioning"] != "SinglePartition"
        for stage in shuffle["reduce_stages"] or ()
    }
    changed = {i for i, each in enumerate(recording.stages) if each.row["stage_id"] in ids}
    if not changed:
        raise JoinsightError(f"No stage of {execution_name(stored.execution)} reads a shuffle with partitions.")
    limits = ["The work of a stage is divided over its tasks as unevenly as it was; spilling may change."]
    if any(shuffle["aqe_read"] for shuffle in stored.shuffles):
        limits.append("AQE may coalesce or split partitions again: spark.sql.adaptive.coalescePartitions.enabled.")

    def divided(models: _Models) -> Replay:
        slots = recording.slots
        return recording.scheduled(
            [_divided(m, partitions, slots) if i in changed else m for i, m in enumerate(models)]
        )

    return _predicted(stored, recording, _Change(f"With {partitions} partitions", [divided], limits))


def _divided(model: TaskModel, count: int, slots: int) -> TaskModel:
    """The same work in another number of tasks."""
    held = model.held_ms
    if count > model.count:
        first = min(count, max(model.count, slots))
        held = (first * held + (count - first) * min(held, _NEXT_TASK_MS)) / count
    return replace(model, count=count, mean_ms=model.mean_ms * model.count / count, held_ms=held)


def with_broadcast(stored: StoredPlan, join_id: int) -> WhatIf:
    """It with the smaller side of a join broadcast. Raises `JoinsightError`, or `NotFound` for what is not a join."""
    recording = _recording(stored)
    small, large = _sides(stored, join_id)
    stages = _JoinStages(stored, recording, join_id, small, large)
    replays = [
        lambda models, rate=rate: stages.replay(models, max(_LEAST_BROADCAST_MS, (small.bytes or 0) / rate))
        for rate in _BROADCAST_BYTES_PER_MS
    ]
    size = bytes_text(small.bytes or 0)
    limits = [
        f"{size} were shuffled; in memory they may be several times as large: see joinsight plan after trying it.",
        "The driver's time for the broadcast is estimated from its size.",
    ]
    return _predicted(stored, recording, _Change(f"With a broadcast of {size} for join {join_id}", replays, limits))


def _sides(stored: StoredPlan, join_id: int) -> tuple[Input, Input]:
    """The side of a join that would be broadcast, and the other one."""
    plan, name = stored.plan, execution_name(stored.execution)
    joins = [node.id for node in plan.graph.nodes if operators.of(node.name).kind == "join"]
    if join_id not in joins:
        known = f"its joins are {', '.join(map(str, joins))}" if joins else "it has none"
        raise NotFound(f"Operator {join_id} is not a join of {name}; {known}.")
    join = plan.nodes[join_id]
    if operators.of(join.name).is_broadcast_join:
        raise JoinsightError(f"Join {join_id} ({join.name}) already uses a broadcast.")
    text = join_text(join.name, join.simple)
    possible = operators.JOIN_TYPES.get(text.join_type, ()) if text and text.join_type else ()
    if not possible:
        raise JoinsightError(f"Spark broadcasts no side of join {join_id} ({join.simple}).")
    sides = dict(zip(("left", "right"), (plan.fed_by(i) for i in plan.inputs(join)), strict=False))
    sized = [name for name in possible if name in sides and sides[name].bytes is not None]
    if not sized:
        raise JoinsightError(f"No size is known of what Spark could broadcast for join {join_id}.")
    chosen = min(sized, key=lambda name: sides[name].bytes or 0)
    if (sides[chosen].bytes or 0) >= DEFAULT_MAX_BYTES:
        raise JoinsightError(
            f"The smaller side of join {join_id} is {bytes_text(sides[chosen].bytes or 0)}: too large."
        )
    return sides[chosen], sides["right" if chosen == "left" else "left"]


class _JoinStages:
    """The stages of a join whose small side becomes a broadcast: those that write the large side do its work, too."""

    def __init__(self, stored: StoredPlan, recording: Recording, join_id: int, small: Input, large: Input) -> None:
        self._recording = recording
        shuffles = {row["node_id"]: row for row in stored.shuffles}
        writes, other = (shuffles.get(side.exchange or -1) for side in (small, large))
        if writes is None:
            raise JoinsightError(f"The stages of join {join_id} are not known.")
        self._makes = self._of(writes["map_stages"])
        reads = self._of(writes["reduce_stages"])
        if other is not None:
            reads &= self._of(other["reduce_stages"])
        self._large = self._of(other["map_stages"]) if other is not None else set()
        if not reads or not self._makes or reads & (self._makes | self._large):
            raise JoinsightError(f"The stages of join {join_id} are not known.")
        self._joins = max(reads, key=self._time)
        self._saved = {i: (writes["write_time_ns"] or 0) / 1e6 / len(self._makes) for i in self._makes}
        for i in self._large:
            assert other is not None
            self._saved[i] = self._saved.get(i, 0.0) + (other["write_time_ns"] or 0) / 1e6 / len(self._large)
        sorts = (node for node in map(stored.plan.nodes.get, stored.plan.inputs(stored.plan.nodes[join_id])) if node)
        sorted_ms = sum(stored.plan.total(node, "sort time") or 0 for node in sorts)
        waited = sum(row["fetch_wait_ms"] or 0 for row in (writes, other) if row is not None)
        self._saved[self._joins] = sorted_ms + waited

    def _of(self, stages: Sequence[int] | None) -> set[int]:
        wanted = set(stages or ())
        return {i for i, each in enumerate(self._recording.stages) if each.row["stage_id"] in wanted}

    def _time(self, i: int) -> float:
        return self._recording.models[i].count * self._recording.models[i].mean_ms

    def replay(self, models: _Models, broadcast_ms: float) -> Replay:
        """The driver takes some time for the broadcast."""
        models = [self._shorter(i, model) for i, model in enumerate(models)]
        if self._large:
            work = models[self._joins].count * models[self._joins].mean_ms
            whole = sum(self._time(i) for i in self._large)
            for i in self._large:
                share = self._time(i) / whole if whole else 1 / len(self._large)
                models[i] = replace(models[i], mean_ms=models[i].mean_ms + work * share / max(1, models[i].count))
        found = self._recording.scheduled(models)
        return replace(found, stages=[self._waiting(stage, broadcast_ms) for stage in found.stages])

    def _shorter(self, i: int, model: TaskModel) -> TaskModel:
        saved = self._saved.get(i, 0.0) / max(1, model.count)
        return replace(model, mean_ms=max(0.1 * model.mean_ms, model.mean_ms - saved))

    def _waiting(self, stage: ReplayStage, broadcast_ms: float) -> ReplayStage:
        if stage.id in self._makes:
            stage = replace(stage, ready_ms=stage.ready_ms + broadcast_ms)
        if stage.id == self._joins and self._large:
            # Its work is done by those that write the large side: what reads it waits for these
            return replace(stage, waits_for=tuple({*stage.waits_for, *self._large}), delay_ms=0, tasks=(), ready_ms=0)
        if stage.id in (self._large or {self._joins}):
            return replace(stage, waits_for=tuple({*stage.waits_for, *self._makes} - {stage.id}))
        return stage


def _recording(stored: StoredPlan) -> Recording:
    e = stored.execution
    name = execution_name(e)
    if e["state"] not in ENDED or e["duration_ms"] is None:
        raise JoinsightError(f"Execution {name} is {e['state']}: it can be scheduled again when it has ended.")
    if e["incomplete"]:
        raise JoinsightError(
            f"Execution {name} is partial, and cannot be scheduled again: {'; '.join(e['incomplete'])}."
        )
    if not stored.recording.stages:
        raise JoinsightError(f"Execution {name} ran no stages that are known: there is nothing to schedule again.")
    return stored.recording


def _predicted(stored: StoredPlan, recording: Recording, change: _Change) -> WhatIf:
    measured = recording.wall_ms
    models = list(recording.models)
    before = recording.replay.wall_ms()
    usual = change.replays[0](models)
    scale = measured / max(1.0, before)
    predicted = usual.wall_ms() * scale
    orders = (models, *([replace(m, order=order) for m in models] for order in (_LONGEST_FIRST, _LONGEST_LAST)))
    possible = [make(each).wall_ms() * scale for make in change.replays for each in orders]
    earlier = [row["duration_ms"] for row in stored.earlier if row["duration_ms"] is not None]
    error = max(scatter(earlier, measured)[0] / max(1, measured), abs(before / max(1, measured) - 1))
    found = WhatIf(
        execution=execution_name(stored.execution),
        change=change.name,
        measured_ms=measured,
        replay_ms=round(before),
        predicted_ms=round(predicted),
        low_ms=max(0, round(min(possible) * (1 - error))),
        high_ms=round(max(possible) * (1 + error)),
        difference_ms=round(predicted) - measured,
        stays=_stays(recording, usual),
        limits=change.limits,
        text="",
    )
    return replace(found, text=_text(found))


def _stays(recording: Recording, replay: Replay) -> list[Stays]:
    """What the time goes into: the driver, and the stages on the path."""
    found: dict[str, float] = {}
    for step in replay.path():
        if step.stage is None:
            what = "the driver"
        else:
            row = recording.stages[step.stage].row
            what = f"stage {row['stage_id']} waits for slots" if step.is_waiting else f"stage {row['stage_id']}"
        found[what] = found.get(what, 0.0) + step.ms
    largest = sorted(found.items(), key=lambda each: -each[1])[:_MOST_STAYS]
    return [Stays(what, round(ms)) for what, ms in largest if ms >= 1]


def _text(found: WhatIf) -> str:
    less = "less" if found.difference_ms < 0 else "more"
    is_same = abs(found.difference_ms) < _LEAST_CHANGE * found.measured_ms
    return (
        f"{found.execution} took {duration_text(found.measured_ms)}. {found.change} it would have taken about"
        f" {duration_text(found.predicted_ms)} ({duration_text(found.low_ms)} to {duration_text(found.high_ms)}):"
        f" {'no difference' if is_same else f'{duration_text(abs(found.difference_ms))} {less}'}."
    )
