"""How a comparison of two executions reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from joinsight.analysis.comparison import Comparison, MeasureChange
from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.present.values import query_title
from joinsight.tables import Row


def verdicts(comparison: Comparison) -> Iterator[tuple[str, bool]]:
    """Sentences about query, plan, job and Spark, each with whether it differs or is unknown."""
    a, b = comparison.a.execution, comparison.b.execution
    if comparison.same_query is None:
        yield "Unknown whether this is the same query: a shape is missing.", True
    elif not comparison.same_query:
        yield f"These are different queries: shape {a['query_shape']} and {b['query_shape']}.", True
    else:
        yield f"The same query: shape {a['query_shape']}.", False
    if comparison.same_plan is None:
        yield "Unknown whether this is the same plan: a fingerprint is missing.", True
    elif not comparison.same_plan:
        yield f"Another plan: {a['plan_fingerprint']} → {b['plan_fingerprint']}.", True
    else:
        yield f"The same plan: {a['plan_fingerprint']}.", False
    if a["job_name"] != b["job_name"]:
        yield f"Another job: {a['job_name']} → {b['job_name']}.", True
    before, after = (run.application["spark_version"] for run in (comparison.a, comparison.b))
    yield (f"Spark {after}.", False) if before == after else (f"Another Spark: {before} → {after}.", True)


def started_text(execution: Row) -> str:
    """``execution 35: Writing modified data``."""
    return f"execution {execution['execution_id']}: {query_title(execution)}"


def not_compared(comparison: Comparison) -> Iterator[str]:
    """What is left out of the executions that a command started."""
    for letter, run in (("A", comparison.a), ("B", comparison.b)):
        of, its = run.execution["nested"] or 0, len(run.started)
        if 0 < its < of:
            yield f"Of the {of:,} executions that {letter} started, the longest, {its}, are compared."


def value(change: MeasureChange, value: Any) -> str:
    """A value of a change, in the unit of its measure."""
    if value is None:
        return "–"
    unit = change.measure.unit
    if unit == "bytes":
        return bytes_text(value)
    if unit == "ms":
        return duration_text(value)
    if unit == "ns":
        return duration_text(value // 1_000_000)
    if unit == "ratio":
        return ratio_text(value)
    return str(value) if unit == "text" else f"{value:,}"


def difference(change: MeasureChange) -> str:
    """``+35 %``, ``3.3×``; empty for a text, without a value after, and from nothing."""
    if change.measure.unit == "text" or not change.before or change.after is None:
        return ""
    factor = change.after / change.before
    return ratio_text(factor) if factor >= 2 else f"{factor - 1:+.0%}".replace("%", " %").replace("-", "−")
