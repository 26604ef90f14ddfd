"""Whether a join could have been a broadcast join: by its type, what was measured of its sides, and the threshold.

Spark plans a broadcast join by an estimate of a side's size, and AQE again by the data size of the shuffle that made
it. Here only the latter counts, also of executions without AQE. Who reads `possible` may set a hint, so whatever is not
sure is `unknown`.

Source: ``JoinSelectionHelper`` and ``BroadcastExchangeExec`` of Spark 3.4 to 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from joinsight.plan.operators import JoinText

BROADCASTABLE: Mapping[str, tuple[str, ...]] = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftOuter": ("right",),
    "LeftSingle": ("right",),
    "LeftSemi": ("right",),
    "LeftAnti": ("right",),
    "ExistenceJoin": ("right",),
    "RightOuter": ("left",),
    "FullOuter": (),
}
"""The sides that Spark may broadcast, by type of join: those whose rows need not all come out."""

# What Spark refuses to broadcast, whatever the threshold
MAX_BYTES = 8 << 30
MAX_ROWS = 512_000_000

_BROADCAST_JOINS = ("BroadcastHashJoin", "BroadcastNestedLoopJoin")


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of a side of a join."""

    bytes: int | None = None
    rows: int | None = None
    is_exact: bool = False
    """The bytes are all there were; else there may have been more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of was_broadcast, possible, over_threshold, switched_off, forbidden_by_type, unknown; with the side meant."""

    verdict: str
    side: str | None = None
    bytes: int | None = None


def could_be_broadcast(join: JoinText, sides: Mapping[str, Side], threshold: int | None) -> Verdict:
    """`sides` are those by "left" and "right"; of a broadcast join, the bytes are those of what was broadcast."""
    if join.strategy in _BROADCAST_JOINS:
        return Verdict("was_broadcast", join.build_side, sides[join.build_side].bytes if join.build_side else None)
    allowed = BROADCASTABLE.get(join.join_type or "")
    if allowed is None:
        return Verdict("unknown")
    if not allowed:
        return Verdict("forbidden_by_type")
    measured = [(size, name) for name in allowed if (size := sides[name].bytes) is not None]
    size, name = min(measured, default=(None, None))
    if threshold is not None and threshold < 0:
        return Verdict("switched_off", name, size)
    if threshold is None or size is None or name is None:
        return Verdict("unknown", name, size)
    if all(_is_too_large(sides[each], threshold) for each in allowed):
        return Verdict("over_threshold", name, size)
    fits = sides[name].is_exact and not _is_too_large(sides[name], threshold)
    return Verdict("possible" if fits else "unknown", name, size)


def _is_too_large(side: Side, threshold: int) -> bool:
    return side.bytes is not None and (
        side.bytes > threshold or side.bytes >= MAX_BYTES or (side.rows or 0) >= MAX_ROWS
    )
