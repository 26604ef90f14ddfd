"""The rows of a document: shuffles, broadcasts and joins with their metrics, and the columns that stay NULL."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from msgspec import structs
from tests.documents import (
    FULL,
    LISTENER,
    STARTED_AT_MS,
    Plan,
    PlanNode,
    StoredRows,
    application,
    draw,
    execution,
    measure,
    planned,
    replanned,
    stored_rows,
)

from joinsight import tables
from joinsight.analysis.rows import NO_NODE, application_row, application_row_of, byte_size, version_tuple
from joinsight.contract.document import Accumulator, Job, JoinHint, Listener, Metric, Nested, Spread, Stage
from joinsight.tables import Row, as_columns
from joinsight.tables.views import RELATIONS

MB = 1 << 20


def rows_of(drawing: str, **changes: Any) -> StoredRows:
    return stored_rows(planned(drawing, **changes))


def only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def join_of(drawing: str, **changes: Any) -> Row:
    return only(rows_of(drawing, **changes)["joins"])


def some(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


# Shuffles

SHUFFLE = """
HashAggregate | (keys=[k#1])
  Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3] | {metrics}
"""


def shuffle(metrics: str) -> Row:
    return only(rows_of(SHUFFLE.format(metrics=metrics))["shuffle"])


def test_shuffle_is_described() -> None:
    """A shuffle has its partitioning, keys and origin, its node, and the key of its execution."""
    row = shuffle("")
    assert some(row, "node_id", "partitioning", "keys", "origin", "consumers") == (
        1,
        "hashpartitioning",
        ["k#1"],
        "ENSURE_REQUIREMENTS",
        1,
    )
    assert some(row, *tables.EXECUTION_KEY) == (datetime(2026, 1, 1, tzinfo=timezone.utc), "local-1767225600000", "", 0)


def test_a_metric_of_a_shuffle_is_its_sum_and_null_where_not_measured() -> None:
    """Zero stays zero. Which metric a column has is declared once, in `tables/shuffle`."""
    assert shuffle("fetch wait time=5+6")["fetch_wait_ms"] == 11
    assert shuffle("fetch wait time=0")["fetch_wait_ms"] == 0
    assert shuffle("fetch wait time=?")["fetch_wait_ms"] is None
    assert shuffle("")["fetch_wait_ms"] is None


def test_partitions_are_the_measured_ones_else_the_planned() -> None:
    assert shuffle("number of partitions=5")["partitions"] == 5
    assert shuffle("number of partitions=?")["partitions"] == 8


def test_a_metric_that_no_task_touched_is_null() -> None:
    """A metric that tasks brought and none touched, of a type that starts at -1, is NULL in the shuffle."""
    nodes, _ = draw(SHUFFLE.format(metrics="remote bytes read=?"))
    untouched = Accumulator(nodes[1].metrics[0].id, "size", 0)
    rows = stored_rows(execution(plans=[Plan(0, nodes)], accumulators=[untouched]))
    assert only(rows["shuffle"])["remote_bytes_read"] is None
    assert some(only(rows["node_metric"]), "count", "total") == (0, None)


@pytest.mark.parametrize(
    ("read", "median", "largest", "ratio"),
    [
        ("1+2+9", 2, 9, 4.5),
        ("5+5", 5, 5, 1.0),
        ("0+0+9", 0, 9, None),  # no ratio to nothing
        ("0+0", None, None, None),  # nothing to be skewed
        ("9", None, None, None),  # a single task
        ("?", None, None, None),
    ],
)
def test_skew_is_the_largest_readers_rows_over_the_medians(
    read: str, median: int | None, largest: int | None, ratio: float | None
) -> None:
    row = shuffle(f"records read={read}")
    assert some(row, "rows_read_median", "rows_read_max", "skew_ratio") == (median, largest, ratio)
    assert (row.get("rows_read_max_task_id") is None) == (largest is None)


UNION = """
{above}Union
{indent}  {read}Exchange | hashpartitioning(k#1, 3), REPARTITION_BY_NUM, [plan_id=3] | {metrics}
{indent}  Range | (0, 9)
"""


def in_union(values: str, read: str = "", above: str = "") -> Row:
    indent = "  " * bool(above)
    if read:
        read += f"\n{indent}    "
    drawing = UNION.format(above=above and f"{above}\n  ", indent=indent, read=read, metrics=f"records read={values}")
    return only([row for row in rows_of(drawing)["shuffle"] if row["partitions"] == 3])


@pytest.mark.parametrize(
    ("row", "median", "ratio"),
    [
        (in_union("2+2+8"), 2, 4.0),  # each task reads a partition of each branch
        (in_union("2+2+8+0"), 2, 4.0),
        (in_union("0+0+0+0+0+0+0+2+2+8"), 2, 4.0),
        (in_union("2+8+0", read="AQEShuffleRead | coalesced | number of partitions=2"), 8, 1.0),
        (in_union("8+0+0+0"), None, None),
        (in_union("2+2+8", above="Exchange | hashpartitioning(k#1, 5)"), 2, 4.0),
        (in_union("2+2+8+0", above="Exchange | hashpartitioning(k#1, 5)"), 2, 4.0),
    ],
)
def test_tasks_of_other_branches_of_a_union_do_not_count_as_readers(
    row: Row, median: int | None, ratio: float | None
) -> None:
    """Spark counts 0 rows for each of them, so the median is that of the tasks that read any."""
    assert some(row, "rows_read_median", "rows_read_max", "skew_ratio") == (median, 8, ratio)


def test_documents_of_earlier_listeners_have_no_median_of_readers() -> None:
    """The median over a UNION's tasks is then unknown."""
    drawing = UNION.format(above="", indent="", read="", metrics="records read=2+2+8+0")
    document = planned(drawing)
    assert document.accumulators[0].positive == 3
    old = [structs.replace(each, positive=None, positive_median=None) for each in document.accumulators]
    (row,) = stored_rows(structs.replace(document, accumulators=old))["shuffle"]
    assert some(row, "rows_read_median", "rows_read_max", "skew_ratio") == (None, 8, None)


def test_a_shuffle_that_both_branches_of_a_union_read_has_the_median_of_all_tasks() -> None:
    """Each of them reads all partitions."""
    exchange = "Exchange | hashpartitioning(k#1, 3), REPARTITION_BY_NUM, [plan_id=3] | records read=2+2+8+2+2+8"
    row = only(rows_of(f"Union\n  {exchange}\n  ReusedExchange\n    {exchange}")["shuffle"])
    assert some(row, "consumers", "rows_read_median", "skew_ratio") == (2, 2, 4.0)


def test_the_task_that_read_most_is_named() -> None:
    assert shuffle("records read=1+9+2")["rows_read_max_task_id"] == 71


def test_a_shuffle_has_the_stages_whose_tasks_measured_it() -> None:
    names = ("shuffle bytes written", "shuffle records written", "shuffle write time", "records read", "data size")
    metrics = [Metric(name, number, "sum") for number, name in enumerate(names)]
    stages = (3, 3, 2, 5, 9)
    measured = [measure(metric, [1], stage) for metric, stage in zip(metrics, stages, strict=True)]
    node = PlanNode("Exchange", -1, "Exchange SinglePartition, ENSURE_REQUIREMENTS", metrics=metrics)
    row = only(stored_rows(execution(plans=[Plan(0, [node])], accumulators=measured))["shuffle"])
    assert some(row, "map_stages", "reduce_stages", "partitions") == ([2, 3], [5], 1)
    assert some(shuffle("records read=?"), "map_stages", "reduce_stages") == ([], [])


AQE_READ = """
AQEShuffleRead | {how} | {metrics}
  ShuffleQueryStage | 0
    Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3]
"""


@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        ("coalesced", ["coalesced"]),
        ("skewed", ["skewed"]),
        ("coalesced and skewed", ["coalesced", "skewed"]),
        ("local", ["local"]),
        ("", []),
    ],
)
def test_a_shuffle_says_how_aqe_reads_it(how: str, kinds: list[str]) -> None:
    metrics = (
        "number of partitions=6, number of coalesced partitions=2, number of skewed partitions=1, "
        "number of skewed partition splits=3, number of empty partitions=4, partition data size=10+20+90"
    )
    row = only(rows_of(AQE_READ.format(how=how, metrics=metrics))["shuffle"])
    assert row["aqe_read"] == kinds
    assert some(
        row, "aqe_partitions", "aqe_coalesced_partitions", "aqe_skewed_partitions", "aqe_skewed_splits",
        "aqe_empty_partitions", "aqe_partition_bytes_median", "aqe_partition_bytes_max",
    ) == (6, 2, 1, 3, 4, 20, 90)  # fmt: skip
    assert row["partitions"] == 8


