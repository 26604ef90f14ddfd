"""Which task reads what: each log in one task, and no more tasks than connections."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from joinsight.backfill.log_file import FileStatus, LogFile
from joinsight.backfill.planner import assign_logs


def log(number: int, *sizes: int, name: str = "app") -> LogFile:
    files = tuple(
        FileStatus(f"file:/logs/{number}/events_{i}_{name}", False, size, 0) for i, size in enumerate(sizes, 1)
    )
    return LogFile(f"file:/logs/{number}", files, f"app-{number}")


@given(st.lists(st.sampled_from([0, 1, 1 << 20, 1 << 33]), max_size=60), st.integers(1, 20))
def test_each_log_is_in_one_task(sizes: list[int], tasks: int) -> None:
    """Every task has a log."""
    logs = [log(number, size) for number, size in enumerate(sizes)]
    shares = assign_logs(logs, tasks)
    assert len(shares) <= tasks
    assert all(shares)
    assert sorted(each.application_id for each in chain(*shares)) == sorted(each.application_id for each in logs)


def test_tasks_are_of_about_the_same_weight() -> None:
    """Packed files hold more than they seem; the heaviest log is read first."""
    logs = [log(0, 4 << 20), log(1, 30 << 20, 30 << 20), log(2, 8 << 20, name="x.zstd"), log(3, 5 << 20)]
    assert [[each.application_id for each in share] for share in assign_logs(logs, 2)] == [
        ["app-2"],
        ["app-1", "app-3", "app-0"],
    ]
