"""Native engines: which of Spark's operators each of theirs stands for, and what their metrics are in Spark's terms.

A metric that is not listed keeps its name, because most engines use Spark's. Only Comet runs in our tests: other
names are from their public source and documents, and for Photon, which has none, from NVIDIA/spark-rapids-tools and
published plans. What an engine does not measure, or measures differently, stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

EngineName = Literal["Auron", "Comet", "Gluten", "Photon", "RAPIDS"]
NOT_SPARKS = ""
"""What stands for a metric that has a name of Spark's, but counts something else."""
FRAME = "frame"
"""Instead of Spark's name: an operator that only passes rows on, as batches of another size or kind."""
EXCHANGE_PART = "exchange part"
"""Instead of Spark's name: a part of an exchange that the engine shows as several operators."""

FALLBACK = "Fallback"
"""The metadata of a node that says why Spark ran it, and not the engine (`Fallbacks` of the listener)."""

_ROWS, _BUILD_TIME, _BUILD_SIZE = "number of output rows", "time to build hash map", "data size of build side"
_SORT_TIME, _AGGREGATION_TIME, _SCAN_TIME = "sort time", "time in aggregation build", "scan time"
_SPARKS_PREFIXES = ("", "CH", "Columnar")


@dataclass(frozen=True, slots=True)
class Engine:
    """A native engine."""

    name: EngineName
    prefixes: tuple[str, ...]
    """What its names begin with; the rest is Spark's name if it is not in `operators`."""
    operators: Mapping[str, tuple[str, ...]]
    """Its names, by Spark's name."""
    metrics: Mapping[str, Mapping[str, str]]
    """Spark's names of metrics by its own, by the kind of operator; "" for all kinds."""
    unknown: str
    """What stays unknown, and why: a sentence for the documentation."""
    suffixes: tuple[str, ...] = ("Exec",)
    """What follows Spark's name."""
    times: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What an operator's tasks took natively, without other operators: by its kind, "" for all, the engine's names of
    metrics, each with the part of the task time that it is ("" for what its kind says). A node's are added up."""
    times_with_consumers: tuple[str, ...] = ()
    """Times of scans from the first row to the last, with waiting for files, and with all that was done between."""
    has_own_threads: bool = False
    """Whether threads of its own do the work, whose CPU time Spark does not count."""

    @property
    def own_prefixes(self) -> tuple[str, ...]:
        """Those of `prefixes` with which no operator of Spark's begins."""
        return tuple(prefix for prefix in self.prefixes if prefix not in _SPARKS_PREFIXES)