def test_aqe_read_of_what_was_not_measured() -> None:
    """A local read has no sizes; a shuffle read as planned has no AQE read at all."""
    row = only(rows_of(AQE_READ.format(how="local", metrics="number of partitions=2"))["shuffle"])
    assert some(row, "aqe_partitions", "aqe_skewed_splits", "aqe_partition_bytes_max") == (2, None, None)
    assert shuffle("records read=1").get("aqe_read") is None


def test_reused_shuffle_is_one_row() -> None:
    rows = rows_of("""
    SortMergeJoin | [k#1], [k#2], Inner
      AQEShuffleRead | coalesced
        ShuffleQueryStage | 0
          Exchange | hashpartitioning(k#1, 8), [plan_id=3] | records read=5
      AQEShuffleRead | coalesced
        ShuffleQueryStage | 1
          ReusedExchange
            Exchange | hashpartitioning(k#1, 8), [plan_id=3] | records read=5
    """)
    assert some(only(rows["shuffle"]), "consumers", "rows_read") == (2, 5)


def test_an_exchange_of_a_native_engine_is_a_shuffle() -> None:
    row = only(rows_of("CometExchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=7")["shuffle"])
    assert some(row, "partitions", "data_bytes") == (8, 7)


# Identity

JOINED = """
BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false
  Exchange | hashpartitioning(k#1, 8), REPARTITION_BY_COL, [plan_id=3]
    Scan t | [k#1]
  BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, false]),false), [plan_id=5]
    Scan u | [k#2]
"""


def test_keys_are_in_the_rows() -> None:
    """Operators have keys in their nodes; exchanges, broadcasts and joins also in their own rows."""
    rows = rows_of(JOINED)
    keys = {row["node_id"]: row["operator_key"] for row in rows["plan_node"]}
    own = [only(rows[table]) for table in ("joins", "shuffle", "broadcast")]
    assert [row["operator_key"] for row in own] == [keys[0], keys[1], keys[3]]
    assert len(set(keys.values())) == len(keys) == 5


def test_a_command_that_shows_only_its_name_is_told_by_its_line() -> None:
    """Two tables that a job saves have different keys, and the same in each run; without a line there is none."""

    def shape(description: str, **changes: Any) -> str | None:
        its = {"execution_id": 1, "root_execution_id": 1, "nested": [Nested(2, STARTED_AT_MS)], "jobs": []}
        its |= {"call_site": "", **changes}
        row = only(rows_of("Execute SaveAsV1TableCommand", description=description, **its)["execution"])
        found: str | None = row["query_shape"]
        return found

    first, second = shape("saveAsTable at job.py:11"), shape("saveAsTable at job.py:12")
    assert first and second and first != second
    assert shape("saveAsTable at job.py:11") == first
    assert shape("day 2026-01-01") == shape("day 2026-01-02") != first
    assert shape("saveAsTable at NativeMethodAccessorImpl.java:0") is None
    assert shape("saveAsTable at NativeMethodAccessorImpl.java:0", nested=[])
    assert shape("saveAsTable at job.py:11", root_execution_id=0) is None


