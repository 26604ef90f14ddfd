"""Spark's display string of a metric, derived from the stored numbers.

For example ``total (min, med, max (stageId: taskId))\\n59.0 B (...)``. The tests compare it, value by value, with what
a running Spark shows.

Source: ``SQLMetrics.stringValue`` (3.x), ``MetricUtils.stringValue`` (4.x), ``Utils.msDurationToString``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from joinsight.base.units import FORMATS, bytes_text, round_half_up
from joinsight.contract.document import Accumulator

_DURATIONS = [(60_000, 1_000, "s", 1), (3_600_000, 60_000, "m", 1)]
_WITHOUT_CLASS = "N/A"
"""What Spark shows for a metric of a data source whose class is not on its class path."""
_ICEBERG = "v2Custom_org.apache.iceberg.spark.source.metrics."
_ICEBERG_WITH_SEPARATORS = ("NumSplits", "NumDeletes")
_PYTHON = "v2Custom_org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric"


def metric_text(a: Accumulator) -> str:
    """The string that Spark's UI shows for this accumulator (Spark 3.5 and later)."""
    if a.text == _WITHOUT_CLASS:
        return _without_class(a)
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


def _without_class(a: Accumulator) -> str:
    """What the class of a data source's metric would say, where it is known; else the sum, marked as such.

    Event logs name the class only. Source: Iceberg 1.12's ``spark.source.metrics``, Spark's ``PythonCustomMetric``.
    """
    if a.type.startswith(_ICEBERG):
        return f"{a.sum or 0:,}" if a.type.endswith(_ICEBERG_WITH_SEPARATORS) else str(a.sum or 0)
    if a.type == _PYTHON:
        return metric_text(replace(a, type="size", max_stage=None, text=None))
    return f"{a.sum:,} (sum)" if a.count and a.sum is not None else _WITHOUT_CLASS


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


def spark_duration(ms: int) -> str:
    """``999 ms``, ``1.0 s``, ``1.0 m``, ``1.00 h``; the quotient is a 32-bit float, as in Spark."""
    if ms < 1_000:
        return f"{ms} ms"
    for limit, unit, name, digits in _DURATIONS:
        if ms < limit:
            return f"{round_half_up(_float32(_float32(ms) / unit), digits)} {name}"
    return f"{round_half_up(_float32(_float32(ms) / 3_600_000), 2)} h"


def _nanoseconds(ns: int) -> str:
    return spark_duration(ns // 1_000_000)


def _float32(x: float) -> float:
    unpacked: float = struct.unpack("f", struct.pack("f", x))[0]
    return unpacked


def _bytes(size: int) -> str:
    return bytes_text(size).replace(",", "").replace(" B", ".0 B")


_FORMATS = {**FORMATS, "size": _bytes, "timing": spark_duration, "nsTiming": _nanoseconds}
