"""Names what AQE changed, by comparing each plan of an execution with the one before it::

    plan 1                              plan 2                                       decisions
    SortMergeJoin                       BroadcastHashJoin BuildRight                 join_strategy
    ├ Sort                              ├ AQEShuffleRead local                       local_read
    │ └ Exchange (200)                  │ └ Exchange (200)
    └ Sort                              └ BroadcastExchange
      └ Exchange (200)                    └ AQEShuffleRead coalesced (7)             coalesced
                                            └ Exchange (200)

A re-plan gives operators above the finished stages new accumulators, so a node is looked for in the plan before by its
accumulators, then by its operator key and its text, or one of them: columns keep their ids within an execution. Each
change is named at the plan that shows it first. What is reused is not called gone: Spark draws it once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

from joinsight.document import MAX_LONG, Accumulator
from joinsight.plan import operators
from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Identity, told_apart
from joinsight.plan.measured import DATA_SIZE, EMPTY, OUTPUT_ROWS, ROWS_WRITTEN, Measured

_READ = "AQEShuffleRead"
_PLAN_ID = re.compile(r",? ?\[(?:plan_)?id=#?\d+\]")
_NAMELESS = (None, (None, None))
_NAME_CHARACTERS = 1_000
"""Of an operator in whose place many may stand now."""
_STATE = re.compile(r"isFinalPlan=\w+")
# What stands above the operator that an empty relation has replaced says nothing of it
_CARRIERS = frozenset(
    {"AdaptiveSparkPlan", "ColumnarToRow", "Project", "ReusedExchange", "RowToColumnar", "Sort", _READ}
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A change; the fields are the columns of table `aqe_decision`."""

    version: int
    kind: str
    operator: str
    node_id: int | None = None
    operator_key: str | None = None
    before: str | None = None
    after: str | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows_before: int | None = None
    rows_after: int | None = None


class Changes:
    """How the plans of an execution differ; what was measured says what that came to.

    A plan without nodes says nothing, and is passed over.
    """

    def __init__(self, graphs: Sequence[Graph], identity: Identity) -> None:
        told = [(version, graph) for version, graph in enumerate(graphs) if graph.nodes]
        plans = [_Plan(version, graph, identity) for version, graph in told] if len(told) > 1 else []
        self._changes = [_Change(before, after) for before, after in pairwise(plans)]

    def decisions(self, accumulators: Mapping[int, Accumulator]) -> list[Decision]:
        """What AQE decided, by rising version."""
        return [decision for change in self._changes for decision in change.measured(accumulators).decisions()]


