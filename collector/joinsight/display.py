"""Spark's display string of a metric, derived from the stored numbers.

For example ``total (min, med, max (stageId: taskId))\\n59.0 B (...)``. The tests compare it, value by value, with what
a running Spark shows.

Source: ``SQLMetrics.stringValue`` (3.x), ``MetricUtils.stringValue`` (4.x), ``Utils.bytesToString``,
``Utils.msDurationToString``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from joinsight.document import Accumulator

_BYTES = [(1 << 60, "EiB"), (1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
_DURATIONS = [(60_000, 1_000, "s", 1), (3_600_000, 60_000, "m", 1)]


def metric_text(a: Accumulator) -> str:
    """The string that Spark's UI shows for this accumulator (Spark 3.5 and later)."""
    if a.text is not None:
        return a.text
    if a.type == "sum":
        return f"{a.sum or 0:,}"
    show = _FORMATS.get(a.type, _unknown)
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


def value_text(kind: str, value: int) -> str:
    """A single value of a metric of this type, with its unit."""
    return _FORMATS.get(kind, "{:,}".format)(value)


def bytes_text(size: int) -> str:
    """``1999.0 B``, ``2.0 KiB``: as in Spark, a unit is used from twice its size on."""
    for unit, name in _BYTES:
        if size >= 2 * unit:
            return f"{_round(size / unit, 1)} {name}"
    return f"{_round(float(size), 1)} B"


def duration_text(ms: int) -> str:
    """``999 ms``, ``1.0 s``, ``1.0 m``, ``1.00 h``; the quotient is a 32-bit float, as in Spark."""
    if ms < 1_000:
        return f"{ms} ms"
    for limit, unit, name, digits in _DURATIONS:
        if ms < limit:
            return f"{_round(_float32(_float32(ms) / unit), digits)} {name}"
    return f"{_round(_float32(_float32(ms) / 3_600_000), 2)} h"


def percent_text(share: float) -> str:
    """``85 %``."""
    return f"{share * 100:,.0f} %"


def _nanoseconds(ns: int) -> str:
    return duration_text(ns // 1_000_000)


def _average(tenfold: int) -> str:
    return f"{Decimal(repr(float(tenfold) / 10)):,f}".removesuffix(".0")


def _unknown(number: int) -> str:
    """As in Spark 4.2 and later; earlier versions fail on unknown types."""
    return f"[unknown] {number:,}"


def _float32(x: float) -> float:
    unpacked: float = struct.unpack("f", struct.pack("f", x))[0]
    return unpacked


def _round(x: float, digits: int) -> Decimal:
    """As Java's ``%.nf`` does: half up on the decimal digits, where Python's ``%`` takes the exact binary value."""
    return Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


_FORMATS = {"size": bytes_text, "timing": duration_text, "nsTiming": _nanoseconds, "average": _average}
