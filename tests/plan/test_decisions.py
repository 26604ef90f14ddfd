"""AQE decisions in plans of real Spark (tests/corpus), and in drawn plans for cases that these lack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.documents import PlanNode, draw, graph_of, stored_rows
from tests.growth import steps

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Accumulator, Execution, Metric
from joinsight.plan.decisions import KINDS, Changes, Decision
from joinsight.plan.graph import Graph
from joinsight.plan.identity import Identity
from joinsight.tables import Row

CORPUS = Path(__file__).parents[1] / "corpus"
COLUMNS = ("version", "kind", "operator", "before", "after", "bytes_before", "bytes_after", "rows_before", "rows_after")
MEGABYTES_32 = 33_555_440


def recorded(name: str, line: int = 0) -> list[Row]:
    document = decode_document((CORPUS / f"spark-{name}.ndjson").read_bytes().splitlines()[line])
    assert isinstance(document, Execution)
    return stored_rows(document)["aqe_decision"]


SMJ, BHJ, READ = "SortMergeJoin", "BroadcastHashJoin", "AQEShuffleRead"
RECORDED = {
    "aqe-to-broadcast": [
        (2, "join_strategy", BHJ, SMJ, BHJ, 720, MEGABYTES_32, 20, 20),
        (2, "local_read", READ, "4", "1", 721, None, 20, 20),
        (3, "local_read", READ, "4", "1", 713273, None, 20000, 20000),
    ],
    "aqe-to-shuffled-hash": [
        (2, "join_strategy", "ShuffledHashJoin", SMJ, "ShuffledHashJoin", 72000, 8404592, 2000, None),
        (2, "coalesced", READ, "4", "1", 713273, 763463, 20000, 20000),
        (2, "coalesced", READ, "4", "1", 19334, 20095, 2000, 2000),
    ],
    "skewed-join-split": [
        (2, "skew_split", READ, "1", "2", 32344560, 34046483, 1500000, 1500000),
        (4, "coalesced", READ, "16", "1", 2687, 2704, 48, 48),
    ],
    # Spark 4 draws what was replaced beneath the EmptyRelation
    "aqe-empty": [
        (2, "empty_relation", "EmptyRelation", SMJ, "EmptyRelation", 1120000, None, 20000, None),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, 1120000, None, 20000, None),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, None, None, 0, None),
    ],
    "aqe-join-with-nothing": [
        (2, "empty_relation", SMJ, SMJ, None, 480000, None, 20000, None),
        (2, "coalesced", READ, "4", "1", 97760, 101246, 20000, 20000),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, None, None, 0, None),
    ],
    "aqe-dropped-shuffle": [
        (2, "join_strategy", BHJ, SMJ, BHJ, 176, 33557304, 11, 11),
        (2, "local_read", READ, "4", "1", 279, None, 11, 11),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, None, None, None, None),
        (3, "join_strategy", BHJ, SMJ, BHJ, 320, MEGABYTES_32, 20, 20),
        (3, "local_read", READ, "4", "1", 521, None, 20, 20),
        (4, "local_read", READ, "4", "1", 724035, None, 20000, 20000),
    ],
    # Both shuffles were planned for the cached tables and not needed
    "aqe-cached-table-broadcast": [
        (2, "join_strategy", BHJ, SMJ, BHJ, None, 33570800, None, 801),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, None, None, None, None),
        (2, "dropped_stage", "Exchange", "hashpartitioning", None, None, None, None, None),
    ],
    "cached-table": [],
    "dynamic-partition-pruning": [(3, "coalesced", READ, "16", "1", 192, 198, 3, 3)],
    "shuffle-read-twice": [
        (2, "coalesced", READ, "16", "1", 20086, 20952, 1200, None),
        (2, "coalesced", READ, "16", "1", 20086, 20952, 1200, None),
    ],
    "broadcast-that-failed": [],
}


@pytest.mark.parametrize("name", RECORDED)
def test_each_decision_is_named_once(name: str) -> None:
    """Each decision is named once, at the plan that shows it first, with what was measured before and after."""
    assert [tuple(row.get(column) for column in COLUMNS) for row in recorded(name)] == RECORDED[name]


def test_each_kind_is_recorded() -> None:
    """Each kind that `KINDS` declares occurs in a plan of real Spark."""
    assert {row["kind"] for name in RECORDED for row in recorded(name)} == set(KINDS)


def test_an_empty_relation_of_spark_3_decides_as_that_of_spark_4() -> None:
    """It is a LocalTableScan that hides what it replaced; the decisions are those of Spark 4."""
    rows = recorded("aqe-empty", 1)
    assert [(r["kind"], r["operator"], r["before"], r["after"]) for r in rows] == [
        ("empty_relation", "LocalTableScan", SMJ, "LocalTableScan"),
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("dropped_stage", "Exchange", "hashpartitioning", None),
    ]
    assert [r["operator_key"] for r in rows] == [r["operator_key"] for r in recorded("aqe-empty")]


def test_joins_beneath_a_reused_exchange_are_not_gone() -> None:
    """Two joins and seven exchanges of the first plan are not in the last one: their like is read twice."""
    rows = recorded("aqe-reused-joins")
    assert [row["kind"] for row in rows] == ["coalesced"] * 5


def test_decisions_lead_to_their_operators() -> None:
    """The key is that of the join, or of the shuffle that is read; the node is of the decision's own version."""
    document = decode_document((CORPUS / "spark-aqe-to-broadcast.ndjson").read_bytes())
    assert isinstance(document, Execution)
    rows = stored_rows(document)
    switched, *reads = rows["aqe_decision"]
    (join,) = rows["joins"]
    assert switched["operator_key"] == join["operator_key"]
    assert {read["operator_key"] for read in reads} <= {shuffle["operator_key"] for shuffle in rows["shuffle"]}
    nodes = {version["version"]: version["nodes"] for version in rows["plan_version"]}
    for row in rows["aqe_decision"]:
        assert nodes[row["version"]][row["node_id"]]["name"] == row["operator"]
    assert [(row["version"], row["position"]) for row in rows["aqe_decision"]] == [(2, 0), (2, 1), (3, 0)]
    assert [row["decided_at"] for row in reads] == [
        version["planned_at"] for version in rows["plan_version"] if version["version"] in (2, 3)
    ]


