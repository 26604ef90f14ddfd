"""A plan without what changes from run to run, as a text for golden files and for comparing branches::

    Sort [sum(amount) ASC NULLS FIRST], true, ?
    Exchange rangepartitioning(sum(amount) ASC NULLS FIRST)
    Aggregate keys=[segment] functions=[sum(amount)]
    Exchange hashpartitioning(segment)
    BroadcastHashJoin BuildRight Inner (customer_id = customer_id)
    ├─ Filter (day > ?)
    │  Scan orders[customer_id,amount,day]
    └─ BroadcastExchange
       Scan customers[customer_id,segment]

The only input of an operator is the line below it; several are drawn as branches. It has joins with their strategy,
exchanges, scans, and all else that is part of a query's shape (`plan.identity`), in the terms of its labels: without
ids, literals, numbers of partitions, sizes, paths, and what differs between versions of Spark. Partial aggregates
belong to the aggregate that completes them. Of a join that AQE made a broadcast join the side is left out, because AQE
broadcasts what is ready first if both sides are small. An exchange that several operators read is written once, then
``Reused``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from joinsight.plan import operators, texts
from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Aggregate, Identity, is_half, skip
from joinsight.plan.outline import source_name

REUSED = "Reused "
BY_AQE = " by AQE"
_LINE = re.compile(r"((?:│  |   )*)(├─ |└─ )?([^\s│├└](?:.*\S)?)")
_NOT_IN_A_LINE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_IMPLIED = re.compile(r"isnotnull\([^()]*\)")


@dataclass(slots=True)
class PlanLine:
    """A line of a simplified plan, with what feeds it."""

    label: str
    inputs: list[PlanLine] = field(default_factory=list)

    def __iter__(self) -> Iterator[PlanLine]:
        """It and all below, from top to bottom and from left to right."""
        todo = [self]
        while todo:
            operator = todo.pop()
            yield operator
            todo.extend(reversed(operator.inputs))


def simplified(graph: Graph, hints: Mapping[int, str], by_aqe: Collection[int] = frozenset()) -> list[PlanLine]:
    """The roots of a plan: one, unless it has none.

    `hints`: those of joins, by node id. `by_aqe`: joins that AQE made broadcast joins.
    """
    nodes = graph.by_id
    identity = Identity()
    order, inputs, roots = skip(graph, _is_left_out)
    aggregates: dict[int, Aggregate] = {}
    for node_id in order:
        inputs[node_id] = [each for each in inputs[node_id] if not _repeats(nodes[node_id], nodes[each])]
        if node_id in by_aqe:
            below = [inputs[each] if operators.is_broadcast(nodes[each].name) else [each] for each in inputs[node_id]]
            inputs[node_id] = [each for some in below for each in some]
        aggregate = Aggregate.of(nodes[node_id])
        if aggregate is None:
            continue
        aggregates[node_id] = aggregate
        above, only = node_id, _only(inputs[node_id])
        if only is not None and operators.of(nodes[only].name).kind == "shuffle":
            above, only = only, _only(inputs[only])
        partial = aggregates.get(only) if only is not None else None
        if partial is not None and only is not None and aggregate.completes(partial):
            aggregate.take(partial)
            inputs[above] = inputs[only]
    made: dict[int, PlanLine] = {}

    def operator(node_id: int) -> PlanLine:
        if node_id in made:
            return PlanLine(REUSED + made[node_id].label)
        node = nodes[node_id]
        if node_id in aggregates:
            node = aggregates[node_id].node(node_id)
        label = _label(node, identity, hints.get(node_id), by_aqe=node_id in by_aqe)
        label = _NOT_IN_A_LINE.sub(" ", label).strip(" │├└")
        found = PlanLine(label or "?")
        if operators.is_reusable(nodes[node_id].name):
            made[node_id] = found
        return found

    tops = [(root, operator(root)) for root in roots]
    todo = list(reversed(tops))
    while todo:
        node_id, above_it = todo.pop()
        if above_it.label.startswith(REUSED):
            continue
        pairs = [(each, operator(each)) for each in inputs[node_id]]
        above_it.inputs = [each for _, each in pairs]
        todo.extend(reversed(pairs))
    return [top for _, top in tops]


def to_lines(roots: Sequence[PlanLine]) -> list[str]:
    """The lines of a plan, as at the top of this module."""
    lines = []
    todo = [(root, "", "") for root in reversed(roots)]
    while todo:
        operator, first, rest = todo.pop()
        lines.append(f"{first}{operator.label}")
        if len(operator.inputs) == 1:
            todo.append((operator.inputs[0], rest, rest))
            continue
        branches = [(each, f"{rest}├─ ", f"{rest}│  ") for each in operator.inputs[:-1]]
        branches += [(each, f"{rest}└─ ", f"{rest}   ") for each in operator.inputs[-1:]]
        todo.extend(reversed(branches))
    return lines


def from_lines(lines: Sequence[str]) -> list[PlanLine]:
    """The plan of `to_lines`. Raises `ValueError` for a line that is not one of its lines."""
    roots: list[PlanLine] = []
    above: list[PlanLine] = []  # whose branches are open, from the root down
    last: list[PlanLine] = []  # of each of these branches, and of the root before them: its lowest line yet
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(line)
        operator = PlanLine(match[3])
        depth = (len(match[1]) + len(match[2] or "")) // 3
        del above[depth:], last[depth + 1 :]
        if not match[2] and depth == len(last) == 0:
            roots.append(operator)
        elif depth >= len(last) + bool(match[2]):
            raise ValueError(line)
        elif match[2]:
            if depth > len(above):
                above.append(last[depth - 1])
            above[depth - 1].inputs.append(operator)
        else:
            last[depth].inputs.append(operator)
        last[depth:] = [operator]
    return roots


def _only(inputs: Sequence[int]) -> int | None:
    return inputs[0] if len(inputs) == 1 else None


def _repeats(above: Node, below: Node) -> bool:
    """Whether a subquery is one of a scan: only some versions of Spark repeat there those of the filter above it."""
    return operators.is_scan(above.name) and operators.is_subquery(below.name)


def _is_left_out(node: Node) -> bool:
    operator = operators.of(node.name)
    if operator.kind == "filter":
        return not _conditions(Identity().label(node))
    if operator.is_exchange:
        return False
    left_out = operator.is_wrapper or operator.is_arrangement or operator.kind == "project"
    return left_out or is_half(node)


def _conditions(label: str) -> list[str]:
    """The conditions of a filter, without those that Spark adds because no other condition is true of NULL."""
    return [each for each in label.partition(" ")[2].split(" AND ") if each and not _IMPLIED.fullmatch(each)]


def _label(node: Node, identity: Identity, hint: str | None, *, by_aqe: bool) -> str:
    name = node.name
    operator = operators.of(name)
    join = texts.join_text(name, node.simple)
    if join is not None:
        side = f" Build{join.build_side.capitalize()}" if join.build_side else ""
        side = BY_AQE if by_aqe else side
        about = identity.label(node).removeprefix("Join ").strip()
        return f"{operator.name}{side} {about}{f' hint: {hint}' if hint else ''}"
    if operator.kind == "broadcast":
        return operators.BROADCAST_EXCHANGE
    if operator.kind == "shuffle":
        return identity.run_label(node).removesuffix(" ENSURE_REQUIREMENTS").replace("()", "")
    if operator.kind == "filter":
        return f"{operators.FILTER} {' AND '.join(_conditions(identity.label(node)))}"
    if operators.is_scan(name):
        columns = identity.label(node).partition("[")
        bucketed = " bucketed" if "Bucketed: true" in node.simple else ""
        return f"{operators.SCAN} {source_name(node)}{columns[1]}{columns[2]}{bucketed}"
    return identity.label(node)
