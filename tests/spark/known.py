"""The parts of the newest Spark that joins, exchanges and AQE consist of, and how we treat them: kind, name, reason.

`test_inventory` compares it with the jars of the installed Spark. A new version that has more fails there: handle what
is new, or say here why it does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping

HANDLED = "handled"
"""The test asks our code, by what Spark calls it in a plan's texts."""

NEVER_SHUFFLED_TO = "describes what an operator gives; no exchange makes it"
IN_TEXT = "read as text like any other: its name is `partitioning`, what stands in it `keys`"
PLANS_ONLY = "plans: what it does is in the plan, and no decision of AQE"
ANALYSED_AWAY = "the analyzer replaces it: no physical plan has it"

KNOWN: Mapping[str, Mapping[str, str]] = {
    "join operator": {
        "BroadcastHashJoinExec": HANDLED,
        "BroadcastNestedLoopJoinExec": HANDLED,
        "CartesianProductExec": HANDLED,
        "ShuffledHashJoinExec": HANDLED,
        "SortMergeAsOfJoinExec": HANDLED,
        "SortMergeJoinExec": HANDLED,
    },
    "exchange operator": {"BroadcastExchangeExec": HANDLED, "ShuffleExchangeExec": HANDLED},
    "other operator": {
        "AQEShuffleReadExec": "AQE's reading of a shuffle: columns aqe_* of table `shuffle`",
        "BroadcastQueryStageExec": "a stage's wrapper, which Spark's graph leaves out",
        "CoalesceExec": "fewer partitions without a shuffle",
        "ProjectedBroadcastValueSubqueryExec": "a subquery's result: no input of rows",
        "ReusedExchangeExec": "Spark's graph leads to the exchange that is reused",
        "ShuffleQueryStageExec": "a stage's wrapper, which Spark's graph leaves out",
        "SkewJoinChildWrapper": "is there only while AQE plans",
        "StreamingSymmetricHashJoinExec": "a join of two streams: it has no sides to shuffle, broadcast or sort, but"
        " state; it is drawn, and table `joins` is without it",
        "SubqueryAdaptiveBroadcastExec": "a subquery's result: no input of rows",
        "SubqueryBroadcastExec": "a subquery's result: no input of rows",
    },
    "join type": {
        **dict.fromkeys(
            (
                *("Cross", "ExistenceJoin", "FullOuter", "Inner", "LeftAnti", "LeftOuter", "LeftSemi", "LeftSingle"),
                "RightOuter",
            ),
            HANDLED,
        ),
        **dict.fromkeys(("NaturalJoin", "UsingJoin"), ANALYSED_AWAY),
    },
    "join hint": {
        "BROADCAST": "what it asks for is in the plan; findings name it",
        **dict.fromkeys(
            (
                *("NO_BROADCAST_AND_REPLICATION", "NO_BROADCAST_HASH", "SHUFFLE_HASH", "SHUFFLE_MERGE"),
                "SHUFFLE_REPLICATE_NL",
            ),
            HANDLED,
        ),
    },
    "partitioning": {
        **dict.fromkeys(
            (
                *("HashPartitioning", "NullAwareHashPartitioning", "RangePartitioning", "RoundRobinPartitioning"),
                *("SinglePartition", "KeyedPartitioning", "ShufflePartitionIdPassThrough"),
            ),
            IN_TEXT,
        ),
        **dict.fromkeys(
            (
                *("BroadcastPartitioning", "CoalescedHashPartitioning", "CoalescedNullAwareHashPartitioning"),
                *("PartitioningCollection", "UnknownPartitioning"),
            ),
            NEVER_SHUFFLED_TO,
        ),
    },
    "broadcast mode": {"HashedRelationBroadcastMode": HANDLED, "IdentityBroadcastMode": HANDLED},
    "shuffle origin": dict.fromkeys(
        (
            *("ENSURE_REQUIREMENTS", "REBALANCE_PARTITIONS_BY_COL", "REBALANCE_PARTITIONS_BY_NONE"),
            *("REPARTITION_BY_COL", "REPARTITION_BY_NUM", "REQUIRED_BY_STATEFUL_OPERATOR"),
        ),
        HANDLED,
    ),
    "rule of AQE": {
        "AQEPropagateEmptyRelation": "decision empty_relation, dropped_stage",
        "AdjustShuffleExchangePosition": PLANS_ONLY,
        "CoalesceShufflePartitions": "decision coalesced",
        "ConvertSortMergeJoinToShuffledHashJoin": "decision join_strategy",
        "DemoteBroadcastHashJoin": "hint no_broadcast_hash",
        "InsertAdaptiveSparkPlan": PLANS_ONLY,
        "OptimizeShuffleWithLocalRead": "decision local_read",
        "OptimizeSkewInRebalancePartitions": "decision skew_split",
        "OptimizeSkewedJoin": "decision skew_split; joins.is_skew",
        "PlanAdaptiveDynamicPruningFilters": PLANS_ONLY,
        "PlanAdaptiveSubqueries": PLANS_ONLY,
        "ReuseAdaptiveSubquery": PLANS_ONLY,
        "ValidateSparkPlan": PLANS_ONLY,
    },
}

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "threads that wait for exchanges: never the limit of one query": (
        "spark.sql.broadcastExchange.maxThreadThreshold",
        "spark.sql.shuffleExchange.maxThreadThreshold",
    ),
    "how a broadcast is cut and sent, not how large it is": (
        "spark.broadcast.UDFCompressionThreshold",
        "spark.broadcast.blockSize",
        "spark.broadcast.checksum",
        "spark.broadcast.compress",
        "spark.shuffle.mapOutput.dispatcher.numThreads",
        "spark.shuffle.mapOutput.minSizeForBroadcast",
        "spark.shuffle.mapOutput.parallelAggregationThreshold",
    ),
    "how blocks are written, checked, found and fetched: a cluster has one way for all": (
        "spark.shuffle.checksum.algorithm",
        "spark.shuffle.checksum.enabled",
        "spark.shuffle.detectCorrupt",
        "spark.shuffle.detectCorrupt.useExtraMemory",
        "spark.shuffle.file.buffer",
        "spark.shuffle.file.merge.buffer",
        "spark.shuffle.localDisk.file.output.buffer",
        "spark.shuffle.manager.incremental",
        "spark.shuffle.mapStatus.compression.codec",
        "spark.shuffle.maxAttemptsOnNettyOOM",
        "spark.shuffle.push.finalize.timeout",
        "spark.shuffle.push.maxBlockBatchSize",
        "spark.shuffle.push.maxBlockSizeToPush",
        "spark.shuffle.push.maxRetainedMergerLocations",
        "spark.shuffle.push.merge.finalizeThreads",
        "spark.shuffle.push.mergersMinStaticThreshold",
        "spark.shuffle.push.mergersMinThresholdRatio",
        "spark.shuffle.push.minCompletedPushRatio",
        "spark.shuffle.push.minShuffleSizeToWait",
        "spark.shuffle.push.numPushThreads",
        "spark.shuffle.push.results.timeout",
        "spark.shuffle.push.sendFinalizeRPCThreads",
        "spark.shuffle.readHostLocalDisk",
        "spark.shuffle.reduceLocality.enabled",
        "spark.shuffle.registration.maxAttempts",
        "spark.shuffle.registration.timeout",
        "spark.shuffle.service.db.backend",
        "spark.shuffle.service.db.enabled",
        "spark.shuffle.service.fetch.rdd.enabled",
        "spark.shuffle.service.name",
        "spark.shuffle.service.port",
        "spark.shuffle.service.removeShuffle",
        "spark.shuffle.sort.initialBufferSize",
        "spark.shuffle.sort.io.plugin.class",
        "spark.shuffle.sort.useRadixSort",
        "spark.shuffle.streaming.checksum.enabled",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs",
        "spark.shuffle.streaming.networkBufferSize",
        "spark.shuffle.streaming.readerMaxMemory",
        "spark.shuffle.streaming.writerConnectionTimeout",
        "spark.shuffle.streaming.writerMaxMemory",
        "spark.shuffle.sync",
        "spark.shuffle.unsafe.fastMergeEnabled",
        "spark.shuffle.unsafe.file.output.buffer",
        "spark.shuffle.useOldFetchProtocol",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
        "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch",
        "spark.sql.shuffle.orderIndependentChecksum.enabled",
        "spark.storage.decommission.shuffleBlocks.bufferRacingMigrations",
        "spark.storage.decommission.shuffleBlocks.enabled",
        "spark.storage.decommission.shuffleBlocks.maxDiskSize",
        "spark.storage.decommission.shuffleBlocks.maxThreads",
        "spark.storage.shuffleManager.initWaitingTimeout",
        "spark.yarn.shuffle.server.recovery.disabled",
    ),
    "when shuffle files are removed": (
        "spark.cleaner.referenceTracking.blocking.shuffle",
        "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
        "spark.sql.connect.shuffleDependency.fileCleanup.enabled",
        "spark.sql.shuffleDependency.fileCleanup.enabled",
        "spark.sql.shuffleDependency.skipMigration.enabled",
        "spark.sql.thriftserver.shuffleDependency.fileCleanup.enabled",
    ),
    "the code that is generated, not the plan": (
        "spark.sql.codegen.broadcastCleanedSourceThreshold",
        "spark.sql.codegen.join.buildSideOuterShuffledHashJoin.enabled",
        "spark.sql.codegen.join.existenceSortMergeJoin.enabled",
        "spark.sql.codegen.join.fullOuterShuffledHashJoin.enabled",
        "spark.sql.codegen.join.fullOuterSortMergeJoin.enabled",
    ),
    "what a name or a subquery means, before there is a physical plan": (
        "spark.sql.analyzer.failAmbiguousSelfJoin",
        "spark.sql.analyzer.singlePassResolver.enableAsOfJoinResolution",
        "spark.sql.optimizer.decorrelateJoinPredicate.enabled",
        "spark.sql.optimizer.decorrelatePredicateSubqueriesInJoinPredicate.enabled",
        "spark.sql.optimizer.mergeSubplans.filterPropagation.throughJoin.enabled",
        "spark.sql.optimizer.optimizeUncorrelatedInSubqueriesInJoinCondition.enabled",
        "spark.sql.optimizer.scalarSubqueryUseSingleJoin",
        "spark.sql.selfJoinAutoResolveAmbiguity",
    ),
    "a sample that a range partitioning takes": ("spark.sql.execution.rangeExchange.sampleSizePerPartition",),
    "streams and pipelines": (
        "spark.sql.pipelines.timeoutMsForTerminationJoinAndLock",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled",
    ),
}
"""Settings that are not kept, by the reason."""
