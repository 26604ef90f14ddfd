"""Rows of `task_time`: what the run time of a stage's tasks went into."""

from __future__ import annotations

from joinsight.tables.declare import ExecutionKey, Int, Long, Ms, column, required
from joinsight.timing.task_time import METHODS, PARTS


class TaskTimeRow(ExecutionKey, frozen=True, kw_only=True):
    """A part of the run time of a stage attempt; the parts of an attempt add up to its run_time_ms."""

    position: Int = required("0 for the first; the parts of a stage attempt follow one another, the largest first")
    stage_id: Int = required("the stage")
    stage_attempt: Int = required("attempt of that stage")
    part: str = required("what the tasks were at (docs/task-time.md)", one_of=PARTS)
    node_id: Int | None = column(
        "node of the final plan: the operator, or the codegen stage if its code holds several; NULL: unknown"
    )
    samples: Long | None = column("number of samples; NULL: not sampled")
    task_time_ms: Ms = required("the time, summed over tasks")
    task_time_error_ms: Ms | None = column("its standard error; NULL: not sampled")
    method: str = required(
        "sampled; metrics: measured by Spark; stage: the rest of a stage without samples", one_of=METHODS
    )
    work: str | None = column("kind of work inside of it (docs/task-time.md#kinds-of-work); NULL: none that is known")
