"""Settings that shape plans and exchanges: these are kept of a log, all others not. The listener has the same list."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "spark.joinsight."
TAG = f"{PREFIX}tag."
# A trailing dot means a prefix.
ALLOWED = frozenset(
    [
        "spark.sql.adaptive.",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.broadcastTimeout",
        "spark.sql.bucketing.",
        "spark.sql.cbo.",
        "spark.sql.codegen.wholeStage",
        "spark.sql.crossJoin.enabled",
        "spark.sql.exchange.reuse",
        "spark.sql.execution.broadcastHashJoin.",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.join.",
        "spark.sql.maxBroadcastTableSize",
        "spark.sql.maxSinglePartitionBytes",
        "spark.sql.optimizeNullAwareAntiJoin",
        "spark.sql.optimizeNullAwareAntiJoin.",
        "spark.sql.optimizer.datasourceV2JoinPushdown",
        "spark.sql.optimizer.dynamicPartitionPruning.",
        "spark.sql.optimizer.pushDownJoinThroughUnion.",
        "spark.sql.optimizer.runtime.",
        "spark.sql.optimizer.runtimeFilter.",
        "spark.sql.shuffle.partitions",
        "spark.sql.shuffle.spreadNullJoinKeys.enabled",
        "spark.sql.shuffledHashJoinFactor",
        "spark.sql.sortMergeJoinExec.",
        "spark.sql.sources.bucketing.",
        "spark.sql.sources.v2.bucketing.",
        "spark.sql.requireAllClusterKeysForCoPartition",
        "spark.default.parallelism",
        "spark.driver.cores",
        "spark.driver.maxResultSize",
        "spark.driver.memory",
        "spark.dynamicAllocation.",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.memory.fraction",
        "spark.reducer.maxSizeInFlight",
        "spark.serializer",
        "spark.shuffle.accurateBlockSkewedFactor",
        "spark.shuffle.accurateBlockThreshold",
        "spark.shuffle.compress",
        "spark.shuffle.manager",
        "spark.shuffle.maxAccurateSkewedBlockNumber",
        "spark.shuffle.minNumPartitionsToHighlyCompress",
        "spark.shuffle.push.enabled",
        "spark.shuffle.service.enabled",
        "spark.shuffle.sort.bypassMergeThreshold",
        "spark.shuffle.spill.",
        "spark.speculation",
    ]
)


def allowed(settings: Mapping[str, str]) -> dict[str, str]:
    """What is kept of these settings, sorted."""
    return {key: settings[key] for key in sorted(settings) if _is_allowed(key)}


def _is_allowed(key: str) -> bool:
    parts = key.split(".")
    return key in ALLOWED or any(".".join(parts[:n]) + "." in ALLOWED for n in range(1, len(parts)))


def of_session(of_application: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """The SQL settings in force in a session: the application's, overridden by what the session changed."""
    merged = {key: value for key, value in of_application.items() if key.startswith("spark.sql.")} | dict(changed)
    return dict(sorted(merged.items()))


def tags(settings: Mapping[str, str]) -> dict[str, str]:
    """The job's tags by name."""
    return {key.removeprefix(TAG): settings[key] for key in sorted(settings) if key.startswith(TAG)}