# Drawn


def versions(*drawings: str) -> tuple[list[Graph], dict[int, Accumulator]]:
    """The graphs of plans that follow each other: equal lines with a plan_id keep their metrics, as stages do."""
    graphs, measured = [], {}
    kept: dict[str, PlanNode] = {}
    for number, drawing in enumerate(drawings):
        nodes, accumulators = draw(drawing)
        moved = []
        for node in nodes:
            metrics = [Metric(m.name, m.id + 10_000 * number, m.type) for m in node.metrics]
            if "plan_id=" in node.simple:
                metrics = list(kept.setdefault(node.simple, node._replace(metrics=metrics)).metrics)
            moved.append(node._replace(metrics=metrics))
        graphs.append(graph_of(moved))
        for a in accumulators:
            measured[a.id + 10_000 * number] = a
    return graphs, measured


def changes(graphs: Sequence[Graph]) -> Changes:
    identity = Identity()
    return Changes(graphs, [identity.operator_bases(graph) for graph in graphs])


def decided(*drawings: str) -> list[Decision]:
    graphs, measured = versions(*drawings)
    return changes(graphs).decisions(measured)


def kinds(*drawings: str) -> list[tuple[Any, ...]]:
    return [(d.version, d.kind, d.before, d.after) for d in decided(*drawings)]


def join(strategy: str, left: str, right: str, on: str = "[k#1], [k#2], Inner") -> str:
    inputs = "\n".join(f"  {line}" for side in (left, right) for line in side.strip("\n").splitlines())
    return f"{strategy} | {on}\n{inputs}"


WRITTEN = "shuffle records written=40, number of partitions=200, shuffle bytes written=900, records read=40"
LEFT = f"""
Exchange | hashpartitioning(k#1, 200), [plan_id=3] | data size=5000, {WRITTEN}
  Scan parquet t | [k#1]
"""
RIGHT = """
Exchange | hashpartitioning(k#2, 200), [plan_id=4] | data size=30, shuffle records written=3, number of partitions=200
  Scan parquet s | [k#2]
"""


