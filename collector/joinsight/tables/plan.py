"""Rows of an execution's plans: the versions, the nodes, edges and metrics of the last one, and what AQE decided.

All but AQE's decisions are stored packed (`packed`).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index

from joinsight.tables.declare import Bytes, ExecutionKey, Int, Json, Long, Ms, Rows, Strings, column, required, table_of


class PlanVersionRow(ExecutionKey, frozen=True, kw_only=True):
    """A version of an execution's physical plan. The last version is the final plan."""

    version: Int = required("0 for the initial plan, incremented each time AQE replans")
    planned_at: datetime = required("when the driver reported this plan")
    is_final: bool = required("whether it is the last known version")
    plan_fingerprint: str | None = column("key of the plan, equal in all runs with the same plan")
    nodes: Json = required("nodes as Spark's UI numbers them: id, name, simple, cluster, metrics (ids)")
    edges: Json = required("pairs of child and parent node id")


class PlanNodeRow(ExecutionKey, frozen=True, kw_only=True):
    """A node of the final plan, numbered as in Spark's UI."""

    node_id: Int = required("Spark's node id, valid in this plan version only")
    operator_key: str | None = column(
        "key of the operator, equal in all runs; NULL: a frame or reader, and in older rows all but exchanges and joins"
    )
    name: str = required("the operator, e.g. SortMergeJoin")
    simple: str = required("Spark's simpleString: the operator with its arguments")
    cluster_id: Int | None = column("node id of the WholeStageCodegen cluster around it")
    is_cluster: bool = required("whether it is a WholeStageCodegen cluster")
    task_time_ms: Ms | None = column("run time of tasks that went into it (docs/task-time.md); NULL: unknown")
    task_time_error_ms: Ms | None = column("its standard error; NULL: not sampled")
    task_time_method: str | None = column("sampled, or metrics: measured by Spark")
    metadata: Strings | None = column(
        "of file scans: location, format, filters, read schema; of commands that print only their name: Command, Table;"
        " Fallback: why Spark ran it, and not Comet"
    )


class PlanEdgeRow(ExecutionKey, frozen=True, kw_only=True):
    """An edge of the final plan. A reused exchange has an edge to every consumer."""

    position: Int = required("Spark's order of edges: a parent's inputs from left to right")
    child_id: Int = required("node id that the rows come from")
    parent_id: Int = required("node id that the rows go to")


class AqeDecisionRow(ExecutionKey, frozen=True, kw_only=True):
    """A change that AQE made to a running plan, recorded once, at the first plan version that shows it."""

    version: Int = required("the plan version that it produced")
    position: Int = required("position within the version, from 0")
    decided_at: datetime = required("when the driver reported this version")
    kind: str = required(
        "the kind of decision; docs/aqe.md lists the kinds and what before, after, bytes and rows mean for each"
    )
    node_id: Int | None = column("the node in this version, not in the final plan; NULL: it no longer exists")
    operator_key: str | None = column("key of the join or exchange concerned; NULL: neither")
    operator: str = required("name of the node, or of the previous node if it no longer exists")
    before: str | None = column("the previous strategy, number of partitions, operator or partitioning")
    after: str | None = column("what replaced it; NULL: nothing")
    bytes_before: Bytes | None = column("size before, as counted by its shuffle; NULL: not measured")
    bytes_after: Bytes | None = column("size after; NULL: not measured")
    rows_before: Rows | None = column("number of rows in bytes_before")
    rows_after: Rows | None = column("number of rows in bytes_after")


aqe_decision = table_of(
    AqeDecisionRow, "aqe_decision", Index(None, "operator_key", "started_at"), key=("version", "position")
)


class NodeMetricRow(ExecutionKey, frozen=True, kw_only=True):
    """A metric of a plan node over its tasks, or of the driver. The type determines the unit."""

    node_id: Int = required("node of the final plan; -1: the metric belongs to a node that AQE replaced")
    accumulator_id: Long = required("Spark's accumulator id; not unique across executions")
    name: str = required("Spark's name of the metric")
    type: str = required("sum (a number), size (bytes), timing (ms), nsTiming (ns), average (tenfold), v2Custom_*")
    count: Long | None = column("number of values: tasks and driver updates; NULL: nothing was reported")
    total: Long | None = column("sum of the values; NULL: not measured")
    min: Long | None = column("smallest value")
    median: Long | None = column("Spark's median: the element at count/2 of the sorted values")
    p95: Long | None = column("95th percentile: the element at count*95/100 of the sorted values")
    max: Long | None = column("largest value")
    max_stage_id: Int | None = column("stage of the largest value; NULL: the driver")
    max_stage_attempt: Int | None = column("attempt of that stage")
    max_task_id: Long | None = column("task of the largest value")
    text: str | None = column("v2Custom metrics: the values as formatted by the metric's own class")
