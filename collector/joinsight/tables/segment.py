"""Rows of `segment`: where the wall time of an execution went."""

from __future__ import annotations

from joinsight.tables.declare import ExecutionKey, Int, Long, Ms, column, required
from joinsight.timing.critical_path import CAUSES


class SegmentRow(ExecutionKey, frozen=True, kw_only=True):
    """A part of an execution's time on its critical path; the segments of an execution add up to its duration."""

    position: Int = required("0 for the first, in the order of time")
    cause: str = required("what the time went into (docs/critical-path.md)", one_of=tuple(CAUSES))
    start_ms: Ms = required("from when, milliseconds since the start of the execution")
    end_ms: Ms = required("until when, milliseconds since the start of the execution; the next one starts there")
    stage_id: Int | None = column("the stage that ran, or waited for slots; NULL: the driver")
    stage_attempt: Int | None = column("attempt of that stage")
    node_id: Int | None = column("node of the final plan: the shuffle that the stage writes, or the broadcast")
    nested_execution_id: Long | None = column("the execution that ran inside this one")
