"""A plan's graph with what was measured at its nodes, and which rows and bytes flow into a node from below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """A graph, and the accumulators of the execution by id."""

    def __init__(self, graph: Graph, accumulators: Mapping[int, Accumulator]) -> None:
        self.graph = graph
        self.accumulators = accumulators
        self.nodes = {node.id: node for node in graph.nodes}
        self.children = graph.children()
        self.parents = graph.parents()

    def metrics(self, node: Node) -> dict[str, Accumulator]:
        """What was measured at a node, by Spark's name of the metric."""
        return {m.name: self.accumulators[m.id] for m in node.metrics if m.id in self.accumulators}

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
        found: int | None = None
        counted, is_whole = False, True
        while True:
            node = self.nodes[node_id]
            is_shuffle = operators.is_shuffle(node.name)
            rows = ROWS_WRITTEN if is_shuffle else OUTPUT_ROWS
            if not counted and any(metric.name == rows for metric in node.metrics):
                found = self.total(node, rows)
                counted = True
            if is_shuffle or operators.is_broadcast(node.name):
                return Input(found, self.total(node, DATA_SIZE), node.id, is_whole)
            below = self.inputs(node)
            is_end = operators.is_scan(node.name) or operators.join_strategy(node.name) or node.name == EMPTY
            if is_end or len(below) != 1:
                return Input(found)
            is_whole = is_whole and node.name in _NOT_LARGER
            node_id = below[0]
