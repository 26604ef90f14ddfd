"""Parses exchanges and joins from name and Spark's ``simpleString``: partitioning, keys, type, build side.

Spark provides these only as text. Parts that a text lacks, or that have an unknown form, are ``None`` or empty: a new
version of Spark may cost a detail, never a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast

from joinsight.plan.engines import PARTITIONINGS
from joinsight.plan.operators import AS_OF_JOIN, CARTESIAN_PRODUCT, JOIN_TYPES, JoinType, SideName, join_strategy

_JOIN_TYPE = re.compile(rf"({'|'.join(JOIN_TYPES)})(\(.*\))?")
_BUILD_SIDES: Mapping[str, SideName] = {
    f"{word}{side.capitalize()}": side for word in ("Build", "GpuBuild", "Broadcast") for side in ("left", "right")
}
_PLAN_ID = re.compile(r"\[(?:plan_)?id=#?\d+\]")
_ORIGIN = re.compile(r"[A-Z][A-Z_]+")
_NAME = re.compile(r"\w*")
_PARTITIONS = re.compile(r"[0-9]{1,10}")
_FLAGS = re.compile(r"(?:, (?:true|false)){1,4}$")  # at the end of a broadcast hash join: isNullAwareAntiJoin etc.
_EXPRESSION_ID = re.compile(r"#\d+L?")
_MAX_UNCLOSED = 8  # brackets that may lack their closing one, counted from the innermost
_CACHED_TEXTS = 1024
_SHORT = 4_000
"""Maximum length; few of Spark's texts are longer, because it truncates lists of fields and file names."""
_OPENING = {")": "(", "]": "[", "}": "{"}


_P = ParamSpec("_P")
_T = TypeVar("_T")


