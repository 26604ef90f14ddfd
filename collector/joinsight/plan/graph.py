"""Rebuilds the graph that Spark's UI shows (``SparkPlanGraph``) from a plan tree: same nodes, ids, edges, clusters.

Spark numbers nodes in depth-first order, skips wrappers (``InputAdapter``, query stages), draws a
reused exchange once with an edge to every consumer, and puts the operators of a whole-stage-codegen stage into a
cluster. Ids are valid within one plan version only: AQE renumbers at every re-plan.

::

    tree                         graph
    WholeStageCodegen (2)        0 WholeStageCodegen (2)   cluster, holds 1
    └ HashAggregate              1 HashAggregate
      └ InputAdapter             2 Exchange                edge 2 -> 1
        └ ShuffleQueryStage
          └ Exchange

Source: ``org.apache.spark.sql.execution.ui.SparkPlanGraph`` of Spark 3.4 to 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from joinsight.contract.document import Metric, PlanNode
from joinsight.plan import operators

COMMAND, COMMAND_TABLE = "Command", "Table"
"""Metadata of a command whose text is only its name: arguments, and table or path (`Commands` of the listener)."""


class Node(Struct, frozen=True):
    """A node of the graph; `cluster` is the id of the whole-stage-codegen node around it."""

    id: int
    name: str
    simple: str
    metrics: Sequence[Metric] = ()
    metadata: Mapping[str, str] = {}
    cluster: int | None = None
    is_cluster: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes by rising id; edges run from child to parent, as rows flow. What follows from these is made once."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]

    @cached_property
    def by_id(self) -> Mapping[int, Node]:
        """The nodes by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def children(self) -> Mapping[int, Sequence[int]]:
        """The ids of the inputs by node id, the left one first."""
        children: dict[int, list[int]] = {}
        for child, parent in self.edges:
            children.setdefault(parent, []).append(child)
        return children

    @cached_property
    def parents(self) -> Mapping[int, Sequence[int]]:
        """The ids of the consumers by node id."""
        parents: dict[int, list[int]] = {}
        for child, parent in self.edges:
            parents.setdefault(child, []).append(parent)
        return parents

    @cached_property
    def tops(self) -> Sequence[int]:
        """The ids of the nodes that nothing reads."""
        return [node.id for node in self.nodes if node.id not in self.parents and not node.is_cluster]

    @cached_property
    def inputs_first(self) -> Sequence[int]:
        """Node ids without those of clusters, inputs before consumers; each once, also where it is reused.

        Without recursion: plans can be thousands of levels deep.
        """
        order: list[int] = []
        visited: set[int] = set()
        todo = [(top, False) for top in reversed(self.tops)]
        while todo:
            node_id, is_ready = todo.pop()
            if is_ready:
                order.append(node_id)
            elif node_id not in visited:
                visited.add(node_id)
                below = self.children.get(node_id)
                if below:
                    todo.append((node_id, True))
                    todo += [(child, False) for child in below]
                else:
                    order.append(node_id)
        return order


def build(plan: Sequence[PlanNode], parents: Sequence[int], *, keep_duplicate_subquery_edges: bool = False) -> Graph:
    """The graph of `plan`, whose nodes are in depth-first order, a parent before its children.

    `parents` has for each node the index of its parent in `plan`, -1 for the first one.

    Spark before 4.1 draws a second edge when a reused subquery occurs again below the same node:
    `keep_duplicate_subquery_edges`.
    """
    children: list[list[int]] = [[] for _ in plan]
    for index, parent_index in enumerate(parents):
        if parent_index >= 0:
            children[parent_index].append(index)
    below_first = range(len(plan) - 1, -1, -1)  # children come after their parent
    same = equal_subtrees(below_first, children.__getitem__, lambda index: (plan[index].name, plan[index].simple))

    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []
    seen_edges: set[tuple[int, int]] = set()
    reusable: dict[int, int] = {}  # subtree of an exchange or subquery -> its node

    def connect(child: int, parent: int | None) -> None:
        if parent is not None:
            edges.append((child, parent))
            seen_edges.add((child, parent))

    # (index into plan, consumer's node id, cluster's node id); no recursion, as plans can be thousands of levels deep
    todo: list[tuple[int, int | None, int | None]] = [(0, None, None)] if plan else []
    while todo:
        index, parent, cluster = todo.pop()
        info, below = plan[index], children[index]
        name = info.name
        kind = operators.of(name).kind
        if kind == "codegen" and below:
            node_id = len(nodes)
            nodes.append(Node(node_id, name, info.simple, info.metrics, info.metadata, is_cluster=True))
            todo.append((below[0], parent, node_id))
        elif kind == "adapter" and below:
            todo.append((below[0], parent, None))
        elif kind == "query_stage" and below:
            known = reusable.get(same[below[0]])
            if known is None:
                todo.append((below[0], parent, None))
            else:
                connect(known, parent)
        elif name == operators.SUBQUERY and cluster is not None:
            todo.append((index, parent, None))
        elif name == operators.SUBQUERY and same[index] in reusable:
            known = reusable[same[index]]
            if keep_duplicate_subquery_edges or parent is None or (known, parent) not in seen_edges:
                connect(known, parent)
        elif kind == "reused_subquery" and below:
            todo.append((below[0], parent, cluster))
        elif kind == "reused_exchange" and below and same[below[0]] in reusable:
            connect(reusable[same[below[0]]], parent)
        else:
            node_id = len(nodes)
            nodes.append(Node(node_id, name, info.simple, info.metrics, info.metadata, cluster))
            if operators.is_reusable(name):
                reusable[same[index]] = node_id
            connect(node_id, parent)
            todo.extend((child, node_id, cluster) for child in reversed(below))
    return Graph(tuple(nodes), tuple(edges))


def equal_subtrees(
    below_first: Iterable[int], children: Callable[[int], Iterable[int]], label: Callable[[int], Hashable]
) -> Mapping[int, int]:
    """A number for each node, the same for subtrees whose nodes have equal labels and children.

    `below_first`: the nodes, each after its children.
    """
    numbers: dict[Hashable, int] = {}
    found: dict[int, int] = {}
    for node in below_first:
        key = (label(node), tuple(found[child] for child in children(node)))
        found[node] = numbers.setdefault(key, len(numbers))
    return found
