"""An execution scheduled again: how long it would take with other stages, tasks, slots or delays.

::

    stages: which wait for which, the driver's delays, the distribution of task times
        ──► an event simulation: Spark's FIFO scheduler gives free slots to the tasks of the first runnable job
        ──► start and end of each stage, and the wall time

With what was measured it reproduces the measured wall time (docs/replay.md has how closely); with other values it says
what the wall time would have been, if the rest had stayed as it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

Points = Sequence[tuple[float, float]]
"""A quantile function: pairs of share (0 to 1) and value, ascending in both."""

MOST_TASKS = 400
"""Values for the tasks of a stage, or four for each slot; the shorter ones of more are put together."""


@dataclass(frozen=True, slots=True)
class ReplayStage:
    """A stage as it is scheduled; times are milliseconds."""

    id: int
    waits_for: tuple[int, ...]
    """Stages; without any, it waits for the start of the execution."""
    delay_ms: float
    """From when the last of these was ready until its first task could have been launched."""
    tasks: tuple[float, ...]
    """How long each of its tasks holds a slot, in the order of their launch."""
    ready_ms: float = 0.0
    """From the end of its last task until its result could be used: by the driver, as a broadcast."""
    most_slots: int | None = None
    """Slots that it can have at once; None: all."""
    job: int = 0
    """Jobs with lower numbers have their tasks launched first."""


@dataclass(frozen=True, slots=True)
class Span:
    """When a stage ran, in milliseconds since the start of the execution."""

    start_ms: float
    end_ms: float
    """Its last task finished."""
    ready_ms: float


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the wall time of a replay; `stage`: whose tasks ran or waited for slots; None: the driver."""

    stage: int | None
    ms: float
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The stages of an execution, each after those for which it waits, and what the driver did after all of them."""

    stages: Sequence[ReplayStage]
    slots: int
    finish_ms: float

    def with_tasks(self, tasks: Mapping[int, tuple[float, ...]]) -> Replay:
        """It with other tasks of some stages, by id."""
        stages = [replace(stage, tasks=tasks[stage.id]) if stage.id in tasks else stage for stage in self.stages]
        return replace(self, stages=stages)

    def wall_ms(self) -> float:
        """How long the execution takes."""
        return max((span.ready_ms for span in self.spans().values()), default=0.0) + self.finish_ms

    def path(self) -> Sequence[Step]:
        """What the wall time went into, from the end to the start."""
        spans = self.spans()
        stages = {stage.id: stage for stage in self.stages}
        at = max(spans, key=lambda i: spans[i].ready_ms, default=None)
        steps = [Step(None, self.finish_ms)]
        while at is not None:
            stage, span = stages[at], spans[at]
            before = max((i for i in stage.waits_for if i in spans), key=lambda i: spans[i].ready_ms, default=None)
            ready = 0.0 if before is None else spans[before].ready_ms
            steps.append(Step(None, stage.ready_ms))
            steps.append(Step(at, span.end_ms - span.start_ms))
            steps.append(Step(at, span.start_ms - ready - stage.delay_ms, is_waiting=True))
            steps.append(Step(None, stage.delay_ms))
            at = before
        return [step for step in steps if step.ms > 0]

    def spans(self) -> Mapping[int, Span]:
        """When each stage ran, by id. Stages that wait for each other in a circle do not run."""
        return _Scheduler(self).run()


_RUNNABLE, _FINISHED = 0, 1


class _Scheduler:
    """Goes from event to event: a stage becomes runnable, a task finishes."""

    def __init__(self, replay: Replay) -> None:
        self.slots = max(1, replay.slots)
        self.stages = list(replay.stages)
        ids = {stage.id: i for i, stage in enumerate(self.stages)}
        self.waiting = [0] * len(self.stages)
        self.readers: list[list[int]] = [[] for _ in self.stages]
        for i, stage in enumerate(self.stages):
            for other in {ids[other] for other in stage.waits_for if other in ids}:
                self.waiting[i] += 1
                self.readers[other].append(i)
        self.free = self.slots
        self.next_task = [0] * len(self.stages)
        self.running = [0] * len(self.stages)
        self.spans: dict[int, Span] = {}
        self.starts = [0.0] * len(self.stages)
        self.runnable: list[tuple[int, int, int]] = []
        self.events: list[tuple[float, int, int]] = []

    def run(self) -> Mapping[int, Span]:
        events = self.events
        for i, stage in enumerate(self.stages):
            if not self.waiting[i]:
                events.append((stage.delay_ms, _RUNNABLE, i))
        heapq.heapify(events)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                self._event(*heapq.heappop(events))
            if self.free and self.runnable:
                self._launch(now)
        return self.spans

    def _event(self, now: float, kind: int, i: int) -> None:
        if kind == _FINISHED:
            self.free += 1
            self.running[i] -= 1
            if not self.running[i] and self.next_task[i] == len(self.stages[i].tasks):
                self._ready(i, now)
        elif self.stages[i].tasks:
            heapq.heappush(self.runnable, (self.stages[i].job, self.stages[i].id, i))
        else:
            self.starts[i] = now
            self._ready(i, now)

    def _launch(self, now: float) -> None:
        limited = []
        while self.free and self.runnable:
            first = self.runnable[0]
            i = first[2]
            stage = self.stages[i]
            left = len(stage.tasks) - self.next_task[i]
            most = self.slots if stage.most_slots is None else stage.most_slots
            count = min(self.free, left, max(0, most - self.running[i]))
            if count and not self.next_task[i]:
                self.starts[i] = now
            for task in stage.tasks[self.next_task[i] : self.next_task[i] + count]:
                heapq.heappush(self.events, (now + task, _FINISHED, i))
            self.next_task[i] += count
            self.running[i] += count
            self.free -= count
            if count < left and self.free:
                limited.append(heapq.heappop(self.runnable))
            elif count == left:
                heapq.heappop(self.runnable)
        for each in limited:
            heapq.heappush(self.runnable, each)

    def _ready(self, i: int, now: float) -> None:
        stage = self.stages[i]
        ready = now + stage.ready_ms
        self.spans[stage.id] = Span(self.starts[i], now, ready)
        for reader in self.readers[i]:
            self.waiting[reader] -= 1
            if not self.waiting[reader]:
                # It is pushed at the time of the last one that is ready, whichever finishes last
                last = max(self.spans[other].ready_ms for other in self.stages[reader].waits_for if other in self.spans)
                heapq.heappush(self.events, (last + self.stages[reader].delay_ms, _RUNNABLE, reader))


def task_times(count: int, points: Points, mean: float, slots: int, most: int = MOST_TASKS) -> list[float]:
    """The values of a distribution, ascending, with a mean as near to `mean` as its quantiles allow.

    Between two quantiles the values rise as a power of their position, the same everywhere, which makes the mean. Of
    many tasks, the shorter ones are put together, several to a value.
    """
    if not points:
        points = [(0.0, mean), (1.0, mean)]
    most = max(most, 4 * slots)
    longest = min(count, most // 4 if count > most else most)
    shares = [i / (count - 1) if count > 1 else 0.5 for i in range(count - longest, count)]
    short = most - longest if count > longest else 0
    middles = [(i + 0.5) / short * (count - longest) / count for i in range(short)]
    size = (count - longest) / short if short else 0.0
    low, high = 1 / 64, 64.0
    while high / low > 1.05:
        power = (low * high) ** 0.5
        total = size * sum(_values(middles, points, power)) + sum(_values(shares, points, power))
        low, high = (power, high) if total > mean * count else (low, power)
    return [size * each for each in _values(middles, points, low)] + _values(shares, points, low)


def _values(shares: Iterable[float], points: Points, power: float) -> list[float]:
    """Those of the quantile function at ascending shares."""
    found = []
    at = 0
    for share in shares:
        while at + 2 < len(points) and points[at + 1][0] <= share:
            at += 1
        (x, low), (y, high) = points[at], points[at + 1]
        found.append(low + (high - low) * min(1.0, max(0.0, (share - x) / (y - x))) ** power)
    return found


ORDERS = 6
"""Orders in which tasks may have been launched: mixed, the longest first, amid or last, ascending, descending."""


def ordered(ascending: Sequence[float], order: int) -> list[float]:
    """Ascending task times in one of the `ORDERS`; the first favours neither long nor short tasks."""
    if order == 0 or len(ascending) < 3:
        return _mixed(ascending)
    if order >= 4:
        return [*ascending] if order == 4 else [*reversed(ascending)]
    rest = _mixed(ascending[:-1])
    rest.insert((0, len(rest) // 2, len(rest))[order - 1], ascending[-1])
    return rest


@dataclass(frozen=True, slots=True)
class TaskModel:
    """The tasks of a stage, apart from the slots that they get; times are milliseconds."""

    count: int
    mean_ms: float
    """Run time of a task."""
    shape: Points = ()
    """The quantile function of the run times, divided by their mean; empty: unknown, all are equal."""
    held_ms: float = 0.0
    """How long a task holds its slot without running."""
    stretch: float = 1.0
    """How many times longer than its tasks need the stage holds its slots, as others have them, too."""
    order: int = 0
    most: int = MOST_TASKS
    """Values for its tasks."""

    def tasks(self, slots: int) -> tuple[float, ...]:
        """How long each holds a slot, in the order of their launch."""
        points = [(share, value * self.mean_ms + self.held_ms) for share, value in self.shape]
        times = task_times(self.count, points, self.mean_ms + self.held_ms, slots, self.most)
        return tuple(self.stretch * task for task in ordered(times, self.order))


def _mixed(ascending: Sequence[float]) -> list[float]:
    """In an order that favours neither long nor short ones first: steps of the golden ratio."""
    n = len(ascending)
    step = max(1, round(n * 0.618))
    while gcd(step, n) > 1:
        step += 1
    return [ascending[(n // 2 + i * step) % n] for i in range(n)]


def makespan(tasks: Sequence[float], slots: int) -> float:
    """How long tasks take that have all slots, in this order."""
    free = [0.0] * max(1, min(slots, len(tasks)))
    for task in tasks:
        heapq.heapreplace(free, free[0] + task)
    return max(free)
