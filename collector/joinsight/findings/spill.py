"""Sorts, aggregates and joins that had not enough memory and went through the disk."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text
from joinsight.findings.finding import WHOLE_EXECUTION, Case, Finding, Heuristic
from joinsight.tables import NodeMetricRow

_SPILL_SIZE = "spill size"


def look(case: Case) -> Iterator[Finding]:
    """The spill of all stages; names the operator that spilled most, among those that measure it."""
    on_disk, in_memory = case.execution.disk_spilled_bytes, case.execution.memory_spilled_bytes
    if on_disk is None or on_disk < case.limits.spill_bytes:
        return
    stages = [row for row in case.rows.stage if row.totals and row.totals.disk_spilled_bytes]
    evidence: dict[str, float] = {
        "disk_spilled_bytes": on_disk,
        "memory_spilled_bytes": in_memory or 0,
        "spilling_stages": len(stages),
    }
    spills = ((row.total or 0, row.node_id) for row in case.rows.node_metric if _is_spill(row))
    most, node_id = max(spills, key=lambda spill: spill[0], default=(0, WHOLE_EXECUTION))
    by = ""
    if most:
        evidence["operator_spill_bytes"] = most
        by = f", mostly in {case.nodes[node_id].name} ({bytes_text(most)} in memory)"
    yield Finding(
        HEURISTIC.id,
        "critical" if on_disk >= case.limits.spill_critical_bytes else "warning",
        f"Tasks spilled {bytes_text(on_disk)} to disk{by}.",
        evidence,
        "Fix skew first. Then give each task less data: raise spark.sql.shuffle.partitions (under AQE lower"
        " spark.sql.adaptive.advisoryPartitionSizeInBytes). Or give each task more memory: raise spark.executor.memory,"
        " or lower spark.executor.cores.",
        node_id,
        (case.nodes[node_id].operator_key if node_id in case.nodes else None),
        impact_bytes=on_disk,
        waited=case.waited_for_stages(stage.stage_id for stage in stages),
    )


def _is_spill(row: NodeMetricRow) -> bool:
    return row.name == _SPILL_SIZE and row.node_id != WHOLE_EXECUTION and bool(row.total)


HEURISTIC = Heuristic("spill", look, "the stages that spilled, while their tasks ran", needs_whole=False)