def above(line: str, plan: str) -> str:
    return line + "\n" + "\n".join(f"  {each}" for each in plan.strip("\n").splitlines())


COALESCED = "AQEShuffleRead | coalesced | number of partitions=7, partition data size=100+200+600"


def test_a_read_is_named_once() -> None:
    read = join(SMJ, above(COALESCED, LEFT), RIGHT)
    (decision,) = decided(join(SMJ, LEFT, RIGHT), read, read, above("Sort", read))
    assert decision == Decision(
        1, "coalesced", READ, 1, decision.operator_key, "200", "7", 900, 900, 40, 40
    )  # fmt: skip


def test_what_the_first_plan_has_was_decided_before() -> None:
    """A DataFrame that runs again begins with the plan that AQE made the first time."""
    read = join(BHJ, above(COALESCED, LEFT), RIGHT)
    assert decided(read) == decided(read, read) == []


def test_a_plan_without_nodes_is_passed_over() -> None:
    before, after = join(SMJ, LEFT, RIGHT), join(SMJ, above(COALESCED, LEFT), RIGHT)
    assert kinds(before, "", after) == [(2, "coalesced", "200", "7")]
    assert decided("", before) == decided(before, "") == decided() == []


def test_a_read_that_is_coalesced_and_skewed_is_two_decisions() -> None:
    """A read that coalesces some partitions and splits others is two decisions."""
    read = (
        "AQEShuffleRead | coalesced and skewed | number of partitions=90, number of skewed partitions=2,"
        " number of skewed partition splits=11"
    )
    assert kinds(join(SMJ, LEFT, RIGHT), join("SortMergeJoin(skew=true)", above(read, LEFT), RIGHT)) == [
        (1, "coalesced", "200", "90"),
        (1, "skew_split", "2", "11"),
    ]


def test_a_read_that_only_follows_is_no_decision() -> None:
    """The other side of a split partition is read as often: Spark gives that no word."""
    assert kinds(join(SMJ, LEFT, RIGHT), join(SMJ, above("AQEShuffleRead", LEFT), RIGHT)) == []


def test_a_read_whose_shuffle_says_nothing() -> None:
    """Values that were not measured are None; partitions come from the text."""
    exchange = "Exchange | hashpartitioning(k#1, 200), [plan_id=3]"
    (decision,) = decided(exchange, above("AQEShuffleRead | coalesced", exchange))
    assert (decision.before, decision.after, decision.bytes_before, decision.rows_after) == ("200", None, None, None)


def test_a_join_is_known_by_its_text_when_what_is_beneath_it_has_changed() -> None:
    """A part that became empty changes the key of the join above it."""
    inner = join(SMJ, LEFT, RIGHT, "[a#1], [b#2], LeftOuter")
    relation = "BroadcastExchange | [plan_id=9] | data size=33000000, number of output rows=3"
    other = "Exchange | hashpartitioning(k#9, 200), [plan_id=5] | data size=30, shuffle records written=3"
    before = join(SMJ, inner, other, "[k#8], [k#9], Inner")
    after = join(f"{BHJ}", LEFT, above(relation, other), "[k#8], [k#9], Inner, BuildRight")
    switched, vanished, dropped = decided(before, after)
    assert (switched.kind, switched.before, switched.after) == ("join_strategy", SMJ, BHJ)
    assert (switched.bytes_before, switched.bytes_after) == (30, 33000000)
    assert (switched.rows_before, switched.rows_after) == (3, 3)
    assert (vanished.kind, vanished.before, vanished.after, vanished.node_id) == ("empty_relation", SMJ, None, None)
    assert (dropped.kind, dropped.bytes_before, dropped.node_id) == ("dropped_stage", 30, None)


