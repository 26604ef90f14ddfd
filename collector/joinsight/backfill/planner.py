"""Distributes logs to tasks: each log is read and written by one task."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from joinsight.backfill.log_file import LogFile

_EACH = 1 << 20
"""The fixed cost of a log, as a number of bytes."""


def assign_logs(logs: Iterable[LogFile], tasks: int) -> list[list[LogFile]]:
    """The logs of each task, for at most this number of tasks of about equal weight; the heaviest logs come first."""
    loads = [(0, task) for task in range(tasks)]
    shared: list[list[LogFile]] = [[] for _ in loads]
    for log in sorted(logs, key=lambda log: log.weight, reverse=True):
        load, task = heapq.heappop(loads)
        shared[task].append(log)
        heapq.heappush(loads, (load + log.weight + _EACH, task))
    return [task for task in shared if task]