def test_shape_is_of_the_first_plan_and_fingerprint_of_the_last() -> None:
    """Each plan version has its fingerprint; the execution has the final one's, and the shape of its first."""
    first, final = draw(JOINED)[0], draw("EmptyRelation | [plan_id=1]")[0]
    rows = stored_rows(execution(plans=[Plan(0, first), Plan(1, final)]))
    versions = [row["plan_fingerprint"] for row in rows["plan_version"]]
    assert len(set(versions)) == 2
    e = only(rows["execution"])
    assert (e["query_shape"], e["plan_fingerprint"]) == (only(rows_of(JOINED)["execution"])["query_shape"], versions[1])
    without = only(stored_rows(execution())["execution"])
    assert (without["query_shape"], without["plan_fingerprint"]) == (None, None)


# Broadcasts

BROADCAST_MEASURED = "data size=1000, number of output rows=10, time to collect=5, time to build=6, time to broadcast=7"
BROADCAST = """
BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false
  Range
  BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, false]),false), [plan_id=5] | {metrics}
"""


def broadcast(metrics: str, **changes: Any) -> Row:
    return only(rows_of(BROADCAST.format(metrics=metrics), **changes)["broadcast"])


def test_a_broadcast_has_its_size_times_mode_and_joins() -> None:
    row = broadcast(BROADCAST_MEASURED)
    assert some(row, "node_id", "outcome", "consumers", "join_nodes", "threshold_bytes") == (
        2,
        "succeeded",
        1,
        [0],
        10 * MB,
    )
    assert some(row, "size_bytes", "rows", "collect_ms", "build_ms", "broadcast_ms") == (1000, 10, 5, 6, 7)
    assert row["mode"] == "HashedRelationBroadcastMode(List(input[0, bigint, false]),false)"


@pytest.mark.parametrize(
    ("metrics", "state", "outcome"),
    [
        ("data size=1000", "running", "succeeded"),
        ("data size=1000", "failed", "succeeded"),  # something else failed
        ("data size=0", "succeeded", "succeeded"),
        ("data size=?", "running", "running"),
        ("data size=?", "failed", "unknown"),  # an earlier execution of the same DataFrame may have made it
        ("data size=?", "succeeded", "unknown"),
        ("data size=?", "lost", "unknown"),
        ("", "succeeded", "unknown"),
    ],
)
def test_a_broadcast_that_was_measured_has_succeeded(metrics: str, state: str, outcome: str) -> None:
    """A broadcast that was measured has succeeded; another shares its execution's fate."""
    row = broadcast(metrics, state=state)
    assert row["outcome"] == outcome
    assert row["collect_ms"] is None


@pytest.mark.parametrize(
    ("rows", "error", "outcome"),
    [
        ("5+7", "Job aborted due to stage failure", "failed"),
        ("0+0", "Job aborted due to stage failure", "unknown"),
        ("?", "Job aborted due to stage failure", "unknown"),
        ("?", "java.util.concurrent.TimeoutException: Could not execute broadcast in 300 secs.", "failed"),
        ("?", "Cannot broadcast the table that is larger than 8.0 GiB: 9 GiB.", "failed"),
        ("?", None, "unknown"),
    ],
)
def test_a_broadcast_failed_if_its_query_worked_on_it_or_says_so(rows: str, error: str | None, outcome: str) -> None:
    """Else an earlier execution of the same DataFrame made it: its operators did nothing here."""
    drawing = f"""
        BroadcastHashJoin | [id#1L], [id#2L], Inner, BuildRight, false
          Range | (0, 9) | number of output rows=9
          BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, false]),false) | data size=?
            Project
              Scan | parquet t | number of output rows={rows}
        """
    assert only(rows_of(drawing, state="failed", error=error)["broadcast"])["outcome"] == outcome


def test_a_reused_broadcast_is_one_row() -> None:
    """A reused broadcast is one row; of its consumers only joins are called joins."""
    rows = rows_of("""
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false
      Scan parquet t
        SubqueryBroadcast
          ReusedExchange
            BroadcastExchange | [plan_id=5] | data size=1000
      BroadcastQueryStage | 0
        BroadcastExchange | [plan_id=5] | data size=1000
    """)
    row = only(rows["broadcast"])
    assert some(row, "consumers", "join_nodes", "size_bytes") == (2, [0], 1000)
    assert only(rows["execution"])["broadcast_bytes"] == 1000


@pytest.mark.parametrize(
    ("below", "size"),
    [
        ("Exchange | hashpartitioning(k#2, 8), [plan_id=2] | data size=800", 800),
        ("Exchange | hashpartitioning(k#2, 8), [plan_id=2] | data size=?", None),
        ("AQEShuffleRead | local\n      Exchange | hashpartitioning(k#2, 8), [plan_id=2] | data size=800", 800),
        ("Filter | (k#2 > 1)\n      Exchange | hashpartitioning(k#2, 8), [plan_id=2] | data size=800", None),
        ("Scan parquet t | | size of files read=800", None),
    ],
)
def test_what_aqe_compared_for_a_broadcast(below: str, size: int | None) -> None:
    """The size of its rows is known where they come right out of a shuffle; AQE compares it with the threshold."""
    drawing = BROADCAST.format(metrics=BROADCAST_MEASURED) + f"    {below}"
    assert only(rows_of(drawing)["broadcast"])["shuffled_bytes"] == size


