"""A plan's outline says what a query reads, does and writes, in one line that is the same in all its runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.growth import check_cpu_time, steps
from tests.plan.test_identity import FINAL, HOSTILE, REPORT, graph, plan_of_long_texts

from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Identity
from joinsight.plan.outline import MAX_CHARACTERS, outline


def of_graph(graph: Graph) -> str:
    return outline(Identity().shape(graph))


def of(drawing: str) -> str:
    return of_graph(graph(drawing))


SALES = "Scan parquet spark_catalog.default.sales | [id#1,store_id#2,amount#3]"
STORE = "Scan parquet db.store | [store_id#4,region#5]"
CASES = {
    "sales ⋈ db.store → by region → sum(amount) → save to csv reports/daily": f"""
        Execute InsertIntoHadoopFsRelationCommand | s3a://bucket/reports/daily, false, CSV, [path=s3a://x], Append, [a]
          WriteFiles
            HashAggregate(keys=[region#5], functions=[sum(amount#3)])
              BroadcastHashJoin | [store_id#2], [store_id#4], Inner, BuildRight, false
                {SALES}
                {STORE}""",
    "sales → id, store_id, amount": SALES,
    "sales where amount, city": f"""
        Filter | ((isnotnull(amount#3) AND (amount#3 > 10.0)) AND NOT (city#9 = Secret Town))
          {SALES}""",
    "sales where amount → top by amount": f"""
        TakeOrderedAndProject | (limit=3, orderBy=[amount#3 DESC NULLS LAST], output=[id#1])
          Filter | (amount#3 > 10.0)
            {SALES}""",
    "sales with db.store": f"""
        SortMergeJoin | [store_id#2], [store_id#4], LeftSemi
          {SALES}
          {STORE}""",
    "sales without db.store": f"""
        SortMergeJoin | [store_id#2], [store_id#4], LeftAnti
          {SALES}
          {STORE}""",
    "sales × db.store": f"""
        CartesianProduct
          {SALES}
          {STORE}""",
    "sales ∪ db.store → by region → count(distinct id)": f"""
        HashAggregate(keys=[region#5], functions=[count(distinct id#1)])
          Union
            {SALES}
            {STORE}""",
    "(sales → by store_id → count) ⋈ db.store": f"""
        SortMergeJoin | [store_id#2], [store_id#4], Inner
          HashAggregate(keys=[store_id#2], functions=[count(1)])
            {SALES}
          {STORE}""",
    "cached (sales → by store_id → count) → store_id": f"""
        InMemoryTableScan | [store_id#2]
          HashAggregate(keys=[store_id#2], functions=[count(1)])
            {SALES}""",
    "cached sales → store_id": f"""
        InMemoryTableScan | [store_id#2]
          {SALES}""",
    "sales → write (overwrite)": f"""
        OverwriteByExpression | org.apache.spark.sql.execution.datasources.noop.NoopWrite$@3a1b, ...
          {SALES}""",
    "cached spending → store_id": "Scan In-memory table spending | [store_id#2]",
    "sales → by … → sum(…), max(amount)": f"""
        HashAggregate(keys=[_groupingexpression#7], functions=[sum((amount#3 * 2)), max(amount#3), sum((id#1 * 7))])
          {SALES}""",
    "sales": f"""
        Project | [CASE WHEN (amount#3 > 1) THEN 1 END AS CASE WHEN (amount > 1) THEN 1 END#7, 1.0 AS 1.0#8]
          {SALES}""",
    "orders → id": "Scan parquet | [id#1] Batched: true, Location: InMemoryFileIndex(1 paths)[s3a://k@b/lake/orders]",
    "orders_* → id": "Scan csv | [id#1] Location: InMemoryFileIndex(1 paths)[file:/orders_20240131/day=3/2024-01-31]",
    "parquet files → id": "Scan parquet | [id#1] Location: FileIndex(1 paths)[file:/a/very/long/p..., Format: x",
    "db.events → by id → count": """
        HashAggregate(keys=[id#1], functions=[count(1)])
          BatchScan db.events | [id#1] IcebergScan(table=db.events)""",
    "range → write (append) lake.shop.small": """
        AppendData | IcebergWrite(table=lake.shop.small, format=PARQUET)
          Range | (0, 5, step=1, splits=8)""",
    "stream → by k → count → write": """
        WriteToDataSourceV2 | MicroBatchWrite[epoch: 0, writer: NoopStreamingWrite]
          HashAggregate(keys=[k#2], functions=[count(1)])
            MicroBatchScan | [k#2] RatePerMicroBatch [rowsPerBatch=100, numPartitions=1]""",
    "stream → k": "RealTimeStreamScan | [k#1] MemoryStreamDataSource [batchDurationMs=5000ms]",
    "range → by id → Python f": """
        FlatMapGroupsInPandas | [id#1L], f(id#1L, v#2)#5, [id#7L]
          Range | (0, 10, step=1, splits=2)""",
    "sales → window over store_id → where place": f"""
        Filter | (place#9 <= 3)
          Window | [rank(amount#3) windowspecdefinition(store_id#2) AS place#9], [store_id#2], [amount#3 DESC]
            {SALES}""",
    "sales → distinct id": f"""
        HashAggregate(keys=[id#1], functions=[])
          {SALES}""",
    "create view": "Execute CreateViewCommand",
    "drop table db.old": "Execute DropTableCommand | `spark_catalog`.`db`.`old`, false, false, true",
    "sales → insert into db.daily": f"""
        Execute InsertIntoHadoopFsRelationCommand | file:/w/daily, false, ORC, [], Append, `spark_catalog`.`db`.`daily`
          {SALES}""",
    "sales → replace table db.copy": f"""
        AtomicReplaceTableAsSelect | [n#1L], org.x.Catalog@3a1b, db.copy, Relation sales[id#1] parquet
          {SALES}""",
}  # fmt: skip


@pytest.mark.parametrize("expected", CASES)
def test_an_outline_says_what_is_read_done_and_written(expected: str) -> None:
    """One line for each kind of operator, without ids and literals."""
    assert of(CASES[expected]) == expected


def test_an_outline_is_the_same_however_the_plan_ran() -> None:
    """AQE, ids and strategies leave no trace, in whatever plan of the execution it is read."""
    assert of(REPORT) == "db.sales ⋈ db.store where amount, city → by region → sum(amount) → sort by total"
    assert of(FINAL) == of(REPORT)


def test_a_plan_without_nodes_has_no_outline() -> None:
    """It is empty, as for an execution that failed before it was planned."""
    assert of_graph(Graph((), ())) == ""


def test_a_long_outline_loses_detail_before_it_is_cut() -> None:
    """Its last step is still there, with fewer tables and columns."""
    tables = "Scan parquet warehouse.table_with_a_long_name_a | [a#1]"
    for number in range(12):
        scan = f"Scan parquet warehouse.table_with_a_long_name_{number} | [a#1]"
        tables = "\n".join(
            ["SortMergeJoin | [a#1], [a#1], Inner", *(f"  {line}" for line in (*tables.splitlines(), scan))]
        )
    join = "\n".join(f"  {line}" for line in tables.splitlines())
    text = of(f"HashAggregate(keys=[region#5], functions=[sum(amount#3)])\n{join}")
    assert text.startswith("warehouse.table_with_a_long_name_a ⋈ ")
    assert text.endswith("more → by region → sum(amount)")
    assert len(text) <= MAX_CHARACTERS


def test_inputs_that_are_shared_are_read_once() -> None:
    """Here each is read twice by the next: twice the levels take twice the work."""

    def work(levels: int) -> int:
        nodes = [Node(0, "Scan parquet t", "FileScan parquet t[a#1]")]
        edges = []
        for number in range(1, levels):
            nodes.append(Node(number, "SortMergeJoin", "SortMergeJoin [a#1], [a#1], Inner"))
            edges += [(number - 1, number)] * 2
        plan = Graph(tuple(nodes), tuple(edges))
        shape = Identity().shape(plan)
        assert outline(shape) == "t ⋈ t ⋈ t ⋈ t ⋈ 1000 more"
        return steps(lambda: outline(shape))

    assert work(32) < 2.2 * work(16)


@pytest.mark.parametrize(
    "piece", (*HOSTILE, "keys=[", "Location: F(1 paths)[file://[::1/%/", "`a`.", "a/", "isnotnull(")
)
def test_a_hostile_text_takes_linear_time(piece: str) -> None:
    """The time for a text grows linearly with its length, and so long an outline is cut."""

    def prepare(size: int) -> Callable[[], object]:
        plan = plan_of_long_texts(piece * (size // len(piece)))
        shape = Identity().shape(plan)
        assert 0 < len(outline(shape)) <= MAX_CHARACTERS
        return lambda: outline(shape)

    check_cpu_time(prepare, 60_000)