def test_one_of_two_equal_joins() -> None:
    """The first of two equal joins was switched; the other one stays what it is."""
    relation = above("BroadcastExchange | [plan_id=9]", RIGHT)
    other = join(SMJ, LEFT.replace("=3]", "=13]"), RIGHT.replace("=4]", "=14]"))
    before = above("Union", join(SMJ, LEFT, RIGHT) + "\n" + other)
    after = above("Union", join(BHJ, LEFT, relation, "[k#1], [k#2], Inner, BuildRight") + "\n" + other)
    (decision,) = decided(before, after)
    assert (decision.kind, decision.node_id, decision.operator) == ("join_strategy", 1, BHJ)


def test_equal_joins_are_told_apart_by_their_columns() -> None:
    """The first of two equal ones goes away; the other one is not taken for it, and has kept its strategy."""
    other = RIGHT.replace("k#2", "k#22").replace("plan_id=4", "plan_id=14")
    left = LEFT.replace("k#1", "k#11").replace("=3]", "=13]")
    second = join(BHJ, left, above("BroadcastExchange", other), "[k#11], [k#22], Inner, BuildRight")
    before = above("Union", join(SMJ, LEFT, RIGHT) + "\n" + second)
    found = [d.kind for d in decided(before, above("Union", second))]
    assert found == ["empty_relation", "dropped_stage", "dropped_stage"]


def test_a_reused_exchange_is_not_dropped() -> None:
    """Two equal exchanges become one with two readers."""
    copy = LEFT.replace("k#1", "k#2").replace("plan_id=3", "plan_id=4")
    first = join(SMJ, LEFT, copy)
    reused = above("ReusedExchange", LEFT)
    assert decided(first, join(SMJ, above("ShuffleQueryStage", LEFT), above("ShuffleQueryStage", reused))) == []


def test_one_of_two_equal_exchanges_is_dropped() -> None:
    """An equal exchange is read as often as before, so it is not reused."""
    copy = LEFT.replace("k#1", "k#2").replace("plan_id=3", "plan_id=4")
    after = join(SMJ, LEFT, "LocalTableScan | <empty>, [k#2]")
    found = decided(join(SMJ, LEFT, copy), after)
    assert [(d.kind, d.operator) for d in found] == [
        ("empty_relation", "LocalTableScan"),
        ("dropped_stage", "Exchange"),
    ]
    assert found[0].before == "Scan parquet t"


def test_a_join_beneath_an_exchange_that_is_reused_is_not_gone() -> None:
    """Two equal branches with a join each are drawn once, with one join."""

    def branch(ids: str, plan: str) -> str:
        inner = join(SMJ, LEFT, RIGHT).replace("k#1", f"k#1{ids}").replace("k#2", f"k#2{ids}")
        inner = inner.replace("plan_id=3", f"plan_id=3{plan}").replace("plan_id=4", f"plan_id=4{plan}")
        return above(f"Exchange | hashpartitioning(k#1{ids}, 200), [plan_id=7{plan}]", inner)

    first = join(SMJ, branch("1", "1"), branch("2", "2"), "[k#11], [k#12], Inner")
    reused = above("ShuffleQueryStage", above("ReusedExchange", branch("1", "1")))
    after = join(SMJ, above("ShuffleQueryStage", branch("1", "1")), reused, "[k#11], [k#12], Inner")
    assert decided(first, after) == []


def test_a_join_with_other_ids_is_known_by_its_key() -> None:
    """A re-plan may give columns other ids; what lies beneath is the same."""
    other = above("BroadcastExchange | [plan_id=9]", RIGHT.replace("k#2", "k#22").replace("plan_id=4", "plan_id=44"))
    after = join(BHJ, LEFT.replace("k#1", "k#11").replace("plan_id=3", "plan_id=33"), other, "[k#11], [k#22], Inner")
    assert kinds(join(SMJ, LEFT, RIGHT), after) == [(1, "join_strategy", SMJ, BHJ)]


def test_a_join_that_cannot_be_found_again_is_not_called_gone() -> None:
    """A join is not reported as gone while the plan has a join that may be the same."""
    before = above("Filter | (a#1 > 5)", join(SMJ, LEFT, RIGHT))
    after = above("Filter | (a#1 > 5)", join(BHJ, LEFT, RIGHT, "[other#1], [k#2], Inner, BuildLeft"))
    assert kinds(before, after) == []