# Joins


def test_a_broadcast_hash_join_has_the_build_cost_of_its_broadcast() -> None:
    """Its build cost is the broadcast's; its streamed side has rows, and bytes only behind a shuffle."""
    row = join_of("""
    WholeStageCodegen (1)
      BroadcastHashJoin | [k#1], [k#2], LeftOuter, BuildRight, (a#1 < b#2), false | number of output rows=90
        Project
          Filter | (k#1 > 5) | number of output rows=100
            Range | (0, 1000) | number of output rows=1000
        InputAdapter
          BroadcastExchange | [plan_id=5] | data size=1000, number of output rows=10, time to build=6
            Range | (0, 20) | number of output rows=20
    """)
    assert some(row, "strategy", "join_type", "build_side", "left_keys", "right_keys", "condition", "is_skew") == (
        "BroadcastHashJoin", "LeftOuter", "right", ["k#1"], ["k#2"], "(a#1 < b#2)", False,
    )  # fmt: skip
    assert some(row, "output_rows", "left_rows", "right_rows", "left_bytes", "right_bytes") == (
        90, 100, 10, None, 1000,
    )  # fmt: skip
    assert some(row, "build_bytes", "build_ms", "left_exchange", "right_exchange") == (1000, 6, None, 5)
    assert some(row, "sort_ms", "spill_bytes") == (None, None)


def test_a_nested_loop_join_may_build_its_left_side() -> None:
    row = join_of("""
    BroadcastNestedLoopJoin | BuildLeft, RightOuter, (a#1 < b#2) | number of output rows=3
      BroadcastExchange | IdentityBroadcastMode, [plan_id=5] | data size=1000, number of output rows=10
      Range | (0, 20) | number of output rows=20
    """)
    assert some(row, "build_side", "left_rows", "right_rows", "left_bytes", "right_bytes", "build_bytes") == (
        "left", 10, 20, 1000, None, 1000,
    )  # fmt: skip
    assert some(row, "left_keys", "condition", "build_ms") == ([], "(a#1 < b#2)", None)


def test_a_sort_merge_join_has_the_time_and_spill_of_its_sorts() -> None:
    """Its sorts' time and spill are its own; both sides come from shuffles, which count rows as written and name it."""
    rows = rows_of("""
    SortMergeJoin(skew=true) | [k#1], [k#2], Inner | number of output rows=50, spill size=1
      Sort | [k#1 ASC] | sort time=5, spill size=10
        AQEShuffleRead | skewed | number of partitions=9
          ShuffleQueryStage | 0
            Exchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=4000, shuffle records written=40
              Exchange | RoundRobinPartitioning(8), [plan_id=1] | number of output rows=99
      Sort | [k#2 ASC] | sort time=6, spill size=100
        Exchange | hashpartitioning(k#2, 8), [plan_id=4] | data size=3000, shuffle records written=30
    """)
    assert [(s["node_id"], s["join_nodes"]) for s in rows["shuffle"]] == [(3, [0]), (4, []), (6, [0])]
    row = only(rows["joins"])
    assert some(row, "strategy", "is_skew", "sort_ms", "spill_bytes") == ("SortMergeJoin", True, 11, 111)
    assert some(row, "left_rows", "right_rows", "left_bytes", "right_bytes") == (40, 30, 4000, 3000)
    assert some(row, "left_exchange", "right_exchange", "build_side", "build_bytes") == (3, 6, None, None)


def test_a_side_that_is_sorted_already_adds_nothing() -> None:
    """A side that is sorted already adds nothing; what was not measured stays out of the sum."""
    row = join_of("""
    SortMergeJoin | [k#1], [k#2], Inner | spill size=?
      Sort | [k#1 ASC] | sort time=5, spill size=?
        Range
      Window | | spill size=7
        Range
    """)
    assert some(row, "sort_ms", "spill_bytes", "output_rows") == (5, None, None)


def test_a_shuffled_hash_join_measures_its_build_cost() -> None:
    row = join_of("""
    ShuffledHashJoin | [k#1], [k#2], Inner, BuildLeft | data size of build side=700, time to build hash map=8
      Exchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=4000, shuffle records written=40
      Exchange | hashpartitioning(k#2, 8), [plan_id=4] | data size=3000, shuffle records written=30
    """)
    assert some(row, "build_side", "build_bytes", "build_ms", "left_bytes", "right_bytes") == (
        "left", 700, 8, 4000, 3000,
    )  # fmt: skip


def test_a_cartesian_product_has_the_rows_of_a_side_only_where_a_shuffle_counted_them() -> None:
    """Other operators count them once for each partition of the other side: 2,000 rows as 6,000."""
    (row,) = rows_of("""
        CartesianProduct | | number of output rows=200000
          Project
            Range | (0, 2000) | number of output rows=6000
          AQEShuffleRead | coalesced
            Exchange | hashpartitioning(k#1, 3), [plan_id=3] | data size=800, shuffle records written=100
        """)["joins"]
    assert some(row, "strategy", "output_rows", "left_rows", "right_rows", "right_bytes", "build_side") == (
        "CartesianProduct", 200_000, None, 100, 800, None,
    )  # fmt: skip
    assert row["output_ratio"] is None
    (filtered,) = rows_of("""
        CartesianProduct | | number of output rows=900
          Filter | (k#1 > 1) | number of output rows=90
            Exchange | hashpartitioning(k#1, 3), [plan_id=3] | data size=800, shuffle records written=100
          Exchange | hashpartitioning(k#2, 3), [plan_id=4] | data size=30, shuffle records written=30
        """)["joins"]
    assert some(filtered, "left_rows", "left_bytes", "right_rows") == (None, 800, 30)


