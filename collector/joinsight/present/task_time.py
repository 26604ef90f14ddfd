"""What the run time of an execution's tasks went into, summed over its stages: a line for each operator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.tables import Row
from joinsight.timing.task_time import kinds_of_work, work_text

_MOST = 20
"""Lines; the rest is summed up."""
_MOST_WORKS = 2
"""Kinds of work of a line."""
_LEAST_WORK = 0.1
"""Share of a line's time from which on a kind of work is named."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """A part of the time; `place` names the operator, or the codegen stage with its operators."""

    part: str
    ms: int
    error: str
    """``± 12 ms``, or empty if it is measured."""
    share: float
    place: str
    work: str
    """``regular expressions 81 %``: the kinds of work that most of it went into; empty if none is known."""


def by_operator(stored: StoredPlan) -> list[OperatorTime]:
    """The parts, the largest first; none if nothing was sampled."""
    if all(row["samples"] is None for row in stored.task_times):
        return []
    total = max(1, sum(row["task_time_ms"] for row in stored.task_times))  # 0: all tasks were cancelled at once
    rows: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in stored.task_times:
        rows[row["part"], row["node_id"]].append(row)
    parts = sorted(rows.items(), key=lambda each: -_ms(each[1]))
    shown = [(part, node, group) for (part, node), group in parts[:_MOST]]
    if len(parts) > _MOST:
        shown.append((f"{len(parts) - _MOST} more", None, [row for _, group in parts[_MOST:] for row in group]))
    return [
        OperatorTime(part, _ms(group), _error(group), _ms(group) / total, _place(stored, node), work_of(group))
        for part, node, group in shown
    ]


def works(stored: StoredPlan) -> Mapping[int, str]:
    """What each operator or codegen stage was at for the most part, by node: ``regular expressions 81 %``."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in stored.task_times:
        if row["node_id"] is not None:
            rows[row["node_id"]].append(row)
    return {node_id: text for node_id, each in rows.items() if (text := work_of(each))}


def work_of(rows: Sequence[Row]) -> str:
    """The kinds of work that most of these rows of `task_time` went into; empty if none is known."""
    largest = [(work, share) for work, share in kinds_of_work(rows)[:_MOST_WORKS] if share >= _LEAST_WORK]
    return ", ".join(f"{work_text(work)} {share:.0%}".replace("%", " %") for work, share in largest)


def _ms(rows: Sequence[Row]) -> int:
    return sum(row["task_time_ms"] for row in rows)


def _error(rows: Sequence[Row]) -> str:
    errors = [row["task_time_error_ms"] for row in rows if row["task_time_error_ms"] is not None]
    return f"± {duration_text(math.ceil(math.hypot(*errors)))}" if errors else ""


def _place(stored: StoredPlan, node_id: int | None) -> str:
    if node_id is None:
        return ""
    graph = stored.plan.graph
    name = f"{graph.by_id[node_id].name}, node {node_id}"
    inside = [node.name for node in graph.nodes if node.cluster == node_id]
    return f"{name}: {', '.join(inside)}" if inside else name
