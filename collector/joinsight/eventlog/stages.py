"""What the tasks of a stage measured, under the rules of Spark's UI store.

As the listener's StageValues and StageAttempt. Values are kept as they came, in columns; what no task wrote is 0 for
Spark and is not kept, only counted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from joinsight.document import STAGE_TOTALS, Spread
from joinsight.eventlog.tasks import FAILED, KILLED, PEAK_MEMORY, SUCCEEDED, Group, TaskBlock


@dataclass(slots=True)
class Announced:
    """The metrics that an execution's plans announced: accumulator id to metric type; a later announcement wins."""

    types: dict[int, str] = field(default_factory=dict)

    def snapshot(self) -> Announced:
        """What is announced by now, blind to what comes later."""
        return Announced(dict(self.types))


class StageValues:
    """What the tasks of a stage's newest attempt reported for each accumulator.

    One value a task index; after an index succeeded, nothing changes it.
    """

    __slots__ = ("announced", "attempt", "columns", "done", "largest", "stage", "tasks", "written")

    def __init__(self, stage: int, attempt: int, tasks: int, announced: Announced) -> None:
        self.stage = stage
        self.attempt = attempt
        self.tasks = tasks
        self.announced = announced
        self.done: set[int] = set()
        self.written: set[int] = set()
        """Indexes of tasks that wrote something and have not succeeded."""
        self.columns: dict[int, list[tuple[Sequence[int], Sequence[int]]]] = {}
        """By accumulator: columns of values, each with the indexes of their tasks."""
        self.largest: dict[int, tuple[int, int]] = {}
        """By accumulator: the largest value, and the first task that reported it."""

    def for_attempt(self, attempt: int) -> StageValues:
        """The same stage for a new attempt; nothing of the old one is kept."""
        return StageValues(self.stage, attempt, self.tasks, self.announced)

    def add(self, block: TaskBlock) -> None:
        first: dict[int, tuple[int, int, int]] = {}  # by accumulator: largest value, -position, task
        for group in block.groups:
            indexes = [block.indexes[position] for position in group.positions]
            takes = [0 <= index < self.tasks and index not in self.done for index in indexes]
            if not any(takes):
                continue
            positions, columns = group.positions, group.columns
            if not all(takes):
                indexes, positions, columns = _only(takes, indexes, group)
            overwritten = self.written.intersection(indexes) if self.written else None
            for accumulator, column in zip(group.ids, columns, strict=True):
                if accumulator not in self.announced.types:
                    continue
                if overwritten:
                    self._overwrite(accumulator, overwritten)
                self.columns.setdefault(accumulator, []).append((indexes, column))
                high = max(column)
                position = positions[column.index(high)]
                candidate = (high, -position, block.task_ids[position])
                if accumulator not in first or candidate > first[accumulator]:
                    first[accumulator] = candidate
            self.written.update(indexes)
        for accumulator, (high, _, task) in first.items():
            if accumulator not in self.largest or high > self.largest[accumulator][0]:
                self.largest[accumulator] = (high, task)
        succeeded = [
            index
            for index, outcome in zip(block.indexes, block.outcomes, strict=True)
            if outcome == SUCCEEDED and 0 <= index < self.tasks
        ]
        self.done.update(succeeded)
        self.written.difference_update(succeeded)

    def _overwrite(self, accumulator: int, indexes: set[int]) -> None:
        """Forget what these tasks had written; no task of Spark writes before it succeeds."""
        kept: list[tuple[Sequence[int], Sequence[int]]] = []
        for its_indexes, column in self.columns.get(accumulator, ()):
            pairs = [(i, v) for i, v in zip(its_indexes, column, strict=True) if i not in indexes]
            kept.append(([i for i, _ in pairs], [v for _, v in pairs]))
        self.columns[accumulator] = kept

    def copy(self) -> StageValues:
        """What it holds by now, for reading."""
        copy = StageValues(self.stage, self.attempt, self.tasks, self.announced)
        copy.columns = {accumulator: list(columns) for accumulator, columns in self.columns.items()}
        copy.largest = dict(self.largest)
        return copy


def _only(takes: list[bool], indexes: list[int], group: Group) -> tuple[list[int], array[int], list[array[int]]]:
    def some(column: array[int]) -> array[int]:
        return array(column.typecode, (value for value, taken in zip(column, takes, strict=True) if taken))

    kept = [index for index, taken in zip(indexes, takes, strict=True) if taken]
    return kept, some(group.positions), [some(column) for column in group.columns]


class Sorted:
    """Values in order, of which so many more are 0 than are given."""

    __slots__ = ("_from", "_values", "_zeros", "count")

    def __init__(self, values: Iterable[int], zeros: int) -> None:
        self._values = sorted(values)
        self._zeros = zeros
        self._from = bisect_left(self._values, 0)
        self.count = len(self._values) + zeros

    def at(self, place: int) -> int:
        if place < self._from:
            return self._values[place]
        return 0 if place < self._from + self._zeros else self._values[place - self._zeros]

    def sum(self) -> int:
        """As Java adds longs."""
        total = sum(self._values)
        return (total + (1 << 63)) % (1 << 64) - (1 << 63)

    @property
    def median(self) -> int:
        return self.at(self.count // 2)

    @property
    def p95(self) -> int:
        return self.at(self.count * 95 // 100)

    @property
    def max(self) -> int:
        return self.at(self.count - 1)


@dataclass(slots=True)
class StageAttempt:
    """An attempt of a stage: when it ran, the totals of its tasks, and how three of them spread over the tasks."""

    stage: int
    attempt: int
    name: str
    tasks: int
    submitted_at: int | None = None
    completed_at: int | None = None
    failure: str | None = None
    completed: bool = False
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    totals: list[int] = field(default_factory=lambda: [0] * len(STAGE_TOTALS))
    done: set[int] = field(default_factory=set)
    spread_of: list[tuple[list[int], ...]] = field(default_factory=list)
    """For each block task ids, run times, bytes and rows of shuffle reads, and indexes, of the tasks that count."""

    def add(self, block: TaskBlock) -> None:
        counts: list[int] = []
        for position, (index, outcome) in enumerate(zip(block.indexes, block.outcomes, strict=True)):
            if outcome == SUCCEEDED:
                if 0 <= index < self.tasks and index not in self.done:
                    self.succeeded += 1
                    if block.measured[position]:
                        self.done.add(index)
                        counts.append(position)
            elif outcome == KILLED:
                self.killed += 1
            elif outcome == FAILED:
                self.failed += 1
        peak = max(self.totals[PEAK_MEMORY], block.totals[PEAK_MEMORY])
        self.totals = [a + b for a, b in zip(self.totals, block.totals, strict=True)]
        self.totals[PEAK_MEMORY] = peak
        columns = (block.indexes, block.task_ids, block.run_times, block.read_bytes, block.read_rows)
        self.spread_of.append(tuple([column[position] for position in counts] for column in columns))

    def spreads(self) -> dict[str, Spread]:
        """By name as in the document, of the tasks that succeeded; none of shuffle reads where nothing was read."""
        found: dict[str, Spread] = {}
        tasks = [task for block in self.spread_of for task in zip(*block, strict=True)]
        if not tasks:
            return found
        tasks.sort()  # by index: of equal values the one with the smallest index is the largest
        for column, name in ((2, "run_time"), (3, "shuffle_read"), (4, "shuffle_read_records")):
            values = Sorted((task[column] for task in tasks), 0)
            if values.max == 0 and column > 2:
                continue
            largest = max(tasks, key=lambda task: task[column])
            found[name] = Spread(values.at(0), values.median, values.p95, values.max, largest[1])
        return found
