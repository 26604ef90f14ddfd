"""Spark's display string of a metric, derived from the stored numbers.

For example ``total (min, med, max (stageId: taskId))\\n59.0 B (...)``. The tests compare it, value by value, with what
a running Spark shows.

Source: ``SQLMetrics.stringValue`` (3.x), ``MetricUtils.stringValue`` (4.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joinsight.base.units import FORMATS
from joinsight.contract.document import Accumulator


def metric_text(a: Accumulator) -> str:
    """The string that Spark's UI shows for this accumulator (Spark 3.5 and later)."""
    if a.text is not None:
        return a.text
    if a.type == "sum":
        return f"{a.sum or 0:,}"
    show = FORMATS.get(a.type, _unknown)
    if a.count <= 1 or a.min is None or a.median is None or a.max is None:
        return show(a.sum or 0)
    where = "driver"
    if a.max_stage is not None:
        where = f"stage {a.max_stage}.{a.max_stage_attempt}: task {a.max_task}"
    spread = f"({show(a.min)}, {show(a.median)}, {show(a.max)} ({where}))"
    if a.type == "average":
        return f"(min, med, max (stageId: taskId)):\n{spread}"
    return f"total (min, med, max (stageId: taskId))\n{show(a.sum or 0)} {spread}"


def row_text(row: Mapping[str, Any]) -> str | None:
    """`metric_text` of a row of table ``node_metric``; None where Spark's UI shows nothing."""
    if row["count"] is None:
        return None
    where = row["max_stage_id"], row["max_stage_attempt"], row["max_task_id"]
    numbers = row["total"], row["min"], row["median"], row["p95"], row["max"]
    return metric_text(
        Accumulator(row["accumulator_id"], row["type"], row["count"], *numbers, *where, text=row["text"])
    )


def _unknown(number: int) -> str:
    """As in Spark 4.2 and later; earlier versions fail on unknown types."""
    return f"[unknown] {number:,}"
