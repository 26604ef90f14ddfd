"""Plans of native engines and table formats, and what is stored of them.

No engine ran here: the plans are drawn by hand from the engines' public source (Photon's from published plans), with
made-up numbers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.documents import planned, read_back

from joinsight.analysis.rows import Rows, execution_rows
from joinsight.present.tree import plan_tree


class Case(NamedTuple):
    """A plan, and the lines of `summary`."""

    name: str
    plan: str
    expected: str


CASES = (
    Case(
        "comet",
        """
        CometNativeColumnarToRow
          CometHashAggregate | [Final], [region#9, count#7L], [region#9], [count(1)] | number of output rows=3
            CometExchange | hashpartitioning(region#9, 4), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=9] | data size=90, shuffle records written=12, shuffle bytes written=60, shuffle write time=5000000, records read=6+6, local bytes read=60, number of partitions=4
              CometBroadcastHashJoin | [k#1], [id#8], Inner, BuildRight | Number of rows produced=40, Total time for collecting build-side of join:nsTiming=7000000, Memory used by build-side:size=9000
                CometHashJoin | [k#1], [k#4], LeftOuter, BuildRight, (v#2 > w#5) | number of rows produced=50, Total time for collecting build-side of join:nsTiming=3000000
                  CometExchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=1] | data size=800, shuffle records written=100, shuffle bytes written=400, number of partitions=8
                    CometNativeScan parquet db.sales | [k#1,v#2] | number of output rows=100
                  CometColumnarExchange | hashpartitioning(k#4, 8), ENSURE_REQUIREMENTS, CometColumnarShuffle, [plan_id=2] | data size=160, shuffle records written=20, shuffle bytes written=80, number of partitions=8
                    CometScan [native_datafusion] parquet db.returns | [k#4,w#5] | number of output rows=20
                CometBroadcastExchange | [id#8, region#9] | data size=64, number of output rows=5, time to collect=10, time to build=1, time to broadcast=2
                  CometNativeScan parquet db.store | [id#8,region#9] | number of output rows=5
        """,
        """
        shuffle 2 hashpartitioning(region#9) 4 ENSURE_REQUIREMENTS written=12/60 read=12 data=90 ns=5000000 consumers=1
        shuffle 5 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=100/400 read=- data=800 ns=- consumers=1
        shuffle 7 hashpartitioning(k#4) 8 ENSURE_REQUIREMENTS written=20/80 read=- data=160 ns=- consumers=1
        broadcast 9 - succeeded size=64 rows=5 ms=10/1/2
        join 3 BroadcastHashJoin Inner right k#1=id#8 - out=40 in=50/5 build=64/1 sort=- spill=-
        join 4 ShuffledHashJoin LeftOuter right k#1=k#4 (v#2 > w#5) out=50 in=100/20 build=-/3 sort=- spill=-
        """,
    ),
    Case(
        "comet sort-merge join, and Spark's reused exchange and AQE read",
        """
        AdaptiveSparkPlan | isFinalPlan=true
          CometColumnarToRow
            CometSortMergeJoin | [k#1], [k#4], Inner | Number of rows produced=7, Memory used by build-side:size=500, Total spilled bytes:size=90
              CometSort | [k#1], [k#1 ASC NULLS FIRST] | number of output rows=10, total time (in ms) spent in this operator:nsTiming=4000000
                AQEShuffleRead | coalesced | number of partitions=2
                  ShuffleQueryStage | 0
                    CometExchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=1] | data size=80, shuffle records written=10, shuffle bytes written=40, records read=5+5+5+5
                      CometFilter | [k#1], isnotnull(k#1) | number of output rows=10
                        CometNativeScan parquet db.sales | [k#1] | number of output rows=12
              CometSort | [k#4], [k#4 ASC NULLS FIRST] | number of output rows=10, total time (in ms) spent in this operator:nsTiming=5000000
                AQEShuffleRead | coalesced | number of partitions=2
                  ShuffleQueryStage | 1
                    ReusedExchange | [k#4], CometExchange hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=1]
                      CometExchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=1] | data size=80, shuffle records written=10, shuffle bytes written=40, records read=5+5+5+5
                        CometFilter | [k#1], isnotnull(k#1) | number of output rows=10
                          CometNativeScan parquet db.sales | [k#1] | number of output rows=12
        """,
        """
        shuffle 5 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=10/40 read=20 data=80 ns=- consumers=2
        join 2 SortMergeJoin Inner - k#1=k#4 - out=7 in=10/10 build=-/- sort=9 spill=-
        """,
    ),
    Case(
        "gluten with velox",
        """
        VeloxColumnarToRow | | number of output rows=3, time to convert=1
          WholeStageCodegenTransformer (3)
            RegularHashAggregateExecTransformer | (keys=[region#9], functions=[count(1)], isStreamingAgg=false) | number of output rows=3, time of aggregation:nsTiming=2000000
              InputAdapter
                InputIteratorTransformer | [region#9, count#7L] | number of output rows=12
                  ColumnarExchange | hashpartitioning(region#9, 4), ENSURE_REQUIREMENTS, [region#9, count#7L], [plan_id=9], [shuffle_writer_type=hash] | data size=90, shuffle records written=12, shuffle bytes written=60, shuffle write time=5000000, records read=6+6, batches read=1+1, local bytes read=60
                    WholeStageCodegenTransformer (2)
                      BroadcastHashJoinExecTransformer | [k#1], [id#8], Inner, BuildRight, false | number of output rows=40, time of hash build:nsTiming=7000000, number of hash build output rows=0, number of hash probe input rows=50
                        ShuffledHashJoinExecTransformer | [k#1], [k#4], LeftSemi, BuildRight | number of output rows=50, time of hash build:nsTiming=3000000, bytes written for spilling of hash build:size=70
                          InputIteratorTransformer | [k#1] | number of output rows=100
                            ColumnarExchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [k#1], [plan_id=1], [shuffle_writer_type=hash] | data size=800, shuffle records written=100, shuffle bytes written=400
                              WholeStageCodegenTransformer (1)
                                FilterExecTransformer | isnotnull(k#1) | number of output rows=100
                                  ScanTransformer parquet db.sales | [k#1] | number of output rows=120, time of scan:nsTiming=1000000
                          InputIteratorTransformer | [k#4] | number of output rows=20
                            ColumnarExchange | hashpartitioning(k#4, 8), ENSURE_REQUIREMENTS, [k#4], [plan_id=2], [shuffle_writer_type=hash] | data size=160, shuffle records written=20, shuffle bytes written=80
                              BatchScanTransformer db.returns | [k#4] | number of output rows=20
                        InputIteratorTransformer | [id#8, region#9] | number of output rows=5
                          ColumnarBroadcastExchange | HashedRelationBroadcastMode(List(cast(input[0, int, true] as bigint)),false), [plan_id=3] | data size=64, number of output rows=5, time to collect=10, time to broadcast=2
                            ScanTransformer parquet db.store | [id#8,region#9] | number of output rows=5
        """,
        """
        shuffle 4 hashpartitioning(region#9) 4 ENSURE_REQUIREMENTS written=12/60 read=12 data=90 ns=5000000 consumers=1
        shuffle 9 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=100/400 read=- data=800 ns=- consumers=1
        shuffle 14 hashpartitioning(k#4) 8 ENSURE_REQUIREMENTS written=20/80 read=- data=160 ns=- consumers=1
        broadcast 17 HashedRelationBroadcastMode succeeded size=64 rows=5 ms=10/-/2
        join 6 BroadcastHashJoin Inner right k#1=id#8 - out=40 in=50/5 build=64/- sort=- spill=-
        join 7 ShuffledHashJoin LeftSemi right k#1=k#4 - out=50 in=100/20 build=-/3 sort=- spill=-
        """,
    ),
    Case(
        "gluten with clickhouse",
        """
        CHNativeColumnarToRow
          WholeStageCodegenTransformer (3)
            CHSortMergeJoinExecTransformer | [k#1], [k#4], FullOuter | number of output rows=50
              SortExecTransformer | [k#1 ASC NULLS FIRST], false, 0 | number of output rows=100, time=4
                ColumnarExchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [k#1], [plan_id=1] | data size=800, shuffle records written=100, shuffle bytes written=400
                  CHBroadcastNestedLoopJoinExecTransformer | BuildRight, Inner, (v#2 < w#3) | number of output rows=100
                    FileSourceScanExecTransformer parquet db.sales | [k#1,v#2] | number of output rows=120
                    ColumnarBroadcastExchange | IdentityBroadcastMode, [plan_id=3] | data size=64, number of output rows=5
                      FileSourceScanExecTransformer parquet db.store | [w#3] | number of output rows=5
              SortExecTransformer | [k#4 ASC NULLS FIRST], false, 0 | number of output rows=20, time=4
                ColumnarExchange | SinglePartition, ENSURE_REQUIREMENTS, [k#4], [plan_id=2] | data size=160, shuffle records written=20, shuffle bytes written=80
                  FileSourceScanExecTransformer parquet db.returns | [k#4] | number of output rows=20
        """,
        """
        shuffle 4 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=100/400 read=- data=800 ns=- consumers=1
        shuffle 10 SinglePartition() 1 ENSURE_REQUIREMENTS written=20/80 read=- data=160 ns=- consumers=1
        broadcast 7 IdentityBroadcastMode succeeded size=64 rows=5 ms=-/-/-
        join 2 SortMergeJoin FullOuter - k#1=k#4 - out=50 in=100/20 build=-/- sort=- spill=-
        join 5 BroadcastNestedLoopJoin Inner right - (v#2 < w#3) out=100 in=120/5 build=64/- sort=- spill=-
        """,
    ),
    Case(
        "rapids, whose shuffles count batches",
        """
        GpuColumnarToRow | false | op time:nsTiming=5
          GpuHashAggregate | (keys=[region#9], functions=[gpucount(1)]), filters=List(None)) | output rows=3, aggregation time:nsTiming=2000000
            GpuShuffleCoalesce | 1073741824 | output rows=12
              GpuCustomShuffleReader | coalesced | partitions=1+1, partition data size=30+30
                ShuffleQueryStage | 2
                  GpuColumnarExchange | gpuhashpartitioning(region#9, 4), ENSURE_REQUIREMENTS, [plan_id=9] | data size=90, output rows=6+6, output columnar batches=1+1, shuffle records written=1+1, shuffle bytes written=60, shuffle write time=5000000, records read=1+1, local bytes read=60, partitions=1+1, partition data size:size=30+30
                    GpuBroadcastHashJoin | [k#1], [id#8], Inner, GpuBuildRight | output rows=40, build time:nsTiming=7000000, build side size:size=70
                      GpuShuffledSymmetricHashJoin | Inner, [k#1], [k#4], (v#2 > w#5), false, 1073741824, CoalesceReadOption(true,false), false | output rows=50, build time:nsTiming=3000000, build side size:size=900
                        GpuColumnarExchange | gpuhashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=1] | data size=800, output rows=100, shuffle records written=8, shuffle bytes written=400, records read=4+4
                          GpuScan parquet db.sales | [k#1,v#2] | output rows=100
                        GpuColumnarExchange | gpusinglepartitioning$(), ENSURE_REQUIREMENTS, [plan_id=2] | data size=160, output rows=20, shuffle records written=8, shuffle bytes written=80
                          GpuSort | [k#4 ASC NULLS FIRST], false, com.nvidia.spark.rapids.OutOfCoreSort$@1a2b3c4d | output rows=20, sort time:nsTiming=6000000
                            GpuBatchScan db.returns | [k#4,w#5] | output rows=20
                      GpuBroadcastExchange | HashedRelationBroadcastMode(List(input[0, int, true]),false), [plan_id=3] | data size=64, output rows=5, output columnar batches=1, collect batch time:nsTiming=10000000, build time:nsTiming=1000000, time to broadcast:nsTiming=2000000
                        GpuScan parquet db.store | [id#8,region#9] | output rows=5
        """,
        """
        shuffle 4 hashpartitioning(region#9) 4 ENSURE_REQUIREMENTS written=12/60 read=- data=90 ns=5000000 consumers=1 coalesced 2
        shuffle 7 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=100/400 read=- data=800 ns=- consumers=1
        shuffle 9 SinglePartition() 1 ENSURE_REQUIREMENTS written=20/80 read=- data=160 ns=- consumers=1
        broadcast 12 HashedRelationBroadcastMode succeeded size=64 rows=5 ms=10/1/2
        join 5 BroadcastHashJoin Inner right k#1=id#8 - out=40 in=50/5 build=64/1 sort=- spill=-
        join 6 ShuffledHashJoin Inner - k#1=k#4 (v#2 > w#5) out=50 in=100/20 build=900/3 sort=- spill=-
        """,
    ),
    Case(
        "real-time mode, where Spark counts nothing of a shuffle",
        """
        HashAggregate | (keys=[k#1], functions=[count(1)]) | number of output rows=3
          Exchange | hashpartitioning(k#1, 2), REQUIRED_BY_STATEFUL_OPERATOR, isPipelined=true, [plan_id=48] | shuffle records written=0, records read=0
            RealTimeStreamScan | [k#1] MemoryStreamDataSource [batchDurationMs=5000ms] | number of output rows=12
        """,
        """
        shuffle 1 hashpartitioning(k#1) 2 REQUIRED_BY_STATEFUL_OPERATOR written=-/- read=- data=- ns=- consumers=1
        """,
    ),
    Case(
        "photon, where one shuffle is three operators",
        """
        AdaptiveSparkPlan | isFinalPlan=true
          ColumnarToRow
            PhotonResultStage
              PhotonGroupingAgg | (keys=[region#9], functions=[finalmerge_count(merge count#7L) AS count(1)#6L]) | number of output rows=3
                PhotonShuffleExchangeSource | | records read=6+6, local bytes read=60
                  PhotonShuffleMapStage | ENSURE_REQUIREMENTS, [id=#9]
                    PhotonShuffleExchangeSink | hashpartitioning(region#9, 1024) | shuffle records written=12, shuffle bytes written=60, part of shuffle file write:nsTiming=5000000, data size=90
                      PhotonBroadcastHashJoin | [k#1], [id#8], Inner, BuildRight, false, true | number of output rows=40
                        PhotonShuffledHashJoin | [k#1], [k#4], Inner, BuildRight | number of output rows=50
                          PhotonShuffleExchangeSource
                            PhotonShuffleMapStage | ENSURE_REQUIREMENTS, [id=#1]
                              PhotonShuffleExchangeSink | hashpartitioning(k#1, 16) | shuffle records written=0, shuffle bytes written=400
                                PhotonScan parquet db.sales | [k#1] | number of output rows=100
                          PhotonShuffleExchangeSource
                            PhotonShuffleMapStage
                              PhotonShuffleExchangeSink | hashpartitioning(k#4, 16) | shuffle records written=20
                                PhotonScan parquet db.returns | [k#4] | number of output rows=20
                        PhotonShuffleExchangeSource
                          PhotonShuffleMapStage | EXECUTOR_BROADCAST, [id=#3]
                            PhotonShuffleExchangeSink | SinglePartition | shuffle records written=5
                              PhotonScan parquet db.store | [id#8,region#9] | number of output rows=5
        """,
        """
        shuffle 6 hashpartitioning(region#9) 1024 ENSURE_REQUIREMENTS written=12/60 read=12 data=90 ns=5000000 consumers=1
        shuffle 11 hashpartitioning(k#1) 16 ENSURE_REQUIREMENTS written=-/400 read=- data=- ns=- consumers=1
        shuffle 15 hashpartitioning(k#4) 16 - written=20/- read=- data=- ns=- consumers=1
        shuffle 19 SinglePartition() 1 EXECUTOR_BROADCAST written=5/- read=- data=- ns=- consumers=1
        join 7 BroadcastHashJoin Inner right k#1=id#8 - out=40 in=50/5 build=-/- sort=- spill=-
        join 8 ShuffledHashJoin Inner right k#1=k#4 - out=50 in=-/20 build=-/- sort=- spill=-
        """,
    ),
    Case(
        "auron",
        """
        NativeAgg | HashAgg, [region#9], [count(1)] | Native.output_rows=3, Native.elapsed_compute:nsTiming=1000000
          NativeShuffleExchange | hashpartitioning(region#9, 4), [plan_id=9] | data size=90, shuffle records written=12, shuffle bytes written=60, shuffle write time=5000000, records read=6+6, local bytes read=60, number of partitions=4, Native.output_rows=99
            NativeBroadcastJoin | hashpartitioning(k#1, 8), [k#1], [id#8], Inner, BroadcastRight | Native.output_rows=40
              NativeSortMergeJoinExec | [k#1], [k#4], LeftAnti | Native.output_rows=50
                NativeSort | [k#1 ASC NULLS FIRST], false | Native.output_rows=100, Native.elapsed_compute:nsTiming=4000000, Native.mem_spill_size:size=5
                  NativeShuffleExchange | hashpartitioning(k#1, 8), [plan_id=1] | data size=800, shuffle records written=100, shuffle bytes written=400
                    NativeProjectExec | [k#1] | Native.output_rows=100
                      NativeFilter | isnotnull(k#1) | Native.output_rows=100
                        NativeParquetScan db.sales | Native.output_rows=120
                NativeSort | [k#4 ASC NULLS FIRST], false | Native.output_rows=20, Native.elapsed_compute:nsTiming=5000000
                  NativeShuffleExchange | hashpartitioning(k#4, 8), [plan_id=2] | data size=160, shuffle records written=20, shuffle bytes written=80
                    ConvertToNative | | Native.output_rows=20
                      Scan ExistingRDD | [k#4] | number of output rows=20
              NativeBroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, true]),false), [plan_id=3] | data size=64, number of output rows=5, Native.output_rows=500, time to collect=?, time to build=?, time to broadcast=?
                NativeOrcScan db.store | Native.output_rows=5
        """,
        """
        shuffle 1 hashpartitioning(region#9) 4 - written=12/60 read=12 data=90 ns=5000000 consumers=1
        shuffle 5 hashpartitioning(k#1) 8 - written=100/400 read=- data=800 ns=- consumers=1
        shuffle 10 hashpartitioning(k#4) 8 - written=20/80 read=- data=160 ns=- consumers=1
        broadcast 13 HashedRelationBroadcastMode succeeded size=64 rows=5 ms=-/-/-
        join 2 BroadcastHashJoin Inner right k#1=id#8 - out=40 in=50/5 build=64/- sort=- spill=-
        join 3 SortMergeJoin LeftAnti - k#1=k#4 - out=50 in=100/20 build=-/- sort=9 spill=-
        """,
    ),
    Case(
        "a MERGE of iceberg",
        """
        ReplaceData | IcebergWrite(table=local.db.sales, format=PARQUET)
          Exchange | hashpartitioning(region#9, 200), REBALANCE_PARTITIONS_BY_COL, 402653184, [plan_id=7] | data size=90, shuffle records written=12, shuffle bytes written=60
            MergeRows | [__row_operation#1, k#1, region#9] | number of target rows inserted=2, number of target rows updated=3
              SortMergeJoin | [k#1], [k#4], RightOuter | number of output rows=12
                Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=1] | data size=80, shuffle records written=10
                  BatchScan local.db.sales | local.db.sales (branch=null) [filters=, groupedBy=] | number of output rows=10
                Exchange | hashpartitioning(k#4, 8), ENSURE_REQUIREMENTS, [plan_id=2] | data size=40, shuffle records written=5
                  LocalTableScan | [k#4] | number of output rows=5
        """,
        """
        shuffle 1 hashpartitioning(region#9) 200 REBALANCE_PARTITIONS_BY_COL written=12/60 read=- data=90 ns=- consumers=1
        shuffle 4 hashpartitioning(k#1) 8 ENSURE_REQUIREMENTS written=10/- read=- data=80 ns=- consumers=1
        shuffle 6 hashpartitioning(k#4) 8 ENSURE_REQUIREMENTS written=5/- read=- data=40 ns=- consumers=1
        join 3 SortMergeJoin RightOuter - k#1=k#4 - out=12 in=10/5 build=-/- sort=- spill=-
        """,
    ),
    Case(
        "an optimized write of delta, which is a shuffle without this name",
        """
        Execute WriteIntoDeltaCommand | OutputSpec(file:/t,Map(),List(k#1)) | number of written files=2, number of output rows=10, written output:size=70, job commit time=4
          DeltaOptimizedWriter | [region#9], org.apache.spark.sql.delta.DeltaLog@1a2b3c4d | data size=80, shuffle records written=10, shuffle bytes written=40, records read=10
            BroadcastHashJoin | [k#1], [id#8], LeftSemi, BuildRight, false | number of output rows=10
              Scan parquet | [k#1,region#9] | number of output rows=12
              BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int, true]),false), [plan_id=3] | data size=64, number of output rows=5
                LocalTableScan | [id#8] | number of output rows=5
        """,
        """
        shuffle 1 -() - - written=10/40 read=10 data=80 ns=- consumers=1
        broadcast 4 HashedRelationBroadcastMode succeeded size=64 rows=5 ms=-/-/-
        join 2 BroadcastHashJoin LeftSemi right k#1=id#8 - out=10 in=12/5 build=64/- sort=- spill=-
        """,
    ),
)


def summary(rows: Rows) -> Iterator[str]:
    """The exchanges and joins of a plan, a line each; ``-`` where nothing is known."""
    for s in rows.shuffle:
        line = f"shuffle {s.node_id} {known(s.partitioning)}({', '.join(s.keys or ())}) {known(s.partitions)}"
        line += f" {known(s.origin)} written={known(s.rows_written)}/{known(s.bytes_written)} read={known(s.rows_read)}"
        line += f" data={known(s.data_bytes)} ns={known(s.write_time_ns)} consumers={s.consumers}"
        read = f" {' '.join(s.aqe_read)} {known(s.aqe_partitions)}" if s.aqe_read and s.consumers == 1 else ""
        yield line + read
    for b in rows.broadcast:
        ms = "/".join(map(known, (b.collect_ms, b.build_ms, b.broadcast_ms)))
        mode = known(b.mode).partition("(")[0]
        yield f"broadcast {b.node_id} {mode} {b.outcome} size={known(b.size_bytes)} rows={known(b.rows)} ms={ms}"
    for j in rows.joins:
        keys = ", ".join(f"{a}={b}" for a, b in zip(j.left_keys or (), j.right_keys or (), strict=True))
        line = f"join {j.node_id} {j.strategy} {known(j.join_type)} {known(j.build_side)} {keys or '-'}"
        line += f" {known(j.condition)} out={known(j.output_rows)} in={known(j.left_rows)}/{known(j.right_rows)}"
        line += (
            f" build={known(j.build_bytes)}/{known(j.build_ms)} sort={known(j.sort_ms)} spill={known(j.spill_bytes)}"
        )
        yield line


def known(value: Any) -> str:
    """A value; ``-`` for None."""
    return "-" if value is None else str(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exchanges_and_joins_of_engines_are_stored_as_sparks(case: Case) -> None:
    """Each is stored as Spark's would be, with the engine's numbers; what it does not measure is unknown, never 0."""
    rows = execution_rows(planned(textwrap.dedent(case.plan)))
    assert list(summary(rows)) == textwrap.dedent(case.expected).strip().splitlines()


def test_the_tree_shows_the_same_numbers() -> None:
    """It shows rows and not batches, nothing where the engine never sets a count, and milliseconds."""
    shown = {}
    for case in CASES:
        plan = read_back(planned(textwrap.dedent(case.plan)))
        tree = plan_tree(plan, plan.versions[-1])
        shown[case.name.partition(",")[0]] = {i: (n.rows, n.bytes, n.time_ms) for i, n in tree.nodes.items()}
    rapids, photon = shown["rapids"], shown["photon"]
    assert shown["real-time mode"][1] == (None, None, None)
    assert (rapids[4], rapids[5], rapids[12]) == ((12, 60, 5), (40, 70, 7), (5, 64, 13))
    assert (photon[6], photon[11]) == ((12, 60, 5), (None, 400, None))


COUNTED = """
{aggregate}
  {join} | [k#1], [k#4], Inner{side}
    {exchange} | {partitioning}(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=1]
      {scan} parquet db.sales | [k#1] Batched: true
    {exchange} | {partitioning}(k#4, 8), ENSURE_REQUIREMENTS, [plan_id=2]
      {scan} parquet db.returns | [k#4] Batched: true
"""
COUNT = "HashAggregate | (keys=[k#1], functions=[count(1)])"
SPARK = (COUNT, "SortMergeJoin", "", "Exchange", "hashpartitioning", "Scan")


@pytest.mark.parametrize(
    "engine",
    [
        (COUNT, "CometSortMergeJoin", "", "CometExchange", "hashpartitioning", "CometScan [native_datafusion]"),
        (
            "RegularHashAggregateExecTransformer | (keys=[k#1], functions=[count(1)], isStreamingAgg=false)",
            *("ShuffledHashJoinExecTransformer", ", BuildLeft", "ColumnarExchange", "hashpartitioning"),
            "ScanTransformer",
        ),
        (
            "GpuHashAggregate | (keys=[k#1], functions=[gpucount(1)]), filters=List(None))",
            *("GpuShuffledHashJoin", ", GpuBuildRight, false", "GpuColumnarExchange", "gpuhashpartitioning"),
            "GpuScan",
        ),
        (
            "PhotonGroupingAgg | (keys=[k#1], functions=[count(1)])",
            *("PhotonShuffledHashJoin", ", BuildRight", "PhotonShuffleExchangeSink", "hashpartitioning", "PhotonScan"),
        ),
    ],
    ids=lambda engine: engine[1],
)
def test_keys_and_titles_are_those_of_spark(engine: tuple[str, ...]) -> None:
    """Where an engine prints the same expressions as Spark, its runs of a query are found together with Spark's."""
    names = ("aggregate", "join", "side", "exchange", "partitioning", "scan")
    spark, native = (
        execution_rows(planned(COUNTED.format(**dict(zip(names, each, strict=True))))) for each in (SPARK, engine)
    )
    assert [row.operator_key for row in native.plan_node] == [row.operator_key for row in spark.plan_node]
    assert native.execution.query_shape == spark.execution.query_shape
    assert native.execution.title == spark.execution.title == "db.sales ⋈ db.returns → by k → count"
