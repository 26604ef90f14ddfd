"""Plans, metrics, times and costs, each stored as one row for an execution: how they are packed and unpacked.

Why: docs/decisions/018-plans-in-one-row.md and 020-times-in-one-row.md.
Python has a row for each metric, node, edge, segment and so on until they are written, and so have all readers, who
only know the views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql

from joinsight.tables.cost import CostRow
from joinsight.tables.declare import (
    EXECUTION_KEY,
    ExecutionKey,
    Json,
    Ms,
    column,
    columns_of,
    required,
    table_of,
    total,
    values_of,
)
from joinsight.tables.plan import NodeMetricRow, PlanEdgeRow, PlanNodeRow, PlanVersionRow
from joinsight.tables.segment import SegmentRow
from joinsight.tables.task_time import TaskTimeRow
from joinsight.timing.cost_kinds import KINDS, WITH_TASKS

_KEY = len(EXECUTION_KEY)
_SHARED = ("name", "simple", "is_cluster", "metrics")
"""What nodes of several plan versions have in common, if they are one; the first values of a packed node."""


class ExecutionMetricsRow(ExecutionKey, frozen=True, kw_only=True):
    """The metrics of an execution's nodes in one value, an eighth of the space of a row each; see node_metric."""

    metrics: Json = required("for each metric a list: the values of the columns of node_metric, from node_id on")


class ExecutionPlansRow(ExecutionKey, frozen=True, kw_only=True):
    """The plan versions of an execution with each node once; see plan_version, plan_node and plan_edge."""

    nodes: Json = required(
        "for each node a list: name, simple, is_cluster, metrics; in the final plan also the other columns of plan_node"
    )
    versions: Json = required(
        "for each version a list: planned_at, plan_fingerprint, edges, nodes (id, cluster, position in column nodes)"
    )


class ExecutionTimesRow(ExecutionKey, frozen=True, kw_only=True):
    """Where the time of an execution went; see segment and task_time."""

    segments: Json = required("for each segment a list: the values of the columns of segment, from cause on")
    task_times: Json = required("for each part a list: the values of the columns of task_time, from stage_id on")


def _times_by_kind() -> Iterator[tuple[str, str]]:
    """The columns of an execution's costs after the key, with their comments."""
    yield "wall_ms", "sum of the kinds but nested, milliseconds; NULL: it has not ended"
    yield "task_ms", "time of tasks, summed over the kinds, milliseconds; NULL: nothing is known"
    for kind in KINDS:
        yield f"{kind}_wall_ms", f"wall_ms of kind {kind} of cost"
        if kind in WITH_TASKS:
            yield f"{kind}_task_ms", f"task_ms of kind {kind} of cost"


_COSTS = dict(_times_by_kind())
_RowType: Any = type(ExecutionKey)
ExecutionCostsRow: Any = _RowType(
    "ExecutionCostsRow",
    (ExecutionKey,),
    {
        "__module__": __name__,
        "__doc__": "What an execution cost by kind of work, a column each, which add up faster than rows; see cost.",
        "__annotations__": {"job_name": str, **dict.fromkeys(_COSTS, Ms | None)},
        "job_name": required("the job"),
        **{name: column(comment) for name, comment in _COSTS.items()},
    },
    frozen=True,
    kw_only=True,
)

execution_metrics = table_of(ExecutionMetricsRow, "execution_metrics")
execution_plans = table_of(ExecutionPlansRow, "execution_plans")
execution_times = table_of(ExecutionTimesRow, "execution_times")
execution_costs = table_of(ExecutionCostsRow, "execution_costs")
PACKED = (execution_plans, execution_metrics, execution_times, execution_costs)
"""Tables whose rows the views of `UNPACKED` show."""


def pack_metrics(rows: Sequence[NodeMetricRow]) -> list[ExecutionMetricsRow]:
    """The row of an execution with these metrics; none without metrics."""
    if not rows:
        return []
    return [ExecutionMetricsRow(**_key_of(rows[0]), metrics=_packed(rows, _KEY))]


def pack_plans(versions: Sequence[PlanVersionRow], nodes: Sequence[PlanNodeRow]) -> list[ExecutionPlansRow]:
    """The row of an execution with these plans and the nodes of the final one; none without plans."""
    if not versions:
        return []
    packed: list[list[Any]] = []
    positions: dict[tuple[object, ...], int] = {}

    def position(node: Mapping[str, Any], *of_final_plan: Any) -> int:
        # Metrics by identity: versions share the lists
        key = node["name"], node["simple"], node["is_cluster"], id(node["metrics"])
        known = None if of_final_plan else positions.get(key)
        if known is None:
            known = positions[key] = len(packed)
            packed.append([*(node[name] for name in _SHARED), *of_final_plan])
        return known

    def version_of(row: PlanVersionRow, at: Sequence[int]) -> list[Any]:
        nodes = [[node["id"], node["cluster"], where] for node, where in zip(row.nodes, at, strict=True)]
        return [row.planned_at, row.plan_fingerprint, row.edges, nodes]

    *earlier, final = versions
    own = [[getattr(row, name) for name in _OWN] for row in nodes]
    of_final = [position(node, *values) for node, values in zip(final.nodes, own, strict=True)]
    made = [version_of(row, [position(node) for node in row.nodes]) for row in earlier]
    return [ExecutionPlansRow(**_key_of(final), nodes=packed, versions=[*made, version_of(final, of_final)])]