class _Plan(Measured):
    """One version; `own` are the nodes that run in it, not those of subqueries and cached tables beneath it.

    Nor those beneath an ``EmptyRelation``: Spark 4 shows there what it stands for.
    """

    def __init__(self, version: int, graph: Graph, identity: Identity) -> None:
        super().__init__(graph, {})
        self.version = version
        self.bases = identity.operator_bases(graph)
        self.keys = told_apart(self.bases)
        fed = {child for child, _ in graph.edges}
        self.tops = [n.id for n in graph.nodes if n.id not in fed and not n.is_cluster]
        self.own = self.below(self.tops)
        self._first_operators: dict[int, Node] = {}
        self._received: dict[int, tuple[int | None, int | None]] = {}

    def measured(self, accumulators: Mapping[int, Accumulator]) -> _Plan:
        """The same plan with what was measured of it."""
        plan = copy(self)
        plan.set_measured(accumulators)
        plan._received = {}
        return plan

    def below(self, tops: Sequence[int], found: set[int] | None = None) -> set[int]:
        """These nodes and all that feeds them; added to `found`, which holds with each node what feeds it."""
        found = set() if found is None else found
        todo = list(tops)
        while todo:
            node_id = todo.pop()
            if node_id not in found:
                found.add(node_id)
                if not operators.is_scan(self.nodes[node_id].name) and self.nodes[node_id].name != EMPTY:
                    todo.extend(self.inputs(self.nodes[node_id]))
        return found

    def exchanges(self) -> list[Node]:
        return [n for n in self.graph.nodes if operators.is_shuffle(n.name) or operators.is_broadcast(n.name)]

    def joins(self) -> list[Node]:
        return [n for n in self.graph.nodes if operators.join_strategy(n.name)]

    def uses(self) -> Counter[str]:
        """How often each exchange is read, equal ones together."""
        return Counter(
            self.bases[child] for child, parent in self.graph.edges if child in self.bases and parent in self.own
        )

    def first_operator(self, node_id: int) -> Node:
        """At or below a node, the first operator that does something to its rows."""
        above = []  # passed through on the way down
        while node_id not in self._first_operators:
            node = self.nodes[node_id]
            below = self.inputs(node)
            carries = node.name in _CARRIERS or operators.is_shuffle(node.name) or operators.is_broadcast(node.name)
            if not carries or len(below) != 1:
                self._first_operators[node_id] = node
            else:
                above.append(node_id)
                node_id = below[0]
        found = self._first_operators[node_id]
        self._first_operators.update(dict.fromkeys(above, found))
        return found

    def received(self, node: Node) -> tuple[int | None, int | None]:
        """Bytes and rows that the exchanges got that feed a node."""
        if node.id not in self._received:
            fed = [self.fed_by(i) for i in self.inputs(node)]
            rows = [each.rows for each in fed if each.exchange is not None]
            self._received[node.id] = _sum([each.bytes for each in fed]), _sum(rows)
        return self._received[node.id]


