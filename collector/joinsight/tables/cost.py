"""Rows of `cost`: what an execution cost, by kind of work."""

from __future__ import annotations

from joinsight.tables.declare import ExecutionKey, Ms, column, required
from joinsight.timing.cost_kinds import KINDS


class CostRow(ExecutionKey, frozen=True, kw_only=True):
    """What a kind of work cost an execution; its kinds add up to the duration, and to the run time of its tasks."""

    kind: str = required("the kind (docs/cost.md#by-kind-of-work)", one_of=tuple(KINDS))
    wall_ms: Ms | None = column("how long the execution waited for it, milliseconds; NULL: it has not ended")
    task_ms: Ms | None = column("time of tasks, summed, milliseconds; NULL: no tasks do it, or nothing is known")
