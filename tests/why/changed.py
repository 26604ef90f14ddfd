"""Documents of real runs in which one thing takes longer."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from joinsight.contract.document import Accumulator, Execution, Metric, Nested, Stage

_TIMES = ("submitted_at_ms", "first_launch_at_ms", "tail_at_ms", "last_finish_at_ms", "completed_at_ms")
COMMIT = 1_000_000
"""The accumulator of a commit's time."""


def later(e: Execution, after_ms: int, by_ms: int) -> Execution:
    """All that is known to have been after a time is later by some milliseconds."""

    def moved(time: int | None) -> Any:
        return time + by_ms if time is not None and time > after_ms else time

    return structs.replace(
        e,
        jobs=[
            structs.replace(job, submitted_at_ms=moved(job.submitted_at_ms), ended_at_ms=moved(job.ended_at_ms))
            for job in e.jobs
        ],
        stages=[structs.replace(stage, **{name: moved(getattr(stage, name)) for name in _TIMES}) for stage in e.stages],
        ended_at_ms=moved(e.ended_at_ms),
    )


def stage_of(e: Execution, stage_id: int) -> Stage:
    """Its first attempt."""
    return next(stage for stage in e.stages if stage.id == stage_id)


def with_stage(e: Execution, changed: Stage) -> Execution:
    """The execution with another one of its stages."""
    return structs.replace(e, stages=[changed if stage.id == changed.id else stage for stage in e.stages])


def longer_stage(e: Execution, stage_id: int, by_ms: int, **counters: int) -> Execution:
    """The stage and what is after it take longer; `counters`: by how much more each of its totals is."""
    start = (stage_of(e, stage_id).tail_at_ms or 0) - 1
    e = later(e, start, by_ms)
    stage = stage_of(e, stage_id)
    totals = {name: getattr(stage, name) + more for name, more in counters.items()}
    run_time = stage.run_time
    assert run_time is not None
    more = counters.get("run_time_ms", 0) // stage.tasks
    spread = {name: getattr(run_time, name) + more for name in ("min", "median", "p95", "max")}
    return with_stage(e, structs.replace(stage, run_time=structs.replace(run_time, **spread), **totals))


def longer_tail(e: Execution, stage_id: int, longest_ms: int) -> Execution:
    """One task of the stage does nearly all of its work."""
    stage = stage_of(e, stage_id)
    by_ms = longest_ms + (stage.first_launch_at_ms or 0) - (stage.last_finish_at_ms or 0)
    e = later(e, stage.tail_at_ms or 0, by_ms)
    stage = stage_of(e, stage_id)
    assert stage.run_time is not None
    rest = (stage.run_time_ms - longest_ms) // (stage.tasks - 1)
    run_time = structs.replace(stage.run_time, min=rest, median=rest, p95=longest_ms, max=longest_ms)
    tail_at = (stage.first_launch_at_ms or 0) + rest * stage.tasks
    return with_stage(e, structs.replace(stage, run_time=run_time, tail_at_ms=tail_at))


def one_task(e: Execution, stage_id: int) -> Execution:
    """The stage has a single task, which does all of its work."""
    stage = stage_of(e, stage_id)
    run = stage.run_time_ms
    e = later(e, stage.tail_at_ms or 0, run + (stage.first_launch_at_ms or 0) - (stage.last_finish_at_ms or 0))
    stage = stage_of(e, stage_id)
    assert stage.run_time is not None
    run_time = structs.replace(stage.run_time, min=run, median=run, p95=run, max=run)
    one = structs.replace(stage, tasks=1, succeeded_tasks=1, width=1, run_time=run_time, tail_at_ms=None)
    return with_stage(e, one)


def repeated(e: Execution, stage_id: int, by_ms: int) -> Execution:
    """The stage's first attempt fails at its end, and a second one takes some time."""
    first = stage_of(e, stage_id)
    end = first.completed_at_ms or 0
    e = later(e, end, by_ms)
    failed = structs.replace(first, state="failed", failure="FetchFailed")
    again = structs.replace(
        first,
        attempt=1,
        submitted_at_ms=end,
        first_launch_at_ms=end,
        tail_at_ms=None,
        last_finish_at_ms=end + by_ms - 1,
        completed_at_ms=end + by_ms - 1,
    )
    stages = [each for stage in e.stages for each in ((failed, again) if stage.id == stage_id else (stage,))]
    return structs.replace(e, stages=stages)


def longer_commit(e: Execution, by_ms: int) -> Execution:
    """A write whose commit takes some time, after all jobs."""
    root = structs.replace(e.nodes[0], metrics=[*e.nodes[0].metrics, Metric("job commit time", COMMIT, "timing")])
    measured = Accumulator(COMMIT, "timing", 1, by_ms, by_ms, by_ms, by_ms, by_ms)
    e = structs.replace(e, nodes=[root, *e.nodes[1:]], accumulators=[*e.accumulators, measured])
    return structs.replace(e, ended_at_ms=(e.ended_at_ms or 0) + by_ms)


def longer_broadcast(e: Execution, by_ms: int) -> Execution:
    """The driver takes longer to build the relation of a broadcast."""
    metrics = {m.id for node in e.nodes for m in node.metrics if m.name == "time to build"}
    measured = [
        structs.replace(each, sum=(each.sum or 0) + by_ms, max=(each.max or 0) + by_ms) if each.id in metrics else each
        for each in e.accumulators
    ]
    made = min((job for job in e.jobs if job.ended_at_ms), key=lambda job: job.ended_at_ms or 0)
    return later(structs.replace(e, accumulators=measured), made.ended_at_ms or 0, by_ms)


def started_another(e: Execution, by_ms: int) -> Execution:
    """It starts another execution after its jobs."""
    end = e.ended_at_ms or 0
    nested = Nested(e.execution_id + 1, end, end + by_ms)
    return structs.replace(e, nested=[nested], ended_at_ms=end + by_ms)


def on_one_slot(e: Execution) -> Execution:
    """Each stage takes as long as all of its tasks, in half as many tasks where they read files."""
    for stage in e.stages:
        took = (stage.last_finish_at_ms or 0) - (stage.first_launch_at_ms or 0)
        e = later(e, (stage.tail_at_ms or 0) - 1, max(0, stage.run_time_ms - took)) if stage.run_time_ms else e
        tasks = max(1, stage.succeeded_tasks // 2) if stage.input_rows else stage.succeeded_tasks
        one = structs.replace(stage_of(e, stage.id), width=1, tasks=tasks, succeeded_tasks=tasks)
        e = with_stage(e, one)
    return e
