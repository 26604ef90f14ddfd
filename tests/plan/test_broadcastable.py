"""Whether a join could have been broadcast, by Spark's rules."""

from __future__ import annotations

from typing import Any

import pytest

from joinsight.plan.broadcastable import (
    DEFAULT_MAX_BYTES,
    MAX_ROWS,
    MAX_ROWS_OF_MAP,
    Side,
    Verdict,
    VerdictName,
    could_be_broadcast,
    max_rows,
)
from joinsight.plan.texts import JoinText

THRESHOLD = 1000
SMALL, LARGE = Side(10, 1, True), Side(5000, 500, True)


def judged(
    join_type: Any, left: Side, right: Side, threshold: int | None = THRESHOLD, strategy: str = "SortMergeJoin"
) -> Verdict:
    return could_be_broadcast(JoinText(strategy, join_type), {"left": left, "right": right}, threshold)


@pytest.mark.parametrize(
    ("join_type", "left_may", "right_may"),
    [
        ("Inner", True, True),
        ("Cross", True, True),
        ("LeftOuter", False, True),
        ("LeftSingle", False, True),
        ("LeftSemi", False, True),
        ("LeftAnti", False, True),
        ("ExistenceJoin", False, True),
        ("RightOuter", True, False),
    ],
)
def test_the_side_that_may_be_broadcast(join_type: str, left_may: bool, right_may: bool) -> None:
    """The side whose rows all come out stays; a small one on the other side could be broadcast."""
    small_left, small_right = judged(join_type, SMALL, LARGE), judged(join_type, LARGE, SMALL)
    assert small_left == (Verdict("possible", "left", 10) if left_may else Verdict("over_threshold", "right", 5000))
    assert small_right == (Verdict("possible", "right", 10) if right_may else Verdict("over_threshold", "left", 5000))


def test_a_full_outer_join_is_forbidden() -> None:
    """A full outer join cannot be broadcast, however small its sides are."""
    assert judged("FullOuter", SMALL, SMALL) == Verdict("forbidden_by_type")
    assert judged("FullOuter", SMALL, SMALL, -1) == Verdict("forbidden_by_type")


@pytest.mark.parametrize("join_type", ["Inner", "LeftOuter"])
def test_an_as_of_join_is_forbidden(join_type: str) -> None:
    """Spark sorts both of its sides, however small they are."""
    assert judged(join_type, SMALL, SMALL, strategy="SortMergeAsOfJoin") == Verdict("forbidden_by_type")


@pytest.mark.parametrize(
    ("hint", "verdict"),
    [
        (None, "possible"),
        ("merge left", "hinted"),
        ("shuffle_hash right", "hinted"),
        ("broadcast left, shuffle_replicate_nl right", "hinted"),
        ("no_broadcast_hash right", "hinted"),
        ("no_broadcast_hash left", "possible"),
        ("prefer_shuffle_hash right", "possible"),
        ("broadcast right", "possible"),
    ],
)
def test_a_join_that_a_hint_made_what_it_is(hint: str | None, verdict: str) -> None:
    """A hint for another join counts on either side, one against the broadcast on its own; AQE gives some of them."""
    join = JoinText("SortMergeJoin", "LeftOuter")
    assert could_be_broadcast(join, {"left": LARGE, "right": SMALL}, THRESHOLD, hint=hint).verdict == verdict
    assert could_be_broadcast(join, {"left": LARGE, "right": LARGE}, THRESHOLD, hint=hint).verdict == "over_threshold"


def test_an_unknown_type_is_unknown() -> None:
    """A type that Spark does not have yet is not judged."""
    assert judged("LeftTriple", SMALL, SMALL) == judged(None, SMALL, SMALL) == Verdict("unknown")


def test_the_smaller_of_both_is_meant() -> None:
    """If both sides are under the threshold, Spark broadcasts the smaller one."""
    assert judged("Inner", Side(20, 1, True), SMALL) == Verdict("possible", "right", 10)
    assert judged("Inner", SMALL, Side(20, 1, True)) == Verdict("possible", "left", 10)


