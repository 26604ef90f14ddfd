"""The table of operators: the kind of each operator of a plan and its effect on rows, by name.

An operator of Spark, or of a table format, that needs special treatment has a row in `OPERATORS`. `engines` declares
which of these an operator of a native engine stands for; `of` gives that row, with the engine's names of metrics. All
other operators are of kind ``other``: they are drawn, but no values are derived from them.

Source: Spark 3.4 to 4.3, and the names of 3.0 to 3.3 that differ; Delta Lake, Apache Iceberg.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from joinsight.plan.engines import ENGINES, EXCHANGE_PART, FRAME, Engine, EngineName

Kind = Literal[
    "shuffle",
    "broadcast",
    "reused_exchange",
    "exchange_part",  # an engine shows one shuffle as several operators; its metrics are those of the shuffle below
    "shuffle_read",  # how AQE reads a shuffle
    "join",
    "scan",
    "cached_scan",
    "empty",  # Spark 4 shows below it the plan that AQE found to be empty
    "filter",
    "project",
    "sort",
    "aggregate",
    "limit",
    "group_limit",
    "subquery",
    "reused_subquery",
    "write",
    "pruning",  # dynamic partition pruning, by the rows that a join broadcasts
    "codegen",  # the cluster around the operators of a whole-stage-codegen stage
    "adapter",  # Spark's own graph leaves it out
    "query_stage",  # like adapter, but its input may be reused
    "other",
]
SOURCES: frozenset[Kind] = frozenset({"scan", "cached_scan", "empty"})
"""The plan below these ran separately, or not at all."""
SideName = Literal["left", "right"]
JoinType = Literal[
    "Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "LeftSingle", "ExistenceJoin"
]

JOIN_TYPES: Mapping[JoinType, tuple[SideName, ...]] = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftOuter": ("right",),
    "RightOuter": ("left",),
    "FullOuter": (),
    "LeftSemi": ("right",),
    "LeftAnti": ("right",),
    "LeftSingle": ("right",),
    "ExistenceJoin": ("right",),
}
"""Join types with the sides that Spark may broadcast: those whose rows the join need not preserve."""

_T = TypeVar("_T")

DATA_SIZE = "data size"
"""An exchange's data in memory, which AQE compares with the broadcast threshold."""
OUTPUT_ROWS = "number of output rows"
ROWS_WRITTEN = "shuffle records written"
ROWS_READ = "records read"
PYTHON_TIME = "time to run Python workers"
"""Spark 4.0 and later: with the time that the workers waited for rows."""
FILES_SIZE = "size of files read"
WRITE_TIME = "shuffle write time"
"""In nanoseconds; all other times are in milliseconds."""
_PIPELINED = "isPipelined=true"
_ROWS_AND_BYTES = ((ROWS_WRITTEN, ("shuffle bytes written",)), (ROWS_READ, ("local bytes read", "remote bytes read")))
_BYTES = (
    "shuffle bytes written",
    "data size of build side",
    DATA_SIZE,
    "partition data size",
    FILES_SIZE,
    "written output",
)
_TIME = (
    WRITE_TIME,
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
    PYTHON_TIME,
)
_WITH_INPUTS = ("time to build hash map", "time in aggregation build", PYTHON_TIME)
"""Spark's times that include those of the operators below in the same stage; those of native engines do not."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The traits of an operator."""

    name: str
    """Spark's name."""
    kind: Kind = "other"
    is_wrapper: bool = False
    """Part neither of a query's shape nor of its fingerprint: a frame, or a conversion between columns and rows."""
    is_arrangement: bool = False
    """Not part of a query's shape: it moves or arranges rows, or does the first half of another operator's work."""
    keeps_rows: bool = False
    """It outputs as many rows as it reads, though it does not count them."""
    is_never_larger: bool = False
    """Its output has no more bytes than its input, as in AQE, which uses the size of the shuffle below."""
    source_name: str = ""
    """What people call it where it is a source of rows that has no name of its own."""
    shape_name: str = ""
    """Its name in a query's shape, where several operators do the same in different ways."""
    known_as: str = ""
    """What people call a join with this strategy."""
    is_broadcast_join: bool = False
    compares_pairs: bool = False
    """A join that compares all pairs of rows."""
    rows: tuple[str, ...] = (ROWS_WRITTEN, OUTPUT_ROWS)
    """The first of these metrics that a node has is its number of output rows."""
    bytes: tuple[str, ...] = _BYTES
    """The first of these that a node has is its size."""
    time: tuple[str, ...] = _TIME
    """The times that it may have measured; each is in the unit of its type."""
    code_prefix: str = ""
    """What its names in generated code begin with, where that is not its name in lower case."""
    engine: EngineName | None = None
    """The native engine whose operator this is; `name` is that of Spark's."""
    metric_names: Mapping[str, str] = field(default_factory=dict)
    """Spark's names of the engine's metrics."""
    native_times: Mapping[str, str] = field(default_factory=dict)
    """See `Engine.times`."""
    times_with_consumers: tuple[str, ...] = ()
    """See `Engine.times_with_consumers`."""

    @property
    def own_time(self) -> tuple[str, ...]:
        """Those that include no other operator's: the sum of those that a node has is its time."""
        return self.time if self.engine else tuple(name for name in self.time if name not in _WITH_INPUTS)

    @property
    def is_exchange(self) -> bool:
        """A shuffle or a broadcast."""
        return self.kind in ("shuffle", "broadcast")

    def metric(self, name: str) -> str:
        """Spark's name of a metric; empty if it counts something else than Spark's metric of this name."""
        known = self.metric_names.get(name)
        return _metric_name(name) if known is None else known

    def never_set(self, simple: str, totals: Mapping[str, int | None]) -> list[str]:
        """The metrics that a shuffle announces and never sets, so that they stay 0.

        Engines: the rows, although bytes were counted. Spark: all, if tasks pass rows to each other (real-time mode).
        """
        if self.kind != "shuffle":
            return []
        if _PIPELINED in simple:
            return [name for name, total in totals.items() if total == 0]
        pairs = _ROWS_AND_BYTES if self.engine else ()
        return [rows for rows, sizes in pairs if totals.get(rows) == 0 and any(totals.get(each) for each in sizes)]

    def by_sparks_names(self, metrics: Iterable[tuple[str, _T]]) -> dict[str, _T]:
        """Metrics by Spark's names; of several for one name, the one that has it."""
        found: dict[str, _T] = {}
        for own, measured in metrics:
            name = self.metric(own)
            if name and (name == own or name not in found):
                found[name] = measured
        return found


