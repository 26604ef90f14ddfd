"""Which task reads which logs: each log is read, and written, by one task."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from joinsight.backfill.log_file import LogFile

_EACH = 1 << 20
"""What a log costs besides its bytes, in bytes."""


def share_out(logs: Iterable[LogFile], tasks: int) -> list[list[LogFile]]:
    """The logs of each task, at most so many tasks, of about the same weight; the heaviest logs come first."""
    loads = [(0, task) for task in range(tasks)]
    shared: list[list[LogFile]] = [[] for _ in loads]
    for log in sorted(logs, key=lambda log: log.weight, reverse=True):
        load, task = heapq.heappop(loads)
        shared[task].append(log)
        heapq.heappush(loads, (load + log.weight + _EACH, task))
    return [task for task in shared if task]