def cached(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache the results of parsing, because AQE's versions of a plan repeat most texts.

    Long texts are not cached, because they could fill the memory.
    """
    with_cache: Any = lru_cache(_CACHED_TEXTS)(read)

    @wraps(read)
    def either(*texts: Any, **named: Any) -> _T:
        return (read if named or sum(map(len, texts)) > _SHORT else with_cache)(*texts, **named)

    return either


@dataclass(frozen=True, slots=True)
class ShuffleText:
    """The arguments of an ``Exchange``: ``hashpartitioning(k#1L, 200), ENSURE_REQUIREMENTS, [plan_id=7]``."""

    partitioning: str | None = None
    keys: tuple[str, ...] = ()
    partitions: int | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class JoinText:
    """The arguments of a join; keys and condition as Spark writes them, with expression ids."""

    strategy: str
    join_type: JoinType | None = None
    build_side: SideName | None = None
    left_keys: tuple[str, ...] = ()
    right_keys: tuple[str, ...] = ()
    condition: str | None = None
    is_skew: bool = False


@cached
def shuffle_text(simple: str) -> ShuffleText:
    """Parse an ``Exchange``."""
    parts = split(_after_name(simple))
    if not parts:
        return ShuffleText()
    name, arguments = _call(parts[0])
    name = PARTITIONINGS.get(name, name)
    keys = split(arguments) if arguments else []
    partitions = None
    if keys and _PARTITIONS.fullmatch(keys[-1]):
        partitions = int(keys.pop())
    if name == "SinglePartition":
        partitions = 1
    return ShuffleText(name if _NAME.fullmatch(name) else None, tuple(keys), partitions, origin(simple))


def origin(simple: str) -> str | None:
    """``ENSURE_REQUIREMENTS``: why there is an exchange, from its text or that of one of its parts."""
    return next((part for part in split(_after_name(simple)) if _ORIGIN.fullmatch(part)), None)


@cached
def broadcast_mode(simple: str) -> str | None:
    """``HashedRelationBroadcastMode(List(...),false)`` of a ``BroadcastExchange``: the mode's text."""
    parts = [part for part in split(_after_name(simple)) if not _PLAN_ID.fullmatch(part)]
    return parts[0] if parts and not _is_list(parts[0]) else None


@cached
def join_text(name: str, simple: str) -> JoinText | None:
    """Parse a join; None if the node is not a join."""
    strategy = join_strategy(name)
    if strategy is None:
        return None
    arguments = simple.removeprefix(name) if simple.startswith(name) else _after_name(simple)
    parts = split(_FLAGS.sub("", arguments))
    keys: list[tuple[str, ...]] = []
    lists = 4 if strategy == AS_OF_JOIN else 2
    first = next((position for position, part in enumerate(parts) if _is_list(part)), 0)
    before, parts = parts[:first], parts[first:]  # what engines print before the keys: a type, or a partitioning
    while parts and len(keys) < lists and _is_list(parts[0]):
        keys.append(tuple(split(parts.pop(0)[1:-1])))
    parts = [part for part in before if _JOIN_TYPE.fullmatch(part)] + parts
    if strategy == AS_OF_JOIN:
        keys, parts = _as_of(keys, parts)
    join_type: JoinType | None = None
    build_side: SideName | None = None
    rest = []
    for part in parts:
        type_match = _JOIN_TYPE.fullmatch(part)
        if part in _BUILD_SIDES and build_side is None:
            build_side = _BUILD_SIDES[part]
        elif type_match and join_type is None:
            join_type = cast(JoinType, type_match[1])
        elif join_type and part in ("true", "false"):
            break  # from here on, an engine prints its settings
        else:
            rest.append(part)
    if strategy == CARTESIAN_PRODUCT:  # has no type: with a condition it is an inner join
        join_type = "Inner" if rest else "Cross"
    return JoinText(
        strategy,
        join_type,
        build_side,
        keys[0] if keys else (),
        keys[1] if len(keys) > 1 else (),
        ", ".join(rest) if rest and join_type else None,
        "skew=true" in name,
    )


def _as_of(lists: list[tuple[str, ...]], parts: list[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """The keys, and the rest with the match condition after the join's type, where other joins have theirs.

    Spark writes ``[k], [k], [t], [t], (t >= t), (t - t), Inner``: keys (if any), the sort order of each side,
    the condition, the distance that it minimizes. Where the condition is ``true``, the distance is more informative.
    """
    if len(parts) < 3:
        return lists[:-2], parts
    matched, distance, join_type, *rest = parts
    return lists[:-2], [join_type, distance if matched == "true" else matched, *rest]


def without_ids(text: str) -> str:
    """Spark's text without expression ids, on one line."""
    return " ".join(_EXPRESSION_ID.sub("", text).split())


def join_on(left_keys: Sequence[str], right_keys: Sequence[str], condition: str | None) -> str:
    """The keys of a join: ``store_id = id, day``; without keys its condition, empty without either."""
    pairs = zip(map(without_ids, left_keys), map(without_ids, right_keys), strict=False)
    return ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs) or without_ids(condition or "")


def split(text: str) -> list[str]:
    """Split at commas outside brackets; a bracket that is not closed ends with the one around it.

    Spark does not quote literals in these texts, so brackets need not match.
    """
    parts, start = [], 0
    inside: list[str] = []
    for position, character in enumerate(text):
        if character in "([{":
            inside.append(character)
        elif character in _OPENING:
            if _OPENING[character] in inside[-_MAX_UNCLOSED:]:
                while inside.pop() != _OPENING[character]:
                    pass
        elif character == "," and not inside:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _is_list(text: str) -> bool:
    return text.startswith("[") and text.endswith("]")


def _after_name(simple: str) -> str:
    return simple.partition(" ")[2].strip()


def _call(text: str) -> tuple[str, str | None]:
    """``("f", "a, b")`` for ``f(a, b)``; None for the arguments of a text without them or with unmatched brackets."""
    name, bracket, arguments = text.partition("(")
    return name.strip(), arguments[:-1] if bracket and arguments.endswith(")") else None
