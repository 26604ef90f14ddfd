"""Whether a join could have been a broadcast join: by its type, what was measured of its sides, and the threshold.

Spark plans a broadcast join by an estimate of a side's size, and AQE again by the data size of the shuffle that made
it. Here only the latter counts, also of executions without AQE. Who reads `possible` may set a hint, so whatever is not
sure is `unknown`.

Source: ``JoinSelectionHelper`` and ``BroadcastExchangeExec`` of Spark 3.4 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from joinsight.plan.operators import AS_OF, JoinText

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

DEFAULT_MAX_BYTES = 8 << 30
"""What Spark refuses to broadcast, whatever the threshold; from Spark 4.1 on, ``spark.sql.maxBroadcastTableSize``."""
MAX_ROWS = 512_000_000
MAX_ROWS_OF_MAP = 357_913_941
"""The same of rows: of a hash map whose key is not a single bigint, two thirds of what ``BytesToBytesMap`` holds."""

# As Spark prints them; with prefer_shuffle_hash, AQE still broadcasts what is small enough
_OTHER_JOINS = ("merge", "shuffle_hash", "shuffle_replicate_nl")
_NO_BROADCAST = ("no_broadcast_hash", "no_broadcast_and_replication")
_BROADCAST_JOINS = ("BroadcastHashJoin", "BroadcastNestedLoopJoin")


_LONG_KEY = re.compile(r"HashedRelationBroadcastMode\(List\((?:input\[\d+, bigint, \w+\]|cast\(.* as bigint\))\),\w+\)")


def max_rows(mode: str | None) -> int:
    """How many rows Spark refuses to broadcast in this mode, as its text says it."""
    is_map = mode is not None and mode.startswith("HashedRelation") and not _LONG_KEY.fullmatch(mode)
    return MAX_ROWS_OF_MAP if is_map else MAX_ROWS


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of a side of a join."""

    bytes: int | None = None
    rows: int | None = None
    is_exact: bool = False
    """The bytes are all there were; else there may have been more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of was_broadcast, possible, hinted, over_threshold, switched_off, forbidden_by_type, unknown; with the side
    meant."""

    verdict: str
    side: str | None = None
    bytes: int | None = None


def could_be_broadcast(
    join: JoinText,
    sides: Mapping[str, Side],
    threshold: int | None,
    *,
    hint: str | None = None,
    max_bytes: int | None = DEFAULT_MAX_BYTES,
) -> Verdict:
    """`sides` are those by "left" and "right"; of a broadcast join, the bytes are those of what was broadcast.

    `hint` is the join's, as table `joins` has it.
    """
    if join.strategy in _BROADCAST_JOINS:
        return Verdict("was_broadcast", join.build_side, sides[join.build_side].bytes if join.build_side else None)
    allowed = BROADCASTABLE.get(join.join_type or "")
    if allowed is None:
        return Verdict("unknown")
    if not allowed or join.strategy == AS_OF:
        return Verdict("forbidden_by_type")
    measured = [(size, name) for name in allowed if (size := sides[name].bytes) is not None]
    size, name = min(measured, default=(None, None))
    if threshold is not None and threshold < 0:
        return Verdict("switched_off", name, size)
    if threshold is None or size is None or name is None:
        return Verdict("unknown", name, size)
    most = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
    if all(_is_too_large(sides[each], threshold, most) for each in allowed):
        return Verdict("over_threshold", name, size)
    if not sides[name].is_exact or _is_too_large(sides[name], threshold, most):
        return Verdict("unknown", name, size)
    return Verdict("hinted" if is_kept_from_broadcast(hint, name) else "possible", name, size)


def is_kept_from_broadcast(hint: str | None, side: str) -> bool:
    """A hint asks for another join, or forbids to broadcast this side: a user's, or one that AQE gave the join."""
    given = [part.rpartition(" ") for part in (hint or "").split(", ")]
    return any(name in _OTHER_JOINS or (name in _NO_BROADCAST and of == side) for name, _, of in given)


def _is_too_large(side: Side, threshold: int, most: int) -> bool:
    return side.bytes is not None and (side.bytes > threshold or side.bytes >= most or (side.rows or 0) >= MAX_ROWS)
