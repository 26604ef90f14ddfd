"""Which task reads what: small logs whole, several to a task; of large ones each stretch, and one task for its whole.

Only names and sizes decide. No more tasks write at the same time than there are connections.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from joinsight.eventlog.files import IN_PROGRESS, Log
from joinsight.eventlog.framing import codec_of
from joinsight.store.ledger import Seen

SPLIT_BYTES = 128 << 20
_EACH = 1 << 20
"""What a log costs beside its bytes, in bytes."""
_PACKED = 10
"""Bytes of events in a byte of a packed log, at least."""


@dataclass(frozen=True, slots=True)
class Found:
    """A log, and how large its files are now."""

    log: Log
    sizes: tuple[int, ...]
    """Bytes, for each of its files."""
    modified_at: datetime

    @property
    def key(self) -> str:
        """Its path while it is written and after."""
        return self.log.path.removesuffix(IN_PROGRESS)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def seen(self) -> Seen:
        return Seen(self.size, self.modified_at, self.log.is_open)


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of a file of a log."""

    log: int
    """The log's number."""
    part: int
    """The stretch's in the log, from 0."""
    path: str
    start: int = 0
    end: int | None = None
    """None: the whole file."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Logs by their numbers."""

    small: list[list[int]]
    """For each task those that it reads and writes."""
    large: list[list[int]]
    """For each task those that it puts together and writes."""
    units: list[Unit]
    """What there is to read of the large ones, a task each."""


def share(logs: list[Found], split: int, writers: int) -> Shares:
    """Share out. `split`: bytes that a task reads of a large log; `writers`: tasks that write at the same time."""
    small: list[int] = []
    large: list[int] = []
    units: list[Unit] = []
    for number, found in enumerate(logs):
        its_units = _units(number, found, split)
        if len(its_units) > 1 and _weight(found) > 2 * split:
            large.append(number)
            units += its_units
        else:
            small.append(number)

    def weight(number: int) -> int:
        return _weight(logs[number])

    whole = _even(large, weight, max(1, writers // 2 if small else writers))
    return Shares(_even(small, weight, max(1, writers - len(whole))), whole, units)


def _weight(found: Found) -> int:
    """About how many bytes its events are."""
    sizes = zip(found.log.files, found.sizes, strict=True)
    return sum(size if _is_plain(path) else size * _PACKED for path, size in sizes)


def _units(number: int, found: Found, split: int) -> list[Unit]:
    units: list[Unit] = []
    for path, size in zip(found.log.files, found.sizes, strict=True):
        starts = range(0, size, split) if _is_plain(path) else range(0)
        if len(starts) < 2:
            units.append(Unit(number, len(units), path))
            continue
        for start in starts:
            units.append(Unit(number, len(units), path, start, min(start + split, size)))
    return units


def _is_plain(path: str) -> bool:
    return codec_of(path.rpartition("/")[2], b"") is None


def _even(numbers: Iterable[int], weight: Callable[[int], int], groups: int) -> list[list[int]]:
    """Into at most so many groups of about the same weight; the heaviest come first."""
    loads = [(0, group) for group in range(groups)]
    shared: list[list[int]] = [[] for _ in loads]
    for number in sorted(numbers, key=weight, reverse=True):
        load, group = heapq.heappop(loads)
        shared[group].append(number)
        heapq.heappush(loads, (load + weight(number) + _EACH, group))
    return [group for group in shared if group]