def test_a_reused_exchange_feeds_both_sides_of_one_join() -> None:
    rows = rows_of("""
    SortMergeJoin | [k#1], [k#2], Inner
      Exchange | [plan_id=3] | data size=4000, shuffle records written=40
      ReusedExchange
        Exchange | [plan_id=3] | data size=4000, shuffle records written=40
    """)
    assert only(rows["shuffle"])["join_nodes"] == [0]
    row = only(rows["joins"])
    assert some(row, "left_exchange", "right_exchange", "left_rows", "right_rows") == (1, 1, 40, 40)


def test_a_join_of_joins_has_the_rows_that_these_put_out() -> None:
    """What a join below puts out is counted by that join; where its inputs come from is its own affair."""
    rows = rows_of("""
    SortMergeJoin | [k#1], [k#3], Inner | number of output rows=9
      Sort
        BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=8
          Range | (0, 7) | number of output rows=7
          BroadcastExchange | [plan_id=1] | data size=100, number of output rows=6
      Union
        Range | (0, 3) | number of output rows=3
        Range | (0, 4) | number of output rows=4
    """)
    outer, inner = rows["joins"]
    assert some(outer, "left_rows", "left_bytes", "left_exchange") == (8, None, None)
    assert some(outer, "right_rows", "right_bytes") == (None, None)
    assert some(inner, "left_rows", "right_rows", "right_bytes") == (7, 6, 100)


def test_subqueries_do_not_feed_a_join() -> None:
    """A scan's or a filter's subquery is no input of theirs: the join's other side may be the subquery's source."""
    row = join_of("""
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false
      Scan parquet t | | number of output rows=5
        SubqueryBroadcast | dynamicpruning#9
          AdaptiveSparkPlan
            ReusedExchange
              BroadcastExchange | [plan_id=2] | data size=88
      BroadcastQueryStage | 0
        BroadcastExchange | [plan_id=2] | data size=88
    """)
    assert some(row, "left_rows", "left_bytes", "left_exchange", "right_bytes") == (5, None, None, 88)
    row = join_of("""
    SortMergeJoin | [k#1], [k#2], Inner
      Filter | (a#1 > Subquery) | number of output rows=5
        Exchange | [plan_id=1] | data size=77
        Subquery | scalar-subquery#9
          Exchange | [plan_id=3] | data size=99
      Exchange | [plan_id=2]
    """)
    assert some(row, "left_rows", "left_bytes", "left_exchange") == (5, 77, 2)


@pytest.mark.parametrize("scan", ["InMemoryTableScan", "Scan In-memory table t", "Scan ExistingRDD"])
def test_what_lies_behind_a_scan_does_not_feed_a_join(scan: str) -> None:
    """A cached table's plan, and an RDD's, are drawn below their scan, but ran before, or in another execution."""
    row = join_of(f"""
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false
      {scan} | | number of output rows=5
        Exchange | [plan_id=1] | data size=77
      BroadcastExchange | [plan_id=2]
    """)
    assert some(row, "left_rows", "left_bytes", "left_exchange") == (5, None, None)


SIDES = """
SortMergeJoin | [k#1], [k#2], {type} | number of output rows=90
  Sort | [k#1 ASC]
    Exchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=5000, shuffle records written=40
  {between}
    Exchange | hashpartitioning(k#2, 8), [plan_id=4] | data size=10+20, shuffle records written=3
"""


def judged(between: str = "Sort", type: str = "Inner", adaptive: bool = False, **changes: Any) -> tuple[Any, ...]:
    drawing = SIDES.format(between=between, type=type)
    if adaptive:
        lines = "\n".join(f"  {line}" for line in drawing.strip().splitlines())
        drawing = f"AdaptiveSparkPlan\n{lines}"
    row = join_of(drawing, **changes)
    return some(row, "broadcast_verdict", "broadcast_side", "broadcast_side_bytes")


def settings(threshold: str, adaptive: str | None = None) -> dict[str, str]:
    found = {"spark.sql.autoBroadcastJoinThreshold": threshold}
    return found if adaptive is None else {**found, "spark.sql.adaptive.autoBroadcastJoinThreshold": adaptive}


def test_a_join_that_could_have_been_broadcast() -> None:
    """Its smaller side was measured, whole, under the threshold in force."""
    assert judged() == ("possible", "right", 30)
    assert judged(configuration=settings("30")) == ("possible", "right", 30)
    assert judged(configuration=settings("29b")) == ("over_threshold", "right", 30)
    assert judged(configuration=settings("-1")) == ("switched_off", "right", 30)
    assert judged(type="RightOuter", configuration=settings("4k")) == ("over_threshold", "left", 5000)
    assert judged(type="FullOuter") == ("forbidden_by_type", None, None)


def test_the_threshold_of_aqe_is_in_force_under_aqe() -> None:
    """Sizes that were measured are compared with AQE's own threshold if it has one."""
    assert judged(configuration=settings("29", "30")) == ("over_threshold", "right", 30)
    assert judged(adaptive=True, configuration=settings("29", "30")) == ("possible", "right", 30)
    assert judged(adaptive=True, configuration=settings("30", "-1")) == ("switched_off", "right", 30)
    assert judged(adaptive=True, configuration=settings("30", "wrong")) == ("unknown", "right", 30)
    row = only(rows_of(f"AdaptiveSparkPlan\n  {SORTED}", configuration=settings("29", "30"))["joins"])
    assert row["threshold_bytes"] == 30


SORTED = "SortMergeJoin | [k#1], [k#2], Inner"