EXCHANGE, BROADCAST_EXCHANGE, REUSED_EXCHANGE = "Exchange", "BroadcastExchange", "ReusedExchange"
EXPAND, GLOBAL_LIMIT = "Expand", "GlobalLimit"
COMMAND_RESULT = "CommandResult"
"""All of an execution that hands out what a command returned; the command ran in an execution of its own."""
_STREAM_SCANS = ("MicroBatchScan", "RealTimeStreamScan", "ContinuousScan")
ADAPTIVE_PLAN, AQE_READ, SORT = "AdaptiveSparkPlan", "AQEShuffleRead", "Sort"
SUBQUERY, AGGREGATE, FILTER, SCAN, UNION = "Subquery", "Aggregate", "Filter", "Scan", "Union"
COALESCE, PROJECT, HASH_AGGREGATE, WINDOW_GROUP_LIMIT = "Coalesce", "Project", "HashAggregate", "WindowGroupLimit"
BROADCAST_HASH_JOIN, NESTED_LOOP_JOIN = "BroadcastHashJoin", "BroadcastNestedLoopJoin"
CARTESIAN_PRODUCT, SORT_MERGE_JOIN = "CartesianProduct", "SortMergeJoin"
V2_WRITES = {"AppendData": "append", "OverwriteByExpression": "overwrite", "OverwritePartitionsDynamic": "overwrite"}
"""What each does to a table."""
WRITE_V2, WRITE_FILES = "WriteToDataSourceV2", "WriteFiles"
REPLACE_DATA = "ReplaceData"
"""Replaces files of a table by others with the rows that a MERGE, UPDATE or DELETE left."""
CONVERSIONS = ("ColumnarToRow", "RowToColumnar")
AS_OF_JOIN = "SortMergeAsOfJoin"
"""Spark 4.3's join of each left row with the nearest right row of the same keys."""
COLLECT_LIMIT = "CollectLimit"
"""Rows of a limit for the driver: of one task first, then of more."""
_CACHED, _CACHED_BY_NAME = "InMemoryTableScan", "Scan In-memory table"
_LOCAL_TABLE = "LocalTableScan"
_CODEGEN = "WholeStageCodegen"

