"""What a plan's picture says at a node: what it is, what it does, and its rows, bytes, time and skew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from joinsight.findings.wording import plain
from joinsight.plan import operators
from joinsight.rows import Row

# What says nothing about the query: ids, the standard reason of a shuffle, the standard catalog
_NOISE = re.compile(r",? ?\[plan_id=\d+\]|,? ?\[id=#\d+\]|, ENSURE_REQUIREMENTS\b|\bspark_catalog\.")

# The first of these metrics that a node has is shown
_ROW_METRICS = ("shuffle records written", "number of output rows")
OF_FILES = "size of files read"
_BYTE_METRICS = (
    "shuffle bytes written",
    "data size of build side",
    "data size",
    "partition data size",
    OF_FILES,
    "written output",
)
# All of these that a node has are added up, in the unit of their type
_TIME_METRICS = frozenset(
    {
        "shuffle write time",
        "fetch wait time",
        "time to collect",
        "time to build",
        "time to broadcast",
        "time to build hash map",
        "sort time",
        "scan time",
        "time in aggregation build",
        "task commit time",
        "job commit time",
    }
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a node cost; None where it was not measured."""

    rows: int | None = None
    bytes: int | None = None
    bytes_are: str = ""
    """``of files``, where bytes are not those of rows that come out: tasks may read less of them, or more."""
    time_ms: int | None = None
    """Added over tasks; of a broadcast the driver's, `rows.driver_ms`."""
    read: Row | None = None
    """The spread of the rows that its readers' tasks read, for a shuffle that several tasks read."""

    @property
    def skew(self) -> float | None:
        """Rows of the largest task to those of the median one."""
        return None if self.read is None else float(self.read["max"] / self.read["median"])


def numbers(node: Row, measured: Mapping[int, Row]) -> Numbers:
    """Of a node of a plan version; `measured` has the execution's metrics by accumulator."""
    by_name = {name: measured[i] for i, name, _ in node["metrics"] if i in measured}
    times = [row for name, row in by_name.items() if name in _TIME_METRICS and row["total"] is not None]
    read = by_name.get("records read")
    spread = read is not None and read["median"] and read["max"] and (read["count"] or 0) >= 2
    size = next((name for name in _BYTE_METRICS if name in by_name), None)
    return Numbers(
        next((by_name[name]["total"] for name in _ROW_METRICS if name in by_name), None),
        None if size is None else by_name[size]["total"],
        "of files" if size == OF_FILES else "",
        sum(row["total"] // 1_000_000 if row["type"] == "nsTiming" else row["total"] for row in times)
        if times
        else None,
        read if spread else None,
    )


def kind(name: str) -> str:
    """``broadcast``, ``shuffle``, ``join``, or empty for all other operators."""
    if operators.is_broadcast(name):
        return "broadcast"
    if operators.is_shuffle(name):
        return "shuffle"
    return "join" if operators.join_strategy(name) else ""


def codegen(cluster_name: str) -> str:
    """``(2)`` of WholeStageCodegen (2); empty if the name says no number."""
    found = re.search(r"\(\d+\)", cluster_name)
    return found[0] if found else ""


def describe(node: Row) -> str:
    """The operator with its arguments, on one line, without what says nothing about the query."""
    return clean(node["simple"]) or node["name"] or "(no plan)"


def clean(text: str) -> str:
    """Spark's text of an operator without what says nothing about the query, on one line."""
    return " ".join(_NOISE.sub("", plain(text)).split())