@pytest.mark.parametrize("between", ["Sort", "AQEShuffleRead", "Filter", "HashAggregate"])
def test_what_lets_a_side_be_judged(between: str) -> None:
    """Above the exchange rows are only moved, dropped or put together."""
    assert judged(between) == ("possible", "right", 30)


@pytest.mark.parametrize("between", ["Project", "Generate", "Expand", "Window"])
def test_what_keeps_a_side_from_being_judged(between: str) -> None:
    """An operator that may make rows larger or more lies between the exchange and the join."""
    assert judged(between) == ("possible", "left", 5000)
    assert judged(between, "LeftOuter") == ("unknown", None, None)


def test_an_execution_that_is_not_whole_is_no_evidence() -> None:
    """Sizes of one that failed, runs or lacks events are lower bounds; so are those of a stage that was tried again."""
    stages = [Stage(7, attempt, "a", 2, "succeeded") for attempt in (0, 1)]
    for changes in (
        {"state": "failed"},
        {"state": "running"},
        {"incomplete": ["its start was not seen"]},
        {"stages": stages},
    ):
        assert judged(**changes) == ("unknown", "right", 30), changes
        assert judged(configuration=settings("29"), **changes) == ("over_threshold", "right", 30), changes
    assert judged(stages=stages[:1]) == ("possible", "right", 30)


def test_a_join_that_was_broadcast() -> None:
    """Its side is the one that was broadcast, its size that of the relation."""
    row = join_of("""
    BroadcastHashJoin | [k#1], [k#2], LeftOuter, BuildRight, false
      Range
      BroadcastExchange | [plan_id=5] | data size=33554528, number of output rows=3
    """)
    assert some(row, "broadcast_verdict", "broadcast_side", "broadcast_side_bytes") == (
        "was_broadcast", "right", 33554528,
    )  # fmt: skip


def test_nothing_comes_out_of_an_empty_relation() -> None:
    """Spark 4 draws beneath it what it stands for; that does not feed the join."""
    row = join_of("""
    SortMergeJoin | [k#1], [k#2], FullOuter
      EmptyRelation
        Exchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=5000, shuffle records written=40
      Exchange | hashpartitioning(k#2, 8), [plan_id=4] | data size=30, shuffle records written=3
    """)
    assert some(row, "left_rows", "left_bytes", "left_exchange", "right_rows") == (None, None, None, 3)


def test_the_output_ratio_is_rows_out_to_the_larger_input() -> None:
    def ratio(out: str, left: str, right: str) -> Any:
        drawing = f"""
        SortMergeJoin | [k#1], [k#2], Inner | number of output rows={out}
          Range | | number of output rows={left}
          Range | | number of output rows={right}
        """
        return join_of(drawing)["output_ratio"]

    assert ratio("90", "40", "3") == 2.25
    assert ratio("0", "3", "40") == 0
    assert ratio("?", "40", "3") is None
    assert ratio("90", "?", "3") is None
    assert ratio("90", "40", "?") is None
    assert ratio("0", "0", "0") is None


def test_a_hint_is_found_by_a_metric_of_its_join() -> None:
    """Also by one of an earlier plan, whose join AQE has replaced: the join's key is the same."""
    nodes, _ = draw(SIDES.format(between="Sort", type="Inner"))
    replaced = [
        PlanNode(n.name, n.parent, n.simple, metrics=[Metric(m.name, m.id + 5000, m.type) for m in n.metrics])
        for n in nodes
    ]
    plans = [Plan(STARTED_AT_MS, nodes), Plan(STARTED_AT_MS, replaced)]
    metric = nodes[0].metrics[0].id

    def hint(*hints: JoinHint) -> Any:
        return only(stored_rows(execution(plans=plans, join_hints=list(hints)))["joins"])["hint"]

    assert hint(JoinHint(metric, "broadcast")) == "broadcast left"
    assert hint(JoinHint(metric + 5000, None, "merge")) == "merge right"
    assert hint(JoinHint(metric, "shuffle_hash", "no_broadcast_hash")) == "shuffle_hash left, no_broadcast_hash right"
    assert hint() is None
    assert hint(JoinHint(metric)) is None
    assert hint(JoinHint(metric + 1, "broadcast")) is None


def test_a_join_without_inputs() -> None:
    """A join whose inputs are not in the plan is a row all the same."""
    row = join_of("SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5")
    assert some(row, "output_rows", "left_rows", "right_rows") == (5, None, None)


# Executions


def test_execution_without_a_plan() -> None:
    """It is an execution row and nothing else but the driver's time and cost."""
    rows = stored_rows(execution())
    row = only(rows.pop("execution"))
    assert some(only(rows.pop("segment")), "cause", "start_ms", "end_ms") == ("driver", 0, 1_000)
    assert some(only(rows.pop("cost")), "kind", "wall_ms", "task_ms") == ("driver", 1_000, None)
    assert {name: found for name, found in rows.items() if found} == {}
    assert some(row, "state", "duration_ms", "plan_versions", "is_adaptive", "broadcast_bytes", "jobs", "stages") == (
        "succeeded", 1_000, 0, False, None, 0, 0,
    )  # fmt: skip
    assert some(row, "tasks", "input_bytes", "shuffle_write_bytes", "incomplete", "error") == (None,) * 5


def test_a_running_execution_has_no_end() -> None:
    """What runs has neither end nor duration."""
    assert some(only(stored_rows(execution(state="running"))["execution"]), "ended_at", "duration_ms") == (None, None)


def test_a_duration_is_never_negative() -> None:
    row = only(stored_rows(execution(ended_at_ms=STARTED_AT_MS - 5))["execution"])
    assert row["duration_ms"] == 0


