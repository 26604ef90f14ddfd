"""A plan's graph with the measurements at its nodes, and the rows and bytes that flow into a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from joinsight.contract.document import Accumulator
from joinsight.plan import operators
from joinsight.plan.graph import Graph, Node
from joinsight.plan.operators import DATA_SIZE, OUTPUT_ROWS, is_finer

_VALUES = ("sum", "min", "median", "p95", "max")
_ENDS = operators.SOURCES | {"join"}
"""Operators below which no values are derived."""


@dataclass(frozen=True, slots=True)
class Input:
    """The input of a node from one side."""

    rows: int | None = None
    """From the nearest operator below that counts rows."""
    is_counted_by_exchange: bool = False
    """That operator is the exchange."""
    bytes: int | None = None
    """Data size of the exchange or broadcast that feeds it."""
    exchange: int | None = None
    """The node id of that exchange or broadcast."""
    is_whole: bool = False
    """The input is at most the data of the exchange: no operator in between can have enlarged it."""


class PlanMetrics:
    """A graph, and the accumulators of the execution by id. Values derived for a node are cached."""

    def __init__(self, graph: Graph, accumulators: Mapping[int, Accumulator]) -> None:
        self.graph = graph
        self.nodes = graph.by_id
        self.children = graph.children
        self.parents = graph.parents
        self._subqueries = {node.id for node in graph.nodes if operators.is_subquery(node.name)}
        self.set_measured(accumulators)

    def set_measured(self, accumulators: Mapping[int, Accumulator]) -> None:
        """Replace the measurements."""
        self.accumulators = accumulators
        self._metrics: dict[int, dict[str, Accumulator]] = {}
        self._fed_by: dict[int, Input] = {}

    def metrics(self, node: Node) -> Mapping[str, Accumulator]:
        """The measured metrics of a node and the `parts` of its exchange, by Spark's names and in Spark's units."""
        known = self._metrics.get(node.id)
        if known is None:
            operator = operators.of(node.name)
            metrics = (m for each in (node, *self.parts(node)) for m in each.metrics if m.id in self.accumulators)
            named = operator.by_sparks_names((m.name, self.accumulators[m.id]) for m in metrics)
            known = {name: _in_ms(each) if is_finer(each.type, name) else each for name, each in named.items()}
            self._metrics[node.id] = known
            for name in operator.never_set(node.simple, {name: each.sum for name, each in known.items()}):
                del known[name]
        return known

    def total(self, node: Node, name: str) -> int | None:
        """The total of one metric; None if it was not measured."""
        measured = self.metrics(node).get(name)
        return None if measured is None else measured.sum

    def consumers(self, node: Node) -> Sequence[int]:
        """The ids of the nodes that read its rows."""
        above = self.parents.get(node.id, ())
        parts = self.parts(node) if above else ()
        if not parts:
            return above
        known = {part.id for part in parts}
        return [i for part in (node, *parts) for i in self.parents.get(part.id, ()) if i not in known]

    def parts(self, node: Node) -> list[Node]:
        """The other operators of the same exchange, above it."""
        if operators.of(node.name).kind != "shuffle":
            return []
        parts: list[Node] = []
        todo = list(self.parents.get(node.id, ()))
        while todo:
            above = self.nodes[todo.pop()]
            if operators.of(above.name).kind == "exchange_part" and above not in parts:
                parts.append(above)
                todo += self.parents.get(above.id, ())
        return parts

    def inputs(self, node: Node) -> Sequence[int]:
        """The ids of the nodes whose rows `node` reads, the left one first; without subqueries."""
        below = self.children.get(node.id, ())
        return [i for i in below if i not in self._subqueries] if self._subqueries else below

    def rows_read(self, node_id: int) -> int | None:
        """The rows of all inputs of a node; None: not all are known, or it has none."""
        rows = [self.fed_by(i).rows for i in self.inputs(self.nodes[node_id])]
        return sum(each or 0 for each in rows) if rows and None not in rows else None

    def fed_by(self, node_id: int) -> Input:
        """The input that `node_id` gives its consumer.

        Operators without row counts (Project, Sort, AQEShuffleRead) are passed through. The search stops at an operator
        with several inputs, and at a scan: the plan of a cached table or an RDD ran separately.
        """
        above: list[Node] = []  # passed through on the way down
        while node_id not in self._fed_by:
            node = self.nodes[node_id]
            operator = operators.of(node.name)
            below = self.inputs(node)
            if operator.is_exchange:
                rows = self.total(node, operator.rows[0])
                self._fed_by[node_id] = Input(rows, True, self.total(node, DATA_SIZE), node_id, True)
            elif len(below) != 1 or operator.kind in _ENDS:
                self._fed_by[node_id] = Input(self.total(node, OUTPUT_ROWS))
            else:
                above.append(node)
                node_id = below[0]
        fed = self._fed_by[node_id]
        for node in reversed(above):
            operator = operators.of(node.name)
            fed = replace(fed, is_whole=fed.is_whole and operator.is_never_larger)
            if any(operator.metric(metric.name) == OUTPUT_ROWS for metric in node.metrics):
                fed = replace(fed, rows=self.total(node, OUTPUT_ROWS), is_counted_by_exchange=False)
            self._fed_by[node.id] = fed
        return fed


NOTHING = PlanMetrics(Graph((), ()), {})
"""Those of an execution without a plan."""


def _in_ms(measured: Accumulator) -> Accumulator:
    """A measurement in nanoseconds as one in milliseconds."""
    values = {name: getattr(measured, name) for name in _VALUES}
    return msgspec.structs.replace(
        measured, **{name: None if value is None else value // 1_000_000 for name, value in values.items()}
    )
