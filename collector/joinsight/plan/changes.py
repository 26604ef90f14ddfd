"""Matches the nodes of consecutive plans of an execution, and determines which nodes replaced which.

A re-plan gives operators above the finished stages new accumulators. So a node is matched with the previous plan by its
accumulators, then by its operator key and text, then by either one: columns keep their ids within an execution. An
operator that is now reused still runs: Spark draws it once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy

from joinsight.contract.document import MAX_LONG, Accumulator
from joinsight.plan import operators, texts
from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import disambiguate
from joinsight.plan.metrics import PlanMetrics

_PLAN_ID = re.compile(r",? ?\[(?:plan_)?id=#?\d+\]")
_NAMELESS = (None, (None, None))
_STATE = re.compile(r"isFinalPlan=\w+")


class PlanVersion(PlanMetrics):
    """One plan version; `own` are the nodes that run in it, without those of subqueries and cached tables below.

    Nor those below an ``EmptyRelation``: Spark 4 shows there the plan that it replaced.
    """

    def __init__(self, version: int, graph: Graph, bases: Mapping[int, str]) -> None:
        super().__init__(graph, {})
        self.version = version
        self.bases = bases
        self.keys = disambiguate(bases)
        self.own = self.below(graph.tops)
        self.exchanges = [n for n in graph.nodes if operators.of(n.name).is_exchange]
        """The shuffles and broadcasts."""
        self.joins = [n for n in graph.nodes if operators.join_strategy(n.name)]
        """The joins, whatever their strategy."""
        self._first_operators: dict[int, Node] = {}
        self._received: dict[int, tuple[int | None, int | None]] = {}

    def measured(self, accumulators: Mapping[int, Accumulator]) -> PlanVersion:
        """A copy of this plan with measurements."""
        plan = copy(self)
        plan.set_measured(accumulators)
        plan._received = {}
        return plan

    def below(self, tops: Sequence[int], visited: set[int] | None = None) -> set[int]:
        """These nodes and all that feed them; adds them to `visited`, which must be closed under that relation."""
        visited = set() if visited is None else visited
        todo = list(tops)
        while todo:
            node_id = todo.pop()
            if node_id not in visited:
                visited.add(node_id)
                if operators.of(self.nodes[node_id].name).kind not in operators.SOURCES:
                    todo.extend(self.inputs(self.nodes[node_id]))
        return visited

    def uses(self) -> Counter[str]:
        """The number of readers of each exchange, by operator base; equal exchanges add up."""
        return Counter(
            self.bases[child] for child, parent in self.graph.edges if child in self.bases and parent in self.own
        )

    def first_operator(self, node_id: int) -> Node:
        """The first operator at or below a node that changes rows."""
        above = []  # passed through on the way down
        while node_id not in self._first_operators:
            node = self.nodes[node_id]
            below = self.inputs(node)
            operator = operators.of(node.name)
            if not (operator.keeps_rows or operator.is_exchange) or len(below) != 1:
                self._first_operators[node_id] = node
            else:
                above.append(node_id)
                node_id = below[0]
        first = self._first_operators[node_id]
        self._first_operators.update(dict.fromkeys(above, first))
        return first

    def received(self, node: Node) -> tuple[int | None, int | None]:
        """Bytes and rows that were written to the exchanges that feed a node."""
        if node.id not in self._received:
            fed = [self.fed_by(i) for i in self.inputs(node)]
            rows = [each.rows for each in fed if each.exchange is not None]
            self._received[node.id] = _sum([each.bytes for each in fed]), _sum(rows)
        return self._received[node.id]


class Change:
    """From one plan to the next; `same` maps a node of the later one to its match in the earlier one.

    Of the earlier plan's nodes, `unmatched` have no match, `still_there` have one that runs, and
    `reused` are gone only because an exchange at or above them is now reused; `unused` counts the reads of
    exchanges, by base, that are gone.
    """

    def __init__(self, before: PlanVersion, after: PlanVersion) -> None:
        self.before, self.after = before, after
        self.same: dict[int, int] = {}
        self.unmatched = set(before.nodes)
        known = {m.id: node.id for node in before.graph.nodes for m in node.metrics}
        for node in after.graph.nodes:
            for metric in node.metrics:
                if metric.id in known and self._pair(node.id, known[metric.id]):
                    break
        self._match(lambda plan, node: (plan.bases.get(node.id), _text(node)))
        self._match(lambda plan, node: plan.bases.get(node.id))
        self._match(lambda plan, node: _text(node))
        self.still_there = {former for node, former in self.same.items() if node in after.own}
        self.unused = before.uses() - after.uses()
        self.reused = self._below_reused()
        self._former: dict[int, int | None] = {}
        self._below: dict[int, Mapping[int, int]] = {}

    def _match(self, name: Callable[[PlanVersion, Node], Hashable | None]) -> None:
        """Pair unmatched nodes that have the same name, in the order of the plans."""
        named: dict[Hashable, list[int]] = defaultdict(list)
        for node in reversed(self.before.graph.nodes):
            if node.id in self.unmatched and (its := name(self.before, node)) not in _NAMELESS:
                named[node.id in self.before.own, its].append(node.id)
        for node in self.after.graph.nodes:
            if node.id not in self.same and named:
                known = named.get((node.id in self.after.own, name(self.after, node)))
                if known:
                    self._pair(node.id, known.pop())

    def _pair(self, after: int, before: int) -> bool:
        """Pair these, unless one of them has a match; returns whether it did."""
        if before not in self.unmatched or after in self.same:
            return False
        self.same[after] = before
        self.unmatched.discard(before)
        return True

    def _below_reused(self) -> set[int]:
        """Nodes that are no longer drawn because they, or an exchange above them, are now reused."""
        left = self.before.own - self.still_there
        gone = (node for node in self.before.exchanges if node.id in left)
        return self.before.below([node.id for node in gone if not self.unused[self.before.bases[node.id]]])

    def between(self, before: PlanVersion, after: PlanVersion) -> Change:
        """A copy of this change between the same plans with measurements."""
        change = copy(self)
        change.before, change.after = before, after
        return change

    def side(self, plan: PlanVersion, node: Node, built: Node) -> Node | None:
        """The exchange that feeds a join of `plan` on the side that `built` builds."""
        text = texts.join_text(built.name, built.simple)
        sides = dict(zip(("left", "right"), plan.inputs(node), strict=False))
        if text is None or text.build_side not in sides:
            return None
        exchange = plan.fed_by(sides[text.build_side]).exchange
        return None if exchange is None else plan.nodes[exchange]

    def shuffle(self, plan: PlanVersion, read: Node) -> int | None:
        """The node id of the shuffle that AQE reads at `read`."""
        inputs = plan.inputs(read)
        exchange = plan.fed_by(inputs[0]).exchange if len(inputs) == 1 else None
        return exchange if exchange is not None and operators.is_shuffle(plan.nodes[exchange].name) else None

    def replaced(self, node: Node) -> int | None:
        """The node of the earlier plan at the position of `node`: below the nearest operator that both plans have."""
        child, above = node.id, []
        while child not in self._former:
            parent = next((i for i in self.after.parents.get(child, ()) if i in self.after.own), None)
            if parent is None:
                self._former[child] = next(iter(self.before.graph.tops), None)
            elif parent in self.same:
                self._former[child] = self._former_inputs(parent).get(child)
            else:
                above.append(child)
                child = parent
        former = self._former[child]
        self._former.update(dict.fromkeys(above, former))
        return former

    def _former_inputs(self, parent: int) -> Mapping[int, int]:
        """By input of a node that both plans have, the earlier plan's input at the same position."""
        if parent not in self._below:
            now = self.after.inputs(self.after.nodes[parent])
            then = self.before.inputs(self.before.nodes[self.same[parent]])
            self._below[parent] = dict(reversed(list(zip(now, then, strict=False))))
        return self._below[parent]


def _text(node: Node) -> tuple[str, ...] | None:
    """A node's text, without what differs between plans of the same execution."""
    if node.is_cluster or operators.of(node.name).kind == "shuffle_read":
        return None
    return _comparable_text(node.name, node.simple)


@texts.cached
def _comparable_text(name: str, simple: str) -> tuple[str, ...]:
    join = texts.join_text(name, simple)
    if join is not None:
        return ("join", join.join_type or "", join.condition or "", *join.left_keys, *join.right_keys)
    return (name, _STATE.sub("", _PLAN_ID.sub("", simple)))


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(sum(known), MAX_LONG) if known else None
