"""The running executions of an application, kept up to date item by item: the listener's Executions, for a replay.

A replay knows less than the live listener: a task's metric that it never touched is absent, not 0 or -1; there are no
heartbeats; an execution's values are those of the moment of its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from joinsight.eventlog.events import (
    AdaptiveUpdate,
    DriverUpdates,
    ExecutionEnd,
    ExecutionStart,
    JobEnd,
    JobStart,
    MetricUpdates,
    PlanInfo,
    PlanMetric,
    StageCompleted,
    StageSubmitted,
)
from joinsight.eventlog.measured import Measured
from joinsight.eventlog.stages import Announced, StageAttempt, StageValues
from joinsight.eventlog.tasks import TaskBlock
from joinsight.incomplete import Reason

MAX_PLANS = 50
"""Re-plans kept in a document: the first half of them and the newest."""
_REMEMBERED = 50_000
"""Ids of executions that are over, so that what comes late is not taken for a new one."""
_KEPT = 200_000
"""How large all of these may be that are kept whole, as `Running.size` counts; and a quarter of it each."""


@dataclass(slots=True)
class RunningJob:
    id: int
    submitted_at: int
    stages: list[int]
    state: str = "running"
    ended_at: int | None = None


@dataclass(slots=True, eq=False)
class Running:
    """An execution as the events told it so far."""

    id: int
    root_id: int
    started_at: int
    ended_at: int | None = None
    error: str | None = None
    start_seen: bool = False
    description: str = ""
    call_site: str = ""
    job_group: str | None = None
    job_tags: list[str] = field(default_factory=list)
    streaming_query_id: str | None = None
    streaming_batch_id: str | None = None
    modified: dict[str, str] = field(default_factory=dict)
    plans: list[tuple[int, PlanInfo]] = field(default_factory=list)
    plans_dropped: int = 0
    announced_alone: list[PlanMetric] = field(default_factory=list)
    announced: Announced = field(default_factory=Announced)
    jobs: dict[int, RunningJob] = field(default_factory=dict)
    stages: dict[int, None] = field(default_factory=dict)
    """An ordered set."""
    attempts: dict[tuple[int, int], StageAttempt] = field(default_factory=dict)
    driver_updates: list[tuple[int, int]] = field(default_factory=list)
    values: list[Measured] | None = None
    """As they were when it ended; None while it runs."""
    end_events: int = 0
    gaps: dict[Reason, None] = field(default_factory=dict)
    """Why its numbers may be partial, for reasons of the log."""
    plan_size: int = 0
    was_over: bool = False
    is_changed: bool = False
    """By jobs or tasks that came after it was over: tasks that are killed end after their execution."""

    def add_plan(self, at: int, plan: PlanInfo) -> None:
        if len(self.plans) == MAX_PLANS:
            del self.plans[MAX_PLANS // 2]
            self.plans_dropped += 1
        self.plans.append((at, plan))
        open_nodes = [plan]  # plans can be hundreds of levels deep: no recursion
        while open_nodes:
            node = open_nodes.pop()
            self.plan_size += 4 + len(node.metrics)
            for metric in node.metrics:
                self.announced.types[metric.id] = metric.type
            open_nodes += node.children

    def size(self) -> int:
        """About what it takes when it is over, in objects of 100 bytes."""
        tasks = sum(20 + attempt.tasks for attempt in self.attempts.values())
        texts = len(self.description) + len(self.call_site) + len(self.error or "")
        values = 4 * len(self.values or ()) + len(self.driver_updates)
        return 20 + self.plan_size + tasks + values + 4 * len(self.jobs) + texts // 100


class Executions:
    """Calls `on_over` with each execution when it and its jobs have ended.

    Jobs that come later (`toLocalIterator`, a DataFrame that was kept) are added to those that are still kept; these
    are handed out once more, when they make room or by `changed`, for there may be thousands of such jobs.
    """

    def __init__(self, on_over: Callable[[Running], None]) -> None:
        self._on_over = on_over
        self.stages_see_later_metrics = True
        """Since Spark 4.0; before, a stage knew only the metrics announced until its job started."""
        self.live: dict[int, Running] = {}
        self._values: dict[int, StageValues] = {}
        self._of_stage: dict[int, Running] = {}
        self._of_job: dict[int, Running] = {}
        self._finished: OrderedDict[int, None] = OrderedDict()
        self._kept: OrderedDict[int, tuple[Running, int]] = OrderedDict()
        self._kept_size = 0

    def changed(self) -> list[Running]:
        """Executions that got another job after they were handed out."""
        return [e for e, _ in self._kept.values() if e.is_changed]

    def gap(self, reason: Reason) -> None:
        for running in self.live.values():
            running.gaps[reason] = None

    # SQL events

    def start(self, event: ExecutionStart) -> None:
        e = self._get_or_create(event.execution_id, event.time)
        e.start_seen = True
        e.started_at = event.time
        e.root_id = e.id if event.root_execution_id is None else event.root_execution_id
        e.description = event.description or ""
        e.call_site = event.details or ""
        e.modified = event.modified
        e.job_tags = sorted(event.job_tags) or e.job_tags
        e.job_group = event.job_group or e.job_group
        if event.plan is not None:
            e.add_plan(event.time, event.plan)

    def adaptive_update(self, event: AdaptiveUpdate, now: int) -> None:
        if event.plan is not None and not self._is_over(event.execution_id):
            self._get_or_create(event.execution_id, now).add_plan(now, event.plan)

    def metric_updates(self, event: MetricUpdates, now: int) -> None:
        if self._is_over(event.execution_id):
            return
        e = self._get_or_create(event.execution_id, now)
        for metric in event.metrics:
            e.announced.types[metric.id] = metric.type
        e.announced_alone += event.metrics

    def driver_updates(self, event: DriverUpdates) -> None:
        e = self.live.get(event.execution_id)
        if e is not None:
            e.driver_updates += event.updates

    def end(self, event: ExecutionEnd) -> None:
        e = self.live.get(event.execution_id)
        if e is None:
            return
        e.ended_at = event.time
        e.error = event.error or None
        e.end_events += 1
        if e.values is None:
            e.values = self.values(e)
        self._drop_stages(e)
        self._remove_if_over(e)

    def _is_over(self, execution_id: int) -> bool:
        return execution_id in self._finished and execution_id not in self.live

    def _get_or_create(self, execution_id: int, now: int) -> Running:
        e = self.live.get(execution_id)
        if e is None:
            e = self.live[execution_id] = Running(execution_id, execution_id, now)
        return e

    # Jobs, stages and tasks

    def job_start(self, event: JobStart) -> None:
        properties = event.properties
        if properties is None or properties.execution_id is None or not properties.execution_id.isdecimal():
            return
        execution_id = int(properties.execution_id)
        e = self.live.get(execution_id)
        if e is None and self._is_over(execution_id):
            e, size = self._kept.pop(execution_id, (None, 0))
            if e is None:
                return
            self._kept_size -= size
            e.is_changed = True
            self.live[execution_id] = e  # its values stay as they are, the job is added
        if e is None:
            e = self._get_or_create(execution_id, event.time)
        if e.job_group is None:
            e.job_group = properties.group
        if not e.job_tags and properties.tags:
            e.job_tags = properties.tags.split(",")
        e.streaming_query_id = properties.streaming_query_id
        e.streaming_batch_id = properties.streaming_batch_id
        announced = e.announced if self.stages_see_later_metrics else e.announced.snapshot()
        for stage in event.stages:
            if e.announced.types:
                self._values[stage.id] = StageValues(stage.id, 0, stage.tasks, announced)
            self._of_stage[stage.id] = e
            e.stages[stage.id] = None
            e.attempts.setdefault((stage.id, 0), StageAttempt(stage.id, 0, stage.name, stage.tasks))
        e.jobs[event.id] = RunningJob(event.id, event.time, [stage.id for stage in event.stages])
        self._of_job[event.id] = e

    def job_end(self, event: JobEnd) -> None:
        e = self._of_job.pop(event.id, None)
        if e is None:
            return
        job = e.jobs[event.id]
        job.state = "succeeded" if event.result is not None and event.result.result == "JobSucceeded" else "failed"
        job.ended_at = event.time
        e.end_events += 1
        self._remove_if_over(e)

    def stage_submitted(self, event: StageSubmitted) -> None:
        stage = event.stage
        e = self._of_stage.get(stage.id)
        if e is None:
            return
        key = (stage.id, stage.attempt)
        attempt = e.attempts.setdefault(key, StageAttempt(stage.id, stage.attempt, stage.name, stage.tasks))
        attempt.submitted_at = stage.submitted_at
        values = self._values.get(stage.id)
        if values is not None and values.attempt != stage.attempt:
            self._values[stage.id] = values.for_attempt(stage.attempt)

    def stage_completed(self, event: StageCompleted) -> None:
        stage = event.stage
        e = self._of_stage.get(stage.id)
        attempt = None if e is None else e.attempts.get((stage.id, stage.attempt))
        if attempt is None:
            return
        attempt.completed = True
        attempt.submitted_at = stage.submitted_at
        attempt.completed_at = stage.completed_at
        attempt.failure = stage.failure
        if e is not None and e.was_over:
            e.is_changed = True

    def tasks(self, block: TaskBlock) -> None:
        e = self._of_stage.get(block.stage)
        attempt = None if e is None else e.attempts.get((block.stage, block.attempt))
        if attempt is not None:
            attempt.add(block)
            if e is not None and e.was_over:
                e.is_changed = True
        values = self._values.get(block.stage)
        if values is not None and values.attempt == block.attempt:
            values.add(block)

    # Results

    def values(self, e: Running) -> list[Measured]:
        """What was measured for all announced accumulators."""
        found: dict[int, Measured] = {}
        types = e.announced.types
        for stage in e.stages:
            values = self._values.get(stage)
            if values is None:
                continue
            if self._used_by_another(stage, e):
                values = values.copy()
            for accumulator in values.largest:
                if accumulator in types:
                    found.setdefault(accumulator, Measured(accumulator, types[accumulator])).stages.append(values)
        for accumulator, value in e.driver_updates:
            if accumulator in types:
                found.setdefault(accumulator, Measured(accumulator, types[accumulator])).driver.append(value)
        return list(found.values())

    def _used_by_another(self, stage: int, e: Running) -> bool:
        return any(other is not e and stage in other.stages for other in self.live.values())

    def _drop_stages(self, e: Running) -> None:
        for stage in e.stages:
            if not self._used_by_another(stage, e):
                self._values.pop(stage, None)

    def _remove_if_over(self, e: Running) -> None:
        if e.end_events < len(e.jobs) + 1:
            return
        if not e.was_over:
            e.was_over = True
            self._on_over(e)
        self._drop_stages(e)
        del self.live[e.id]
        self._finished[e.id] = None
        if len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)
        for job in e.jobs:
            if self._of_job.get(job) is e:
                del self._of_job[job]
        self._keep(e)

    def _keep(self, e: Running) -> None:
        size = e.size()
        if size > _KEPT // 4:
            self._let_go(e)
            return
        self._kept[e.id] = e, size
        self._kept_size += size
        while self._kept_size > _KEPT:
            _, (oldest, size) = self._kept.popitem(last=False)
            self._kept_size -= size
            self._let_go(oldest)

    def _let_go(self, e: Running) -> None:
        for stage in e.stages:
            if self._of_stage.get(stage) is e:
                del self._of_stage[stage]
        if e.is_changed:
            e.is_changed = False
            self._on_over(e)
