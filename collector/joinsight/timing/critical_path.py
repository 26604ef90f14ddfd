"""Where the wall time of an execution went: its critical path, cut into segments with one cause each.

The path is walked backwards from the end. At each time the question is: what finished last, of that which had to finish
first? Stages wait for their parents; a job under AQE for the jobs that wrote the shuffles it reads, which it lists as
skipped stages that compute the same RDD; else for what finished last before it started: a broadcast, a subquery, an
earlier job or nested execution. What nothing else explains is the driver's time. No segment depends on when an event
arrived, only on times in events, so that a live driver and its event log give the same segments.
Of an execution that runs, the path goes back from its last report, through what ran then.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from joinsight.base.generated import rewrite
from joinsight.contract.document import ENDED, Execution, Job, Nested, Stage

CAUSES: Mapping[str, str] = {
    "prepare": "the driver, before anything ran: code generation, listing files, submitting the first job",
    "replan": "the driver between two query stages under AQE: optimizing the rest of the plan and submitting a job",
    "driver": "the driver otherwise: between stages, or jobs without AQE; a user's function; fetching results of tasks",
    "broadcast": "the driver collects, builds and sends a broadcast that something waits for; without its tasks",
    "commit": "the commit of a write, after its job",
    "finish": "the driver after the last job: returning rows, refreshing metadata",
    "nested": "an execution that this one started",
    "waiting": "a stage is submitted, but none of its tasks runs: others hold the slots, or executors are missing",
    "running": "tasks of a stage run",
    "tail": "the last tasks of a stage run, on at most half of the slots that it had: skew or stragglers",
    "retry": "a repeated attempt of a stage, whose data was lost",
}
"""What a segment's time went into."""
_SHOWN = {
    "prepare": "planning",
    "replan": "AQE re-planning",
    "finish": "returning results",
    "waiting": "waiting for free cores",
    "tail": "waiting for the slowest task",
}
STAGE_CAUSES = ("running", "tail", "retry")
"""Those with which tasks run."""


def shown(cause: str) -> str:
    """What readers see in place of a cause."""
    return _SHOWN.get(cause, cause)


def table() -> Iterator[str]:
    """`CAUSES` as a Markdown table, for docs/critical-path.md."""
    yield "| `cause` | shown as | what the time went into |"
    yield "|---|---|---|"
    for cause, meaning in CAUSES.items():
        yield f"| `{cause}` | {shown(cause)} | {meaning} |"


_MAX_POSSIBLE = 100
"""Jobs considered for a broadcast: a document may hold anything."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A broadcast of the final plan; `stages` are those in which operators directly below it ran."""

    node_id: int
    stages: frozenset[int]
    collect_ms: int
    driver_ms: int
    """To build and send it."""
    readers: frozenset[int] = frozenset()
    """The stages in which operators that use it ran."""


