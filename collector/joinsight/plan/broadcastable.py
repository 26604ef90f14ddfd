"""Decides whether a join could have been a broadcast join: by its type, the sizes of its sides, and the threshold.

Spark plans a broadcast join by an estimate of a side's size, and AQE again by the data size of the shuffle that
produced it. Only the latter counts here, also without AQE. Readers may set a hint because of `possible`, so uncertain
cases are `unknown`. Source: ``JoinSelectionHelper`` and ``BroadcastExchangeExec`` of Spark 3.4 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from joinsight.plan import operators
from joinsight.plan.texts import JoinText

VerdictName = Literal[
    "was_broadcast", "possible", "hinted", "over_threshold", "switched_off", "forbidden_by_type", "unknown"
]

DEFAULT_MAX_BYTES = 8 << 30
"""Bytes from which on Spark refuses to broadcast, whatever the threshold; default of
``spark.sql.maxBroadcastTableSize``, which Spark 4.1 and later have."""
MAX_ROWS = 512_000_000
MAX_ROWS_OF_MAP = 357_913_941
"""The limit on rows of a hash map whose key is not a single bigint: two thirds of ``BytesToBytesMap``'s capacity."""

# As Spark prints them; with prefer_shuffle_hash, AQE still broadcasts small sides
_OTHER_JOINS = ("merge", "shuffle_hash", "shuffle_replicate_nl")
_NO_BROADCAST = ("no_broadcast_hash", "no_broadcast_and_replication")


_LONG_KEY = re.compile(r"HashedRelationBroadcastMode\(List\((?:input\[\d+, bigint, \w+\]|cast\(.* as bigint\))\),\w+\)")


def max_rows(mode: str | None) -> int:
    """The number of rows from which on Spark refuses to broadcast in this mode, which is a text of Spark."""
    is_map = mode is not None and mode.startswith("HashedRelation") and not _LONG_KEY.fullmatch(mode)
    return MAX_ROWS_OF_MAP if is_map else MAX_ROWS


@dataclass(frozen=True, slots=True)
class Side:
    """The measurements of a side of a join."""

    bytes: int | None = None
    rows: int | None = None
    is_exact: bool = False
    """Whether `bytes` is exact; otherwise it is a lower bound."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict, with the side that it concerns and the size of that side."""

    verdict: VerdictName
    side: operators.SideName | None = None
    bytes: int | None = None


def could_be_broadcast(
    join: JoinText,
    sides: Mapping[str, Side],
    threshold: int | None,
    *,
    hint: str | None = None,
    max_bytes: int | None = DEFAULT_MAX_BYTES,
) -> Verdict:
    """Decide for a join. `sides` by "left" and "right"; for a broadcast join, the built side has the bytes that were
    broadcast.

    `hint` is the join's hint as in table `joins`.
    """
    if operators.of(join.strategy).is_broadcast_join:
        return Verdict("was_broadcast", join.build_side, sides[join.build_side].bytes if join.build_side else None)
    allowed = operators.JOIN_TYPES.get(join.join_type) if join.join_type else None
    if allowed is None:
        return Verdict("unknown")
    if not allowed or join.strategy == operators.AS_OF_JOIN:
        return Verdict("forbidden_by_type")
    measured = [(size, name) for name in allowed if (size := sides[name].bytes) is not None]
    size, name = min(measured, default=(None, None))
    if threshold is not None and threshold < 0:
        return Verdict("switched_off", name, size)
    if threshold is None or size is None or name is None:
        return Verdict("unknown", name, size)
    limit = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
    if all(_is_too_large(sides[each], threshold, limit) for each in allowed):
        return Verdict("over_threshold", name, size)
    if not sides[name].is_exact or _is_too_large(sides[name], threshold, limit):
        return Verdict("unknown", name, size)
    return Verdict("hinted" if is_kept_from_broadcast(hint, name) else "possible", name, size)


def is_kept_from_broadcast(hint: str | None, side: str) -> bool:
    """Whether a hint, of the user or of AQE, requests another join or forbids to broadcast this side."""
    hints = [part.rpartition(" ") for part in (hint or "").split(", ")]
    return any(name in _OTHER_JOINS or (name in _NO_BROADCAST and hinted == side) for name, _, hinted in hints)


def _is_too_large(side: Side, threshold: int, limit: int) -> bool:
    return side.bytes is not None and (side.bytes > threshold or side.bytes >= limit or (side.rows or 0) >= MAX_ROWS)
