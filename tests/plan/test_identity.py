"""The same query and operator have the same keys in every run; different ones have different keys."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.documents import PlanNode, draw, graph_of
from tests.growth import check_cpu_time, steps

from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Identity, normalized

# A join of two tables, grouped and ordered, as AQE plans it first
REPORT = """
AdaptiveSparkPlan | isFinalPlan=false
  Sort | [total#28 DESC NULLS LAST], true, 0
    Exchange | rangepartitioning(total#28 DESC NULLS LAST, 200), ENSURE_REQUIREMENTS, [plan_id=11]
      HashAggregate(keys=[region#39], functions=[sum(amount#35)])
        Exchange | hashpartitioning(region#39, 200), ENSURE_REQUIREMENTS, [plan_id=12]
          HashAggregate(keys=[region#39], functions=[partial_sum(amount#35)])
            Project | [amount#35, region#39]
              SortMergeJoin | [store_id#32L], [store_id#37L], Inner
                Sort | [store_id#32L ASC NULLS FIRST], false, 0
                  Exchange | hashpartitioning(store_id#32L, 200), ENSURE_REQUIREMENTS, [plan_id=13]
                    Filter | ((isnotnull(amount#35) AND (amount#35 > 10.0)) AND NOT (city#36 = New York))
                      Scan parquet db.sales | [store_id#32L,amount#35,city#36] Batched: true, Location: F(1 paths)[file:/a]
                Sort | [store_id#37L ASC NULLS FIRST], false, 0
                  Exchange | hashpartitioning(store_id#37L, 200), ENSURE_REQUIREMENTS, [plan_id=14]
                    Scan parquet db.store | [store_id#37L,region#39] Batched: true, Location: F(1 paths)[file:/b]
"""
SHAPE = """\
0 Sort [total DESC NULLS LAST], ?
1 Aggregate keys=[region] functions=[sum(amount)]
2 Project [amount, region]
3 Join Inner (store_id = store_id)
4 Filter (amount > ?) AND NOT city IN (?) AND isnotnull(amount)
5 Scan parquet db.sales[store_id,amount,city]
4 Scan parquet db.store[store_id,region]"""

# The same query as it ran at last: the join broadcasts what was shuffled, partitions are coalesced, code is generated
FINAL = """
AdaptiveSparkPlan | isFinalPlan=true
  ResultQueryStage | 4
    WholeStageCodegen (5)
      Sort | [total#128 DESC NULLS LAST], true, 0
        InputAdapter
          AQEShuffleRead | coalesced
            ShuffleQueryStage | 3
              Exchange | rangepartitioning(total#128 DESC NULLS LAST, 7), ENSURE_REQUIREMENTS, [plan_id=91]
                SortAggregate(key=[region#139], functions=[sum(amount#135)])
                  InputAdapter
                    ShuffleQueryStage | 2
                      Exchange | hashpartitioning(region#139, 7), ENSURE_REQUIREMENTS, [plan_id=92]
                        WholeStageCodegen (3)
                          HashAggregate(keys=[region#139], functions=[partial_sum(amount#135)])
                            Project | [amount#135, region#139]
                              BroadcastHashJoin | [store_id#132L], [store_id#137L], Inner, BuildRight, false, false
                                AQEShuffleRead | local
                                  ShuffleQueryStage | 0
                                    Exchange | hashpartitioning(store_id#132L, 7), ENSURE_REQUIREMENTS, [plan_id=93]
                                      Filter | (NOT (city#136 = Oslo, or (x)) AND ((amount#135 > 2.5) AND isnotnull(amount#135)))
                                        ColumnarToRow
                                          Scan parquet db.sales | [store_id#132L,amount#135,city#136] Batched: true, Location: F(9 paths)[file:/c]
                                BroadcastQueryStage | 1
                                  BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, true]),false), [plan_id=95]
                                    AQEShuffleRead | local
                                      ShuffleQueryStage | 0
                                        Exchange | hashpartitioning(store_id#137L, 7), ENSURE_REQUIREMENTS, [plan_id=94]
                                          Scan parquet db.store | [store_id#137L,region#139] Batched: true, Location: F(1 paths)[file:/d]
"""


def graph(drawing: str) -> Graph:
    """A plan from its drawing; a name with arguments in brackets needs no bar."""
    drawing = re.sub(r"^( *)(\w+Aggregate)\((.*)$", r"\1\2 | (\3", drawing, flags=re.MULTILINE)
    nodes, _ = draw(drawing)
    return graph_of([node._replace(simple=node.simple.replace("Aggregate (", "Aggregate(")) for node in nodes])


def shape_of(drawing: str) -> str:
    """The text of a query's shape, which a failing comparison shows."""
    return Identity().shape_text(graph(drawing))


def key_of(drawing: str) -> str | None:
    return Identity().query_shape(graph(drawing))


def keys_by_name(drawing: str) -> dict[str, list[str]]:
    """Operator name to its keys, in plan order; joins are called Join."""
    found: dict[str, list[str]] = {}
    plan = graph(drawing)
    keys = Identity().operator_keys(plan)
    for node in plan.nodes:
        if node.id in keys:
            found.setdefault("Join" if "Join" in node.name else node.name, []).append(keys[node.id])
    return found


def distinct_counts(columns: list[str], ids: int) -> Graph:
    """Several distinct counts, which Spark computes in this order."""
    first, second = (f"{name}#{ids + at}" for at, name in enumerate(columns))
    made = [f"o.{name}#{ids + 2 + at}" for at, name in enumerate(columns)]
    groups, gid = ", ".join(made), f"gid#{ids + 4}"
    filtered = ", ".join(
        f"partial_count({each}) FILTER (WHERE ({gid} = {at}))" for at, each in enumerate(sorted(made), 1)
    )
    return graph(f"""
HashAggregate(keys=[day#9], functions=[{", ".join(f"count({each})" for each in sorted(made))}])
  Exchange | hashpartitioning(day#9, 8), ENSURE_REQUIREMENTS, [plan_id=1]
    HashAggregate(keys=[day#9], functions=[{filtered}])
      HashAggregate(keys=[day#9, {groups}, {gid}], functions=[])
        Exchange | hashpartitioning(day#9, {groups}, {gid}, 8), ENSURE_REQUIREMENTS, [plan_id=2]
          HashAggregate(keys=[day#9, {groups}, {gid}], functions=[])
            Expand | [[day#9, {first}, null, 1], [day#9, null, {second}, 2]], [day#9, {groups}, {gid}]
              Scan parquet db.o | [day#9,c#7,n#8,x#6] Batched: true, Location: F(1 paths)[file:/a]
""")


def test_the_order_of_several_distinct_aggregates_does_not_count() -> None:
    """Spark orders them by ids of columns, which differ from run to run."""
    one, other, another = (
        distinct_counts(names, ids) for names, ids in ((["c", "n"], 10), (["n", "c"], 40), (["c", "x"], 70))
    )
    keys = Identity()
    assert keys.query_shape(one) == keys.query_shape(other) != keys.query_shape(another)
    assert keys.plan_fingerprint(one) == keys.plan_fingerprint(other) != keys.plan_fingerprint(another)
    assert sorted(keys.operator_keys(one).values()) == sorted(keys.operator_keys(other).values())


def test_shape_is_what_the_query_is() -> None:
    """The shape has no exchanges, sorts for joins, partial aggregates, ids or literals."""
    assert shape_of(REPORT) == SHAPE


def test_shape_is_blind_to_how_it_ran() -> None:
    """Strategy, build side, AQE, codegen, ids, literals, partitions, conjuncts' order and files leave the shape alone."""
    assert shape_of(FINAL) == SHAPE
    assert key_of(FINAL) == key_of(REPORT)


def test_keys_are_16_hex_characters() -> None:
    """Keys are short, and never those of another kind."""
    plan = graph(REPORT)
    identity = Identity()
    keys = [identity.query_shape(plan), identity.plan_fingerprint(plan), *identity.operator_keys(plan).values()]
    assert all(re.fullmatch(r"[0-9a-f]{16}", key or "") for key in keys)
    assert len(set(keys)) == len(keys)


def test_the_rules_do_not_change_unnoticed() -> None:
    """Keys are stored for years: whoever changes what is hashed raises RULES and these with it."""
    identity = Identity()
    assert identity.query_shape(graph(REPORT)) == "4d6bd6c0be57663f"
    assert identity.plan_fingerprint(graph(REPORT)) == "92e9cf938ce9a749"
    assert keys_by_name(REPORT)["Join"] == ["5dd2255b0de1db32"]


def test_an_operator_keeps_its_key_when_the_plan_flips() -> None:
    """A join has one key whatever its strategy; an exchange has it in the first and in the last plan."""
    first, last = keys_by_name(REPORT), keys_by_name(FINAL)
    assert last["Join"] == first["Join"]
    assert last["Exchange"] == first["Exchange"]
    assert "BroadcastExchange" not in first
    elsewhere = keys_by_name(REPORT.replace("hashpartitioning(store_id#37L", "hashpartitioning(region#39"))
    assert [a != b for a, b in zip(elsewhere["Exchange"], first["Exchange"], strict=True)] == [
        False,
        False,
        False,
        True,
    ]
    planned_so = FINAL.replace("AQEShuffleRead | local", "ColumnarToRow")
    assert keys_by_name(planned_so)["BroadcastExchange"] == last["BroadcastExchange"]


CHANGES = {
    "join key": ("[store_id#32L], [store_id#37L], Inner", "[city#36], [store_id#37L], Inner"),
    "join type": ("], Inner", "], LeftOuter"),
    "condition": ("], Inner", "], Inner, (amount#35 > region#39)"),
    "table": ("db.store |", "db.branch |"),
    "column": ("[store_id#32L,amount#35,city#36]", "[store_id#32L,amount#35,city#36,day#7]"),
    "filter's column": ("(amount#35 > 10.0)", "(store_id#32L > 10)"),
    "filter's operator": ("(amount#35 > 10.0)", "(amount#35 >= 10.0)"),
    "one filter more": ("(amount#35 > 10.0)", "((amount#35 > 10.0) AND (amount#35 < 20.0))"),
    "function": ("sum(", "max("),
    "distinct": ("sum(amount", "sum(distinct amount"),
    "grouping": ("=[region#39]", "=[region#39, city#36]"),
    "order": ("total#28 DESC", "total#28 ASC"),
    "projection": ("[amount#35, region#39]", "[(amount#35 * 2.0) AS amount#99, region#39]"),
}
BELOW_THE_JOIN = {"table", "column", "filter's column", "filter's operator", "one filter more"}


@pytest.mark.parametrize("change", CHANGES)
def test_another_query_has_another_shape(change: str) -> None:
    """The shape contains what the query computes; a join's key contains the join and what is below it."""
    old, new = CHANGES[change]
    assert old in REPORT
    changed = REPORT.replace(old, new)
    assert shape_of(changed) != SHAPE
    assert key_of(changed) != key_of(REPORT)
    is_about_the_join = change in BELOW_THE_JOIN or change in ("join key", "join type", "condition")
    assert (keys_by_name(changed)["Join"] != keys_by_name(REPORT)["Join"]) == is_about_the_join
    store, _sales = keys_by_name(REPORT)["Exchange"][::-1][:2]
    assert (keys_by_name(changed)["Exchange"][-1] != store) == (change == "table")


JOINS = {
    "SortMergeJoin": "[a#1], [b#2], LeftOuter, (c#3 < d#4)",
    "SortMergeJoin(skew=true)": "[a#1], [b#2], LeftOuter, (c#3 < d#4)",
    "ShuffledHashJoin": "[a#1], [b#2], LeftOuter, BuildRight, (c#3 < d#4)",
    "BroadcastHashJoin": "[a#1], [b#2], LeftOuter, BuildRight, (c#3 < d#4), false, false",
    "BroadcastNestedLoopJoin": "BuildRight, LeftOuter, ((c#3 < d#4) AND (b#2 = a#1))",
}


def test_every_strategy_of_a_join_has_the_same_key() -> None:
    """Equi-join keys are conditions like others, so that loops and products join as hash joins do."""
    drawings = [f"{name} | {text}\n  Scan t | [a#1]\n  Scan u | [b#2]" for name, text in JOINS.items()]
    assert {shape_of(drawing).splitlines()[0] for drawing in drawings} == {"0 Join LeftOuter (a = b) (c < d)"}
    assert len({key for drawing in drawings for key in keys_by_name(drawing)["Join"]}) == 1
    product = shape_of("CartesianProduct | (z#1 = b#2)\n  Scan t | [z#1]\n  Scan u | [b#2]")
    assert product == shape_of(
        "BroadcastHashJoin | [z#1], [b#2], Inner, BuildLeft, false\n  Scan t | [z#1]\n  Scan u | [b#2]"
    )
    swapped = "SortMergeJoin | [b#2], [a#1], LeftOuter, (c#3 < d#4)\n  Scan u | [b#2]\n  Scan t | [a#1]"
    assert keys_by_name(swapped)["Join"] != keys_by_name(drawings[0])["Join"]


SELF_JOIN = """
SortMergeJoin | [k#1], [k#2], Inner
  Sort | [k#1 ASC NULLS FIRST], false, 0
    Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3]
      Scan t | [k#1]
  Sort | [k#2 ASC NULLS FIRST], false, 0
    Exchange | hashpartitioning(k#2, 8), ENSURE_REQUIREMENTS, [plan_id=4]
      Scan t | [k#2]
"""


def test_equal_operators_are_told_apart_by_their_order() -> None:
    """Two equal exchanges have two keys; where one is reused, it has the key of the first."""
    first, second = keys_by_name(SELF_JOIN)["Exchange"]
    assert first != second
    reused = SELF_JOIN.replace("    Exchange | hashpartitioning(k#2, 8), ENSURE_REQUIREMENTS, [plan_id=4]\n      Scan t | [k#2]", """\
    ReusedExchange | [k#2], Exchange hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3]
      Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3]
        Scan t | [k#1]""")  # fmt: skip
    assert keys_by_name(reused)["Exchange"] == [first]
    assert keys_by_name(reused)["Join"] == keys_by_name(SELF_JOIN)["Join"]
    assert shape_of(reused) == shape_of(SELF_JOIN)


AGGREGATES = {
    # count(DISTINCT c): four steps, two exchanges
    "0 Aggregate keys=[k] functions=[count(distinct c)]\n1 Scan t[k,c]": """
    HashAggregate(keys=[k#1], functions=[count(distinct c#2)])
      Exchange | hashpartitioning(k#1, 8), [plan_id=1]
        HashAggregate(keys=[k#1], functions=[partial_count(distinct c#2)])
          HashAggregate(keys=[k#1, c#2], functions=[])
            Exchange | hashpartitioning(k#1, c#2, 8), [plan_id=2]
              HashAggregate(keys=[k#1, c#2], functions=[])
                Scan t | [k#1,c#2]""",
    # GROUP BY over SELECT DISTINCT: two aggregates of two steps
    "0 Aggregate keys=[k] functions=[count(c)]\n1 Aggregate keys=[k, c] functions=[]\n2 Scan t[k,c]": """
    HashAggregate(keys=[k#1], functions=[count(c#2)])
      Exchange | hashpartitioning(k#1, 8), [plan_id=1]
        HashAggregate(keys=[k#1], functions=[partial_count(c#2)])
          HashAggregate(keys=[k#1, c#2], functions=[])
            Exchange | hashpartitioning(k#1, c#2, 8), [plan_id=2]
              HashAggregate(keys=[k#1, c#2], functions=[])
                Scan t | [k#1,c#2]""",
    # SELECT DISTINCT over SELECT DISTINCT
    "0 Aggregate keys=[k] functions=[]\n1 Aggregate keys=[k, c] functions=[]\n2 Scan t[k,c]": """
    HashAggregate(keys=[k#1], functions=[])
      Exchange | hashpartitioning(k#1, 8), [plan_id=1]
        HashAggregate(keys=[k#1], functions=[])
          HashAggregate(keys=[k#1, c#2], functions=[])
            HashAggregate(keys=[k#1, c#2], functions=[])
              Scan t | [k#1,c#2]""",
    # Only partial functions say their FILTER
    "0 Aggregate keys=[] functions=[sum(c), partial_sum(c) FILTER (WHERE (k > ?))]\n1 Scan t[k,c]": """
    HashAggregate(keys=[], functions=[sum(c#2)])
      Exchange | SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1]
        HashAggregate(keys=[], functions=[partial_sum(c#2) FILTER (WHERE (k#1 > 7))])
          Scan t | [k#1,c#2]""",
    "0 Aggregate keys=[k] functions=[collect_set(c, ?)]\n1 Scan t[k,c]": """
    ObjectHashAggregate(keys=[k#1], functions=[collect_set(c#2, 0, 0)])
      ObjectHashAggregate(keys=[k#1], functions=[partial_collect_set(c#2, 0, 0)])
        Scan t | [k#1,c#2]""",
}


@pytest.mark.parametrize("shape", AGGREGATES)
def test_the_steps_of_an_aggregate_are_one(shape: str) -> None:
    """Partial, merging and final steps are one aggregate; two aggregates stay two."""
    assert shape_of(AGGREGATES[shape]) == shape


def test_filters_of_an_aggregate_have_the_order_of_their_texts() -> None:
    """Ids of columns have more digits in a later query of an application, so texts with ids sort otherwise."""
    plan = """
    HashAggregate(keys=[], functions=[max(c#{c}), min(c#{c})])
      HashAggregate(keys=[], functions=[partial_max(c#{c}) FILTER (WHERE (k#{k} > l#{l})),\
 partial_max(c#{c}) FILTER (WHERE (k#{l} > k#{k}))])
        Scan t | [k#{k},l#{l},c#{c}]"""
    shapes = {shape_of(plan.format(k=k, l=k + 1, c=k + 2)) for k in (1, 9, 10, 99)}
    assert len(shapes) == 1


TEXTS = {
    "(a#1 > 5)": "(a > ?)",
    "(a#1 > -5.0E-3)": "(a > ?)",
    "(city#3 = New York)": "(city = ?)",
    "(city#3 = New York, NY)": "(city = ?)",
    "(city#3 = New York (NY))": "(city = ?)",
    "(city#3 = Bed AND Breakfast)": "(city = ?)",
    "(city#3 = )": "(city = ?)",
    "concat(a#1, , b#2)": "concat(a, ?, b)",
    "(d#1 >= 2026-01-01 00:00:00)": "(d >= ?)",
    "city#3 IN (a,b)": "city IN (?)",
    "city#3 INSET a, region 1, c, ... 5 more fields": "city IN (?)",
    "name#1 LIKE %x y%": "name LIKE ?",
    "StartsWith(name#1, abc)": "StartsWith(name, ?)",
    "cast(a#1 as decimal(12,2))": "cast(a as decimal(?))",
    "cast(a#1 as string)": "cast(a as string)",
    "[a#1L, (b#2 + 1) AS c#3, ... 4 more fields]": "[a, (b + ?) AS c, ... 4 more fields]",
    "CASE WHEN (a#1 = x) THEN y ELSE b#2 END": "CASE WHEN (a = ?) THEN ? ELSE b END",
    "sum((a#1 * 2))#7": "sum((a * ?))",
    "rank(a#1) windowspecdefinition(k#2, a#1 DESC NULLS LAST, specifiedwindowframe(RowFrame, unboundedpreceding$(),"
    " currentrow$())) AS r#3": "rank(a) windowspecdefinition(k, a DESC NULLS LAST, specifiedwindowframe(RowFrame,"
    " unboundedpreceding$(), currentrow$())) AS r",
    "(a#1 > Subquery subquery#110, [id=#1010].avg(amount))": "(a > subquery.avg(?))",
    "(a#1 > ReusedSubquery Subquery scalar-subquery#8, [id=#9])": "(a > subquery)",
    "(limit=10, orderBy=[a#1 ASC NULLS FIRST], output=[a#1])": "(limit=?, orderBy=[a ASC NULLS FIRST], output=[a])",
    "(0, 1000, step=1, splits=2)": "(?, step=?, splits=?)",
    "com.shop.Main$$$Lambda$2345/0x000000084@1f3b5c7(a#1)": "com.shop.Main$(a)",
    "s#1.street": "s.street",
    "ts#4-T600000ms": "ts",
    "HashedRelationBroadcastMode(List(input[0, bigint, true]),false)": "HashedRelationBroadcastMode(List(input0),?)",
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_literals_are_not_in_a_text(text: str) -> None:
    """Attributes keep their names, functions and operators stay, what is left is a literal."""
    assert normalized(text) == TEXTS[text]


def test_a_list_of_one_is_a_list() -> None:
    """Spark makes an equality of an IN with one value, and then says that the column isn't null."""
    several = "Filter | city#1 IN (a,b,c)\n  Scan t | [city#1]"
    one = "Filter | (isnotnull(city#1) AND (city#1 = a))\n  Scan t | [city#1]"
    assert shape_of(one) == shape_of(several) == "0 Filter city IN (?)\n1 Scan t[city]"


SCANS = {
    "Scan parquet | [a#1,b#2] Batched: true, DataFilters: [(a#1 > 5...": "0 Scan parquet[a,b]",
    "BatchScan cat.db.t | [a#1] cat.db.t (branch=null) [filters=a > 5, groupedBy=]": "0 BatchScan cat.db.t[a]",
    "Scan ExistingRDD | [a#1,b#2]": "0 Scan ExistingRDD[a,b]",
    "Scan JDBCRelation(shop.orders) [numPartitions=8] | [a#1,b#2] PushedFilters: [*IsNotNull(a)], ReadSchema: struct<a:int>": (
        "0 Scan JDBCRelation(shop.orders) [numPartitions=][a,b]"
    ),
    "Scan parquet db.t | [a#1,day#2] PartitionFilters: [isnotnull(day#2), (day#2 > 3),"
    " dynamicpruningexpression(day#2 IN dynamicpruning#33)], PushedFilters: []": (
        "0 Scan parquet db.t[a,day] WHERE (day > ?) AND isnotnull(day)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("scan", SCANS)
def test_a_source_is_its_name_columns_and_partition_filters(scan: str) -> None:
    """Where files lie, what was pushed down and what dynamic pruning adds are no part of it."""
    assert shape_of(scan) == SCANS[scan]


def test_partition_filters_are_read_whole() -> None:
    """Spark cuts them in a scan's text; its metadata has all of them."""

    def scan(tail: str) -> Graph:
        filters = "[isnotnull(day#2), (day#2 > 3), (month#4 = " + tail
        simple = f"FileScan parquet db.t[a#1,day#2] PartitionFilters: {filters[:20]}..., PushedFilters: []"
        return graph_of([PlanNode("Scan parquet db.t", -1, simple, {"PartitionFilters": filters + ")]"})])

    assert Identity().shape_text(scan("5")).endswith("WHERE (day > ?) AND isnotnull(day) AND month IN (?)")
    assert Identity().query_shape(scan("5")) == Identity().query_shape(scan("12"))


def test_dynamic_pruning_is_no_part_of_the_shape() -> None:
    """The subquery that prunes partitions depends on the join's strategy, and so does its exchange's place."""
    pruned = """
    BroadcastHashJoin | [day#1], [day#2], Inner, BuildRight, false, false
      Scan parquet db.t | [a#3,day#1] PartitionFilters: [dynamicpruningexpression(day#1 IN dynamicpruning#9)], X: []
        SubqueryBroadcast | dynamicpruning#9, [0], [day#2], [id=#8]
          BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int, false]),false), [plan_id=7]
            Scan parquet db.d | [day#2]
      ReusedExchange | [day#2], BroadcastExchange [plan_id=7]
        BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int, false]),false), [plan_id=7]
          Scan parquet db.d | [day#2]
    """
    merged = "SortMergeJoin | [day#1], [day#2], Inner\n  Scan parquet db.t | [a#3,day#1]\n  Scan parquet db.d | [day#2]"
    assert shape_of(pruned) == shape_of(merged)
    assert keys_by_name(pruned)["Join"] == keys_by_name(merged)["Join"]


def test_what_only_moves_rows_is_no_part_of_the_shape() -> None:
    """A reused exchange that stands before its original, a coalesce, and the first half of a limit are passed through."""
    bare = "CollectLimit | 5\n  Scan t | [a#1]"
    moved = """
    GlobalLimit | 7, 0
      Exchange | SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1]
        LocalLimit | 7
          Coalesce | 3
            ReusedExchange | [a#1], Exchange SinglePartition, REPARTITION_BY_NUM, [plan_id=9]
              Exchange | SinglePartition, REPARTITION_BY_NUM, [plan_id=9]
                Scan t | [a#1]
    """
    assert shape_of(moved).splitlines()[1:] == shape_of(bare).splitlines()[1:] == ["1 Scan t[a]"]
    assert shape_of(moved).startswith("0 Limit ?")
    assert key_of(moved) == key_of(bare)


def test_fingerprint_is_how_it_ran() -> None:
    """Ids, literals, partition counts and codegen are not in a plan's fingerprint; operators and AQE reads are."""
    identity = Identity()
    planned = identity.plan_fingerprint(graph(REPORT))
    again = (
        re.sub(r"#(\d+)", r"#9\1", REPORT).replace("200)", "7)").replace("10.0", "3.5").replace("file:/a", "file:/z")
    )
    assert identity.fingerprint_text(graph(again)) == identity.fingerprint_text(graph(REPORT))
    generated = REPORT.replace("isFinalPlan=false\n", "isFinalPlan=true\n  WholeStageCodegen (3)\n    InputAdapter\n")
    generated = re.sub(r"^(  (?! *(?:WholeStage|InputAdapter)).*)$", r"    \1", generated, flags=re.MULTILINE)
    assert identity.plan_fingerprint(graph(generated)) == planned
    for old, new in {
        "SortMergeJoin | [store_id#32L], [store_id#37L], Inner": (
            "ShuffledHashJoin | [store_id#32L], [store_id#37L], Inner, BuildRight"
        ),
        "hashpartitioning(region#39, 200)": "SinglePartition",
        "rangepartitioning(total#28 DESC NULLS LAST, 200)": "rangepartitioning(region#39 DESC NULLS LAST, 200)",
    }.items():
        assert identity.plan_fingerprint(graph(REPORT.replace(old, new))) != planned
    final = identity.plan_fingerprint(graph(FINAL))
    assert final != planned
    assert identity.plan_fingerprint(graph(FINAL.replace("| coalesced", "| skewed"))) != final


def test_fingerprint_tells_what_is_reused() -> None:
    """An exchange that is read twice is another plan than two equal ones."""
    twice = "Union\n  Exchange | SinglePartition, [plan_id=1]\n    Scan t | [a#1]\n"
    again = "  Exchange | SinglePartition, [plan_id=2]\n    Scan t | [a#1]\n"
    reused = "  ReusedExchange | [a#1]\n    Exchange | SinglePartition, [plan_id=1]\n      Scan t | [a#1]\n"
    assert Identity().plan_fingerprint(graph(twice + again)) != Identity().plan_fingerprint(graph(twice + reused))


def test_no_plan_has_no_keys() -> None:
    """An execution that failed before it had a plan has no identity."""
    empty = Graph((), ())
    identity = Identity()
    assert (identity.query_shape(empty), identity.plan_fingerprint(empty), identity.operator_keys(empty)) == (
        None,
        None,
        {},
    )


def deep_plan(levels: int) -> Graph:
    nodes = [PlanNode("Union", -1, "Union")]
    for level in range(levels):
        nodes.append(PlanNode("Range", 3 * level, f"Range (0, {level})"))
        nodes.append(PlanNode("Exchange", 3 * level, f"Exchange RoundRobinPartitioning({level}), X, [plan_id={level}]"))
        nodes.append(PlanNode("Union", 3 * level + 2, "Union"))
    return graph_of(nodes)


def all_keys(plan: Graph) -> dict[int, str]:
    identity = Identity()
    assert identity.query_shape(plan)
    assert identity.plan_fingerprint(plan)
    return identity.operator_keys(plan)


def test_a_plan_of_5000_levels_has_its_keys() -> None:
    """A plan of 5,000 levels has its keys, without recursion, and twice the levels take twice the work."""
    plan = deep_plan(5_000)
    assert len(set(all_keys(plan).values())) == len(plan.nodes)
    assert Identity().shape_text(plan).splitlines()[-1].startswith("5000 ")
    half, whole = deep_plan(100), deep_plan(200)
    assert steps(lambda: all_keys(whole)) < 2.05 * steps(lambda: all_keys(half))


def test_a_reused_exchange_is_visited_once() -> None:
    """An exchange is visited once, however often it is read: here each is read twice by the next."""

    def work(exchanges: int) -> int:
        texts = ("Union", "Exchange SinglePartition") * exchanges
        nodes = [Node(i, text.split()[0], text) for i, text in enumerate(texts)]
        edges = [(i + 1, i) for i in range(len(nodes) - 1) for _ in range(1 + (i + 1) % 2)]
        plan = Graph(tuple(nodes), tuple(edges))
        assert len(all_keys(plan)) == 2 * exchanges
        return steps(lambda: all_keys(plan))

    assert work(16) < 2.05 * work(8)


HOSTILE = (
    "(", ")", "[", "(a#1 AND ", "New York ", ",", "? ", "Subquery ", "input[", "#1", ", ... 1", "= ", "@aaaa", "$$Lambda",
    "a", "a:/", "path=", "a#1 = x, (b) ", "as ", "x (y), ", "((a#1 AND b#2) AND ", " PartitionFilters: [", "], ", " ",
    "functions=[", "partial_", "((a#1 AND b#2 = New York, (x) ",
)  # fmt: skip


def plan_of_long_texts(text: str) -> Graph:
    """A plan in which every kind of operator has this text."""
    names = ("Filter", "Scan parquet t", "SortMergeJoin", "Execute C", "Exchange", "BroadcastExchange", "Project")
    nodes = [PlanNode("Union", -1, "Union"), *(PlanNode(name, 0, f"{name} {text}") for name in names)]
    nodes.append(PlanNode("HashAggregate", 0, f"HashAggregate(keys=[], functions=[{text}"))
    return graph_of(nodes)


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_takes_linear_time(piece: str) -> None:
    """The time for a text grows linearly with its length, whatever operator has it."""

    def prepare(size: int) -> Callable[[], object]:
        plan = plan_of_long_texts(piece * (size // len(piece)))
        return lambda: all_keys(plan)

    check_cpu_time(prepare, 60_000)