class Segment(Struct, frozen=True):
    """A part of the execution's time, in milliseconds since its start. `node_id`: what the stage writes."""

    cause: str
    start_ms: int
    end_ms: int
    stage_id: int | None = None
    stage_attempt: int | None = None
    node_id: int | None = None
    nested_execution_id: int | None = None


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The segments, contiguous from start to end, and the slack of stage attempts that completed."""

    segments: Sequence[Segment]
    slack_ms: Mapping[tuple[int, int], int]
    """How much later it could have ended without delaying the execution; 0 on the path."""
    waits_for: Mapping[int, list[int]] = field(default_factory=dict)
    """By stage that ran, the stages whose results it waited for before it was submitted."""
    broadcast_ms: Mapping[int, int] = field(default_factory=dict)
    """By stage whose rows became a broadcast, how long the driver took to build and send it."""


@dataclass(eq=False, slots=True)
class _Work:
    """A job, with its broadcast if it made one, or a nested execution."""

    start: int
    finish: int
    job: Job | None = None
    last: Stage | None = None
    """The attempt that ended the job."""
    broadcast: Broadcast | None = None
    nested: Nested | None = None
    reads: list[_Work] = field(default_factory=list)
    """Jobs whose shuffles it reads."""
    is_read: bool = False
    slack: int | None = None
    """At its finish."""
    is_open: bool = False
    """Whether it runs: its finish is the time of the report."""


def critical_path(
    e: Execution,
    broadcasts: Iterable[Broadcast] = (),
    *,
    is_adaptive: bool = True,
    commit_ms: int = 0,
    nodes: Mapping[int, int] | None = None,
) -> CriticalPath:
    """The path of an execution that ended, or so far of one that runs; empty for others.

    `nodes`: by stage, the exchange that it writes.
    """
    end = known_until(e)
    if end is None:
        return CriticalPath((), {})
    walk = _Walk(e, end, broadcasts, is_adaptive=is_adaptive, commit_ms=commit_ms, nodes=nodes or {})
    walk.run()
    broadcast_ms = {w.last.id: w.broadcast.driver_ms for w in walk.works if w.last and w.broadcast}
    return CriticalPath(walk.merged(), {} if walk.is_running else walk.slacks(), walk.waits(), broadcast_ms)


def known_until(e: Execution) -> int | None:
    """The end of an execution, or its last report if it runs; None: it is lost, or of a log or an older listener."""
    if e.state in ENDED:
        return e.ended_at_ms
    return e.reported_at_ms if e.state == "running" else None


class _Walk:
    """The way back from the end: `at` only falls, and each job, attempt and nested execution is visited once."""

    def __init__(
        self,
        e: Execution,
        end: int,
        broadcasts: Iterable[Broadcast],
        *,
        is_adaptive: bool,
        commit_ms: int,
        nodes: Mapping[int, int],
    ) -> None:
        self.start, self.end = e.started_at_ms, max(e.started_at_ms, end)
        self.at = self.end
        self.is_failed = e.state in ("failed", "cancelled")
        self.is_running = e.state == "running"
        self.gap = "replan" if is_adaptive else "driver"
        self.commit_ms = commit_ms
        self.nodes = nodes
        self.backwards: list[Segment] = []
        self.visited: set[tuple[int, int]] = set()
        self.attempts: dict[int, list[Stage]] = defaultdict(list)
        for stage in sorted(e.stages, key=lambda stage: stage.attempt):
            if stage.submitted_at_ms is not None:
                self.attempts[stage.id].append(stage)
        self.completed = {stage_id: _by_end(attempts) for stage_id, attempts in self.attempts.items()}
        self.failed = _by_end(stage for each in self.attempts.values() for stage in each if stage.failure is not None)
        self.ends = {stage_id: _end(each[-1]) for stage_id, each in self.completed.items() if each}
        self.writers: dict[int, _Work] = {}  # of a skipped stage, the job that computed it
        self.works = sorted(self._works(e, broadcasts), key=_order)
        self.first_job: dict[int, _Work] = {}  # of a stage
        for work in sorted(self.works, key=lambda work: -work.start):
            if work.job is not None:
                self.first_job.update(dict.fromkeys(work.job.stages, work))

    def _works(self, e: Execution, broadcasts: Iterable[Broadcast]) -> Iterator[_Work]:
        writers: dict[int, _Work] = {}  # by RDD, the newest job that computed it last
        rdds = {stage.id: stage.rdd for stage in e.stages if stage.rdd is not None}
        works = []
        for job in sorted(e.jobs, key=lambda job: (job.submitted_at_ms, job.id)):
            last = self.attempts.get(max(job.stages, default=-1), [None])[-1]
            finish = last.completed_at_ms if last is not None and last.completed_at_ms is not None else job.ended_at_ms
            is_open = self.is_running and finish is None
            if (self.is_failed or self.is_running) and (finish is None or finish > self.end):
                finish = self.end  # it runs, failed with the execution, or the execution gave it up
            if finish is None or job.submitted_at_ms > self.end:
                continue
            if is_open:
                last = self._at_work(job)
            work = _Work(job.submitted_at_ms, finish, job, last, is_open=is_open)
            for stage_id in job.stages:
                writer = None if stage_id in self.attempts else writers.get(rdds.get(stage_id, -1))
                if writer is not None:
                    work.reads.append(writer)
                    writer.is_read = True
                    self.writers[stage_id] = writer
            if last is not None and last.rdd is not None:
                writers[last.rdd] = work
            works.append(work)
        self._match(works, broadcasts)
        yield from works
        for nested in e.nested:
            if nested.ended_at_ms is not None:
                yield _Work(nested.started_at_ms, nested.ended_at_ms, nested=nested)
            elif self.is_running and nested.started_at_ms <= self.end:
                yield _Work(nested.started_at_ms, self.end, nested=nested, is_open=True)

    def _at_work(self, job: Job) -> Stage | None:
        """What a job that runs is at: of its stages that run, the first that has tasks; else what ended last."""
        newest = [attempts[-1] for stage_id in set(job.stages) if (attempts := self.attempts.get(stage_id))]
        running = [stage for stage in newest if stage.completed_at_ms is None]
        if running:
            return min(running, key=lambda stage: (_launch(stage) is None, stage.submitted_at_ms, stage.id))
        return max(newest, key=lambda stage: (_end(stage), stage.id), default=None)

    @staticmethod
    def _match(works: Sequence[_Work], broadcasts: Iterable[Broadcast]) -> None:
        """Find the job of each broadcast: it ends in one of its stages, and took about as long as the collection."""
        by_stage: dict[int, list[_Work]] = defaultdict(list)
        for work in works:
            if work.last is not None and not work.is_read and len(by_stage[work.last.id]) < _MAX_POSSIBLE:
                by_stage[work.last.id].append(work)
        for broadcast in broadcasts:
            possible = [work for stage in broadcast.stages for work in by_stage.get(stage, ())]
            free = [work for work in possible if work.broadcast is None]
            if free:
                it = min(free, key=lambda work: (abs(work.finish - work.start - broadcast.collect_ms), work.start))
                it.broadcast = broadcast

    def _ready(self, work: _Work) -> int:
        """When what waits for it could go on."""
        return work.finish + (work.broadcast.driver_ms if work.broadcast else 0)

    # The walk

    def run(self) -> None:
        """Find all segments, the last one first."""
        every = sorted(self.works, key=self._ready)
        unread = [work for work in every if not work.is_read]
        done: set[_Work] = set()
        consumer: _Work | None = None
        while self.at > self.start:
            candidates = unread if consumer is not None and consumer.job is not None else every
            while candidates and (self._ready(candidates[-1]) > self.at or candidates[-1] in done):
                candidates.pop()
            possible = candidates[-1:]
            if consumer is not None:
                possible += [work for work in consumer.reads if work not in done and work.finish <= self.at]
            work = max(possible, key=self._ready, default=None)
            if work is None or self._ready(work) <= self.start:
                break
            done.add(work)
            self._idle(self._ready(work), consumer)
            consumer = self._through(work)
        is_first = self.is_running or (bool(self.backwards) and self.at < self.end)
        self._to(self.start, "prepare" if is_first else "driver")

    def _idle(self, ready: int, consumer: _Work | None) -> None:
        """The driver's time between what finished and what waited for it."""
        if consumer is None and self.at == self.end and not self.is_running:
            self._to(ready + self.commit_ms, "finish")
            self._to(ready, "commit")
        else:
            is_between = self.is_running if consumer is None else consumer.nested is None
            self._to(ready, self.gap if is_between else "driver")

    def _through(self, work: _Work) -> _Work:
        """Go to the start of this; returns the job that started there, because a stage may belong to an earlier one."""
        if work.nested is not None:
            self._to(work.start, "nested", nested_execution_id=work.nested.id)
            return work
        node = work.broadcast.node_id if work.broadcast else None
        between = "driver" if node is None else "broadcast"
        stage, job = work.last, work
        while stage is not None:
            self._to(stage.completed_at_ms, between, node_id=node)
            self._stage(stage, node)
            job = self.first_job.get(stage.id, work)
            stage = self._before(stage)
            between = "driver"
        earlier = work if work.start <= job.start else job
        self._to(earlier.start, "driver" if node is None else "broadcast", node_id=node)
        return earlier

    def _before(self, stage: Stage) -> Stage | None:
        """The attempt for which this one waited; None: the job began with it."""
        waited_for = [self.completed.get(stage_id, []) for stage_id in (*stage.parents, stage.id)]
        if stage.attempt > 0:
            waited_for.append(self.failed)  # what found that its data was lost
        earlier = []
        for left in waited_for:
            while left and (_end(left[-1]) > self.at or (left[-1].id, left[-1].attempt) in self.visited):
                left.pop()  # the walk does not come back to later times
            earlier += left[-1:]
        return max(earlier, key=lambda attempt: (_end(attempt), attempt.id), default=None)

    def _stage(self, stage: Stage, node: int | None) -> None:
        self.visited.add((stage.id, stage.attempt))
        where = Segment("running", 0, 0, stage.id, stage.attempt, self.nodes.get(stage.id, node))
        submitted = stage.submitted_at_ms
        if stage.attempt > 0:
            self._to(submitted, "retry", where)
            return
        launch = _launch(stage)
        if launch is None and stage.state == "succeeded":
            launch = submitted  # the events of its tasks are missing
        if launch is not None:
            if stage.state == "succeeded":
                self._to(_later(stage.last_finish_at_ms, launch), "driver", where)
            if not (self.is_running and stage.state == "running"):  # until all tasks have ended, it is not known
                self._to(_later(stage.tail_at_ms, launch), "tail", where)
            self._to(_later(launch, submitted), "running", where)
        self._to(submitted, "waiting", where)

    def _to(
        self,
        time: int | None,
        cause: str,
        where: Segment | None = None,
        *,
        node_id: int | None = None,
        nested_execution_id: int | None = None,
    ) -> None:
        """The time from there to where the walk is has this cause; nothing if it is not earlier, or unknown."""
        if time is None or time >= self.at:
            return
        time = max(time, self.start)
        if time == self.at:
            return
        place = where or Segment(cause, 0, 0, node_id=node_id, nested_execution_id=nested_execution_id)
        begin, end = time - self.start, self.at - self.start
        self.backwards.append(replace(place, cause=cause, start_ms=begin, end_ms=end))
        self.at = time

    def merged(self) -> Sequence[Segment]:
        """The segments in order; neighbours that differ only in their times are one."""
        segments: list[Segment] = []
        for each in reversed(self.backwards):
            if segments and replace(each, start_ms=segments[-1].start_ms) == replace(segments[-1], end_ms=each.end_ms):
                segments[-1] = replace(segments[-1], end_ms=each.end_ms)
            else:
                segments.append(each)
        return segments

    # What waits for what

    def waits(self) -> Mapping[int, list[int]]:
        """By stage: its parents, the broadcasts that its job uses, and what else ended last before its job began.

        What is read by no other job may be a subquery or a sample of a range, for which the job waited.
        """
        every = sorted(self.works, key=self._ready)
        others = [w for w in every if not (w.is_read or (w.broadcast and w.broadcast.readers))]
        used: dict[int, list[_Work]] = defaultdict(list)
        for work in every:
            for stage_id in work.broadcast.readers if work.broadcast else ():
                used[stage_id].append(work)
        found: dict[int, list[int]] = {}
        for stage_id, attempts in self.attempts.items():
            ran = [parent for parent in attempts[0].parents if parent in self.attempts]
            job = self.first_job.get(stage_id)
            if job is not None and job.job is not None and not ran:
                waited = [self.writers[parent] for parent in attempts[0].parents if parent in self.writers]
                waited += [work for each in job.job.stages for work in used.get(each, ())]
                waited += self._last(others if waited else every, job.start)
                ran = [work.last.id for work in waited if work.last is not None and self._ready(work) <= job.start]
            found[stage_id] = sorted(set(ran) - {stage_id})
        return found

    def _last(self, works: Sequence[_Work], time: int) -> Sequence[_Work]:
        """What was ready last until then, of works in the order in which they were."""
        position = bisect_right(works, time, key=self._ready)
        return works[max(0, position - 1) : position]

    # Slack

    def slacks(self) -> dict[tuple[int, int], int]:
        """By stage attempt. What nothing waits for may end with what the end of the execution waited for."""
        waits: dict[_Work | None, list[_Work]] = defaultdict(list)  # by consumer; None: the end of the execution
        # Of works that start at once, the first may delay the end most: it is the one that is waited for
        starts = sorted(self.works, key=lambda work: (work.start, -self._ready(work)))
        position = len(starts)
        for work in sorted(self.works, key=self._ready, reverse=True):
            if self._ready(work) > self.end or work.is_read:
                continue
            while position and starts[position - 1].start >= self._ready(work):
                position -= 1
            following = starts[position] if position < len(starts) else None
            waits[following if following is not work else None].append(work)
        for work in self.works:
            waits[work] += [read for read in work.reads if read.finish <= work.start]
        found: dict[int, int] = {}  # by stage
        self._allow(waits[None], 0)
        for work in reversed(starts):
            slack = work.slack
            if slack is not None:
                self._allow(waits[work], self._inside(work, slack, found))
        of_attempts = {
            (attempt.id, attempt.attempt): slack
            for stage_id, slack in found.items()
            for attempt in self.attempts[stage_id]
            if attempt.completed_at_ms is not None
        }
        return of_attempts | dict.fromkeys(self.visited, 0)

    def _allow(self, works: Sequence[_Work], slack: int) -> None:
        """Each of these may take until the last of them is ready, and `slack` longer."""
        latest = max((self._ready(work) for work in works), default=0)
        for work in works:
            its = latest - self._ready(work) + slack
            work.slack = its if work.slack is None else min(work.slack, its)

    def _inside(self, work: _Work, slack: int, found: dict[int, int]) -> int:
        """The slack of the stages of a job; returns that of the job's start."""
        if work.job is None or work.last is None:
            return slack
        allowed = {work.last.id: slack}
        first = slack
        for stage_id in sorted(set(work.job.stages), reverse=True):  # Spark numbers parents first
            its = allowed.get(stage_id)
            if its is None or stage_id not in self.attempts:
                continue
            found[stage_id] = min(its, found.get(stage_id, its))
            ends = {parent: self.ends[parent] for parent in self.attempts[stage_id][0].parents if parent in self.ends}
            latest = max(ends.values(), default=0)
            for parent, ended in ends.items():
                possible = latest - ended + its
                allowed[parent] = min(possible, allowed.get(parent, possible))
            if not ends:
                first = min(first, its)
        return first


def _order(work: _Work) -> tuple[int, bool, int]:
    """By finish; of works that run, the first one with tasks, or an execution, comes last: there the walk begins."""
    if not work.is_open:
        return work.finish, False, work.start
    is_at_work = work.nested is not None or (work.last is not None and _launch(work.last) is not None)
    return work.finish, is_at_work, -work.start


def _launch(stage: Stage) -> int | None:
    """When the first of its tasks was launched, as far as known: of those that ended, and those that still run."""
    known = [ms for ms in (stage.first_launch_at_ms, stage.oldest_launch_at_ms) if ms is not None]
    return min(known, default=None)


def _by_end(attempts: Iterable[Stage]) -> list[Stage]:
    return sorted((stage for stage in attempts if stage.completed_at_ms is not None), key=_end)


def _end(stage: Stage) -> int:
    return stage.completed_at_ms or 0


def _later(time: int | None, limit: int | None) -> int | None:
    return time if time is None or limit is None else max(time, limit)


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), "causes", table())
