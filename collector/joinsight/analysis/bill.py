"""What a stored execution cost: `timing.cost`, from rows."""

from __future__ import annotations

from collections.abc import Iterable

from joinsight.contract.document import Accumulator, Metric
from joinsight.plan.graph import Graph, Node
from joinsight.plan.metrics import PlanMetrics
from joinsight.tables import Row
from joinsight.timing import cost
from joinsight.timing.cost import Bill
from joinsight.timing.critical_path import Segment
from joinsight.timing.savings import Ran, Savings
from joinsight.timing.stages import Stages
from joinsight.timing.task_time import Spent


def read_bill(facts: PlanMetrics, path: Iterable[Row], task_times: Iterable[Row], shuffles: Iterable[Row]) -> Bill:
    """What an execution cost, from its final plan, and rows of `segment`, `task_time` and `shuffle`."""
    exchanges = {row["node_id"]: (row["map_stages"] or (), row["reduce_stages"] or ()) for row in shuffles}
    segments = (
        Segment(
            row["cause"],
            row["start_ms"],
            row["end_ms"],
            row["stage_id"],
            row["stage_attempt"],
            row["node_id"],
            row["nested_execution_id"],
        )
        for row in path
    )
    spent = (
        Spent(
            row["stage_id"],
            row["stage_attempt"],
            row["part"],
            row["node_id"],
            row["samples"],
            row["task_time_ms"],
            row["task_time_error_ms"],
            row["method"],
            row["work"],
        )
        for row in task_times
    )
    return cost.bill(facts, segments, spent, Stages(facts, exchanges))


def savings(bill: Bill, stages: Iterable[Row]) -> Savings:
    """How much less time it would have taken without each operator; `stages`: rows of `stage`."""
    return Savings(
        bill,
        (
            Ran(
                row["stage_id"],
                row["stage_attempt"],
                round(row["submitted_at"].timestamp() * 1_000),
                round(row["completed_at"].timestamp() * 1_000),
                row["slack_ms"],
            )
            for row in stages
            if row["submitted_at"] is not None and row["completed_at"] is not None
        ),
    )


def read_facts(version: Row | None, metrics: Iterable[Row]) -> PlanMetrics:
    """A plan version with its metrics, of whose stages only that of the largest value is stored."""
    graph = Graph((), ())
    if version is not None:
        nodes = (
            Node(
                node["id"],
                node["name"],
                node["simple"],
                [Metric(name, number, kind) for number, name, kind in node["metrics"]],
                cluster=node["cluster"],
                is_cluster=node["is_cluster"],
            )
            for node in version["nodes"]
        )
        graph = Graph(tuple(nodes), tuple((child, parent) for child, parent in version["edges"]))
    measured = {
        row["accumulator_id"]: Accumulator(
            row["accumulator_id"],
            row["type"],
            row["count"],
            row["total"],
            min=row["min"],
            median=row["median"],
            p95=row["p95"],
            max=row["max"],
            max_stage=row["max_stage_id"],
            max_stage_attempt=row["max_stage_attempt"],
            max_task=row["max_task_id"],
            stages=[] if row["max_stage_id"] is None else [row["max_stage_id"]],
        )
        for row in metrics
        if row["count"] is not None
    }
    return PlanMetrics(graph, measured)
