"""How a regression reads: what became worse, and how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _duration(ms: float) -> str:
    return duration_text(round(ms))


def _bytes(number: float) -> str:
    return bytes_text(round(number))


def _share(number: float) -> str:
    return f"{number:.0%}"


MEASURES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "duration_ms": ("duration", _duration),
    "failed": ("failures", _share),
    "cancelled": ("cancelled runs", _share),
    "spill_bytes": ("spill", _bytes),
    "output_ratio": ("output", ratio_text),
    "bytes_written": ("bytes written", _bytes),
    "skew_ratio": ("skew", ratio_text),
    "fetch_wait_ms": ("fetch wait", _duration),
    "size_bytes": ("size", _bytes),
    "driver_ms": ("driver time", _duration),
    "cost_wall_ms": ("wall time", _duration),
    "cost_task_ms": ("task time", _duration),
}
"""The title of each measure, and how a value of it is written."""


def measure(row: Row) -> str:
    """``duration``, ``join wall time``: what got worse."""
    title, _ = MEASURES[row["measure"]]
    return title if row["subject"] == "query" else f"{row['subject']} {title}"


def value(row: Row, name: str) -> str:
    """The value in a column, in the unit of the measure."""
    _, written = MEASURES[row["measure"]]
    return written(row[name])


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