_WRITES = (
    *(*V2_WRITES, "AppendDataExecV1", "OverwriteByExpressionExecV1"),
    *(REPLACE_DATA, "WriteDelta", WRITE_V2, "InsertOnlyMerge"),
    *("CreateTableAsSelect", "ReplaceTableAsSelect", "AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect"),
    *("DeleteFromTable", "Execute InsertIntoHadoopFsRelationCommand", "Execute InsertIntoHiveTable"),
    *("Execute SaveIntoDataSourceCommand", "Execute InsertIntoDataSourceCommand", "Execute WriteIntoDeltaCommand"),
    *("Execute CreateDataSourceTableAsSelectCommand", "Execute CreateDeltaTableCommand"),
    *("Execute MergeIntoCommand", "Execute MergeIntoCommandEdge", "Execute DeleteCommand", "Execute UpdateCommand"),
    *("Execute DeleteCommandEdge", "Execute UpdateCommandEdge", "Execute OptimizeTableCommand"),
)

OPERATORS: tuple[Operator, ...] = (
    # Exchanges
    Operator(EXCHANGE, "shuffle", is_arrangement=True),
    Operator(EXCHANGE_PART, "exchange_part", is_wrapper=True, keeps_rows=True, is_never_larger=True),
    Operator("DeltaOptimizedWriter", "shuffle", is_arrangement=True),
    Operator(BROADCAST_EXCHANGE, "broadcast", is_arrangement=True, rows=(OUTPUT_ROWS,)),
    Operator(REUSED_EXCHANGE, "reused_exchange", is_arrangement=True, keeps_rows=True),
    Operator(AQE_READ, "shuffle_read", is_arrangement=True, keeps_rows=True, is_never_larger=True),
    Operator("CustomShuffleReader", "shuffle_read", is_arrangement=True, keeps_rows=True, is_never_larger=True),
    # Joins
    Operator(BROADCAST_HASH_JOIN, "join", known_as="broadcast", is_broadcast_join=True, code_prefix="bhj"),
    Operator(SORT_MERGE_JOIN, "join", known_as="sort-merge", code_prefix="smj"),
    Operator(AS_OF_JOIN, "join", known_as="as-of"),
    Operator("ShuffledHashJoin", "join", known_as="shuffled hash", code_prefix="shj"),
    Operator(
        NESTED_LOOP_JOIN,
        "join",
        known_as="a nested loop join",
        is_broadcast_join=True,
        compares_pairs=True,
        code_prefix="bnlj",
    ),
    Operator(CARTESIAN_PRODUCT, "join", known_as="a cartesian product", compares_pairs=True),
    # Sources
    Operator(_CACHED, "cached_scan"),
    Operator(SCAN, "scan", source_name="objects"),
    Operator("Scan ExistingRDD", "scan", source_name="RDD"),
    Operator("Scan OneRowRelation", "scan", source_name="one row"),
    Operator(_LOCAL_TABLE, "scan", source_name="local rows"),
    Operator("Range", source_name="range"),
    Operator(COMMAND_RESULT, source_name="result of a command"),
    *(Operator(name, "scan", source_name="stream") for name in _STREAM_SCANS),
    Operator("EmptyRelation", "empty", source_name="no rows"),
    # Operators that change rows
    Operator(FILTER, "filter", is_never_larger=True),
    Operator("Project", "project", keeps_rows=True),
    Operator(SORT, "sort", keeps_rows=True, is_never_larger=True),
    Operator(UNION, keeps_rows=True),
    Operator(COALESCE, is_arrangement=True),
    Operator("HashAggregate", "aggregate", is_never_larger=True, shape_name=AGGREGATE, code_prefix="hashAgg"),
    Operator("ObjectHashAggregate", "aggregate", is_never_larger=True, shape_name=AGGREGATE),
    Operator("SortAggregate", "aggregate", is_never_larger=True, shape_name=AGGREGATE, code_prefix="sortAgg"),
    Operator(COLLECT_LIMIT, "limit", shape_name="Limit"),
    Operator(GLOBAL_LIMIT, "limit", shape_name="Limit"),
    Operator("LocalLimit", "limit", is_arrangement=True),
    Operator("WindowGroupLimit", "group_limit"),
    # Writes; those of Delta Lake run their joins and shuffles in executions of their own
    *(Operator(name, "write") for name in _WRITES),
    # Subqueries
    Operator(SUBQUERY, "subquery"),
    Operator("ReusedSubquery", "reused_subquery", is_wrapper=True),
    Operator("SubqueryBroadcast", "pruning"),
    Operator("SubqueryAdaptiveBroadcast", "pruning"),
    # Frames
    Operator(ADAPTIVE_PLAN, is_wrapper=True, keeps_rows=True),
    Operator("ColumnarToRow", is_wrapper=True, keeps_rows=True, is_never_larger=True),
    Operator("RowToColumnar", is_wrapper=True, keeps_rows=True, is_never_larger=True),
    Operator(FRAME, is_wrapper=True, keeps_rows=True, is_never_larger=True),
    Operator(WRITE_FILES, is_wrapper=True),
    Operator(_CODEGEN, "codegen"),
    Operator("InputAdapter", "adapter", is_wrapper=True),
    Operator("TableCacheQueryStage", "adapter", is_wrapper=True),
    Operator("ResultQueryStage", "adapter", is_wrapper=True),
    Operator("BroadcastQueryStage", "query_stage"),
    Operator("ShuffleQueryStage", "query_stage"),
)
JOIN_STRATEGIES = tuple(operator.name for operator in OPERATORS if operator.kind == "join")
PAIRWISE_JOINS = tuple(operator.name for operator in OPERATORS if operator.compares_pairs)

