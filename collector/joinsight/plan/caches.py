"""Cached tables of a plan: which scans read the same one, and whether this execution filled it.

Spark shows below each scan of a cached table the plan that fills it. All scans of a cached table, in all executions of
an application, show the same operators with the same accumulators; caching it again makes new ones. So the least of
their ids identifies the cached table, and they were measured in the executions that filled it, and only there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.metrics import PlanMetrics

_REPLANNED = "isFinalPlan=false"
"""In the text of an adaptive plan whose operators AQE may still replace: with them, their accumulators change."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cached table, as one execution uses it."""

    cache_id: int
    """The same in all executions of the application."""
    scans: tuple[int, ...]
    """The nodes that read it."""
    filled_in: frozenset[int]
    """The stages whose tasks computed some of it; empty: it was there."""


def caches(plan: PlanMetrics) -> Iterator[Cache]:
    """Those that the plan reads; without any whose filling plan AQE may still change, or that measures nothing.

    A cached table may be filled from others. These count only if they were read for it.
    """
    filling = {node.id: _filling(plan, node) for node in plan.graph.nodes if _is_scan(node)}
    inner = {each.id for nodes in filling.values() for each in nodes if _is_scan(each)}
    found: dict[int, Cache] = {}
    for scan, nodes in filling.items():
        ids = [metric.id for node in nodes for metric in node.metrics]
        if not ids or _may_change(nodes):
            continue
        filled_in = frozenset(stage for number in ids for stage in _stages(plan, number))
        is_read = any(_stages(plan, metric.id) for metric in plan.nodes[scan].metrics)
        if scan not in inner or is_read or filled_in:
            known = found.get(min(ids), Cache(min(ids), (), frozenset()))
            found[min(ids)] = Cache(known.cache_id, (*known.scans, scan), known.filled_in | filled_in)
    yield from found.values()


def not_run(plan: PlanMetrics) -> frozenset[int]:
    """The operators that only fill cached tables which were there: they ran in an earlier execution, if at all.

    Spark shows zeros for them, or nothing. Where AQE may still change a filling plan, it is of this execution.
    """
    there = {node.id for node in plan.graph.nodes if _is_scan(node) and _was_there(plan, _filling(plan, node))}
    if not there:
        return frozenset()
    others: set[int] = set()
    todo = list(plan.graph.tops)
    while todo:
        node_id = todo.pop()
        if node_id not in others:
            others.add(node_id)
            if node_id not in there:
                todo += plan.children.get(node_id, ())
    return frozenset(node.id for node in plan.graph.nodes if node.id not in others and not node.is_cluster)


def _was_there(plan: PlanMetrics, filling: list[Node]) -> bool:
    found = (plan.accumulators.get(metric.id) for node in filling for metric in node.metrics)
    return not _may_change(filling) and not any(measured and (measured.sum or 0) > 0 for measured in found)


def _may_change(filling: list[Node]) -> bool:
    return any(_REPLANNED in node.simple for node in filling if node.name == operators.ADAPTIVE_PLAN)


def _filling(plan: PlanMetrics, scan: Node) -> list[Node]:
    """The operators below that fill it: down to scans of other cached tables."""
    found: dict[int, Node] = {}
    todo = list(plan.children.get(scan.id, ()))
    while todo:
        node = plan.nodes[todo.pop()]
        if node.id not in found:
            found[node.id] = node
            if not _is_scan(node):
                todo += plan.children.get(node.id, ())
    return list(found.values())


def _is_scan(node: Node) -> bool:
    return operators.of(node.name).kind == "cached_scan"


def _stages(plan: PlanMetrics, accumulator: int) -> list[int]:
    """The stages whose tasks measured something."""
    measured = plan.accumulators.get(accumulator)
    return [] if measured is None else measured.stages
