"""A plan's graph is the one that Spark's UI draws, tested for each rule of ``SparkPlanGraph``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.documents import PlanNode, draw, graph_of
from tests.growth import steps

from joinsight.contract.document import Metric
from joinsight.plan.graph import Graph


class Case(NamedTuple):
    """A plan and its graph: nodes as ``id name``, with ``(cluster id)`` if in one; edges as ``child>parent``."""

    rule: str
    plan: str
    nodes: str
    edges: str = ""
    old: bool = False


CASES = (
    Case("nothing", "", ""),
    Case("one node", "Range", "0 Range"),
    Case(
        "ids count in the order of a depth-first visit, left inputs first",
        """
        Union
          Filter
            Range
          Project
            Range
        """,
        "0 Union, 1 Filter, 2 Range, 3 Project, 4 Range",
        "1>0 2>1 3>0 4>3",
    ),
    # Clusters
    Case(
        "a cluster takes an id and no edge; all below it is in it",
        """
        WholeStageCodegen (1)
          Project
            Filter
              Range
        """,
        "0 WholeStageCodegen (1) [], 1 Project (0), 2 Filter (0), 3 Range (0)",
        "2>1 3>2",
    ),
    Case(
        "the consumer of a cluster gets its edge from the operator in it",
        """
        Exchange
          WholeStageCodegen (1)
            Project
        """,
        "0 Exchange, 1 WholeStageCodegen (1) [], 2 Project (1)",
        "2>0",
    ),
    Case(
        "a cluster's name need not carry its number",
        "WholeStageCodegen\n  Range",
        "0 WholeStageCodegen [], 1 Range (0)",
    ),
    Case(
        "an InputAdapter is not drawn and ends the cluster",
        """
        WholeStageCodegen (2)
          HashAggregate
            InputAdapter
              Exchange
                WholeStageCodegen (1)
                  Range
        """,
        "0 WholeStageCodegen (2) [], 1 HashAggregate (0), 2 Exchange, 3 WholeStageCodegen (1) [], 4 Range (3)",
        "2>1 4>2",
    ),
    Case(
        "of a join's inputs, only the one behind an InputAdapter is outside the cluster",
        """
        WholeStageCodegen (1)
          BroadcastHashJoin
            Range
            InputAdapter
              BroadcastExchange
        """,
        "0 WholeStageCodegen (1) [], 1 BroadcastHashJoin (0), 2 Range (0), 3 BroadcastExchange",
        "2>1 3>1",
    ),
    Case(
        "AdaptiveSparkPlan is a node and keeps the cluster around it",
        """
        WholeStageCodegen (1)
          Filter
            AdaptiveSparkPlan
              Range
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 AdaptiveSparkPlan (0), 3 Range (0)",
        "2>1 3>2",
    ),
    Case(
        "a SubqueryBroadcast is an ordinary node",
        """
        WholeStageCodegen (1)
          Filter
            SubqueryBroadcast
              Range
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 SubqueryBroadcast (0), 3 Range (0)",
        "2>1 3>2",
    ),
    Case("a cluster without an operator is a plain node", "WholeStageCodegen (1)", "0 WholeStageCodegen (1)"),
    Case("an InputAdapter without an input is a plain node", "InputAdapter", "0 InputAdapter"),
    # Query stages
    Case(
        "a query stage is not drawn and ends the cluster",
        """
        WholeStageCodegen (2)
          SortMergeJoin
            ShuffleQueryStage | 0
              Exchange | hashpartitioning(a#1), [plan_id=1]
            BroadcastQueryStage | 1
              BroadcastExchange | [plan_id=2]
        """,
        "0 WholeStageCodegen (2) [], 1 SortMergeJoin (0), 2 Exchange, 3 BroadcastExchange",
        "2>1 3>1",
    ),
    Case(
        "a stage whose exchange is drawn already is an edge from it",
        """
        SortMergeJoin
          ShuffleQueryStage | 0
            Exchange | hashpartitioning(a#1), [plan_id=1]
              Range
          ShuffleQueryStage | 1
            Exchange | hashpartitioning(a#1), [plan_id=1]
              Range
        """,
        "0 SortMergeJoin, 1 Exchange, 2 Range",
        "1>0 2>1 1>0",
    ),
    Case(
        "a broadcast stage whose exchange is drawn already is an edge from it",
        """
        Union
          BroadcastQueryStage | 0
            BroadcastExchange | [plan_id=1]
          BroadcastQueryStage | 1
            BroadcastExchange | [plan_id=1]
        """,
        "0 Union, 1 BroadcastExchange",
        "1>0 1>0",
    ),
    Case(
        "exchanges that differ in their text only are two",
        """
        SortMergeJoin
          ShuffleQueryStage | 0
            Exchange | hashpartitioning(a#1), [plan_id=1]
              Range
          ShuffleQueryStage | 1
            Exchange | hashpartitioning(a#1), [plan_id=2]
              Range
        """,
        "0 SortMergeJoin, 1 Exchange, 2 Range, 3 Exchange, 4 Range",
        "1>0 2>1 3>0 4>3",
    ),
    Case(
        "exchanges that differ far below only are two",
        """
        SortMergeJoin
          ShuffleQueryStage | 0
            Exchange | [plan_id=1]
              Filter
                Range | (0, 5)
          ShuffleQueryStage | 1
            Exchange | [plan_id=1]
              Filter
                Range | (0, 6)
        """,
        "0 SortMergeJoin, 1 Exchange, 2 Filter, 3 Range, 4 Exchange, 5 Filter, 6 Range",
        "1>0 2>1 3>2 4>0 5>4 6>5",
    ),
    Case(
        "a stage that reads a reused exchange is an edge from the original",
        """
        SortMergeJoin
          ShuffleQueryStage | 0
            Exchange | [plan_id=1]
          ShuffleQueryStage | 1
            ReusedExchange
              Exchange | [plan_id=1]
        """,
        "0 SortMergeJoin, 1 Exchange",
        "1>0 1>0",
    ),
    Case(
        "a cached table's stage and a result stage are not drawn",
        """
        ResultQueryStage | 2
          WholeStageCodegen (1)
            Filter
              TableCacheQueryStage | 0
                InMemoryTableScan
                  Range
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 InMemoryTableScan, 3 Range",
        "2>1 3>2",
    ),
    # Reuse
    Case(
        "a reused exchange behind its original is an edge from it",
        """
        Union
          Exchange | [plan_id=1]
            Range
          ReusedExchange
            Exchange | [plan_id=1]
              Range
        """,
        "0 Union, 1 Exchange, 2 Range",
        "1>0 2>1 1>0",
    ),
    Case(
        "a reused exchange before its original stays, with a copy below it, which the original's stage then joins",
        """
        BroadcastHashJoin
          SubqueryBroadcast
            ReusedExchange
              BroadcastExchange | [plan_id=1]
                Range
          BroadcastQueryStage | 0
            BroadcastExchange | [plan_id=1]
              Range
        """,
        "0 BroadcastHashJoin, 1 SubqueryBroadcast, 2 ReusedExchange, 3 BroadcastExchange, 4 Range",
        "1>0 2>1 3>2 4>3 3>0",
    ),
    Case(
        "without a stage, the original is drawn a second time",
        """
        BroadcastHashJoin
          SubqueryBroadcast
            ReusedExchange
              BroadcastExchange | [plan_id=1]
          BroadcastExchange | [plan_id=1]
        """,
        "0 BroadcastHashJoin, 1 SubqueryBroadcast, 2 ReusedExchange, 3 BroadcastExchange, 4 BroadcastExchange",
        "1>0 2>1 3>2 4>0",
    ),
    Case(
        "a reused exchange of a native engine is known by the word Exchange in its name",
        """
        Union
          CometExchange | [plan_id=1]
          ReusedExchange
            CometExchange | [plan_id=1]
        """,
        "0 Union, 1 CometExchange",
        "1>0 1>0",
    ),
    # Subqueries
    Case(
        "a subquery leaves the cluster",
        """
        WholeStageCodegen (1)
          Filter
            Range
            Subquery | scalar-subquery#1
              Range
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 Range (0), 3 Subquery, 4 Range",
        "2>1 3>1 4>3",
    ),
    Case(
        "a reused subquery is an edge from the original",
        """
        Union
          Filter
            Subquery | scalar-subquery#1
              Range
          Filter
            ReusedSubquery
              Subquery | scalar-subquery#1
                Range
        """,
        "0 Union, 1 Filter, 2 Subquery, 3 Range, 4 Filter",
        "1>0 2>1 3>2 4>0 2>4",
    ),
    Case(
        "a reused subquery before its original becomes the original",
        """
        Union
          ReusedSubquery
            Subquery | scalar-subquery#1
          Filter
            Subquery | scalar-subquery#1
        """,
        "0 Union, 1 Subquery, 2 Filter",
        "1>0 2>0 1>2",
    ),
    Case(
        "a reused subquery in a cluster is outside of it",
        """
        WholeStageCodegen (1)
          Filter
            ReusedSubquery
              Subquery | scalar-subquery#1
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 Subquery",
        "2>1",
    ),
    Case(
        "what a ReusedSubquery holds stays in the cluster unless it is a Subquery",
        """
        WholeStageCodegen (1)
          Filter
            ReusedSubquery
              SubqueryBroadcast
        """,
        "0 WholeStageCodegen (1) [], 1 Filter (0), 2 SubqueryBroadcast (0)",
        "2>1",
    ),
    Case(
        "from 4.1 on, a subquery met twice below one node has one edge",
        """
        Project
          Subquery | scalar-subquery#1
          ReusedSubquery
            Subquery | scalar-subquery#1
        """,
        "0 Project, 1 Subquery",
        "1>0",
    ),
    Case(
        "before 4.1, a subquery met twice below one node has two edges",
        """
        Project
          Subquery | scalar-subquery#1
          ReusedSubquery
            Subquery | scalar-subquery#1
        """,
        "0 Project, 1 Subquery",
        "1>0 1>0",
        old=True,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_nodes_ids_clusters_and_edges_follow_the_rule(case: Case) -> None:
    graph = graph_of(draw(case.plan)[0], keep_duplicate_subquery_edges=case.old)
    assert ", ".join(_words(graph)) == case.nodes
    assert " ".join(f"{child}>{parent}" for child, parent in graph.edges) == case.edges


def _words(graph: Graph) -> list[str]:
    cluster = {node.id: f" ({node.cluster})" for node in graph.nodes if node.cluster is not None}
    return [f"{node.id} {node.name}{' []' if node.is_cluster else cluster.get(node.id, '')}" for node in graph.nodes]


def test_equality_ignores_metrics_and_metadata() -> None:
    """Exchanges that differ in metrics or metadata only are one: Spark compares name, simple string and children."""
    first = PlanNode("Exchange", 0, "Exchange [plan_id=1]", {"a": "1"}, [Metric("data size", 1, "size")])
    second = PlanNode("Exchange", 2, "Exchange [plan_id=1]", {"a": "2"}, [Metric("data size", 2, "size")])
    graph = graph_of([PlanNode("Union", -1), first, PlanNode("ShuffleQueryStage", 0), second])
    assert [(node.name, [metric.id for metric in node.metrics]) for node in graph.nodes] == [
        ("Union", []),
        ("Exchange", [1]),
    ]


def test_nodes_keep_what_the_plan_says_of_them() -> None:
    """Simple string, metrics and metadata are those of the plan, on clusters too."""
    duration, rows = Metric("duration", 1, "timing"), Metric("number of output rows", 2, "sum")
    plan = [
        PlanNode("WholeStageCodegen (1)", -1, "WholeStageCodegen (1)", {}, [duration]),
        PlanNode("Scan parquet ", 0, "FileScan parquet [id#1L]", {"Format": "Parquet"}, [rows]),
    ]
    cluster, scan = graph_of(plan).nodes
    assert (cluster.simple, cluster.metrics) == ("WholeStageCodegen (1)", [duration])
    assert (scan.simple, scan.metadata, scan.metrics) == (plan[1].simple, {"Format": "Parquet"}, [rows])


def test_inputs_come_left_first_and_a_reused_exchange_has_all_consumers() -> None:
    graph = graph_of(
        draw("""
        SortMergeJoin
          Sort
            Exchange | [plan_id=1]
          ReusedExchange
            Exchange | [plan_id=1]
        """)[0]
    )
    assert graph.children == {0: [1, 2], 1: [2]}
    assert graph.parents == {1: [0], 2: [1, 0]}


DEPTH = 5_000


def _chain(depth: int) -> list[PlanNode]:
    names = ("Project", "WholeStageCodegen (1)", "InputAdapter", "ShuffleQueryStage", "Exchange", "ReusedSubquery")
    return [PlanNode(names[level % len(names)], level - 1, f"level {level}") for level in range(depth)]


def _left_deep_joins(depth: int) -> list[PlanNode]:
    joins = [PlanNode("SortMergeJoin", level - 1, f"join {level}") for level in range(depth)]
    return joins + [PlanNode("Range", level, "Range") for level in range(depth - 1, -1, -1)]


def _reused_at_every_level(depth: int) -> list[PlanNode]:
    """A stage beside each level that reads the same exchange once more."""
    plan = [PlanNode("Union", -1), PlanNode("Exchange", 0, "Exchange [plan_id=1]")]
    for _ in range(depth):
        plan += [PlanNode("ShuffleQueryStage", 0), PlanNode("Exchange", len(plan), "Exchange [plan_id=1]")]
    return plan


@pytest.mark.parametrize(
    ("make", "nodes", "edges"),
    [(_chain, 2501, 1667), (_left_deep_joins, 10_000, 9_999), (_reused_at_every_level, 2, DEPTH + 1)],
)
def test_a_plan_of_5000_levels_takes_linear_time(make: Callable[[int], list[PlanNode]], nodes: int, edges: int) -> None:
    """A plan of 5,000 levels is built without recursion, and twice the levels take twice the work."""
    plan = make(DEPTH)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        graph = graph_of(plan)
    finally:
        sys.setrecursionlimit(limit)
    assert (len(graph.nodes), len(graph.edges)) == (nodes, edges)
    half, whole = make(300), make(600)
    assert steps(lambda: graph_of(whole)) < 2.05 * steps(lambda: graph_of(half))
