"""Where task time went, as readers of plans get it."""

from __future__ import annotations

from dataclasses import replace

from tests.documents import planned, read_back

from joinsight.present.task_time import by_operator


def test_tasks_without_run_time_have_no_shares() -> None:
    """Tasks that were cancelled at once may have samples and no time."""
    its = read_back(planned("Range | (0, 100, step=1, splits=2)\n"))
    row = {"part": "operator", "node_id": 0, "task_time_ms": 0, "task_time_error_ms": None, "samples": 1, "work": None}
    (part,) = by_operator(replace(its, task_times=[row]))
    assert (part.ms, part.share) == (0, 0)