def test_totals_are_over_the_stages_that_ran() -> None:
    ran: dict[str, Any] = {
        "succeeded_tasks": 2,
        "run_time_ms": 10,
        "shuffle_read_local_bytes": 3,
        "shuffle_read_remote_bytes": 4,
    }
    stages = [
        Stage(1, 0, "a", 4, "failed", **ran),
        Stage(1, 1, "a", 4, "succeeded", **ran),
        Stage(2, 0, "b", 4, "skipped"),
        Stage(3, 0, "c", 4, "pending"),
    ]
    jobs = [Job(7, 0, [1, 2]), Job(8, 0, [2])]
    rows = stored_rows(execution(stages=stages, jobs=jobs))
    assert some(only(rows["execution"]), "jobs", "stages", "tasks", "task_time_ms", "shuffle_read_bytes") == (
        2, 2, 4, 20, 14,
    )  # fmt: skip
    assert [some(row, "stage_id", "stage_attempt", "job_ids", "run_time_ms") for row in rows["stage"]] == [
        (1, 0, [7], 10),
        (1, 1, [7], 10),
        (2, 0, [7, 8], None),
        (3, 0, [], None),
    ]


def test_a_distribution_over_tasks_has_a_column_a_statistic() -> None:
    stage = Stage(1, 0, "a", 4, "succeeded", run_time=Spread(1, 2, 3, 4, 99))
    row = only(stored_rows(execution(stages=[stage]))["stage"])
    assert some(row, "run_time_ms_min", "run_time_ms_median", "run_time_ms_p95", "run_time_ms_max") == (1, 2, 3, 4)
    assert row.get("shuffle_read_bytes_max") is None


def test_totals_fit_a_bigint() -> None:
    most = 2**63 - 1
    stages = [Stage(number, 0, "a", 4, "succeeded", input_bytes=most, run_time_ms=most) for number in range(3)]
    row = only(stored_rows(execution(stages=stages))["execution"])
    assert some(row, "input_bytes", "task_time_ms") == (most, most)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (None, 10 * MB),
        ("10485760", 10 * MB),
        ("10485760b", 10 * MB),
        ("10MB", 10 * MB),
        ("10m", 10 * MB),
        (" 64 k ", 64 << 10),
        ("1g", 1 << 30),
        ("2TB", 2 << 40),
        ("1p", 1 << 50),
        ("1KiB", 1024),
        ("-1", -1),
        ("-1b", -1),
        ("0", 0),
        ("9999999999999999p", 2**63 - 1),
        ("9" * 5_000, None),
        ("1.5m", None),
        ("ten", None),
        ("", None),
        ("*********(redacted)", None),
    ],
)
def test_the_broadcast_threshold_is_read_as_spark_reads_it(text: str | None, size: int | None) -> None:
    """The broadcast threshold is read as Spark reads byte strings; Spark's default if unset, NULL if unreadable."""
    assert byte_size(text, 10 * MB) == size
    configuration = {} if text is None else {"spark.sql.autoBroadcastJoinThreshold": text}
    rows = rows_of(BROADCAST.format(metrics=""), configuration=configuration)
    for table in ("execution", "broadcast", "joins"):
        assert only(rows[table])[{"execution": "broadcast_threshold_bytes"}.get(table, "threshold_bytes")] == size


def test_shuffle_partitions_default_to_sparks() -> None:
    assert only(stored_rows(execution())["execution"])["shuffle_partitions"] == 200
    set_to = execution(configuration={"spark.sql.shuffle.partitions": "16"})
    assert only(stored_rows(set_to)["execution"])["shuffle_partitions"] == 16


# Plans and metrics


def test_every_plan_is_kept_and_the_last_is_final() -> None:
    """Every plan is kept as a graph; the last one is the final plan, and its nodes are the execution's."""
    first, _ = draw("AdaptiveSparkPlan | isFinalPlan=false\n  Exchange | [plan_id=1] | data size=?")
    last, measured = draw("AdaptiveSparkPlan | isFinalPlan=true\n  WholeStageCodegen (1)\n    Range | | duration=3")
    plans = [Plan(STARTED_AT_MS, first), Plan(STARTED_AT_MS + 5, last)]
    rows = stored_rows(execution(plans=plans, accumulators=measured, plans_dropped=3))
    assert [some(row, "version", "is_final", "edges") for row in rows["plan_version"]] == [
        (0, False, ((1, 0),)),
        (1, True, ((2, 0),)),
    ]
    assert [row["planned_at"].microsecond for row in rows["plan_version"]] == [0, 5_000]
    assert rows["plan_version"][0]["nodes"][1] == {
        "id": 1,
        "name": "Exchange",
        "simple": "Exchange [plan_id=1]",
        "cluster": None,
        "is_cluster": False,
        "metrics": [[first[1].metrics[0].id, "data size", "size"]],
    }
    assert [some(row, "node_id", "name", "cluster_id", "is_cluster") for row in rows["plan_node"]] == [
        (0, "AdaptiveSparkPlan", None, False),
        (1, "WholeStageCodegen (1)", None, True),
        (2, "Range", 1, False),
    ]
    assert [some(row, "position", "child_id", "parent_id") for row in rows["plan_edge"]] == [(0, 2, 0)]
    assert some(only(rows["execution"]), "plan_versions", "is_adaptive") == (5, True)


@pytest.mark.parametrize(("version", "edges"), [("4.0.1", 2), ("3.5.9", 2), ("4.1.0", 1), ("4.3.0", 1), ("5.0", 1)])
def test_edges_are_those_of_the_version(version: str, edges: int) -> None:
    """A subquery that is met twice has as many edges as in that Spark's UI."""
    rows = rows_of(
        """
        Project
          Subquery | s#1
          ReusedSubquery
            Subquery | s#1
        """,
        listener=Listener("l", "0.1.0", version),
    )
    assert len(rows["plan_edge"]) == edges


