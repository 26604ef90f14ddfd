"""A shuffle that is read in very many small partitions: a task each, most of which is overhead."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.partitions import partitions
from joinsight.findings.phrases import first_up, shuffle
from joinsight.tables import ShuffleRow, StageRow


def look(case: Case) -> Iterator[Finding]:
    """By the bytes that were written, compressed, and the partitions as AQE reads them."""
    for row in case.rows.shuffle:
        found = partitions(row)
        if (
            found is None
            or found.number < case.limits.tiny_partitions
            or found.mean_bytes > case.limits.tiny_partition_bytes
        ):
            continue
        took = max(map(_duration_ms, case.stages(row.reduce_stages or ())), default=0)
        if took < case.limits.tiny_partition_ms:
            continue
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(shuffle(row))} is read in {found.number:,} partitions of {bytes_text(round(found.mean_bytes))}"
            " on average.",
            {
                "partitions": found.number,
                "mean_partition_bytes": round(found.mean_bytes),
                "bytes_written": found.bytes_written,
                "stage_ms": took,
            },
            _advice(case, row),
            row.node_id,
            row.operator_key,
            impact_bytes=row.bytes_written,
            waited=case.waited_for_stages(row.reduce_stages or ()),
        )


def _duration_ms(stage: StageRow) -> int:
    """From its start to its end; 0 if unknown."""
    if stage.submitted_at is None or stage.completed_at is None:
        return 0
    return round((stage.completed_at - stage.submitted_at).total_seconds() * 1000)


def _advice(case: Case, row: ShuffleRow) -> str:
    if str(row.origin).startswith("REPARTITION"):
        return "The query sets this number (repartition, or a hint): lower it, or leave it out."
    if not case.execution.is_adaptive:
        return "Set spark.sql.adaptive.enabled=true, so that AQE coalesces them, or lower spark.sql.shuffle.partitions."
    return (
        "AQE coalesces partitions up to spark.sql.adaptive.advisoryPartitionSizeInBytes unless"
        " spark.sql.adaptive.coalescePartitions.enabled is off; by default it prefers one task per core: set"
        " spark.sql.adaptive.coalescePartitions.parallelismFirst=false, or lower spark.sql.shuffle.partitions."
    )


HEURISTIC = Heuristic("tiny-partitions", look, "the stages that read the shuffle, while their tasks ran")
