"""The keys and the outline of an execution's plans, remembered for plans that come again.

Recurring jobs send the same plans, but for the ids of columns and exchanges. Keys and outlines have no ids, so they are
the same for plans that are equal when each id is replaced by the position in which it first occurs. Names of operators
keep what looks like an id: it is part of a table's name there.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from joinsight.contract.document import Execution
from joinsight.plan.graph import Graph
from joinsight.plan.identity import Identity
from joinsight.plan.outline import outline

_MOST = 50_000
"""Keys that are remembered, of all executions: 6 MB for large plans, 17 MB for plans of one operator."""
_MOST_CHARACTERS = 1 << 20
"""Longest texts whose digest is made: it takes up to 40 bytes of memory a character, where most are ids."""
_ID = re.compile(r"((?<=#)\d+|(?<=plan_id=)\d+)")


class Keys(Struct, frozen=True):
    """What follows from an execution's plans without measurements and ids; shared by executions, so never changed."""

    query_shape: str | None
    """See `Identity.query_shape`; None without a plan."""
    outline: str
    """See `outline`; empty without a plan."""
    fingerprints: Sequence[str | None]
    """See `Identity.plan_fingerprint`, by plan."""
    bases: Sequence[Mapping[int, str]]
    """See `Identity.operator_bases`, by plan."""


class KeyCache:
    """The keys of plans that were seen, by `digest`; starts again when it has `most`. Several threads may use it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._keys: dict[bytes, Keys] = {}
        self._number = 0
        self._lock = threading.RLock()

    def keys(self, e: Execution, graphs: Sequence[Graph], check_cancelled: Callable[[], None] = lambda: None) -> Keys:
        """The keys of an execution's plans, given their graphs; `check_cancelled` is called for each plan."""
        if sum(len(node.simple) + sum(map(len, node.metadata.values())) for node in e.nodes) > _MOST_CHARACTERS:
            return _keys(graphs, check_cancelled)
        its_digest = digest(e)
        keys = self._keys.get(its_digest)
        if keys is None:
            keys = _keys(graphs, check_cancelled)
            if "#" not in keys.outline:  # else a path or table has what looks like an id
                self._add(its_digest, keys)
        return keys

    def forget(self) -> None:
        """Start again."""
        with self._lock:
            self._keys.clear()
            self._number = 0

    def _add(self, its_digest: bytes, keys: Keys) -> None:
        number = sum(map(len, keys.bases)) + len(keys.fingerprints) + 1
        with self._lock:
            if number + self._number > self._most:
                self.forget()
            if number <= self._most and its_digest not in self._keys:
                self._keys[its_digest] = keys
                self._number += number


def digest(e: Execution) -> bytes:
    """The same for executions whose plans are equal but for ids; it takes time in proportion to the texts' length."""
    parts = _ID.split(repr([(node.simple, node.metadata) for node in e.nodes]))
    positions: dict[str, str] = {}
    for index in range(1, len(parts), 2):
        parts[index] = positions.setdefault(parts[index], str(len(positions)))
    rest = [node.name for node in e.nodes], [(plan.nodes, plan.parents) for plan in e.plans]
    text = f"{e.listener.spark_version!r} {rest} {''.join(parts)}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _keys(graphs: Sequence[Graph], check_cancelled: Callable[[], None]) -> Keys:
    if not graphs:
        return Keys(None, "", (), ())
    identity = Identity()
    query_shape = identity.query_shape(graphs[0])
    its_outline = outline(identity.shape(graphs[0]))
    fingerprints, bases = [], []
    for graph in graphs:
        check_cancelled()
        bases.append(identity.operator_bases(graph))
        fingerprints.append(identity.plan_fingerprint(graph))
    return Keys(query_shape, its_outline, fingerprints, bases)


KEY_CACHE = KeyCache()
"""Those of this process."""
