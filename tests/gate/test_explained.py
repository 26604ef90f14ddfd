"""What the difference of two plans means, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.gate.test_simplified import TEXT

from joinsight.gate.explained import explained, joins_of
from joinsight.gate.simplified import from_lines

MERGED = TEXT.replace(
    "BroadcastHashJoin BuildRight Inner (store_id = store_id)",
    "SortMergeJoin Inner (store_id = store_id) hint: merge right",
).replace("BroadcastExchange\n   ", "")
THREE = """\
SortMergeJoin Inner (n = n)
├─ BroadcastHashJoin BuildRight Inner (c = c)
│  ├─ Scan orders[c,n]
│  └─ BroadcastExchange
│     Scan customers[c]
└─ Scan nation[n]"""


def said(old: str, new: str, settings: Mapping[str, tuple[str | None, str | None]] | None = None) -> list[str]:
    return explained(from_lines(old.split("\n")), from_lines(new.split("\n")), settings or {})


def changed(old: str, new: str, text: str = TEXT) -> list[str]:
    assert old in text
    return said(text, text.replace(old, new))


def test_equal_plans_have_nothing_to_explain() -> None:
    assert said(TEXT, TEXT) == []


def test_the_cause_of_a_new_strategy_comes_first() -> None:
    settings = {"spark.sql.autoBroadcastJoinThreshold": ("10485760", None)}
    assert said(TEXT, MERGED, settings) == [
        "spark.sql.autoBroadcastJoinThreshold was 10485760, is now not set.",
        "The join on store_id has a new hint (merge right).",
        "The join on store_id was broadcast, is now sort-merge.",
        "1 fewer broadcast.",
    ]
    back = said(MERGED, TEXT)
    assert "The join on store_id lost its hint (merge right)." in back
    assert back[-1] == "1 more broadcast."


@pytest.mark.parametrize(
    ("old", "new", "sentences"),
    [
        ("BuildRight", "BuildLeft", ["The join on store_id now builds its left side, was its right one."]),
        ("Right Inner", "Right LeftOuter", ["The join on store_id was Inner, is now LeftOuter."]),
        (
            "(store_id = store_id)",
            "(cast(store_id as string) = store_id)",
            ["The join on store_id is now a join on cast(store_id as string) = store_id."],
        ),
        ("Filter (amount > ?) AND NOT city IN (?)", "Filter (amount > ?)", ["The filter NOT city IN (?) is gone."]),
        ("Filter (amount > ?) AND", "Filter (day = ?) AND (amount > ?) AND", ["A filter (day = ?) is new."]),
        ("db.store[", "db.shop[", ["db.shop is now read.", "db.store is no longer read."]),
        (
            "store[store_id,region]",
            "store[store_id,area]",
            ["Of db.store it now reads area and no longer reads region."],
        ),
        ("store[store_id,region]", "store[store_id,region] bucketed", ["db.store is now read by buckets."]),
        (
            "hashpartitioning(region)",
            "hashpartitioning(region, city)",
            ["1 more shuffle: by region, city; 1 fewer shuffle: by region."],
        ),
        (
            "(region)",
            "(region) REPARTITION_BY_COL",
            ["1 more shuffle: by region (asked for); 1 fewer shuffle: by region."],
        ),
    ],
)
def test_each_change_is_a_sentence(old: str, new: str, sentences: list[str]) -> None:
    assert changed(old, new) == sentences


def test_another_order_of_the_same_joins_is_named() -> None:
    other = """\
BroadcastHashJoin BuildRight Inner (c = c)
├─ SortMergeJoin Inner (n = n)
│  ├─ Scan orders[c,n]
│  └─ Scan nation[n]
└─ BroadcastExchange
   Scan customers[c]"""
    assert said(THREE, other) == [
        "The inputs of joins are in another order: (orders ⋈ customers) ⋈ nation is now (orders ⋈ nation) ⋈ customers."
    ]


def test_a_join_that_is_gone() -> None:
    """With what it read."""
    without = THREE.replace("BroadcastHashJoin BuildRight Inner (c = c)\n│  ├─ ", "").replace(
        "│  └─ BroadcastExchange\n│     Scan customers[c]\n", ""
    )
    assert said(THREE, without) == [
        "customers is no longer read.",
        "The join on c (broadcast) is gone.",
        "1 fewer broadcast.",
    ]
    assert "A join on c (broadcast) is new." in said(without, THREE)
    hinted = THREE.replace("(c = c)", "(c = c) hint: broadcast right")
    assert "The join on c (broadcast, hint broadcast right) is gone." in said(hinted, without)


def test_a_join_without_a_condition() -> None:
    """Is called by what it reads."""
    (join,) = joins_of(from_lines(["CartesianProduct Inner", "├─ Scan a[x]", "└─ Scan b[y]"]))
    assert join.is_cartesian
    assert join.name == "join of a and b"
    assert [each.is_cartesian for each in joins_of(from_lines(THREE.split("\n")))] == [False, False]
