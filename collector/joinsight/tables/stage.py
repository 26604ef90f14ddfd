"""Table `stage`: an attempt of a stage. Its totals are declared in the document."""

from __future__ import annotations

from datetime import datetime

from joinsight.contract.document import Slowest, Spread, StageTotals
from joinsight.tables.declare import ExecutionKey, Int, Long, Ms, column, columns, required, table_of

STATISTICS = ("min", "median", "p95", "max")


class StageRow(ExecutionKey, frozen=True, kw_only=True):
    """A stage attempt of an execution; totals are over its tasks."""

    stage_id: Int = required("Spark's stage id")
    stage_attempt: Int = required("stage attempt, from 0")
    name: str = required("the stage's call site")
    state: str = required(
        "pending, running, succeeded, failed, or skipped (its shuffle already existed)",
        one_of=("pending", "running", "succeeded", "failed", "skipped"),
    )
    job_ids: list[int] | None = column("jobs that need it")
    submitted_at: datetime | None = column("when it was submitted")
    completed_at: datetime | None = column("when it completed")
    failure: str | None = column("why it failed")
    parent_ids: list[int] | None = column("stages whose shuffles it reads")
    first_launch_at: datetime | None = column("when its first task was launched")
    last_finish_at: datetime | None = column("when the last of its successful tasks finished")
    oldest_launch_at: datetime | None = column(
        "while it runs, the launch of the task that has run longest of those that still run; NULL: unknown"
    )
    oldest_task_id: Long | None = column("the id of this task")
    slots: Int | None = column("most tasks that the executors could run at once while it ran; NULL: unknown")
    width: Int | None = column("most tasks that ran at once; NULL: unknown")
    tail_at: datetime | None = column(
        "since when, after the last launch, at most half of its width ran; NULL: never, or unknown"
    )
    executors: Int | None = column("number of executors with successful tasks; NULL: none, unknown, or more than 64")
    hosts: Int | None = column("number of the hosts of these executors; NULL: as executors")
    slowest: Slowest | None = columns("slowest executor or host for its work")
    slack_ms: Ms | None = column(
        "how much later it could have ended without delaying the execution, milliseconds; 0: on the critical path;"
        " NULL: nothing is known to have waited for it"
    )
    waits_for: list[int] | None = column(
        "stages for whose results it waited before it was submitted, as far as known; NULL: unknown, or it did not run"
    )
    broadcast_ms: Ms | None = column(
        "how long the driver took to build and send its rows as a broadcast; NULL: they became none"
    )
    tasks: Int = required("number of tasks")
    succeeded_tasks: Int = required("successful tasks")
    failed_tasks: Int = required("failed task attempts")
    killed_tasks: Int = required("killed task attempts")
    totals: StageTotals | None = columns()
    """None: it did not run."""
    run_time_ms: Spread | None = columns("run time of a task", only=(*STATISTICS, "p25", "p75"))
    cpu_time_ms: Spread | None = columns("executor CPU time of a task", only=STATISTICS)
    shuffle_read_bytes: Spread | None = columns("shuffle bytes read by a task", only=STATISTICS)
    shuffle_read_rows: Spread | None = columns("shuffle rows read by a task", only=STATISTICS)


stage = table_of(StageRow, "stage", key=("stage_id", "stage_attempt"))