_MOST_NAMES, _LONGEST_NAME = 4_096, 200
_UNIT = re.compile(r" (?:\((?:bytes|ms)\)|total \(min, med, max\))$")
_IMPLEMENTATION = re.compile(r"^\[\w*\] ")
"""How Comet scans, before the format."""
_SOURCES = frozenset({_CACHED, _LOCAL_TABLE})
_MILLISECONDS = frozenset({*_TIME, "fetch wait time"} - {WRITE_TIME})


class _Names(dict[str, Operator]):
    """Operators by name; recognized names are cached, up to `_MOST_NAMES` and `_LONGEST_NAME` characters."""

    def __missing__(self, name: str) -> Operator:
        operator = _recognized(name)
        if len(self) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
            self[name] = operator
        return operator


_PYTHON = ("Python", "InPandas", "InArrow", "InBatch")
_NAMES = _Names({operator.name: operator for operator in OPERATORS})
_SUFFIXES = tuple(_NAMES[name] for name in (BROADCAST_EXCHANGE, EXCHANGE, *JOIN_STRATEGIES))
_SCAN, _SUBQUERY, _OTHER = Operator("", "scan"), Operator("", "subquery"), Operator("")
_COMPOSED: Mapping[str, Operator] = {**_NAMES, SCAN: _SCAN}
_EXECUTE = "Execute "
_TRANSFORMER = "Transformer"

of = _NAMES.__getitem__
"""The operator of this name; an unknown one has the kind ``other``, and a name only if it is an engine's."""


def _in_engine(operator: Operator, engine: Engine) -> Operator:
    names, times = ({**table.get("", {}), **table.get(operator.kind, {})} for table in (engine.metrics, engine.times))
    whole = engine.times_with_consumers if operator.kind == "scan" else ()
    return replace(operator, engine=engine.name, metric_names=names, native_times=times, times_with_consumers=whole)


def _scan_of(spark: str) -> Operator | None:
    """An engine's scan, which in shapes has Spark's name."""
    return replace(_SCAN, shape_name=spark) if SCAN in spark.partition(" ")[0] and spark not in _SOURCES else None


_NATIVE = {
    name: _in_engine(_scan_of(spark) or _COMPOSED[spark], engine)
    for engine in ENGINES
    for spark, names in engine.operators.items()
    for name in names
}
_NAMES.update(_NATIVE)


def _recognized(name: str) -> Operator:
    """The operator of a name that Spark or a native engine composes."""
    if name.startswith(_CODEGEN):  # WholeStageCodegen (2)
        return _NAMES[_CODEGEN]
    if name.startswith((_CACHED, _CACHED_BY_NAME)):
        return _NAMES[_CACHED]
    if name.partition(" ")[0] in _NATIVE:  # GpuScan parquet
        return _NATIVE[name.partition(" ")[0]]
    base = name.partition("(")[0].strip()  # SortMergeJoin(skew=true)
    native = next(filter(None, (_native(base, engine) for engine in ENGINES)), None)
    if native is not None:
        return native
    if "Scan" in name:  # Scan parquet t, BatchScan t, Scan ExistingRDD
        return _SCAN
    if "Subquery" in name:  # ProjectedBroadcastValueSubquery
        return _SUBQUERY
    return next((operator for operator in _SUFFIXES if base.endswith(operator.name)), None) or _other_native(base)


