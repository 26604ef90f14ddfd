"""Micro-batches of a stream, which lists show as one row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from joinsight.tables import Row

MOST_FOLDED = 1_500
"""Rows that are read for a page on which micro-batches are folded."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The micro-batches of a row, by their ids."""

    number: int
    first: int
    last: int


def are_read(rows: Sequence[Row]) -> bool:
    """Whether there are micro-batches among the rows."""
    return any(row["streaming_query_id"] for row in rows)


def fold(
    rows: Sequence[Row], limit: int, group_of: Callable[[Row], Hashable | None]
) -> tuple[list[Sequence[Row]], int]:
    """The first rows in at most `limit` groups, and how many rows these are; a row of group None is one of its own."""
    groups: list[Sequence[Row]] = []
    by_key: dict[Hashable, list[Row]] = {}
    used = 0
    for row in rows:
        key = group_of(row)
        group = by_key.get(key) if key is not None else None
        if group is None:
            if len(groups) == limit:
                break
            group = []
            groups.append(group)
            if key is not None:
                by_key[key] = group
        group.append(row)
        used += 1
    return groups, used


def stream_of(row: Row) -> tuple[str, str] | None:
    """The stream of a micro-batch that succeeded, else None."""
    its = row["streaming_query_id"]
    return (row["application_id"], its) if its and row["state"] == "succeeded" else None


def as_one(group: Sequence[Row], shown: Row) -> Row:
    """A row of a group, with its `Batches` as ``batches``; None if it is one row."""
    ids = sorted({row["streaming_batch_id"] or 0 for row in group})  # each may run several executions
    return {**shown, "batches": Batches(len(ids), ids[0], ids[-1]) if len(group) > 1 else None}
