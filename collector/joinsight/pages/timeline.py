"""The stages of an execution on one axis of time: bars in percent of the axis, so that they fit any width."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.contract.document import ENDED
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.present.time_spent import TimeSpent, by_cause
from joinsight.tables import Row
from joinsight.timing.critical_path import shown

MAX_STAGES = 200
"""Stage attempts that are shown: the longest."""
MAX_OPERATORS = 2
_NOTABLE = ("aggregate", "broadcast", "cached_scan", "join", "scan", "shuffle")
_MIN_WIDTH = 0.4  # percent
_MIN_PIECE = 0.1  # percent, so there are at most 1,000
_MIN_SHARE = 0.005
_TICKS = 5
_NEAR_END = 94  # percent
_STEPS_MS = tuple(
    unit * step
    for unit, steps in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 3, 6, 12)),
        (86_400_000, tuple(step * 10**power for power in range(8) for step in (1, 2, 5))),
    )
    for step in steps
)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis; `anchor` is SVG's: the texts at the ends stay within the axis."""

    x: float
    text: str
    anchor: str

    @classmethod
    def at(cls, ms: int, length_ms: int) -> Tick:
        """The mark of a time, on an axis of this length."""
        x = 100 * ms / length_ms
        return cls(round(x, 2), _round_time(ms, length_ms), "start" if x == 0 else "end" if x > _NEAR_END else "middle")


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from the start of the execution to its end, or to the last known moment."""

    start: datetime
    end: datetime

    @property
    def length_ms(self) -> int:
        """At least 1."""
        return max(1, _ms(self.start, self.end))

    def percent(self, moment: datetime) -> float:
        """The position of a moment; moments outside are at the ends."""
        return round(min(100.0, max(0.0, 100 * _ms(self.start, moment) / self.length_ms)), 2)

    def span(self, start: datetime, end: datetime) -> tuple[float, float]:
        """Position and width of a bar, wide enough to be visible."""
        x, to = self.percent(start), self.percent(end)
        width = max(_MIN_WIDTH, round(to - x, 2))
        return min(x, 100 - width), width

    @property
    def ticks(self) -> list[Tick]:
        """Round times since the start: 0 and at most `_TICKS` after it."""
        length = self.length_ms
        step = next((step for step in _STEPS_MS if length / step <= _TICKS), length)
        return [Tick.at(ms, length) for ms in range(0, length + 1, step)]


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage attempt that ran, or waits for its tasks."""

    row: Row
    x: float
    width: float
    done: float
    """The part of the bar that stands for its tasks that are done, in percent of the axis."""
    start_ms: int
    """Since the start of the execution."""
    duration_ms: int | None
    """None: it has not started."""
    operators: Sequence[Node]
    """Those that say most of what it does."""
    others: int
    """The number of its other operators."""

    @property
    def name(self) -> str:
        """``75``, or ``75.1`` for a further attempt."""
        attempt = self.row["stage_attempt"]
        return f"{self.row['stage_id']}.{attempt}" if attempt else str(self.row["stage_id"])

    @property
    def id(self) -> str:
        """The anchor of the row."""
        return f"s{self.row['stage_id']}-{self.row['stage_attempt']}"

    @property
    def has_started(self) -> bool:
        """Whether it was submitted."""
        return self.duration_ms is not None

    @property
    def when(self) -> str:
        """Its times since the start of the execution, as text."""
        start, to = (duration_text(ms) for ms in (self.start_ms, self.start_ms + (self.duration_ms or 0)))
        if self.duration_ms is None:
            return "not started"
        return f"from {start} to {to}" if self.row["completed_at"] else f"since {start}"

    @property
    def skew(self) -> float | None:
        """The run time of the longest task divided by that of the median task; None while it runs: the longest task may
        be one that has not ended."""
        if self.row["state"] == "running":
            return None
        median, largest = self.row["run_time_ms_median"], self.row["run_time_ms_max"]
        return largest / median if median and largest and self.row["succeeded_tasks"] > 1 else None


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark job with the stages that ran for it; `id` is None for stages without a job."""

    id: int | None
    x: float
    width: float
    duration_ms: int
    """From the start of its first stage to the end of its last one."""
    bars: Sequence[Bar]

    @property
    def is_shown(self) -> bool:
        """Whether it has a line of its own: with a single stage, the stage's line says all."""
        return self.id is not None and sum(bar.has_started for bar in self.bars) > 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment of the critical path on the axis."""

    cause: str
    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All stages of an execution."""

    axis: Axis
    path: Sequence[Piece]
    """The critical path, without segments that are too short to see; empty: unknown."""
    spent: Sequence[TimeSpent]
    """What the path adds up to by cause, the largest first."""
    jobs: Sequence[Job]
    skipped: int
    left_out: int
    """Stage attempts beyond `MAX_STAGES`."""
    tasks_done: int
    tasks: int
    """Tasks of the stages known so far."""