def pack_times(segments: Sequence[SegmentRow], task_times: Sequence[TaskTimeRow]) -> list[ExecutionTimesRow]:
    """The row of an execution with these times, whose positions are those in their lists; none without times."""
    first = next(chain(segments, task_times), None)
    if first is None:
        return []
    return [
        ExecutionTimesRow(
            **_key_of(first), segments=_packed(segments, _KEY + 1), task_times=_packed(task_times, _KEY + 1)
        )
    ]


def pack_costs(job_name: str, costs: Sequence[CostRow]) -> list[Any]:
    """The `ExecutionCostsRow` of an execution with these costs; none without costs."""
    if not costs:
        return []
    own = [cost for cost in costs if cost.kind != "nested"]
    values = {f"{cost.kind}_wall_ms": cost.wall_ms for cost in costs}
    values |= {f"{cost.kind}_task_ms": cost.task_ms for cost in costs if cost.kind in WITH_TASKS}
    return [
        ExecutionCostsRow(
            **_key_of(costs[0]),
            job_name=job_name,
            wall_ms=total(cost.wall_ms for cost in own),
            task_ms=total(cost.task_ms for cost in own),
            **values,
        )
    ]


def _packed(rows: Sequence[ExecutionKey], start: int) -> list[Sequence[Any]]:
    """The values of rows of one class, from a position on."""
    values = values_of(type(rows[0])) if rows else None
    return [values(row)[start:] for row in rows] if values else []


def _key_of(row: ExecutionKey) -> dict[str, Any]:
    return {name: getattr(row, name) for name in EXECUTION_KEY}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A view of a packed table."""

    row: type
    table: Table
    key: Sequence[str]
    """Its key, after the execution's."""
    source: str
    """What is unpacked, after ``FROM table o``."""
    values: Mapping[str, str]
    """The SQL of each column but those of the execution's key."""


def _own(row: type) -> list[str]:
    return [column.name for column in columns_of(row)][_KEY:]


def _listed(row: type, value: str, names: Sequence[str]) -> dict[str, str]:
    """The SQL of columns whose values are a list, in the order of `names`."""
    kinds = {each.name: each.type.compile(dialect=postgresql.dialect()).lower() for each in columns_of(row)}  # type: ignore[no-untyped-call]
    return {name: f"({value} ->> {names.index(name)})::{kinds[name]}" for name in _own(row) if name in names}


_OWN = [name for name in _own(PlanNodeRow) if name not in _SHARED]
"""The columns of `plan_node` that a packed node has after `_SHARED`."""

_POSITION = "position"
"""A column that is not packed: the place in the list."""


def _in_order(row: type, column: str) -> Unpacked:
    """A view of rows with a position, of a column of `execution_times`."""
    names = [name for name in _own(row) if name != _POSITION]
    return Unpacked(
        row,
        execution_times,
        (_POSITION,),
        f", jsonb_array_elements(o.{column}) WITH ORDINALITY AS t (time, position)",
        {_POSITION: "(t.position - 1)::integer", **_listed(row, "t.time", names)},
    )


_KINDS = ",\n    ".join(
    f"('{kind}', o.{kind}_wall_ms, {f'o.{kind}_task_ms' if kind in WITH_TASKS else 'NULL'})" for kind in KINDS
)

_NODES = """(
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'id', n.node -> 0, 'name', s.node -> 0, 'simple', s.node -> 1, 'cluster', n.node -> 1,
            'is_cluster', s.node -> 2, 'metrics', s.node -> 3
        ) ORDER BY n.position), '[]')
        FROM jsonb_array_elements(v.version -> 3) WITH ORDINALITY AS n (node, position)
        JOIN jsonb_array_elements(o.nodes) WITH ORDINALITY AS s (node, position) ON s.position = (n.node ->> 2)::int + 1
    )"""

UNPACKED: Mapping[str, Unpacked] = {
    "plan_version": Unpacked(
        PlanVersionRow,
        execution_plans,
        ("version",),
        ", jsonb_array_elements(o.versions) WITH ORDINALITY AS v (version, position)",
        {
            "version": "(v.position - 1)::integer",
            "is_final": "v.position = jsonb_array_length(o.versions)",
            **_listed(PlanVersionRow, "v.version", ("planned_at", "plan_fingerprint")),
            "nodes": _NODES,
            "edges": "v.version -> 2",
        },
    ),
    "plan_node": Unpacked(
        PlanNodeRow,
        execution_plans,
        ("node_id",),
        f", jsonb_array_elements(o.nodes) AS s (node)\nWHERE jsonb_array_length(s.node) > {len(_SHARED)}",
        _listed(PlanNodeRow, "s.node", (*_SHARED, *_OWN)),
    ),
    "plan_edge": Unpacked(
        PlanEdgeRow,
        execution_plans,
        ("position",),
        ", jsonb_array_elements(o.versions -> -1 -> 2) WITH ORDINALITY AS e (edge, position)",
        {"position": "(e.position - 1)::integer", **_listed(PlanEdgeRow, "e.edge", ("child_id", "parent_id"))},
    ),
    "node_metric": Unpacked(
        NodeMetricRow,
        execution_metrics,
        ("node_id", "accumulator_id"),
        ", jsonb_array_elements(o.metrics) AS m (metric)",
        _listed(NodeMetricRow, "m.metric", _own(NodeMetricRow)),
    ),
    "segment": _in_order(SegmentRow, "segments"),
    "task_time": _in_order(TaskTimeRow, "task_times"),
    "cost": Unpacked(
        CostRow,
        execution_costs,
        ("kind",),
        f", LATERAL (VALUES\n    {_KINDS}\n) AS c (kind, wall_ms, task_ms)\n"
        "WHERE c.wall_ms IS NOT NULL OR c.task_ms IS NOT NULL",
        {name: f"c.{name}" for name in _own(CostRow)},
    ),
}
