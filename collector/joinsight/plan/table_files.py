"""Files of tables that an execution read, left out, added and removed, as Delta Lake and Iceberg count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joinsight.plan.metrics import PlanMetrics

_READ = ("number of result data files", "number of files after skipping", "number of target files after skipping")
_BEFORE = ("number of files before skipping", "number of target files before skipping")
_SKIPPED = ("number of skipped data files",)
_SCANNED_BYTES = "total data file size"
"""What a scan of Iceberg reads; at a write, it is the size of the table."""
_READ_BYTES = ("number of bytes after skipping", "number of target bytes after skipping")
ADDED = ("number of added data files", "number of files added.", "number of files added to target")
_REMOVED = ("number of removed data files", "number of files removed.", "number of files removed to target")
ADDED_BYTES = ("number of target bytes added", "number of bytes added", "total size of added files")
_REMOVED_BYTES = ("number of target bytes removed", "number of bytes removed", "total size of removed files")


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Numbers and sizes of files; None: not counted. Of a command, they are those of the table that it changes."""

    read: int | None = None
    skipped: int | None = None
    """Those that statistics and partitions left out, as far as the format looked at them."""
    read_bytes: int | None = None
    added: int | None = None
    added_bytes: int | None = None
    removed: int | None = None
    removed_bytes: int | None = None

    @property
    def is_command(self) -> bool:
        """Whether it replaced files of a table."""
        return self.removed is not None


def table_files(plan: PlanMetrics) -> TableFiles | None:
    """None if no table format counted any."""
    scans, writes = [], []
    for node in plan.graph.nodes:
        metrics = {name: each.sum for name, each in plan.metrics(node).items() if each.sum is not None}
        read = _first(metrics, _READ)
        if read is not None:
            before = _first(metrics, _BEFORE)
            skipped = _first(metrics, _SKIPPED) if before is None else before - read
            size = _first(metrics, (*_READ_BYTES, _SCANNED_BYTES))
            scans.append(TableFiles(read, skipped, size))
        added, removed = _first(metrics, ADDED), _first(metrics, _REMOVED)
        if added is not None or removed is not None:
            sizes = _first(metrics, ADDED_BYTES), _first(metrics, _REMOVED_BYTES)
            writes.append(TableFiles(None, None, None, added, sizes[0], removed, sizes[1]))
    if not scans and not writes:
        return None
    if any(each.is_command for each in writes):  # its scans are of one table: one looks for rows, one reads their files
        scans = sorted(scans, key=lambda each: each.read or 0)[-1:]
    names = TableFiles.__dataclass_fields__
    return TableFiles(**{name: _sum(getattr(each, name) for each in (*scans, *writes)) for name in names})


def _first(metrics: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
