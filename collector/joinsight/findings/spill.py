"""Sorts, aggregates and joins that had not enough memory and went through the disk."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.display import bytes_text
from joinsight.findings.finding import WHOLE_EXECUTION, Case, Finding, Heuristic
from joinsight.rows import Row

_SPILL_SIZE = "spill size"


def look(case: Case) -> Iterator[Finding]:
    """Of all stages together; it names the operator that spilled most, as far as it counts that itself."""
    on_disk, in_memory = case.execution["disk_spilled_bytes"], case.execution["memory_spilled_bytes"]
    if on_disk is None or on_disk < case.limits.spill_bytes:
        return
    stages = [row for row in case.rows["stage"] if row.get("disk_spilled_bytes")]
    evidence: dict[str, float] = {
        "disk_spilled_bytes": on_disk,
        "memory_spilled_bytes": in_memory,
        "spilling_stages": len(stages),
    }
    most = max((row for row in case.rows["node_metric"] if _is_spill(row)), key=lambda row: row["total"], default=None)
    by, node_id = "", WHOLE_EXECUTION
    if most is not None:
        node_id = most["node_id"]
        evidence["operator_spill_bytes"] = most["total"]
        by = f"; most of it {case.nodes[node_id]['name']}, {bytes_text(most['total'])} as it was in memory"
    yield Finding(
        HEURISTIC.id,
        "critical" if on_disk >= case.limits.spill_critical_bytes else "warning",
        f"Its tasks spilled {bytes_text(on_disk)} to disk{by}.",
        evidence,
        "Let each task have less at a time: raise spark.sql.shuffle.partitions (under AQE lower"
        " spark.sql.adaptive.advisoryPartitionSizeInBytes), and see to skew first. Or give each more memory: raise"
        " spark.executor.memory, or lower spark.executor.cores.",
        node_id,
        (case.nodes[node_id]["operator_key"] if node_id in case.nodes else None),
        impact_bytes=on_disk,
    )


def _is_spill(row: Row) -> bool:
    return row["name"] == _SPILL_SIZE and row["node_id"] != WHOLE_EXECUTION and bool(row.get("total"))


HEURISTIC = Heuristic("spill", look, needs_whole=False)
