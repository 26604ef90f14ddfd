"""How a regression reads: what became worse, and how much."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.present.values import when

if TYPE_CHECKING:
    from joinsight.tables import Row

KINDS = {"plan_changed": "plan changed", "data_grew": "data grew", "same_plan": "same plan"}


def measure(row: Row) -> str:
    """``join spill``, ``join wall time``: the measure without its unit."""
    words = row["measure"].removesuffix("_ms").removesuffix("_ratio").removesuffix("_bytes").replace("_", " ")
    if words.startswith("cost "):
        words = f"{words.removeprefix('cost ')} time"
    return words if row["subject"] == "query" else f"{row['subject']} {words}"


def value(row: Row, name: str) -> str:
    """The value in a column, in the unit of the measure."""
    number, measured = row[name], row["measure"]
    if measured.endswith("_ratio"):
        return ratio_text(number)
    return duration_text(round(number)) if measured.endswith("_ms") else bytes_text(round(number))


def none_found(counted: Row, since: datetime, minimum_runs: int, recent_runs: int) -> str:
    """Why there is nothing to show: no runs, too few, or no regression; `counted` by `reading.count_comparable`."""
    if not counted["queries"]:
        return f"No successful runs since {when(since)}."
    if not counted["comparable"]:
        needed = f"a query needs {recent_runs} successful runs since {when(since)} and {minimum_runs} before"
        most = f"the most of one query: {counted['recent']} since then, {counted['earlier']} before"
        return f"Not enough runs to compare: {needed} ({most})."
    return f"No regressions since {when(since)}: {counted['comparable']:,} of {counted['queries']:,} queries compared."
