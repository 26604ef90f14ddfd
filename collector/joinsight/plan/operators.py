"""Reads what an exchange or a join is from its name and Spark's ``simpleString``: partitioning, keys, type, build side.

Spark gives these as text only. Whatever a text does not say, or says in a way that is not known here, is ``None`` or
empty: a new Spark version may lose a detail, never a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

JOIN_STRATEGIES = (
    "BroadcastHashJoin",
    "SortMergeJoin",
    "SortMergeAsOfJoin",
    "ShuffledHashJoin",
    "BroadcastNestedLoopJoin",
    "CartesianProduct",
)
AS_OF = "SortMergeAsOfJoin"
"""Spark 4.3's join of each left row with the nearest right row of the same keys."""
_JOIN_TYPE = re.compile(
    r"(Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti|LeftSingle|ExistenceJoin)(\(.*\))?"
)
_BUILD_SIDES = {"BuildLeft": "left", "BuildRight": "right"}
_PLAN_ID = re.compile(r"\[(?:plan_)?id=#?\d+\]")
_ORIGIN = re.compile(r"[A-Z][A-Z_]+")
_PARTITIONS = re.compile(r"[0-9]{1,10}")
_FLAGS = re.compile(r"(?:, (?:true|false)){1,4}$")  # at the end of a broadcast hash join: isNullAwareAntiJoin etc.
_MAX_UNCLOSED = 8  # so many brackets in a row may lack their closing ones
_REMEMBERED = 1024
_SHORT = 4_000
"""Characters; few texts of Spark are longer, as it cuts lists of fields and file names."""
_OPENING = {")": "(", "]": "[", "}": "{"}


_P = ParamSpec("_P")
_T = TypeVar("_T")


def remembered(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """What is read of texts, kept: AQE's versions of a plan repeat most of what the one before said.

    Not of long ones, which together could fill the memory.
    """
    kept: Any = lru_cache(_REMEMBERED)(read)

    @wraps(read)
    def either(*texts: Any, **named: Any) -> _T:
        return (read if named or sum(map(len, texts)) > _SHORT else kept)(*texts, **named)

    return either


@dataclass(frozen=True, slots=True)
class ShuffleText:
    """What an ``Exchange`` says of itself: ``hashpartitioning(k#1L, 200), ENSURE_REQUIREMENTS, [plan_id=7]``."""

    partitioning: str | None = None
    keys: tuple[str, ...] = ()
    partitions: int | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class JoinText:
    """What a join says of itself; keys and condition as Spark writes them, with its expression ids."""

    strategy: str
    join_type: str | None = None
    build_side: str | None = None
    left_keys: tuple[str, ...] = ()
    right_keys: tuple[str, ...] = ()
    condition: str | None = None
    is_skew: bool = False


def is_shuffle(name: str) -> bool:
    """``Exchange``, and what native engines call theirs (``CometExchange``, ``ColumnarExchange``)."""
    return name.endswith("Exchange") and not is_broadcast(name) and name != "ReusedExchange"


def is_broadcast(name: str) -> bool:
    """``BroadcastExchange``, also of native engines."""
    return name.endswith("BroadcastExchange")


def is_scan(name: str) -> bool:
    """``Scan parquet t``, ``BatchScan t``, ``Scan ExistingRDD``, ``InMemoryTableScan``, ``Scan In-memory table t``."""
    return "Scan" in name


def is_subquery(name: str) -> bool:
    """``Subquery``, ``SubqueryBroadcast``, ``ProjectedBroadcastValueSubquery``: its result is no input of rows."""
    return "Subquery" in name


@remembered
def join_strategy(name: str) -> str | None:
    """One of `JOIN_STRATEGIES` if the node is a join (``SortMergeJoin(skew=true)`` is one too), else None."""
    base = name.split("(", 1)[0].strip()
    return next((strategy for strategy in JOIN_STRATEGIES if base.endswith(strategy)), None)


@remembered
def shuffle_text(simple: str) -> ShuffleText:
    """Read an ``Exchange``."""
    parts = split(_after_name(simple))
    if not parts:
        return ShuffleText()
    name, arguments = _call(parts[0])
    keys = split(arguments) if arguments else []
    partitions = None
    if keys and _PARTITIONS.fullmatch(keys[-1]):
        partitions = int(keys.pop())
    if name == "SinglePartition":
        partitions = 1
    origin = next((part for part in parts[1:] if _ORIGIN.fullmatch(part)), None)
    return ShuffleText(name, tuple(keys), partitions, origin)


@remembered
def broadcast_mode(simple: str) -> str | None:
    """``HashedRelationBroadcastMode(List(...),false)`` of a ``BroadcastExchange``: the mode's text."""
    parts = [part for part in split(_after_name(simple)) if not _PLAN_ID.fullmatch(part)]
    return parts[0] if parts else None


@remembered
def join_text(name: str, simple: str) -> JoinText | None:
    """Read a join; None if the node is none."""
    strategy = join_strategy(name)
    if strategy is None:
        return None
    arguments = simple.removeprefix(name) if simple.startswith(name) else _after_name(simple)
    parts = split(_FLAGS.sub("", arguments))
    keys: list[tuple[str, ...]] = []
    while parts and len(keys) < (4 if strategy == AS_OF else 2) and parts[0].startswith("[") and parts[0].endswith("]"):
        keys.append(tuple(split(parts.pop(0)[1:-1])))
    if strategy == AS_OF:
        keys, parts = _as_of(keys, parts)
    join_type = build_side = None
    rest = []
    for part in parts:
        type_found = _JOIN_TYPE.fullmatch(part)
        if part in _BUILD_SIDES and build_side is None:
            build_side = _BUILD_SIDES[part]
        elif type_found and join_type is None:
            join_type = type_found[1]
        else:
            rest.append(part)
    if strategy == "CartesianProduct":  # says no type: with a condition it is an inner join
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
    """The keys, and the rest with what is matched right behind the join's type, where others have their condition.

    Spark writes ``[k], [k], [t], [t], (t >= t), (t - t), Inner``: keys (if there are any), what each side is sorted by,
    the condition, the distance that it makes smallest. Where the condition is ``true``, the distance says more.
    """
    if len(parts) < 3:
        return lists[:-2], parts
    matched, distance, join_type, *rest = parts
    return lists[:-2], [join_type, distance if matched == "true" else matched, *rest]


def split(text: str) -> list[str]:
    """Split at the commas that stand in no bracket; a bracket that never closes ends with the one around it.

    Literals stand in these texts without quotes, so that brackets need not match.
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


def _after_name(simple: str) -> str:
    return simple.partition(" ")[2].strip()


def _call(text: str) -> tuple[str, str | None]:
    """``f(a, b)`` as ``("f", "a, b")``; a text without arguments, or with brackets that do not match: no arguments."""
    name, bracket, arguments = text.partition("(")
    return name.strip(), arguments[:-1] if bracket and arguments.endswith(")") else None