def timeline(stored: StoredPlan, stages: Sequence[Row], stages_of: Mapping[int, Sequence[int]]) -> Timeline:
    """The stages of an execution by job, in the order of their starts; `stages_of`: see `Stages.of_nodes`."""
    e = stored.execution
    reported = [e["started_at"] + timedelta(milliseconds=row["end_ms"]) for row in stored.segments[-1:]]
    axis = _axis(e, stages, (version["planned_at"] for version in stored.versions), reported)
    skipped = _skipped(stages)
    known = [row for row in stages if row["stage_id"] not in skipped]
    longest = sorted(known, key=lambda row: _ms(*_times(row, axis)), reverse=True)[:MAX_STAGES]
    nodes = _nodes_of_stages(stored, stages_of)
    by_job: dict[int | None, list[Bar]] = defaultdict(list)
    for row in sorted(longest, key=lambda row: (_times(row, axis)[0], row["stage_id"], row["stage_attempt"])):
        by_job[min(row["job_ids"], default=None) if row["job_ids"] else None].append(
            _bar(row, axis, nodes.get(row["stage_id"], ()))
        )
    segments = [row for row in stored.segments if row["end_ms"] > row["start_ms"]]
    return Timeline(
        axis,
        _pieces(segments, axis),
        [each for each in by_cause(segments) if each.share >= _MIN_SHARE] if segments else [],
        [_job(job, bars, axis) for job, bars in by_job.items()],
        len(stages) - len(known),
        len(known) - len(longest),
        sum(row["succeeded_tasks"] for row in known),
        sum(_tasks(row) for row in known),
    )


def _skipped(stages: Sequence[Row]) -> set[int]:
    """The stages that Spark skips because their shuffle exists already; while the execution runs, a pending one that it
    would have submitted by now: at the start of its job, or before a stage that reads it."""
    skipped = {row["stage_id"] for row in stages if row["state"] == "skipped"}
    if not any(row["parent_ids"] for row in stages):  # earlier listeners did not report them
        return skipped
    pending = {row["stage_id"]: row for row in stages if row["state"] == "pending"}
    started = [row for row in stages if row["submitted_at"] is not None]
    jobs = {job for row in started for job in row["job_ids"] or ()}
    for stage, row in sorted(pending.items()):  # Spark numbers a stage after its parents
        if not jobs.isdisjoint(row["job_ids"] or ()) and skipped.issuperset(row["parent_ids"] or ()):
            skipped.add(stage)
    parents = [parent for row in started for parent in row["parent_ids"] or ()]
    while parents:
        parent = pending.pop(parents.pop(), None)
        if parent is not None:
            skipped.add(parent["stage_id"])
            parents += parent["parent_ids"] or ()
    return skipped


def _pieces(segments: Iterable[Row], axis: Axis) -> list[Piece]:
    pieces = []
    for row in segments:
        x, to = (round(min(100.0, 100 * row[name] / axis.length_ms), 2) for name in ("start_ms", "end_ms"))
        if to - x >= _MIN_PIECE:
            stage = "" if row["stage_id"] is None else f", stage {row['stage_id']}"
            title = f"{shown(row['cause'])}{stage}: {duration_text(row['end_ms'] - row['start_ms'])}"
            pieces.append(Piece(row["cause"], x, round(to - x, 2), title))
    return pieces


def _axis(e: Row, stages: Iterable[Row], planned: Iterable[datetime], reported: Sequence[datetime]) -> Axis:
    """`reported`: the end of the path, by the driver's clock; empty: unknown."""
    start = e["started_at"]
    if e["state"] in ENDED and e["ended_at"] is not None:
        end = e["ended_at"]
    else:
        moments = [row[name] for row in stages for name in ("submitted_at", "completed_at")]
        moments += [*planned, *reported, e["updated_at"] if e["state"] == "running" and not reported else None]
        end = max((moment for moment in moments if moment is not None), default=start)
    return Axis(start, max(start, end))


def _times(row: Row, axis: Axis) -> tuple[datetime, datetime]:
    """When a stage started and ended, as far as is known; one that has not started is at the end."""
    last = axis.end
    start = row["submitted_at"] or last
    return start, max(start, row["completed_at"] or last)


def _tasks(row: Row) -> int:
    """The tasks of a stage that are done or will be."""
    return int(row["tasks"] if row["state"] in ("pending", "running") else row["succeeded_tasks"])


def _bar(row: Row, axis: Axis, nodes: Sequence[Node]) -> Bar:
    start, end = _times(row, axis)
    x, width = axis.span(start, end)
    is_done = row["state"] == "succeeded" or not row["tasks"]
    done = width if is_done else round(width * min(1, row["succeeded_tasks"] / row["tasks"]), 2)
    shown = ([node for node in nodes if _is_notable(node.name)] or nodes)[:MAX_OPERATORS]
    duration = _ms(start, end) if row["submitted_at"] is not None else None
    return Bar(row, x, width, done, max(0, _ms(axis.start, start)), duration, shown, len(nodes) - len(shown))


def _job(job: int | None, bars: Sequence[Bar], axis: Axis) -> Job:
    times = [_times(bar.row, axis) for bar in bars]
    start, end = min(start for start, _ in times), max(end for _, end in times)
    return Job(job, *axis.span(start, end), _ms(start, end), bars)


def _nodes_of_stages(stored: StoredPlan, stages_of: Mapping[int, Sequence[int]]) -> dict[int, list[Node]]:
    """The operators of each stage; an exchange is at the stages that write it and at those that read it."""
    found: dict[int, list[Node]] = defaultdict(list)
    for node in stored.plan.graph.nodes:
        if not node.is_cluster:
            for stage in stages_of.get(node.id, ()):
                found[stage].append(node)
    return found


def _is_notable(name: str) -> bool:
    return operators.of(name).kind in _NOTABLE


def _ms(start: datetime, end: datetime) -> int:
    return round((end - start).total_seconds() * 1000)


def _round_time(ms: int, length_ms: int) -> str:
    if not ms:
        return "0"
    for unit, name in _UNITS:
        if ms % unit == 0:
            return f"{ms // unit:,} {name}"
    return f"{ms / 1_000:g} s" if length_ms >= 1_000 else f"{ms} ms"