@pytest.mark.parametrize(
    ("size", "threshold", "verdict"),
    [
        (1000, 1000, "possible"),
        (1001, 1000, "over_threshold"),
        (0, 0, "possible"),
        (1, 0, "over_threshold"),
        (0, -1, "switched_off"),
        (0, None, "unknown"),
        (DEFAULT_MAX_BYTES - 1, 2 * DEFAULT_MAX_BYTES, "possible"),
        (DEFAULT_MAX_BYTES, 2 * DEFAULT_MAX_BYTES, "over_threshold"),
    ],
)
def test_at_the_threshold_is_under_it(size: int, threshold: int | None, verdict: VerdictName) -> None:
    """At the threshold is under it; -1 switches off; over 8 GiB Spark refuses whatever the threshold."""
    assert judged("LeftOuter", SMALL, Side(size, 1, True), threshold) == Verdict(verdict, "right", size)


def test_what_spark_refuses_can_be_set() -> None:
    """spark.sql.maxBroadcastTableSize, from Spark 4.1 on; one that cannot be read leaves the default."""
    sides = {"left": LARGE, "right": Side(500, 1, True)}
    join = JoinText("SortMergeJoin", "LeftOuter")
    assert could_be_broadcast(join, sides, THRESHOLD, max_bytes=501).verdict == "possible"
    assert could_be_broadcast(join, sides, THRESHOLD, max_bytes=500).verdict == "over_threshold"
    assert could_be_broadcast(join, sides, THRESHOLD, max_bytes=None).verdict == "possible"


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("HashedRelationBroadcastMode(List(input[0, bigint, false]),false)", MAX_ROWS),
        ("HashedRelationBroadcastMode(List(cast(input[0, int, true] as bigint)),false)", MAX_ROWS),
        ("HashedRelationBroadcastMode(List(input[0, string, true]),true)", MAX_ROWS_OF_MAP),
        ("HashedRelationBroadcastMode(List(input[0, bigint, false], input[1, bigint, false]),false)", MAX_ROWS_OF_MAP),
        ("IdentityBroadcastMode", MAX_ROWS),
        (None, MAX_ROWS),
    ],
)
def test_a_hash_map_of_other_keys_than_a_bigint_holds_fewer_rows(mode: str | None, rows: int) -> None:
    assert max_rows(mode) == rows


def test_more_than_512_million_rows_are_not_broadcastable() -> None:
    assert judged("LeftOuter", SMALL, Side(10, MAX_ROWS - 1, True)).verdict == "possible"
    assert judged("LeftOuter", SMALL, Side(10, MAX_ROWS, True)).verdict == "over_threshold"


def test_what_was_not_measured_is_unknown() -> None:
    """A side without a size may be of any; one that is measured and fits is enough."""
    assert judged("LeftOuter", SMALL, Side()) == Verdict("unknown")
    assert judged("Inner", LARGE, Side()) == Verdict("unknown", "left", 5000)
    assert judged("Inner", SMALL, Side()) == Verdict("possible", "left", 10)
    assert judged("Inner", Side(), Side(), -1) == Verdict("switched_off")


def test_what_was_measured_in_part() -> None:
    """A size that may have been larger shows that it is over the threshold, and never that it is under it."""
    assert judged("LeftOuter", SMALL, Side(10, 1)) == Verdict("unknown", "right", 10)
    assert judged("LeftOuter", SMALL, Side(5000, 1)) == Verdict("over_threshold", "right", 5000)


@pytest.mark.parametrize("strategy", ["BroadcastHashJoin", "BroadcastNestedLoopJoin"])
def test_a_broadcast_join_was_broadcast(strategy: str) -> None:
    """The verdict is independent of the threshold; the side is the one that Spark built."""
    join = JoinText(strategy, "FullOuter", "right")
    assert could_be_broadcast(join, {"left": Side(), "right": LARGE}, -1) == Verdict("was_broadcast", "right", 5000)
    without = JoinText(strategy, "Inner")
    assert could_be_broadcast(without, {"left": Side(), "right": LARGE}, -1) == Verdict("was_broadcast")