def test_the_exchange_of_a_subquery_stays_what_it_is() -> None:
    """An equal one outside is dropped: that one is named."""
    subquery = above("Subquery | a", LEFT.replace("plan_id=3", "plan_id=13").replace("5000", "6000"))
    plan = "Filter | (a#1 > 5)\n" + "\n".join(
        f"  {line}" for line in (*subquery.splitlines(), *LEFT.strip().splitlines())
    )
    nothing = "Filter | (a#1 > 5)\n  LocalTableScan | <empty>, [k#1]"
    *_, dropped = decided(plan, nothing)
    assert (dropped.kind, dropped.bytes_before) == ("dropped_stage", 5000)


@pytest.mark.parametrize("parent", ["Subquery", "SubqueryAdaptiveBroadcast", "SubqueryBroadcast"])
def test_a_subquery_that_is_reused_drops_nothing(parent: str) -> None:
    """Subqueries run for themselves, and Spark draws equal ones once."""
    filtered = above("Filter | (a#1 > 5)", above(f"{parent} | a", above(join(SMJ, LEFT, RIGHT), "")))
    assert decided(above("Project", filtered), "Project\n  Filter | (a#1 > 5)\n    Scan parquet t | [a#1]") == []


def test_a_pruning_subquery_goes_and_its_like_stays() -> None:
    """Dynamic pruning repeats a side of the join; when it is given up, the side itself is still there."""
    twice = join(SMJ, LEFT.replace("plan_id=3", "plan_id=13"), RIGHT.replace("plan_id=4", "plan_id=14"))
    scan = "Scan parquet facts | [day#7]"
    pruned = above(scan, above("SubqueryAdaptiveBroadcast | a", twice))
    on = "[day#7], [k#1], Inner"
    once = join(SMJ, LEFT, RIGHT).replace("=3]", "=23]").replace("=4]", "=24]")
    assert decided(join(BHJ, pruned, join(SMJ, LEFT, RIGHT), on), join(BHJ, scan, once, on)) == []


def test_an_empty_relation_that_was_planned_is_no_decision() -> None:
    """The optimizer found it before anything ran; a re-plan repeats it with other ids."""
    empty = "LocalTableScan | <empty>, [k#2] | number of output rows={}"
    assert decided(join(SMJ, LEFT, empty.format("?")), join(SMJ, LEFT, empty.format(0))) == []


def test_the_whole_plan_is_empty() -> None:
    """The root's only input is replaced: what is named is the first operator below that does something."""
    plan = above("AdaptiveSparkPlan | isFinalPlan=false", above("Sort | [k#1 ASC], true, 0", join(SMJ, LEFT, RIGHT)))
    empty = above("AdaptiveSparkPlan | isFinalPlan=true", "LocalTableScan | <empty>, [k#1]")
    first, *others = decided(plan, empty)
    assert (first.kind, first.before, first.after, first.node_id) == ("empty_relation", SMJ, "LocalTableScan", 1)
    assert (first.bytes_before, first.rows_before) == (5030, 43)
    assert [(d.kind, d.bytes_before, d.rows_before) for d in others] == [
        ("dropped_stage", 5000, 40),
        ("dropped_stage", 30, 3),
    ]


def test_comparing_wide_plans_takes_linear_time() -> None:
    def work(exchanges: int) -> int:
        wide = "Union\n" + "".join(f"  Exchange | hashpartitioning(k#1, {n + 2})\n" for n in range(exchanges))
        graphs, measured = versions(wide, wide)
        return steps(lambda: changes(graphs).decisions(measured))

    assert work(200) < 2.05 * work(100)


def test_deep_plans_are_compared_without_recursion() -> None:
    deep = "\n".join(f"{'  ' * level}Project | [a{level}#1]" for level in range(3_000))
    graphs, measured = versions(deep, deep + "\n" + "  " * 3_000 + COALESCED)
    assert changes(graphs).decisions(measured) == []
