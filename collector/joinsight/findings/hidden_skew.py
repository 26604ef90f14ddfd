"""A skewed join that AQE did not split because its shuffle has so many partitions that Spark kept only mean sizes."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.skew import evidence, is_hidden, skews, title, waited_ms


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Instead of a skewed shuffle: the remedy is another one."""
    for skew in skews(context):
        if not is_hidden(context, skew):
            continue
        row = skew.shuffle
        believed = row.aqe_partition_bytes_max
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{title(skew)}. AQE did not split it: of the {row.partitions:,} partitions of this shuffle it knew only"
            " mean sizes.",
            evidence(skew)
            | {"partitions": row.partitions or 0}
            | ({} if believed is None else {"aqe_partition_bytes_max": believed}),
            "Spark keeps the sizes of blocks below spark.shuffle.accurateBlockThreshold (100 MB) only for shuffles of"
            " up to 2,000 partitions. Lower spark.sql.shuffle.partitions to 2000 or less. Or start the application with"
            " spark.shuffle.accurateBlockSkewedFactor=5 (an internal setting, Spark 3.3 and later), a lower"
            " spark.shuffle.accurateBlockThreshold, or a higher spark.shuffle.minNumPartitionsToHighlyCompress"
            " (internal); each takes memory of the driver.",
            row.node_id,
            row.operator_key,
            impact_ms=waited_ms(skew.stage),
            waited=context.waited_for_tail(skew.stage),
        )


HEURISTIC = Heuristic("hidden-skew", evaluate, "the [tail](critical-path.md) of the stage that reads the shuffle")
