"""What an execution cost by kind of work: the items of its breakdown (`timing.cost`), added up."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from joinsight.base.generated import rewrite
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.timing.cost import CostBreakdown, Item

KINDS: Mapping[str, str] = {
    "join": "joins themselves; what they needed has kinds of its own",
    "shuffle": "writing shuffles and waiting for their blocks",
    "broadcast": "collecting, building and sending broadcasts",
    "scan": "reading tables, files and caches",
    "sort": "sorts",
    "aggregate": "aggregations",
    "python": "operators that run Python",
    "write": "writing files, and the commit",
    "shared": "operators of several kinds that cannot be told apart: without samples, most of a stage",
    "other": "other operators; starting up and compiling code",
    "waiting": "no free cores for tasks",
    "driver": "the driver: planning, replanning, between stages, returning rows",
    "nested": "executions that this one started, which have costs of their own",
}
"""Kinds of work."""
WITH_TASKS = tuple(kind for kind in KINDS if kind not in ("waiting", "driver", "nested"))
"""Those that tasks do."""

_OF_OPERATORS: Mapping[operators.Kind, str] = {
    "join": "join",
    "shuffle": "shuffle",
    "shuffle_read": "shuffle",
    "exchange_part": "shuffle",
    "broadcast": "broadcast",
    "scan": "scan",
    "cached_scan": "scan",
    "sort": "sort",
    "aggregate": "aggregate",
    "write": "write",
}
_OF_RESTS = {"waiting": "waiting", "nested": "nested", "broadcast": "broadcast", "commit": "write"}
_OF_ACTIVITIES = {"file_write": "write", "python": "python"}
_WITHOUT_STAGE = ("running", "tail", "retry")
_PYTHON = ("Python", "InPandas", "InArrow")


class Cost(NamedTuple):
    """What a kind of work cost, in milliseconds."""

    kind: str
    wall_ms: int
    task_ms: int


def by_kind(nodes: Mapping[int, Node], breakdown: CostBreakdown) -> Iterator[Cost]:
    """The cost breakdown by kind, in the order of `KINDS`; it adds up as the breakdown does."""
    kinds = [(_kind(nodes, item), item) for item in breakdown.items]
    for kind in KINDS:
        its = [item for of, item in kinds if of == kind]
        if its:
            yield Cost(kind, sum(item.wall_ms for item in its), sum(item.task_time_ms for item in its))


def _kind(nodes: Mapping[int, Node], item: Item) -> str:
    if item.kind == "rest":
        return _OF_RESTS.get(item.name, "other" if item.name in _WITHOUT_STAGE else "driver")
    if item.kind == "activity":
        return _OF_ACTIVITIES.get(item.name, "other")
    if item.kind == "operator" and item.node_id is not None:
        return _of_operator(nodes[item.node_id].name)
    kinds = {_of_operator(nodes[node_id].name) for node_id in item.operators}
    return kinds.pop() if len(kinds) == 1 else "shared"


def _of_operator(name: str) -> str:
    if any(word in name for word in _PYTHON):
        return "python"
    return _OF_OPERATORS.get(operators.of(name).kind, "other")


def table() -> Iterator[str]:
    """`KINDS` as a Markdown table, for docs/cost.md."""
    yield "| `kind` | what the time went into |"
    yield "|---|---|"
    for kind, meaning in KINDS.items():
        yield f"| `{kind}` | {meaning} |"


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), "kinds", table())
