"""What the run time of an execution's tasks went into, summed over its stages: a line for each operator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.tables import Row

_MOST = 20
"""Lines; the rest is summed up."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """A part of the time; `place` names the operator, or the codegen stage with its operators."""

    part: str
    ms: int
    error: str
    """``± 12 ms``, or empty if it is measured."""
    share: float
    place: str


def by_operator(plan: StoredPlan) -> list[OperatorTime]:
    """The parts, the largest first; none if nothing was sampled."""
    if all(row["samples"] is None for row in plan.task_times):
        return []
    total = sum(row["task_time_ms"] for row in plan.task_times)
    rows: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in plan.task_times:
        rows[row["part"], row["node_id"]].append(row)
    parts = sorted(rows.items(), key=lambda each: -_ms(each[1]))
    shown = [(part, node, group) for (part, node), group in parts[:_MOST]]
    if len(parts) > _MOST:
        shown.append((f"{len(parts) - _MOST} more", None, [row for _, group in parts[_MOST:] for row in group]))
    return [
        OperatorTime(part, _ms(group), _error(group), _ms(group) / total, _place(plan, node))
        for part, node, group in shown
    ]


def _ms(rows: Sequence[Row]) -> int:
    return sum(row["task_time_ms"] for row in rows)


def _error(rows: Sequence[Row]) -> str:
    errors = [row["task_time_error_ms"] for row in rows if row["task_time_error_ms"] is not None]
    return f"± {duration_text(math.ceil(math.hypot(*errors)))}" if errors else ""


def _place(plan: StoredPlan, node_id: int | None) -> str:
    if node_id is None:
        return ""
    nodes = {node["id"]: node for node in plan.versions[-1]["nodes"]}
    name = f"{nodes[node_id]['name']}, node {node_id}"
    inside = [node["name"] for node in nodes.values() if node["cluster"] == node_id]
    return f"{name}: {', '.join(inside)}" if inside else name