def _other_native(name: str) -> Operator:
    """An operator without traits, with Spark's name and the engine if it is an engine's: ``CometWindow``."""
    for engine in ENGINES:
        suffix = next((each for each in engine.suffixes if name.endswith(each)), "")
        for prefix in engine.prefixes:
            spark = name.removeprefix(prefix).removesuffix(suffix)
            is_its_own = prefix in engine.own_prefixes or suffix.endswith(_TRANSFORMER)
            if is_its_own and name.startswith(prefix) and spark[:1].isupper():
                return _in_engine(replace(_OTHER, name=spark), engine)
    return _OTHER


def _native(name: str, engine: Engine) -> Operator | None:
    """An operator with Spark's name between a prefix and a suffix of the engine."""
    if name in _NATIVE:
        return _NATIVE[name]
    execute, bare = (_EXECUTE, name.rpartition(_EXECUTE)[2]) if _EXECUTE in name else ("", name)
    for prefix in engine.prefixes:
        suffix = next((each for each in engine.suffixes if bare.endswith(each)), "")
        spark = execute + bare.removeprefix(prefix).removesuffix(suffix)
        if not bare.startswith(prefix) or not (prefix or suffix):
            continue
        known = _COMPOSED.get(spark) or next((each for each in _SUFFIXES if prefix and spark.endswith(each.name)), None)
        if known is not None:
            return _in_engine(known, engine)
    return None


def _metric_name(name: str) -> str:
    """A metric's name without what Spark 2 and some engines append: ``data size (bytes)``."""
    return _UNIT.sub("", name) if name.endswith(")") else name


def is_finer(type_: str, metric: str) -> bool:
    """Whether a metric is in nanoseconds where Spark's metric of this name is in milliseconds."""
    return type_ == "nsTiming" and metric in _MILLISECONDS


def is_shuffle(name: str) -> bool:
    """``Exchange``, also of native engines (``CometExchange``, ``ColumnarExchange``)."""
    return of(name).kind == "shuffle"


def is_broadcast(name: str) -> bool:
    """``BroadcastExchange``, also of native engines."""
    return of(name).kind == "broadcast"


def is_scan(name: str) -> bool:
    """``Scan parquet t``, ``BatchScan t``, ``Scan ExistingRDD``, ``InMemoryTableScan``, ``Scan In-memory table t``."""
    return of(name).kind in ("scan", "cached_scan")


def scan_name(name: str) -> str:
    """A scan's name as Spark would have it: ``Scan parquet t`` for ``GpuScan parquet t``."""
    operator = of(name)
    if operator.engine is None or not operator.shape_name:
        return name
    return f"{operator.shape_name} {_IMPLEMENTATION.sub('', name.partition(' ')[2])}"


def is_python(name: str) -> bool:
    """Whether a Python worker does its work."""
    return any(word in name for word in _PYTHON)


def is_write(name: str) -> bool:
    """Whether an operator, or a node of this class in a logical plan, writes the rows of its input."""
    return name == WRITE_FILES or any(of(each).kind == "write" for each in (name, _EXECUTE + name))


def is_subquery(name: str) -> bool:
    """``Subquery``, ``SubqueryBroadcast``, ``ProjectedBroadcastValueSubquery``: its result is not an input of rows."""
    return of(name).kind in ("subquery", "reused_subquery", "pruning")


def is_reusable(name: str) -> bool:
    """Whether Spark draws it once, with an edge to each consumer: Spark's own rule."""
    return EXCHANGE in name or name == SUBQUERY


def is_empty(name: str, simple: str) -> bool:
    """Whether AQE knew that it returns no rows."""
    return of(name).kind == "empty" or (name == _LOCAL_TABLE and "<empty>" in simple)


def join_strategy(name: str) -> str | None:
    """One of `JOIN_STRATEGIES` if the node is a join (``SortMergeJoin(skew=true)`` is one too), else None."""
    operator = of(name)
    return operator.name if operator.kind == "join" else None


def code_prefix(name: str) -> str:
    """What the names of an operator's variables and functions in generated code begin with (``smj``, ``project``)."""
    operator = of(name)
    scan = {"scan": "scan", "cached_scan": "memoryScan"}.get(operator.kind, "")
    return operator.code_prefix or (name.lower() if name == _LOCAL_TABLE else scan) or name.lower()


def cached_table(name: str) -> str:
    """The name of the cached table that a scan reads; empty if it has none."""
    return name.removeprefix(_CACHED_BY_NAME).strip() if name.startswith(_CACHED_BY_NAME) else ""
