"""The ends of tasks by the block: those of one stage attempt that follow each other, as columns.

Nothing is summed that could not be merged exactly later: a block keeps a value for each task and accumulator. Tasks
of a stage report their accumulators in the same order, so most blocks hold one `Group`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add
from typing import Any

from joinsight.document import STAGE_TOTALS
from joinsight.eventlog.events import TaskInfo, TaskMetrics

FAILED, KILLED, SUCCEEDED = range(3)
PEAK_MEMORY = STAGE_TOTALS.index("peak_memory_bytes")
_RUN_TIME, _LOCAL, _REMOTE, _ROWS = map(
    STAGE_TOTALS.index,
    ("run_time_ms", "shuffle_read_local_bytes", "shuffle_read_remote_bytes", "shuffle_read_rows"),
)
_NOTHING = (0,) * len(STAGE_TOTALS)
_NUMBERS = 3 + len(STAGE_TOTALS)
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_WIDTHS = (("b", 7), ("h", 15), ("i", 31), ("q", 63))


def packed(values: list[int]) -> array[int]:
    """The values in as few bytes each as the largest of them needs; one past Java's long is cut to it."""
    low, high = (min(values), max(values)) if values else (0, 0)
    for code, bits in _WIDTHS:
        if -(1 << bits) <= low and high < 1 << bits:
            return array(code, values)
    return array("q", [max(-(1 << 63), min(value, (1 << 63) - 1)) for value in values])


def packed_sizes(values: Iterable[int]) -> array[int]:
    """The same; what is negative is 0."""
    values = list(values)
    return packed(values if min(values) >= 0 else [max(0, value) for value in values])


@dataclass(slots=True)
class Group:
    """Tasks that reported the same accumulators in the same order: a column for each of them."""

    ids: tuple[int, ...]
    positions: array[int]
    """Where the tasks stand in the block."""
    columns: list[array[int]]


@dataclass(slots=True)
class TaskBlock:
    """Tasks of a stage attempt in the order in which they ended. Columns have an entry for each task."""

    stage: int
    attempt: int
    task_ids: array[int]
    indexes: array[int]
    outcomes: bytearray
    totals: tuple[int, ...]
    measured: bytearray
    """1: the task brought metrics."""
    run_times: array[int]
    read_bytes: array[int]
    read_rows: array[int]
    groups: list[Group]
    finished_at: int
    """When the last one ended."""


@dataclass(slots=True)
class OpenBlock:
    """A block that is being filled. Numbers stand in one list, task by task: it becomes columns by slices."""

    stage: int
    attempt: int
    tasks: int = 0
    numbers: list[int] = field(default_factory=list)
    """Of each task `_NUMBERS`: id, index, when it ended, and what is added up."""
    outcomes: bytearray = field(default_factory=bytearray)
    measured: bytearray = field(default_factory=bytearray)
    rows: dict[tuple[int, ...], tuple[list[int], list[Any]]] = field(default_factory=dict)
    """By accumulators: positions of tasks, and all their updates."""
    reported: dict[int, bool] = field(default_factory=dict)
    """By index: whether the task that reported its accumulators succeeded."""

    def takes(self, task: TaskInfo) -> bool:
        """False if the block must be closed first: this task overwrites values of one in it."""
        return self.reported.get(task.index, True)

    def add(self, task: TaskInfo, metrics: TaskMetrics | None) -> None:
        its_outcome = outcome(task)
        self.numbers += (task.id, task.index, task.finished_at)
        self.numbers += _NOTHING if metrics is None else _totals(metrics)
        self.outcomes.append(its_outcome)
        self.measured.append(metrics is not None)
        if task.accumulables and task.index not in self.reported:
            some = [a for a in task.accumulables if a.metadata == "sql" and a.update is not None]
            ids = tuple([a.id for a in some])
            group = self.rows.get(ids)
            if group is None:
                group = self.rows[ids] = ([], [])
            group[0].append(self.tasks)
            group[1].extend([a.update for a in some])
            self.reported[task.index] = its_outcome == SUCCEEDED
        self.tasks += 1

    def close(self) -> TaskBlock:
        """The columns. A task with an update that is no number counts, but its updates do not."""
        task_ids, indexes, finished_at, *columns = (self.numbers[i::_NUMBERS] for i in range(_NUMBERS))
        totals = [sum(column) for column in columns]
        totals[PEAK_MEMORY] = max(columns[PEAK_MEMORY])
        return TaskBlock(
            self.stage,
            self.attempt,
            packed(task_ids),
            packed(indexes),
            self.outcomes,
            tuple(totals),
            self.measured,
            packed_sizes(columns[_RUN_TIME]),
            packed_sizes(map(add, columns[_LOCAL], columns[_REMOTE])),
            packed_sizes(columns[_ROWS]),
            [_group(ids, positions, updates) for ids, (positions, updates) in self.rows.items()],
            max(finished_at),
        )


def _group(ids: tuple[int, ...], positions: list[int], updates: list[Any]) -> Group:
    width = len(ids)
    try:
        return Group(ids, packed(positions), [packed(list(map(int, updates[i::width]))) for i in range(width)])
    except (TypeError, ValueError):
        rows = [updates[i * width : (i + 1) * width] for i in range(len(positions))]
        good = [(position, row) for position, row in zip(positions, rows, strict=True) if all(map(_is_number, row))]
        columns = [packed(list(map(int, column))) for column in zip(*(row for _, row in good), strict=True)]
        return Group(ids if good else (), packed([position for position, _ in good]), columns)


def _is_number(update: object) -> bool:
    return isinstance(update, (str, int)) and _NUMBER.fullmatch(str(update)) is not None


def outcome(task: TaskInfo) -> int:
    """As Spark's TaskInfo.successful."""
    if task.killed:
        return KILLED
    return FAILED if task.failed or not task.finished_at else SUCCEEDED


def _totals(m: TaskMetrics) -> tuple[int, ...]:
    """In the order of `STAGE_TOTALS`."""
    read, write = m.shuffle_read, m.shuffle_write
    return (
        m.run_time,
        m.cpu_time,
        m.gc_time,
        m.deserialize_time,
        m.result_size,
        m.memory_spilled,
        m.disk_spilled,
        m.peak_memory,
        m.input.bytes,
        m.input.rows,
        m.output.bytes,
        m.output.rows,
        read.local_bytes,
        read.remote_bytes,
        read.rows,
        read.fetch_wait,
        write.bytes,
        write.rows,
        write.time,
    )
