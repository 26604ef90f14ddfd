"""The values that tasks and the driver reported, read from an event log with only a JSON parser.

Spark's stores keep strings and sums. For percentiles, and for telling which tasks share a largest value, the tests need
the values behind them: these are in the log, task by task.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
Place = tuple[int, int, int]
"""Stage, attempt, task."""


@dataclass
class Attempt:
    """An attempt of a stage: the values that its tasks wrote until the execution ended."""

    stage: int
    attempt: int
    tasks: int
    known: set[int] | None
    """Accumulators whose values count; None: all. Before 4.0 a stage knows those announced before its job."""
    done: set[int] = field(default_factory=set)
    values: dict[int, dict[int, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    """Value and task id, by accumulator and task index."""
    has_failures: bool = False


@dataclass
class Logged:
    """An execution in the log."""

    started: bool = False
    ended: bool = False
    job_group: str | None = None
    job_tags: list[str] = field(default_factory=list)
    streaming_query_id: str | None = None
    streaming_batch_id: int | None = None
    announced: set[int] = field(default_factory=set)
    stages: dict[int, Attempt] = field(default_factory=dict)
    driver: list[tuple[int, int]] = field(default_factory=list)
    late: bool = False
    """Tasks or the driver reported after its end."""
    reported_late: set[int] = field(default_factory=set)
    """The accumulators of which they did."""
    jobs: set[int] = field(default_factory=set)
    """Those that run."""
    ends: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """The tasks of stage attempts, in the order in which they ended."""
    late_tasks: set[int] = field(default_factory=set)
    """Those that ended after the execution and all of its jobs, or after their stage."""
    outlived: bool = False
    """A task ended after its stage, which failed or was cancelled.

    Another thread then ends the execution: for some listeners that comes first, for others the task.
    """
    parents: dict[int, list[int]] = field(default_factory=dict)
    """The stages whose shuffles a stage reads."""
    shared: bool = False
    """Another execution that ran at the same time has a stage with it."""

    def values(self, accumulator: int) -> Iterator[tuple[int, Place | None]]:
        """All values, each with the task that wrote it; None: the driver."""
        for attempt in self.stages.values():
            if attempt.known is None or accumulator in attempt.known:
                for value, task in attempt.values.get(accumulator, {}).values():
                    yield value, (attempt.stage, attempt.attempt, task)
        for its_accumulator, value in self.driver:
            if its_accumulator == accumulator:
                yield value, None

    def touched(self, accumulator: int) -> list[Attempt]:
        """The stages in which a task wrote the accumulator."""
        stages = self.stages.values()
        return [a for a in stages if accumulator in a.values and (a.known is None or accumulator in a.known)]


def read(lines: Iterable[bytes]) -> dict[int, Logged]:
    """The executions of a log, by id."""
    found: dict[int, Logged] = defaultdict(Logged)
    of_stage: dict[int, list[int]] = defaultdict(list)
    completed: set[tuple[int, int]] = set()
    sees_later_metrics = True
    for line in lines:
        event = json.loads(line)
        kind = event["Event"].removeprefix(_SQL)
        if kind == "SparkListenerLogStart":
            sees_later_metrics = not event["Spark Version"].startswith("3.")
        elif kind in ("SQLExecutionStart", "SQLAdaptiveExecutionUpdate"):
            execution = found[event["executionId"]]
            execution.started = True
            execution.announced.update(_metrics(event["sparkPlanInfo"]))
            execution.job_group = event.get("jobGroupId") or execution.job_group
            execution.job_tags = sorted(event.get("jobTags", ())) or execution.job_tags
        elif kind == "SQLAdaptiveSQLMetricUpdates":
            found[event["executionId"]].announced.update(m["accumulatorId"] for m in event["sqlPlanMetrics"])
        elif kind == "DriverAccumUpdates":
            execution = found[event["executionId"]]
            if execution.ended:
                execution.late = True
                execution.reported_late.update(accumulator for accumulator, _ in event["accumUpdates"])
            elif execution.started:
                execution.driver += [(accumulator, value) for accumulator, value in event["accumUpdates"]]
        elif kind == "SQLExecutionEnd":
            found[event["executionId"]].ended = True
        elif kind == "SparkListenerJobStart":
            properties = event.get("Properties") or {}
            its_id = properties.get("spark.sql.execution.id")
            if its_id is not None:
                found[int(its_id)].jobs.add(event["Job ID"])
                _properties(found[int(its_id)], properties)
                _job(found, of_stage, int(its_id), event["Stage Infos"], sees_later_metrics)
        elif kind == "SparkListenerJobEnd":
            for execution in found.values():
                execution.jobs.discard(event["Job ID"])
        elif kind == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            for execution in _executions(found, of_stage, info["Stage ID"]):
                attempt = execution.stages[info["Stage ID"]]
                if not execution.ended and attempt.attempt != info["Stage Attempt ID"]:
                    fresh = Attempt(attempt.stage, info["Stage Attempt ID"], attempt.tasks, attempt.known)
                    execution.stages[attempt.stage] = fresh
        elif kind == "SparkListenerStageCompleted":
            completed.add((event["Stage Info"]["Stage ID"], event["Stage Info"]["Stage Attempt ID"]))
        elif kind == "SparkListenerTaskEnd":
            its_stage = event["Stage ID"], event["Stage Attempt ID"]
            for execution in _executions(found, of_stage, event["Stage ID"]):
                task = event["Task Info"]["Task ID"]
                execution.ends[its_stage].append(task)
                if its_stage in completed:
                    execution.outlived = True
                    execution.late_tasks.add(task)
                if execution.ended:
                    execution.late = True
                    execution.reported_late.update(a["ID"] for a in event["Task Info"]["Accumulables"])
                    if not execution.jobs:
                        execution.late_tasks.add(task)
                else:
                    _task(execution.stages[event["Stage ID"]], event)
    return found


def _properties(execution: Logged, properties: dict[str, str]) -> None:
    execution.job_group = execution.job_group or properties.get("spark.jobGroup.id")
    tags = properties.get("spark.job.tags")
    execution.job_tags = execution.job_tags or (tags.split(",") if tags else [])
    execution.streaming_query_id = properties.get("sql.streaming.queryId")
    batch = properties.get("streaming.sql.batchId")
    execution.streaming_batch_id = None if batch is None else int(batch)


def _job(
    found: dict[int, Logged], of_stage: dict[int, list[int]], its_id: int, stages: list[Any], sees_later: bool
) -> None:
    execution = found[its_id]
    known = None if sees_later else set(execution.announced)
    for info in stages:
        stage = info["Stage ID"]
        execution.parents.setdefault(stage, info["Parent IDs"])
        if not execution.ended:
            execution.stages[stage] = Attempt(stage, 0, info["Number of Tasks"], known)
        for other in of_stage[stage]:
            if other != its_id and not found[other].ended:
                found[other].shared = execution.shared = True
        if its_id not in of_stage[stage]:
            of_stage[stage].append(its_id)


def _executions(found: dict[int, Logged], of_stage: dict[int, list[int]], stage: int) -> list[Logged]:
    return [found[its_id] for its_id in of_stage.get(stage, ()) if stage in found[its_id].stages]


def _task(attempt: Attempt, event: dict[str, Any]) -> None:
    info = event["Task Info"]
    index = info["Index"]
    if attempt.attempt != event["Stage Attempt ID"] or index in attempt.done:
        return
    for accumulable in info["Accumulables"]:
        if accumulable.get("Metadata") == "sql" and "Update" in accumulable:
            attempt.values[accumulable["ID"]][index] = int(accumulable["Update"]), info["Task ID"]
    if info["Failed"] or info["Killed"]:
        attempt.has_failures = True
    else:
        attempt.done.add(index)


def _metrics(plan: dict[str, Any]) -> Iterator[int]:
    todo = [plan]
    while todo:
        node = todo.pop()
        yield from (metric["accumulatorId"] for metric in node["metrics"])
        todo += node["children"]