ENGINES: tuple[Engine, ...] = (
    Engine(
        "Comet",
        ("Comet",),
        {
            "Exchange": ("CometExchange", "CometColumnarExchange"),
            "BroadcastExchange": ("CometBroadcastExchange",),
            "BroadcastHashJoin": ("CometBroadcastHashJoin",),
            "SortMergeJoin": ("CometSortMergeJoin",),
            "ShuffledHashJoin": ("CometHashJoin",),
            "BroadcastNestedLoopJoin": ("CometBroadcastNestedLoopJoin",),
            "Scan": ("CometScan", "CometNativeScan", "CometCsvNativeScan"),
            "BatchScan": ("CometBatchScan", "CometIcebergNativeScan"),
            "LocalTableScan": ("CometLocalTableScan",),
            "InMemoryTableScan": ("CometInMemoryTableScan",),
            "Filter": ("CometFilter",),
            "Project": ("CometProject",),
            "Sort": ("CometSort",),
            "Union": ("CometUnion",),
            "Coalesce": ("CometCoalesce",),
            "HashAggregate": ("CometHashAggregate",),
            "CollectLimit": ("CometCollectLimit",),
            "GlobalLimit": ("CometGlobalLimit",),
            "LocalLimit": ("CometLocalLimit",),
            "WindowGroupLimit": ("CometWindowGroupLimitExec",),
            "SubqueryBroadcast": ("CometSubqueryBroadcast",),
            "SubqueryAdaptiveBroadcast": ("CometSubqueryAdaptiveBroadcast",),
            "ColumnarToRow": ("CometColumnarToRow", "CometNativeColumnarToRow", "CometColumnarToRowView"),
            "RowToColumnar": ("CometSparkToColumnar", "CometSparkRowToColumnar", "CometSparkColumnarToColumnar"),
            "WriteFiles": ("CometWriteFiles",),
            "AppendData": ("CometNativeWrite", "CometIcebergWrite", "CometIcebergDeltaWrite"),
        },
        {
            "join": {
                "Number of rows produced": _ROWS,
                "number of rows produced": _ROWS,
                "Total time for collecting build-side of join": _BUILD_TIME,
                "total time for collecting build-side of join": _BUILD_TIME,
            },
            "sort": {"total time (in ms) spent in this operator": _SORT_TIME},
            "aggregate": {"total time (in ms) spent in this operator": _AGGREGATION_TIME},
        },
        "Spills of joins and sorts: Comet counts bytes on disk, Spark bytes in memory."
        " The mode of a broadcast, which Comet does not print.",
        times={
            "": {
                "total time (in ms) spent in this operator": "",
                "time in conversion": "",
                "time converting Spark batches to Arrow batches": "",
            },
            "join": {
                "Total time for joining": "",
                "Total time for collecting build-side of join": "",
                "total time for joining": "",
                "total time for collecting build-side of join": "",
            },
            "scan": {"scan time": "", "Wall clock time elapsed for data decompression + decoding": ""},
            "shuffle": {
                "native shuffle writer time": "shuffle_write",
                "decoding and decompression time": "shuffle_read",
            },
        },
        times_with_consumers=(
            "Total elapsed wall clock time for scanning + record batch decompression / decoding",
            "Elapsed wall clock time for for scanning + record batch decompression / decoding",
            "Wall clock time elapsed for file opening",
        ),
        has_own_threads=True,
    ),
    Engine(
        "Gluten",
        ("Columnar", "Velox", "CH", "Gluten", ""),
        {
            "Exchange": ("ColumnarExchange", "GPUColumnarExchange"),
            "BroadcastExchange": ("ColumnarBroadcastExchange",),
            "BroadcastHashJoin": (
                "BroadcastHashJoinExecTransformer",
                "CHBroadcastHashJoinExecTransformer",
                "GlutenBroadcastHashJoinExecTransformer",
            ),
            "SortMergeJoin": ("SortMergeJoinExecTransformer", "CHSortMergeJoinExecTransformer"),
            "ShuffledHashJoin": (
                "ShuffledHashJoinExecTransformer",
                "CHShuffledHashJoinExecTransformer",
                "GlutenShuffledHashJoinExecTransformer",
            ),
            "BroadcastNestedLoopJoin": (
                "BroadcastNestedLoopJoinExecTransformer",
                "VeloxBroadcastNestedLoopJoinExecTransformer",
                "CHBroadcastNestedLoopJoinExecTransformer",
            ),
            "CartesianProduct": ("CartesianProductExecTransformer",),
            "Scan": ("ScanTransformer", "FileSourceScanExecTransformer", "NativeScan", "DeltaScanTransformer"),
            "BatchScan": ("BatchScanTransformer", "BatchScanExecTransformer", "IcebergScanTransformer"),
            "Scan hive": ("HiveTableScanExecTransformer",),
            "Filter": ("FilterExecTransformer", "CHFilterExecTransformer"),
            "Project": ("ProjectExecTransformer",),
            "Sort": ("SortExecTransformer",),
            "Union": ("ColumnarUnion", "UnionExecTransformer"),
            "Coalesce": ("ColumnarCoalesce",),
            "HashAggregate": (
                "HashAggregateExecTransformer",
                "HashAggregateTransformer",
                "RegularHashAggregateExecTransformer",
                "FlushableHashAggregateExecTransformer",
                "FlushableHashAggregateTransformer",
                "CHHashAggregateExecTransformer",
            ),
            "CollectLimit": ("ColumnarCollectLimit",),
            "GlobalLimit": ("LimitExecTransformer", "LimitTransformer"),
            "WindowGroupLimit": ("WindowGroupLimitExecTransformer", "CHWindowGroupLimitExecTransformer"),
            "SubqueryBroadcast": ("ColumnarSubqueryBroadcast",),
            "ColumnarToRow": ("VeloxColumnarToRow", "VeloxColumnarToRowExec", "CHNativeColumnarToRow"),
            "RowToColumnar": ("RowToVeloxColumnar", "RowToCHNativeColumnar"),
            "WriteFiles": ("WriteFilesExecTransformer", "ColumnarWriteFiles", "VeloxColumnarWriteFiles"),
            "AppendData": ("VeloxIcebergAppendData", "ColumnarAppendData"),
            FRAME: (
                "InputIteratorTransformer",
                "VeloxResizeBatches",
                "VeloxAppendBatches",
                "ArrowColumnarToVeloxColumnar",
            ),
            "WholeStageCodegen": ("WholeStageCodegenTransformer",),
        },
        {
            "join": {"time of hash build": _BUILD_TIME},
            "sort": {"time of sort": _SORT_TIME},
            "aggregate": {"time of aggregation": _AGGREGATION_TIME, "time of aggregating": _AGGREGATION_TIME},
            "scan": {"time of scan": _SCAN_TIME},
        },
        "Spills of joins and sorts: Velox counts the bytes that it wrote, ClickHouse none. `build_bytes` of shuffled"
        " hash joins. The time that a driver takes to build a broadcast: tasks build it. With ClickHouse, the times of"
        " sorts and builds.",
        suffixes=("ExecTransformer", "ExecBaseTransformer", "Transformer", "Exec"),
        times={
            "": {
                "time to convert": "",
                "time of expand": "",
                "time of generate": "",
                "time of limit": "",
                "time of window": "",
            },
            "filter": {"time of filter": ""},
            "project": {"time of project": ""},
            "sort": {"time of sort": ""},
            "aggregate": {"time of aggregation": "", "time of rowConstruction": "", "time of extraction": ""},
            "join": {
                "time of hash build": "",
                "time of hash probe": "",
                "time of merge join": "",
                "time of stream preProjection": "",
                "time of buffer preProjection": "",
                "time to build preProjection": "",
                "time of postProjection": "",
            },
            "scan": {"time of scan and filter": ""},
            "shuffle": {"shuffle wall time": "shuffle_write", "time to deserialize": "shuffle_read"},
        },
    ),
    Engine(
        "RAPIDS",
        ("Gpu",),
        {
            "Exchange": ("GpuColumnarExchange",),
            "BroadcastExchange": ("GpuBroadcastExchange",),
            "AQEShuffleRead": ("GpuCustomShuffleReader",),
            "BroadcastHashJoin": ("GpuBroadcastHashJoin",),
            "SortMergeJoin": ("GpuSortMergeJoin",),
            "ShuffledHashJoin": (
                "GpuShuffledHashJoin",
                "GpuShuffledSymmetricHashJoin",
                "GpuShuffledAsymmetricHashJoin",
            ),
            "BroadcastNestedLoopJoin": ("GpuBroadcastNestedLoopJoin",),
            "CartesianProduct": ("GpuCartesianProduct",),
            "Scan": ("GpuScan", "GpuFileGpuScan", "GpuFileSourceScan"),
            "BatchScan": ("GpuBatchScan",),
            "InMemoryTableScan": ("GpuInMemoryTableScan",),
            "Filter": ("GpuFilter",),
            "Project": ("GpuProject", "GpuTieredProject", "GpuProjectAst"),
            "Sort": ("GpuSort",),
            "Union": ("GpuUnion",),
            "Coalesce": ("GpuCoalesce",),
            "HashAggregate": ("GpuHashAggregate",),
            "CollectLimit": ("GpuCollectLimit",),
            "GlobalLimit": ("GpuGlobalLimit",),
            "LocalLimit": ("GpuLocalLimit",),
            "WindowGroupLimit": ("GpuWindowGroupLimit",),
            "SubqueryBroadcast": ("GpuSubqueryBroadcast",),
            "ColumnarToRow": ("GpuColumnarToRow", "GpuBringBackToHost", "GpuBroadcastToRow", "GpuBroadcastToCpu"),
            "RowToColumnar": ("GpuRowToColumnar", "HostColumnarToGpu"),
            "WriteFiles": ("GpuWriteFiles",),
            "AppendData": ("GpuAppendData", "GpuRapidsDeltaWrite"),
            FRAME: ("GpuCoalesceBatches", "GpuShuffleCoalesce"),
        },
        {
            "": {"output rows": _ROWS},
            "shuffle": {
                "output rows": "shuffle records written",
                "shuffle records written": NOT_SPARKS,  # batches
                "records read": NOT_SPARKS,
                "partition data size": NOT_SPARKS,
            },
            "broadcast": {"collect batch time": "time to collect", "build time": "time to build"},
            "shuffle_read": {"partitions": "number of partitions"},
            "join": {"build time": _BUILD_TIME, "build side size": _BUILD_SIZE},
            "aggregate": {"aggregation time": _AGGREGATION_TIME},
        },
        "Rows that a shuffle reads, and so its skew: RAPIDS counts batches. Spills of joins and sorts: they are from"
        " the GPU to the host. The build side of a symmetric join, which is chosen while it runs.",
        times={
            "": {"op time": ""},
            "shuffle": {
                "op time (shuffle write partitioning)": "shuffle_write",
                "op time (shuffle read)": "shuffle_read",
            },
        },
    ),
    Engine(
        "Photon",
        ("Photon",),
        {
            "Exchange": ("PhotonShuffleExchangeSink", "PhotonUnionShuffleExchangeSink"),
            EXCHANGE_PART: ("PhotonShuffleMapStage", "PhotonUnionShuffleMapStage", "PhotonShuffleExchangeSource"),
            "BroadcastExchange": ("PhotonBroadcastExchange",),
            "BroadcastHashJoin": ("PhotonBroadcastHashJoin", "PhotonHashJoin"),
            "ShuffledHashJoin": ("PhotonShuffledHashJoin", "PhotonShuffleHashJoin"),
            "BroadcastNestedLoopJoin": ("PhotonBroadcastNestedLoopJoin",),
            "Scan": ("PhotonScan",),
            "Filter": ("PhotonFilter",),
            "Project": ("PhotonProject",),
            "Sort": ("PhotonSort",),
            "Union": ("PhotonUnion",),
            "HashAggregate": ("PhotonAgg", "PhotonGroupingAgg", "PhotonGroupingAggWithRollup"),
            "GlobalLimit": ("PhotonGlobalLimit",),
            "LocalLimit": ("PhotonLocalLimit",),
            "Range": ("PhotonRange",),
            "SubqueryBroadcast": ("PhotonSubqueryBroadcast",),
            "ColumnarToRow": ("PhotonColumnarToRow",),
            "RowToColumnar": ("PhotonRowToColumnar",),
            FRAME: ("PhotonResultStage", "PhotonAdapter"),
        },
        {"shuffle": {"part of shuffle file write": "shuffle write time"}},
        "Whatever Photon does not report under Spark's names; its metrics are not documented. A broadcast that"
        " executors make (`EXECUTOR_BROADCAST`) is a shuffle with this origin, as Photon runs it. Whether a"
        " `PhotonHashJoin` was broadcast is not known from its name: it is taken for a broadcast join.",
    ),
    Engine(
        "Auron",
        ("Native",),
        {
            "Exchange": ("NativeShuffleExchange",),
            "BroadcastExchange": ("NativeBroadcastExchange",),
            "BroadcastHashJoin": ("NativeBroadcastJoin", "NativeBroadcastJoinExec"),
            "SortMergeJoin": ("NativeSortMergeJoin", "NativeSortMergeJoinExec"),
            "ShuffledHashJoin": ("NativeShuffledHashJoin", "NativeShuffledHashJoinExec"),
            "BroadcastNestedLoopJoin": ("NativeBroadcastNestedLoopJoin",),
            "Scan parquet": ("NativeParquetScan",),
            "Scan orc": ("NativeOrcScan",),
            "Scan hive": ("NativeParquetHiveTableScan", "NativeHiveTableScan", "NativePaimonTableScan"),
            "BatchScan": ("NativeIcebergTableScan", "NativePaimonV2TableScan"),
            "Filter": ("NativeFilter",),
            "Project": ("NativeProject", "NativeProjectExec", "NativeRenameColumns", "NativeRenameColumnsExec"),
            "Sort": ("NativeSort",),
            "Union": ("NativeUnion",),
            "Coalesce": ("NativeCoalesce",),
            "HashAggregate": ("NativeAgg", "NativeHashAggregate"),
            "SortAggregate": ("NativeSortAggregate",),
            "CollectLimit": ("NativeCollectLimit",),
            "GlobalLimit": ("NativeGlobalLimit",),
            "LocalLimit": ("NativeLocalLimit",),
            "WindowGroupLimit": ("NativeWindowGroupLimit",),
            "RowToColumnar": ("ConvertToNative",),
            "WriteFiles": ("NativeParquetSink", "NativeOrcSink"),
            "Execute InsertIntoHiveTable": (
                "Execute NativeParquetInsertIntoHiveTable",
                "Execute NativeOrcInsertIntoHiveTable",
            ),
        },
        {
            "": {"Native.output_rows": _ROWS},
            "shuffle": {"Native.output_rows": NOT_SPARKS},  # rows read
            "broadcast": {"Native.output_rows": NOT_SPARKS},
            "join": {"Native.build_hash_map_time": _BUILD_TIME},
            "sort": {"Native.elapsed_compute": _SORT_TIME},
            "aggregate": {"Native.elapsed_compute": _AGGREGATION_TIME},
        },
        "`build_bytes` of shuffled hash joins. Spills of joins and sorts: Auron counts those to memory and to disk, not"
        " the bytes that they had in memory. The driver's times of a broadcast, which Auron announces and never sets.",
        times={"": {"Native.elapsed_compute": ""}, "shuffle": {"Native.elapsed_compute": "shuffle_write"}},
    ),
)

THREADED = frozenset(each.name for each in ENGINES if each.has_own_threads)
"""Engines of which Spark does not count the CPU time."""
ROWS = (
    _ROWS,
    *dict.fromkeys(own for e in ENGINES for names in e.metrics.values() for own in names if names[own] == _ROWS),
)
"""All names of the metric that counts the rows that an operator returns."""
PARTITIONINGS: Mapping[str, str] = {
    "gpuhashpartitioning": "hashpartitioning",
    "gpurangepartitioning": "rangepartitioning",
    "gpuroundrobinpartitioning": "RoundRobinPartitioning",
    "gpusinglepartitioning$": "SinglePartition",
}
"""Spark's names of partitionings, by those of RAPIDS."""
