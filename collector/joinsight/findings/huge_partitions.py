"""A shuffle that is read in a few huge partitions, which do not fit a task's memory and keep few cores busy."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.partitions import partitions
from joinsight.findings.phrases import first_up, shuffle
from joinsight.tables import ShuffleRow


def look(case: Case) -> Iterator[Finding]:
    """By the bytes that were written, compressed; one large partition among small ones is a skewed shuffle."""
    for row in case.rows.shuffle:
        found = partitions(row)
        if found is None or found.mean_bytes < case.limits.huge_partition_bytes:
            continue
        size = bytes_text(round(found.mean_bytes))
        what = f"{found.number:,} partitions of {size} on average" if found.number > 1 else f"one partition of {size}"
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(shuffle(row))} is read in {what}.",
            {
                "partitions": found.number,
                "mean_partition_bytes": round(found.mean_bytes),
                "bytes_written": found.bytes_written,
            },
            _advice(case, row),
            row.node_id,
            row.operator_key,
            impact_bytes=row.bytes_written,
            waited=case.waited_for_stages(row.reduce_stages or ()),
        )


def _advice(case: Case, row: ShuffleRow) -> str:
    if row.partitioning == "SinglePartition":
        return (
            "All rows go to a single task: a window without PARTITION BY, an aggregate without GROUP BY over many rows,"
            " or repartition(1). Partition the window, or aggregate in two steps."
        )
    if str(row.origin).startswith("REPARTITION"):
        return "The query sets this number (repartition, or a hint): raise it, or leave it out."
    more = "Raise spark.sql.shuffle.partitions to get partitions of about 100 to 200 MB"
    if case.execution.is_adaptive:
        more += "; AQE coalesces up to spark.sql.adaptive.advisoryPartitionSizeInBytes"
    return f"{more}."


HEURISTIC = Heuristic(
    "huge-partitions", look, "the stages that read the shuffle, while their tasks ran", needs_whole=False
)
