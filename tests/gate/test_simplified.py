"""A plan as a text without what changes from run to run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import hostile
from tests.growth import steps
from tests.plan.test_identity import FINAL, REPORT, graph

from joinsight.contract.document import Execution
from joinsight.gate.explained import contents, joins_of
from joinsight.gate.simplified import PlanLine, from_lines, simplified, to_lines
from joinsight.plan.graph import build

TEXT = """\
Sort [total DESC NULLS LAST], ?
Exchange rangepartitioning(total DESC NULLS LAST)
Aggregate keys=[region] functions=[sum(amount)]
Exchange hashpartitioning(region)
BroadcastHashJoin BuildRight Inner (store_id = store_id)
├─ Exchange hashpartitioning(store_id)
│  Filter (amount > ?) AND NOT city IN (?)
│  Scan db.sales[store_id,amount,city]
└─ BroadcastExchange
   Exchange hashpartitioning(store_id)
   Scan db.store[store_id,region]"""


def lines(drawing: str) -> str:
    return "\n".join(to_lines(simplified(graph(drawing), {})))


def test_a_simplified_plan_has_no_ids_or_numbers_of_partitions() -> None:
    """Without ids, numbers of partitions, generated code, projections and the conditions that keys are not NULL."""
    assert lines(FINAL) == TEXT


def test_what_runs_differently_is_the_same() -> None:
    """Ids, literals, partitions, paths, and what wraps the operators."""
    other = FINAL.replace("#1", "#77").replace("2.5", "1000").replace(", 7)", ", 4000)").replace("[file:/", "[s3://b/")
    assert other != FINAL
    assert lines(other) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("BuildRight", "BuildLeft", "BroadcastHashJoin BuildLeft Inner (store_id = store_id)"),
        ("Inner, BuildRight", "LeftOuter, BuildRight", "BroadcastHashJoin BuildRight LeftOuter (store_id = store_id)"),
        ("BroadcastHashJoin |", "ShuffledHashJoin |", "ShuffledHashJoin BuildRight Inner (store_id = store_id)"),
        ("hashpartitioning(region#139, 7)", "hashpartitioning(city#136, 7)", "Exchange hashpartitioning(city)"),
        ("amount#135 > 2.5", "amount#135 >= 2.5", "Filter (amount >= ?) AND NOT city IN (?)"),
        ("db.store |", "db.shop |", "Scan db.shop[store_id,region]"),
        ("sum(amount#135)", "max(amount#135)", "Aggregate keys=[region] functions=[max(amount)]"),
        ("Batched: true, Location: F(1", "Batched: true, Bucketed: true, Location: F(1", "bucketed"),
        (
            "7), ENSURE_REQUIREMENTS, [plan_id=94]",
            "7), REPARTITION_BY_COL",
            "hashpartitioning(store_id) REPARTITION_BY",
        ),
    ],
)
def test_what_matters_is_seen(old: str, new: str, line: str) -> None:
    """A join's side, type and strategy; what is shuffled, filtered, read and computed."""
    assert old in FINAL
    found = lines(FINAL.replace(old, new))
    assert found != TEXT
    assert line in found


def test_the_first_plan_has_the_hint_of_its_join() -> None:
    plan = graph(REPORT)
    (join,) = (node.id for node in plan.nodes if node.name == "SortMergeJoin")
    found = to_lines(simplified(plan, {join: "merge right"}))
    assert "SortMergeJoin Inner (store_id = store_id) hint: merge right" in found


def test_a_broadcast_join_by_aqe_has_no_side() -> None:
    """Either side may be broadcast, whichever AQE has first: the text is the same."""
    right = """
    BroadcastHashJoin | [a#1], [b#2], Inner, BuildRight, false
      Exchange | hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=1]
        Scan parquet t | [a#1]
      BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, true]),false), [plan_id=2]
        Exchange | hashpartitioning(b#2, 4), ENSURE_REQUIREMENTS, [plan_id=3]
          Scan parquet u | [b#2]
    """
    left = """
    BroadcastHashJoin | [a#1], [b#2], Inner, BuildLeft, false
      BroadcastExchange | HashedRelationBroadcastMode(List(input[0, bigint, true]),false), [plan_id=2]
        Exchange | hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=1]
          Scan parquet t | [a#1]
      Exchange | hashpartitioning(b#2, 4), ENSURE_REQUIREMENTS, [plan_id=3]
        Scan parquet u | [b#2]
    """
    found = [to_lines(simplified(graph(drawing), {}, {0})) for drawing in (left, right)]
    assert (
        found[0]
        == found[1]
        == [
            "BroadcastHashJoin by AQE Inner (a = b)",
            "├─ Exchange hashpartitioning(a)",
            "│  Scan t[a]",
            "└─ Exchange hashpartitioning(b)",
            "   Scan u[b]",
        ]
    )
    assert lines(left) != lines(right), "without AQE the side is a plan of its own"
    [join] = joins_of(from_lines(found[0]))
    assert (join.strategy, join.side, contents(from_lines(found[0])).broadcasts) == ("BroadcastHashJoin", None, 1)


def test_an_exchange_that_is_read_twice() -> None:
    """Is written once."""
    twice = """
    Union
      Exchange | hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=3]
        Scan parquet t | [a#1]
      ReusedExchange | [a#2], Exchange hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=3]
        Exchange | hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=3]
          Scan parquet t | [a#1]
    """
    assert lines(twice).split("\n") == [
        "Union",
        "├─ Exchange hashpartitioning(a)",
        "│  Scan t[a]",
        "└─ Reused Exchange hashpartitioning(a)",
    ]


labels = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).filter(
    lambda text: text.strip() == text and text[0] not in "│├└"
)
trees = st.recursive(
    st.builds(PlanLine, labels), lambda inputs: st.builds(PlanLine, labels, st.lists(inputs, max_size=4)), max_leaves=20
)


@given(tree=trees)
def test_a_text_is_read_back(tree: PlanLine) -> None:
    """Whatever the plan and its names."""
    assert from_lines(to_lines([tree])) == [tree]


@pytest.mark.parametrize("line", ["", "├─ ", "   deeper", "│  ├─ two levels", "├─ a branch of nothing"])
def test_a_line_that_cannot_follow_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=line or "^$"):
        from_lines([line] if "nothing" in line else ["Union", line])


@pytest.mark.parametrize("shape", [each for each in hostile.SHAPES if each(1).plans], ids=lambda shape: shape.__name__)
def test_work_grows_with_the_plan(shape: Callable[[int], Execution]) -> None:
    """Twice the plan takes twice the work, and comes back from its text."""

    def work(size: int) -> int:
        e = shape(size)
        plan = e.plans[-1]
        tree = build([e.nodes[number] for number in plan.nodes], plan.parents)
        return steps(lambda: from_lines(to_lines(simplified(tree, {}))))

    work(1)
    assert work(100) < 2.2 * work(50)