class _Change:
    """From one plan to the next; `same` gives for a node of the later one that of the earlier one."""

    def __init__(self, before: _Plan, after: _Plan) -> None:
        self.before, self.after = before, after
        self.same: dict[int, int] = {}
        self._left = set(before.nodes)
        known = {m.id: node.id for node in before.graph.nodes for m in node.metrics}
        for node in after.graph.nodes:
            for metric in node.metrics:
                if metric.id in known:
                    self._pair(node.id, known[metric.id])
        self._match(lambda plan, node: (plan.bases.get(node.id), _text(node)))
        self._match(lambda plan, node: plan.bases.get(node.id))
        self._match(lambda plan, node: _text(node))
        self._still_there = {former for node, former in self.same.items() if node in after.own}
        self._unused = before.uses() - after.uses()
        self._reused = self._beneath_reused()
        self._stood: dict[int, int | None] = {}
        self._below: dict[int, Mapping[int, int]] = {}

    def _match(self, name: Callable[[_Plan, Node], Hashable | None]) -> None:
        """Pair the nodes that are left and have the same name, in the order of the plans."""
        named: dict[Hashable, list[int]] = defaultdict(list)
        for node in reversed(self.before.graph.nodes):
            if node.id in self._left and name(self.before, node) not in _NAMELESS:
                named[node.id in self.before.own, name(self.before, node)].append(node.id)
        for node in self.after.graph.nodes:
            if node.id not in self.same and named:
                known = named.get((node.id in self.after.own, name(self.after, node)))
                if known:
                    self._pair(node.id, known.pop())

    def _pair(self, after: int, before: int) -> None:
        if before in self._left and after not in self.same:
            self.same[after] = before
            self._left.discard(before)

    def _beneath_reused(self) -> set[int]:
        """What is drawn no longer because an exchange above it, or itself, is one that is now read once more."""
        left = self.before.own - self._still_there
        gone = (node for node in self.before.exchanges() if node.id in left)
        return self.before.below([node.id for node in gone if not self._unused[self.before.bases[node.id]]])

    def measured(self, accumulators: Mapping[int, Accumulator]) -> _Change:
        """The same change with what was measured of both plans."""
        change = copy(self)
        change.before, change.after = self.before.measured(accumulators), self.after.measured(accumulators)
        return change

    def decisions(self) -> Iterator[Decision]:
        yield from self._strategies()
        replaced: set[int] = set()
        yield from self._empty_relations(replaced)
        yield from self._vanished_joins(replaced)
        yield from self._reads()
        yield from self._dropped()

    def _strategies(self) -> Iterator[Decision]:
        for node in self.after.joins():
            if node.id not in self.same:
                continue
            former = self.before.nodes[self.same[node.id]]
            strategy, previous = operators.join_strategy(node.name), operators.join_strategy(former.name)
            if previous is None or strategy == previous:
                continue
            shuffle, relation = self._side(self.before, former, node), self._side(self.after, node, node)
            size, rows = _measured(self.after, relation)
            if relation is None or not operators.is_broadcast(relation.name):
                size, rows = self.after.total(node, "data size of build side"), None
            if shuffle is not None and operators.is_broadcast(shuffle.name):
                shuffle = None
            compared, compared_rows = _measured(self.before, shuffle)
            yield Decision(
                self.after.version,
                "join_strategy",
                node.name,
                node.id,
                self.after.keys[node.id],
                previous,
                strategy,
                compared,
                size,
                compared_rows,
                rows,
            )

    def _side(self, plan: _Plan, node: Node, built: Node) -> Node | None:
        """The exchange that feeds a join of `plan` on the side that `built` builds."""
        text = operators.join_text(built.name, built.simple)
        sides = dict(zip(("left", "right"), plan.inputs(node), strict=False))
        if text is None or text.build_side not in sides:
            return None
        exchange = plan.fed_by(sides[text.build_side]).exchange
        return None if exchange is None else plan.nodes[exchange]

    def _reads(self) -> Iterator[Decision]:
        """New ways of reading a shuffle."""
        known: Counter[tuple[int | None, str]] = Counter()
        for node in self.before.graph.nodes:
            if node.name == _READ and node.id in self._left:
                known[self._shuffle(self.before, node), node.simple] += 1
        for node in self.after.graph.nodes:
            if node.name != _READ or node.id in self.same:
                continue
            shuffle = self._shuffle(self.after, node)
            before = (self.same.get(shuffle) if shuffle is not None else None, node.simple)
            if known[before] > 0:
                known[before] -= 1
            elif shuffle is not None:
                yield from self._read(node, self.after.nodes[shuffle])

    def _shuffle(self, plan: _Plan, read: Node) -> int | None:
        inputs = plan.inputs(read)
        exchange = plan.fed_by(inputs[0]).exchange if len(inputs) == 1 else None
        return exchange if exchange is not None and operators.is_shuffle(plan.nodes[exchange].name) else None

    def _read(self, node: Node, shuffle: Node) -> Iterator[Decision]:
        plan = self.after
        made = plan.total(shuffle, "number of partitions") or operators.shuffle_text(shuffle.simple).partitions
        partitions = (made, plan.total(node, "number of partitions"))
        splits = (
            plan.total(node, "number of skewed partitions"),
            plan.total(node, "number of skewed partition splits"),
        )
        for word, kind, (before, after) in (
            ("coalesced", "coalesced", partitions),
            ("skewed", "skew_split", splits),
            ("local", "local_read", partitions),
        ):
            if word in node.simple:
                yield Decision(
                    plan.version,
                    kind,
                    node.name,
                    node.id,
                    plan.keys[shuffle.id],
                    _number(before),
                    _number(after),
                    plan.total(shuffle, "shuffle bytes written"),
                    plan.total(node, "partition data size"),
                    plan.total(shuffle, ROWS_WRITTEN),
                    plan.total(shuffle, "records read") if len(plan.consumers(shuffle)) == 1 else None,
                )

    def _empty_relations(self, replaced: set[int]) -> Iterator[Decision]:
        """Empty relations that are new; what they stand for is added to `replaced`."""
        for node in self.after.graph.nodes:
            if _is_empty(node) and node.id in self.after.own and node.id not in self.same:
                top = self._replaced(node)
                operator = None if top is None else self.before.first_operator(top)
                if top is not None:
                    self.before.below([top], replaced)
                yield self._emptied(node, operator)

    def _replaced(self, node: Node) -> int | None:
        """What stood in the plan before where `node` stands now: below the nearest operator that both plans have."""
        child, above = node.id, []
        while child not in self._stood:
            parent = next((i for i in self.after.parents.get(child, ()) if i in self.after.own), None)
            if parent is None:
                self._stood[child] = self.before.tops[0] if self.before.tops else None
            elif parent in self.same:
                self._stood[child] = self._stood_below(parent).get(child)
            else:
                above.append(child)
                child = parent
        found = self._stood[child]
        self._stood.update(dict.fromkeys(above, found))
        return found

    def _stood_below(self, parent: int) -> Mapping[int, int]:
        """What stood in the place of the inputs of a node that both plans have."""
        if parent not in self._below:
            now = self.after.inputs(self.after.nodes[parent])
            then = self.before.inputs(self.before.nodes[self.same[parent]])
            self._below[parent] = dict(reversed(list(zip(now, then, strict=False))))
        return self._below[parent]

    def _vanished_joins(self, replaced: set[int]) -> Iterator[Decision]:
        """Joins that went away with one of their sides, and nothing in their place."""
        if any(node.id not in self.same for node in self.after.joins()):
            return
        gone = {node.id for node in self.before.joins()} & self._left & self.before.own - replaced - self._reused
        for node in self.before.joins():
            if node.id in gone:
                gone -= self.before.below([node.id]) - {node.id}
                yield self._emptied(None, node)

    def _emptied(self, node: Node | None, operator: Node | None) -> Decision:
        before = self.before
        size, rows = (None, None) if operator is None or operators.is_scan(operator.name) else before.received(operator)
        return Decision(
            self.after.version,
            "empty_relation",
            node.name if node is not None else operator.name if operator is not None else "",
            None if node is None else node.id,
            None if operator is None else before.keys.get(operator.id),
            None if operator is None else operator.name[:_NAME_CHARACTERS],
            None if node is None else node.name,
            size,
            rows_before=rows,
        )

    def _dropped(self) -> Iterator[Decision]:
        """Exchanges that nothing reads any more."""
        unused = self._unused.copy()
        gone = self.before.own - self._still_there - self._reused
        for node in self.before.exchanges():
            base = self.before.bases[node.id]
            if node.id not in gone or not unused[base]:
                continue
            unused[base] -= 1
            partitioning = operators.shuffle_text(node.simple).partitioning
            mode = partitioning if operators.is_shuffle(node.name) else operators.broadcast_mode(node.simple)
            size, rows = _measured(self.before, node)
            yield Decision(
                self.after.version,
                "dropped_stage",
                node.name,
                operator_key=self.before.keys[node.id],
                before=mode,
                bytes_before=size,
                rows_before=rows,
            )


def _measured(plan: _Plan, exchange: Node | None) -> tuple[int | None, int | None]:
    """Bytes and rows that an exchange got."""
    if exchange is None:
        return None, None
    rows = ROWS_WRITTEN if operators.is_shuffle(exchange.name) else OUTPUT_ROWS
    return plan.total(exchange, DATA_SIZE), plan.total(exchange, rows)


def _text(node: Node) -> tuple[str, ...] | None:
    """What a node says of itself, without what another plan of the same execution may say otherwise."""
    return None if node.is_cluster or node.name == _READ else _own_text(node.name, node.simple)


@operators.remembered
def _own_text(name: str, simple: str) -> tuple[str, ...]:
    join = operators.join_text(name, simple)
    if join is not None:
        return ("join", join.join_type or "", join.condition or "", *join.left_keys, *join.right_keys)
    return (name, _STATE.sub("", _PLAN_ID.sub("", simple)))


def _is_empty(node: Node) -> bool:
    return node.name == EMPTY or (node.name == "LocalTableScan" and "<empty>" in node.simple)


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(sum(known), MAX_LONG) if known else None
