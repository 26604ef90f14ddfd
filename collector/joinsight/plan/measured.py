"""A plan's graph with what was measured at its nodes, and which rows and bytes flow into a node from below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from joinsight.document import Accumulator
from joinsight.plan import operators
from joinsight.plan.graph import Graph, Node

DATA_SIZE = "data size"
OUTPUT_ROWS = "number of output rows"
ROWS_WRITTEN = "shuffle records written"

EMPTY = "EmptyRelation"
"""Spark 4's name of what gives no rows; beneath it stands what AQE found to be empty."""

# What goes up through these is no larger than what came in, as AQE has it too: it takes the size of the shuffle beneath
_NOT_LARGER = frozenset(
    {
        "AQEShuffleRead",
        "ColumnarToRow",
        "Filter",
        "HashAggregate",
        "ObjectHashAggregate",
        "Sort",
        "SortAggregate",
    }
)


@dataclass(frozen=True, slots=True)
class Input:
    """What comes into a node from one side."""

    rows: int | None = None
    """Counted by the nearest operator below that counts."""
    bytes: int | None = None
    """Data size of the exchange or broadcast that feeds it."""
    exchange: int | None = None
    """The node id of that one."""
    is_whole: bool = False
    """What comes in is at most what the exchange got: no operator in between may have made it larger."""


class Measured:
    """A graph, and the accumulators of the execution by id. What is derived of a node is derived once."""

    def __init__(self, graph: Graph, accumulators: Mapping[int, Accumulator]) -> None:
        self.graph = graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.children = graph.children()
        self.parents = graph.parents()
        self.set_measured(accumulators)

    def set_measured(self, accumulators: Mapping[int, Accumulator]) -> None:
        """From now on this is what was measured."""
        self.accumulators = accumulators
        self._metrics: dict[int, dict[str, Accumulator]] = {}
        self._fed_by: dict[int, Input] = {}

    def metrics(self, node: Node) -> Mapping[str, Accumulator]:
        """What was measured at a node, by Spark's name of the metric."""
        known = self._metrics.get(node.id)
        if known is None:
            known = {m.name: self.accumulators[m.id] for m in node.metrics if m.id in self.accumulators}
            self._metrics[node.id] = known
        return known

    def total(self, node: Node, name: str) -> int | None:
        """The total of one metric; None where nothing was measured."""
        measured = self.metrics(node).get(name)
        return None if measured is None else measured.sum

    def consumers(self, node: Node) -> list[int]:
        """The nodes that its rows go to."""
        return self.parents.get(node.id, [])

    def inputs(self, node: Node) -> list[int]:
        """The nodes whose rows go into `node`, left one first; a subquery's result is not such an input."""
        return [i for i in self.children.get(node.id, []) if not operators.is_subquery(self.nodes[i].name)]

    def fed_by(self, node_id: int) -> Input:
        """What comes in through `node_id`.

        Operators that count nothing (Project, Sort, AQEShuffleRead) are passed through. Nothing is told from below one
        with several inputs, and from behind a scan: the plan of a cached table or an RDD ran for itself.
        """
        above: list[Node] = []  # passed through on the way down
        while node_id not in self._fed_by:
            node = self.nodes[node_id]
            is_shuffle = operators.is_shuffle(node.name)
            below = self.inputs(node)
            if is_shuffle or operators.is_broadcast(node.name):
                rows = self.total(node, ROWS_WRITTEN if is_shuffle else OUTPUT_ROWS)
                self._fed_by[node_id] = Input(rows, self.total(node, DATA_SIZE), node_id, True)
            elif len(below) != 1 or _is_end(node):
                self._fed_by[node_id] = Input(self.total(node, OUTPUT_ROWS))
            else:
                above.append(node)
                node_id = below[0]
        fed = self._fed_by[node_id]
        for node in reversed(above):
            fed = replace(fed, is_whole=fed.is_whole and node.name in _NOT_LARGER)
            if any(metric.name == OUTPUT_ROWS for metric in node.metrics):
                fed = replace(fed, rows=self.total(node, OUTPUT_ROWS))
            self._fed_by[node.id] = fed
        return fed


def _is_end(node: Node) -> bool:
    return operators.is_scan(node.name) or bool(operators.join_strategy(node.name)) or node.name == EMPTY
