"""Rows that a MERGE, UPDATE or DELETE changed, and those that it wrote again, since a table format replaces files.

Delta Lake counts them at its command, Iceberg at `MergeRows`, and for a DELETE at `ReplaceData`: the records of the
files that it added, all of which were in those that it removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from joinsight.plan.metrics import PlanMetrics
from joinsight.plan.operators import REPLACE_DATA
from joinsight.plan.table_files import ADDED_BYTES

_COPIED = (
    "number of target rows rewritten unmodified",
    "number of rows copied.",
    "number of rows copied",
    "number of target rows copied unmodified because they did not match any action",
)
_UPDATED = ("number of updated rows", "number of rows updated.", "number of target rows updated")
_INSERTED = ("number of inserted rows", "number of target rows inserted")
_WRITTEN = (*_UPDATED, *_INSERTED)
_DELETED = ("number of deleted rows", "number of rows deleted.", "number of target rows deleted")
_REWRITE_MS = "time taken to rewrite the matched files"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a command changed, and what it copied."""

    node_id: int
    """The command or write."""
    copied_rows: int
    written_rows: int
    """With those that were updated or inserted."""
    deleted_rows: int
    added_bytes: int | None
    """Size of the files that it added."""
    rewrite_ms: int | None
    """How long it wrote; None: not measured."""
    counted_at: int
    """The node that counted the rows."""

    @property
    def share(self) -> float:
        """The part of the rows that it wrote that it copied, 0 to 1."""
        return self.copied_rows / self.written_rows if self.written_rows else 0.0


def rewritten(plan: PlanMetrics) -> Rewritten | None:
    """None if nothing was copied, or nothing says so."""
    found = None
    write = next((node for node in plan.graph.nodes if node.name == REPLACE_DATA), None)
    for node in plan.graph.nodes:
        metrics = {name: each.sum for name, each in plan.metrics(node).items() if each.sum is not None}
        copied = sum(metrics.get(name, 0) for name in _COPIED)
        written = copied + sum(metrics.get(name, 0) for name in _WRITTEN)
        deleted = sum(metrics.get(name, 0) for name in _DELETED)
        if node is write and found is None:
            added, removed = metrics.get("number of added records", 0), metrics.get("number of removed records", 0)
            if 0 < added < removed:  # equal: an UPDATE, of which Iceberg does not count what it changed
                copied, written, deleted = added, added, removed - added
        if copied:
            at = node if write is None else write
            sizes = {name: each.sum for name, each in plan.metrics(at).items()}
            size = next((sizes[name] for name in ADDED_BYTES if name in sizes), None)
            found = Rewritten(at.id, copied, written, deleted, size, metrics.get(_REWRITE_MS), node.id)
    return found


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a table by what a command did to them; None: not counted."""

    updated: int | None
    inserted: int | None
    deleted: int | None
    copied: int | None


def changed_rows(plan: PlanMetrics) -> ChangedRows | None:
    """None if no table format counted any."""
    for node in plan.graph.nodes:
        metrics = {name: each.sum for name, each in plan.metrics(node).items() if each.sum is not None}
        counts = [
            next((metrics[name] for name in names if name in metrics), None)
            for names in (_UPDATED, _INSERTED, _DELETED, _COPIED)
        ]
        if any(counts):
            return ChangedRows(*counts)
    found = rewritten(plan)  # of Iceberg's DELETE
    return None if found is None else ChangedRows(None, None, found.deleted_rows, found.copied_rows)
