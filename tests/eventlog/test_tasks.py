"""Ends of tasks become columns; what no Spark writes does not spread to the tasks beside it."""

from __future__ import annotations

from joinsight.document import STAGE_TOTALS
from joinsight.eventlog.events import Accumulable, TaskInfo, TaskMetrics
from joinsight.eventlog.tasks import OpenBlock, TaskBlock


def block(*tasks: tuple[list[object], TaskMetrics | None]) -> TaskBlock:
    """Tasks that report these updates of the accumulators 7, 8, ..."""
    filled = OpenBlock(1, 0)
    for index, (updates, metrics) in enumerate(tasks):
        accumulables = [Accumulable(7 + i, update, "sql") for i, update in enumerate(updates)]
        filled.add(TaskInfo(100 + index, index, finished_at=5, accumulables=accumulables), metrics)
    return filled.close()


def test_a_task_with_an_update_that_is_no_number_counts_without_its_updates() -> None:
    """Those of the other tasks are kept, each in its accumulator's column."""
    found = block((["1", "10"], None), (["2", "twenty"], None), (["3", "30"], None))
    (group,) = found.groups
    assert list(found.indexes) == [0, 1, 2]
    assert (group.ids, list(group.positions)) == ((7, 8), [0, 2])
    assert [list(column) for column in group.columns] == [[1, 3], [10, 30]]


def test_sizes_below_zero_are_zero_and_numbers_stay_with_their_tasks() -> None:
    """Totals add up what was written; a task without metrics is zero in every column."""
    found = block(([], TaskMetrics(run_time=-3, peak_memory=9)), ([], None), ([], TaskMetrics(run_time=40)))
    assert list(found.run_times) == [0, 0, 40]
    assert list(found.measured) == [1, 0, 1]
    assert list(found.task_ids) == [100, 101, 102]
    assert dict(zip(STAGE_TOTALS, found.totals, strict=True))["run_time_ms"] == 37
    assert dict(zip(STAGE_TOTALS, found.totals, strict=True))["peak_memory_bytes"] == 9
