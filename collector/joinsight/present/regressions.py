"""How a regression reads: what became worse, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.present.values import when

if TYPE_CHECKING:
    from joinsight.tables import Row

KINDS = {
    "plan_changed": "plan changed",
    "data_grew": "data grew",
    "same_plan": "same plan",
    "edited": "query edited",
    "failing": "failing",
}
_SHARES = {"failed": "failures", "cancelled": "cancelled runs"}


def measure(row: Row) -> str:
    """``join spill``, ``join wall time``: the measure without its unit."""
    if row["measure"] in _SHARES:
        return _SHARES[row["measure"]]
    words = row["measure"].removesuffix("_ms").removesuffix("_ratio").removesuffix("_bytes").replace("_", " ")
    if words.startswith("cost "):
        words = f"{words.removeprefix('cost ')} time"
    return words if row["subject"] == "query" else f"{row['subject']} {words}"


def value(row: Row, name: str) -> str:
    """The value in a column, in the unit of the measure."""
    number, measured = row[name], row["measure"]
    if measured in _SHARES:
        return f"{number:.0%}"
    if measured.endswith("_ratio"):
        return ratio_text(number)
    return duration_text(round(number)) if measured.endswith("_ms") else bytes_text(round(number))


_SAME = 0.15
"""How much data and CPU time of two runs may differ to be called the same."""


def reason(work: tuple[Row, Row] | None) -> str:
    """Why a run was slower than another, as far as their plans, data and CPU time say; empty if they do not say it.

    `work` is that of `trends.read_work`: ``same plan, same data, same CPU time: the machine was busy``.
    """
    if work is None:
        return ""
    before, now = work
    if before["plan_fingerprint"] != now["plan_fingerprint"]:
        return "another plan"
    sizes = [(before[name] or 0, now[name] or 0) for name in ("input_bytes", "shuffle_write_bytes")]
    if not all(_is_same(*each) for each in sizes):
        [a, b] = next(each for each in sizes if not _is_same(*each))
        return f"same plan, {ratio_text(b / a)} the data" if a else "same plan, other data"
    if not before["cpu_time_ms"] or not now["cpu_time_ms"]:
        return ""
    if _is_same(before["cpu_time_ms"], now["cpu_time_ms"]):
        return "same plan, same data, same CPU time, slower: the machine was busy"
    return f"same plan, same data, {ratio_text(now['cpu_time_ms'] / before['cpu_time_ms'])} the CPU time"


def _is_same(a: float, b: float) -> bool:
    return abs(a - b) <= _SAME * max(a, b)


def causes_text(causes: Sequence[Row]) -> str:
    """``data +38.9 s, skew +2.1 s``: of rows with code and wall_ms."""
    return ", ".join(f"{each['code']} +{duration_text(each['wall_ms'])}" for each in causes)


def none_found(counted: Row, since: datetime, minimum_runs: int, recent_runs: int) -> str:
    """Why there is nothing to show: no runs, too few, or no regression; `counted` by `reading.count_comparable`."""
    if not counted["queries"]:
        return f"No successful runs since {when(since)}."
    if not counted["comparable"]:
        recent, earlier = (min(counted["recent"], recent_runs), min(counted["earlier"], minimum_runs))
        return (
            f"Not enough runs to compare ({recent + earlier} of {recent_runs + minimum_runs} so far): a query needs"
            f" {recent_runs} successful runs since {when(since)} and {minimum_runs} before."
        )
    return f"No regressions since {when(since)}: {counted['comparable']:,} of {counted['queries']:,} queries compared."


def slower_than_last(row: Row) -> str:
    """``12.0 s → 24.0 s, 2.0×; same plan, 1.9× the data``: a row of `trends.read_slower_than_last`."""
    took = f"{duration_text(row['baseline'])} → {duration_text(row['duration_ms'])}, {ratio_text(row['factor'])}"
    return "; ".join(filter(None, (took, reason(row["work"]))))