@pytest.mark.parametrize(
    ("text", "version"),
    [("4.3.0", (4, 3)), ("3.5.9-amzn-1", (3, 5)), ("4.1.0-SNAPSHOT", (4, 1)), ("4", (999, 0)), ("main", (999, 0))],
)
def test_only_the_first_two_numbers_of_a_version_count(text: str, version: tuple[int, int]) -> None:
    """Only the first two numbers of a version count; an unreadable one is the newest."""
    assert version_tuple(text) == version


def test_each_metric_of_the_final_plan_is_a_row() -> None:
    """Each metric of the final plan is a row, with its numbers and where the largest came from, if it was measured."""
    rows = rows_of("Exchange | [plan_id=1] | records read=4+9+2, data size=?")
    measured, announced = rows["node_metric"]
    assert some(measured, "node_id", "accumulator_id", "name", "type") == (0, 100, "records read", "sum")
    assert some(measured, "count", "total", "min", "median", "p95", "max") == (3, 15, 2, 4, 9, 9)
    assert some(measured, "max_stage_id", "max_stage_attempt", "max_task_id", "text") == (7, 0, 71, None)
    assert some(announced, "accumulator_id", "name", "type") == (101, "data size", "size")
    assert some(announced, "count", "total", "max", "max_stage_id") == (None, None, None, None)


def test_metrics_without_a_node() -> None:
    """What was measured for a node that AQE replaced, or that no plan shows, has node -1; once."""
    old, _ = draw("Exchange | [plan_id=1] | data size=?, records read=?")
    new, measured = draw("Range | | number of output rows=3")
    shared = new[0].metrics[0]
    replaced = Metric("data size", 50, "size")
    untouched = Metric("records read", 51, "sum")
    subquery = Metric("time to collect", 52, "timing")
    old = [PlanNode("Exchange", -1, "Exchange", metrics=[replaced, untouched, shared])]
    rows = stored_rows(
        execution(
            plans=[Plan(0, old), Plan(1, old), Plan(2, new)],
            announced=[subquery, shared, Metric("never measured", 53, "sum")],
            accumulators=[
                *measured,
                measure(replaced, [7]),
                measure(subquery, [8]),
                measure(Metric("?", 99, "sum"), [9]),
            ],
        )
    )
    assert sorted(some(row, "node_id", "accumulator_id", "name", "total") for row in rows["node_metric"]) == [
        (NO_NODE, 50, "data size", 7),
        (NO_NODE, 52, "time to collect", 8),
        (0, shared.id, "number of output rows", 3),
    ]


def test_an_accumulator_at_two_nodes_is_a_row_of_each() -> None:
    rows = rows_of("""
    BroadcastHashJoin
      SubqueryBroadcast
        ReusedExchange
          BroadcastExchange | [plan_id=1] | data size=5
      BroadcastExchange | [plan_id=1] | data size=5
    """)
    assert [some(row, "node_id", "total") for row in rows["node_metric"]] == [(3, 5), (4, 5)]


def test_a_scans_metadata_is_kept() -> None:
    nodes = [PlanNode("Scan parquet ", -1, "FileScan", {"Format": "Parquet"}), PlanNode("Range", 0)]
    rows = stored_rows(execution(plans=[Plan(0, nodes)]))
    assert [row["metadata"] for row in rows["plan_node"]] == [{"Format": "Parquet"}, None]


def test_an_applications_document_is_its_row() -> None:
    """An application's document is its row; from an execution alone little is known of it."""
    row = as_columns(application_row(application(state="ended", ended_at_ms=STARTED_AT_MS, user="ada")))
    assert some(row, "state", "spark_user", "sequence", "spark_version") == ("ended", "ada", 1, "4.3.0")
    row = as_columns(application_row_of(execution(sequence=5, tags={"team": "retail"})))
    assert some(row, "state", "sequence", "tags", "started_at", "listener_id") == (
        "unknown", 0, {"team": "retail"}, None, LISTENER.id,
    )  # fmt: skip


@pytest.mark.parametrize(("user", "stored"), [("ana", "ana"), ("", None), (None, None)])
def test_a_server_that_was_told_no_user_has_none(user: str | None, stored: str | None) -> None:
    """Spark Connect's client for pipelines sends an empty one: the user is then the one that Spark runs as."""
    [row] = stored_rows(execution(user=user))["execution"]
    assert row["user_name"] == stored


def test_every_column_exists() -> None:
    """Rows name columns of the store and no others, and give what the store needs."""
    spread = Spread(1, 2, 3, 4, 5)
    stage = Stage(
        *(1, 0, "a", 4, "succeeded"),
        run_time=spread,
        shuffle_read=spread,
        shuffle_read_records=spread,
        run_time_ms=9,
        samples={"other": 1},
    )
    rows = stored_rows(replanned("Exchange | SinglePartition", FULL, stages=[stage]))
    rows["application"] = [as_columns(application_row(application())), as_columns(application_row_of(execution()))]
    assert rows.pop("finding") == []
    stored = {table.name for table in tables.PARTITIONED} - {"finding", *map(str, tables.PACKED)}
    assert rows.keys() == {"application", *tables.UNPACKED} | stored
    for table, found in rows.items():
        assert found, table
        columns = RELATIONS[table].columns
        needed = {column.name for column in columns if not column.nullable} - {"updated_at"}
        for row in found:
            assert row.keys() <= set(columns.keys())
            assert {name for name in needed if row.get(name) is None} == set()


def test_same_document_same_rows() -> None:
    document = planned(FULL)
    assert stored_rows(document) == stored_rows(document)
