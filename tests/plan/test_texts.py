"""The facts read from texts of exchanges and joins, as Spark 4.3.0 and 3.5.9 wrote them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import check_cpu_time

from joinsight.plan.operators import JOIN_STRATEGIES
from joinsight.plan.texts import JoinText, ShuffleText, broadcast_mode, join_text, shuffle_text, split

SHUFFLES = {
    # 4.3.0
    "Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1578]": ShuffleText(
        "SinglePartition", (), 1, "ENSURE_REQUIREMENTS"
    ),
    "Exchange hashpartitioning(key#9L, 4), ENSURE_REQUIREMENTS, [plan_id=390]": ShuffleText(
        "hashpartitioning", ("key#9L",), 4, "ENSURE_REQUIREMENTS"
    ),
    "Exchange hashpartitioning(key#9L, grp#11L, 4), ENSURE_REQUIREMENTS, [plan_id=574]": ShuffleText(
        "hashpartitioning", ("key#9L", "grp#11L"), 4, "ENSURE_REQUIREMENTS"
    ),
    "Exchange hashpartitioning((key#14L * 2), 4), ENSURE_REQUIREMENTS, [plan_id=664]": ShuffleText(
        "hashpartitioning", ("(key#14L * 2)",), 4, "ENSURE_REQUIREMENTS"
    ),
    "Exchange hashpartitioning(coalesce(opt#5L, 0), isnull(opt#5L), 4), ENSURE_REQUIREMENTS, [plan_id=41]": ShuffleText(
        "hashpartitioning", ("coalesce(opt#5L, 0)", "isnull(opt#5L)"), 4, "ENSURE_REQUIREMENTS"
    ),
    "Exchange rangepartitioning(amount#12 DESC NULLS LAST, name#10 ASC NULLS FIRST, 4), ENSURE_REQUIREMENTS,"
    " [plan_id=1692]": ShuffleText(
        "rangepartitioning", ("amount#12 DESC NULLS LAST", "name#10 ASC NULLS FIRST"), 4, "ENSURE_REQUIREMENTS"
    ),
    "Exchange rangepartitioning(key#9L ASC NULLS FIRST, 3), REPARTITION_BY_NUM, [plan_id=1874]": ShuffleText(
        "rangepartitioning", ("key#9L ASC NULLS FIRST",), 3, "REPARTITION_BY_NUM"
    ),
    "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=1800]": ShuffleText(
        "RoundRobinPartitioning", (), 3, "REPARTITION_BY_NUM"
    ),
    "Exchange hashpartitioning(grp#11L, 4), REPARTITION_BY_COL, [plan_id=1848]": ShuffleText(
        "hashpartitioning", ("grp#11L",), 4, "REPARTITION_BY_COL"
    ),
    "Exchange RoundRobinPartitioning(4), REBALANCE_PARTITIONS_BY_NONE, [plan_id=1899]": ShuffleText(
        "RoundRobinPartitioning", (), 4, "REBALANCE_PARTITIONS_BY_NONE"
    ),
    "Exchange hashpartitioning(grp#11L, 4), REBALANCE_PARTITIONS_BY_COL, [plan_id=1923]": ShuffleText(
        "hashpartitioning", ("grp#11L",), 4, "REBALANCE_PARTITIONS_BY_COL"
    ),
    "Exchange hashpartitioning(key#7L, named_struct(a, grp#9L, b, array(name#8, x,y)), 4), ENSURE_REQUIREMENTS,"
    " [plan_id=194]": ShuffleText(
        "hashpartitioning", ("key#7L", "named_struct(a, grp#9L, b, array(name#8, x,y))"), 4, "ENSURE_REQUIREMENTS"
    ),
    # a literal '[', which Spark writes without quotes
    "Exchange hashpartitioning(concat(name#2, [), 4), ENSURE_REQUIREMENTS, [plan_id=153]": ShuffleText(
        "hashpartitioning", ("concat(name#2, [)",), 4, "ENSURE_REQUIREMENTS"
    ),
    # spark.sql.debug.maxToStringFields=3: the number of partitions is among what was cut off
    "Exchange hashpartitioning(key#9L, grp#11L, name#10, ... 3 more fields), ENSURE_REQUIREMENTS, [plan_id=3831]": (
        ShuffleText(
            "hashpartitioning", ("key#9L", "grp#11L", "name#10", "... 3 more fields"), None, "ENSURE_REQUIREMENTS"
        )
    ),
    # 3.5.9
    "Exchange hashpartitioning(key#23L, grp#25L, ... 4 more fields), ENSURE_REQUIREMENTS, [plan_id=3748]": ShuffleText(
        "hashpartitioning", ("key#23L", "grp#25L", "... 4 more fields"), None, "ENSURE_REQUIREMENTS"
    ),
    "Exchange rangepartitioning(key#23L ASC NULLS FIRST, name#24 ASC NULLS FIRST, ... 3 more fields),"
    " ENSURE_REQUIREMENTS, [plan_id=3894]": ShuffleText(
        "rangepartitioning",
        ("key#23L ASC NULLS FIRST", "name#24 ASC NULLS FIRST", "... 3 more fields"),
        None,
        "ENSURE_REQUIREMENTS",
    ),
    # Unlike any that Spark writes
    "": ShuffleText(),
    "Exchange": ShuffleText(),
    "Exchange somethingnew": ShuffleText("somethingnew"),
    "Exchange hashpartitioning(k#1, 4": ShuffleText("hashpartitioning"),
    "Exchange hashpartitioning(concat(k#1, (), 4), ENSURE_REQUIREMENTS, [plan_id=1]": ShuffleText("hashpartitioning"),
    "Exchange hashpartitioning(k#1, ²)": ShuffleText("hashpartitioning", ("k#1", "²")),
    "Exchange hashpartitioning(k#1, 99999999999999999999)": ShuffleText(
        "hashpartitioning", ("k#1", "99999999999999999999")
    ),
    f"Exchange hashpartitioning(k#1, {'9' * 5000})": ShuffleText("hashpartitioning", ("k#1", "9" * 5000)),
}

MODES = {
    "BroadcastExchange HashedRelationBroadcastMode(List(input[0, bigint, false]),false), [plan_id=51]": (
        "HashedRelationBroadcastMode(List(input[0, bigint, false]),false)"
    ),
    "BroadcastExchange HashedRelationBroadcastMode(List(input[0, string, true]),true), [plan_id=293]": (
        "HashedRelationBroadcastMode(List(input[0, string, true]),true)"
    ),
    "BroadcastExchange HashedRelationBroadcastMode(List((input[0, bigint, false] % 10), input[0, bigint, false]),"
    "false), [plan_id=2201]": (
        "HashedRelationBroadcastMode(List((input[0, bigint, false] % 10), input[0, bigint, false]),false)"
    ),
    "BroadcastExchange IdentityBroadcastMode, [plan_id=1211]": "IdentityBroadcastMode",
    "BroadcastExchange IdentityBroadcastMode, [id=#1211]": "IdentityBroadcastMode",
    "BroadcastExchange [plan_id=1211]": None,
    "BroadcastExchange": None,
    "": None,
}

KEYS = (("key#9L",), ("key#14L",))
JOINS = {
    # 4.3.0
    "BroadcastHashJoin [key#9L], [key#14L], Inner, BuildRight, false, false": JoinText(
        "BroadcastHashJoin", "Inner", "right", *KEYS
    ),
    "BroadcastHashJoin [key#9L, grp#11L], [key#14L, grp#16L], RightOuter, BuildLeft, false, false": JoinText(
        "BroadcastHashJoin", "RightOuter", "left", ("key#9L", "grp#11L"), ("key#14L", "grp#16L")
    ),
    "BroadcastHashJoin [id#8L], [key#14L], LeftSemi, BuildRight, false, false": JoinText(
        "BroadcastHashJoin", "LeftSemi", "right", ("id#8L",), ("key#14L",)
    ),
    # null-aware
    "BroadcastHashJoin [concat(n, cast(id#8L as string))], [(IF((key > 5), NULL, name))#22], LeftAnti, BuildRight,"
    " true, false": JoinText(
        "BroadcastHashJoin",
        "LeftAnti",
        "right",
        ("concat(n, cast(id#8L as string))",),
        ("(IF((key > 5), NULL, name))#22",),
    ),
    "BroadcastHashJoin [id#8L], [key#14L], ExistenceJoin(exists#24), BuildRight, false, false": JoinText(
        "BroadcastHashJoin", "ExistenceJoin", "right", ("id#8L",), ("key#14L",)
    ),
    "BroadcastHashJoin [(id#8L % 10), id#8L], [max(grp)#66L, key#68L], Inner, BuildLeft, false, false": JoinText(
        "BroadcastHashJoin", "Inner", "left", ("(id#8L % 10)", "id#8L"), ("max(grp)#66L", "key#68L")
    ),
    "BroadcastHashJoin [key#9L, grp#11L, name#10, ... 1 more fields], [key#14L, grp#16L, name#15, ... 1 more fields],"
    " Inner, BuildRight, false, false": JoinText(
        "BroadcastHashJoin",
        "Inner",
        "right",
        ("key#9L", "grp#11L", "name#10", "... 1 more fields"),
        ("key#14L", "grp#16L", "name#15", "... 1 more fields"),
    ),
    "BroadcastHashJoin [id#0L], [key#7L], LeftSingle, BuildRight, false, false": JoinText(
        "BroadcastHashJoin", "LeftSingle", "right", ("id#0L",), ("key#7L",)
    ),
    "SortMergeJoin [key#9L], [key#14L], Inner": JoinText("SortMergeJoin", "Inner", None, *KEYS),
    "SortMergeJoin [key#9L], [key#14L], LeftOuter, (grp#11L < grp#16L)": JoinText(
        "SortMergeJoin", "LeftOuter", None, *KEYS, "(grp#11L < grp#16L)"
    ),
    "SortMergeJoin [(key#9L + 1)], [(key#14L * 2)], FullOuter": JoinText(
        "SortMergeJoin", "FullOuter", None, ("(key#9L + 1)",), ("(key#14L * 2)",)
    ),
    "SortMergeJoin [key#9L], [key#14L], LeftSemi": JoinText("SortMergeJoin", "LeftSemi", None, *KEYS),
    "SortMergeJoin [key#9L], [key#14L], LeftAnti, (grp#11L < grp#16L)": JoinText(
        "SortMergeJoin", "LeftAnti", None, *KEYS, "(grp#11L < grp#16L)"
    ),
    "SortMergeJoin(skew=true) [key#137L], [key#140L], Inner": JoinText(
        "SortMergeJoin", "Inner", None, ("key#137L",), ("key#140L",), is_skew=True
    ),
    "SortMergeJoin(skew=true) [key#137L], [key#140L], LeftOuter, (filler#138 > name#141)": JoinText(
        "SortMergeJoin", "LeftOuter", None, ("key#137L",), ("key#140L",), "(filler#138 > name#141)", True
    ),
    "SortMergeJoin [key#9L, grp#11L, name#10, ... 2 more fields], [key#14L, grp#16L, name#15, ... 2 more fields],"
    " Inner": JoinText(
        "SortMergeJoin",
        "Inner",
        None,
        ("key#9L", "grp#11L", "name#10", "... 2 more fields"),
        ("key#14L", "grp#16L", "name#15", "... 2 more fields"),
    ),
    "ShuffledHashJoin [key#9L], [key#14L], Inner, BuildRight": JoinText("ShuffledHashJoin", "Inner", "right", *KEYS),
    "ShuffledHashJoin [key#9L], [key#14L], Inner, BuildLeft": JoinText("ShuffledHashJoin", "Inner", "left", *KEYS),
    "ShuffledHashJoin [key#9L], [key#14L], FullOuter, BuildRight": JoinText(
        "ShuffledHashJoin", "FullOuter", "right", *KEYS
    ),
    "ShuffledHashJoin(skew=true) [key#137L], [key#140L], LeftOuter, BuildRight, (filler#138 > name#141)": JoinText(
        "ShuffledHashJoin", "LeftOuter", "right", ("key#137L",), ("key#140L",), "(filler#138 > name#141)", True
    ),
    "BroadcastNestedLoopJoin BuildRight, Cross": JoinText("BroadcastNestedLoopJoin", "Cross", "right"),
    "BroadcastNestedLoopJoin BuildRight, Inner, ((key#9L < key#14L) AND ((grp#11L + grp#16L) > 3))": JoinText(
        "BroadcastNestedLoopJoin", "Inner", "right", condition="((key#9L < key#14L) AND ((grp#11L + grp#16L) > 3))"
    ),
    "BroadcastNestedLoopJoin BuildRight, ExistenceJoin(exists#27), (key#14L < id#8L)": JoinText(
        "BroadcastNestedLoopJoin", "ExistenceJoin", "right", condition="(key#14L < id#8L)"
    ),
    "CartesianProduct (grp#11L < grp#16L)": JoinText("CartesianProduct", "Inner", condition="(grp#11L < grp#16L)"),
    "CartesianProduct": JoinText("CartesianProduct", "Cross"),
    # as-of joins: with keys; the nearest one, without a condition; without keys; with a further condition
    "SortMergeAsOfJoin [k#6], [k#9], [t#7], [t#10], (t#7 >= t#10), (t#7 - t#10), Inner": JoinText(
        "SortMergeAsOfJoin", "Inner", None, ("k#6",), ("k#9",), "(t#7 >= t#10)"
    ),
    "SortMergeAsOfJoin [k#6], [k#9], [t#7], [t#10], true, if ((t#7 > t#10)) (t#7 - t#10) else (t#10 - t#7),"
    " LeftOuter": JoinText(
        "SortMergeAsOfJoin", "LeftOuter", None, ("k#6",), ("k#9",), "if ((t#7 > t#10)) (t#7 - t#10) else (t#10 - t#7)"
    ),
    "SortMergeAsOfJoin [t#7], [t#10], (t#7 >= t#10), (t#7 - t#10), Inner": JoinText(
        "SortMergeAsOfJoin", "Inner", condition="(t#7 >= t#10)"
    ),
    "SortMergeAsOfJoin [k#6], [k#9], [t#7], [t#10], (t#7 <= t#10), (t#10 - t#7), Inner, (v#8 < w#11)": JoinText(
        "SortMergeAsOfJoin", "Inner", None, ("k#6",), ("k#9",), "(t#7 <= t#10), (v#8 < w#11)"
    ),
    # Unlike any that Spark writes
    "SortMergeAsOfJoin": JoinText("SortMergeAsOfJoin"),
    "SortMergeAsOfJoin [k#6]": JoinText("SortMergeAsOfJoin"),
    # 3.5.9
    "BroadcastHashJoin [key#23L], [key#33L], Inner, BuildRight, false": JoinText(
        "BroadcastHashJoin", "Inner", "right", ("key#23L",), ("key#33L",)
    ),
    "BroadcastHashJoin [concat(n, cast(id#21L as string))], [(IF((key > 5), NULL, name))#77], LeftAnti, BuildRight,"
    " true": JoinText(
        "BroadcastHashJoin",
        "LeftAnti",
        "right",
        ("concat(n, cast(id#21L as string))",),
        ("(IF((key > 5), NULL, name))#77",),
    ),
    "SortMergeJoin [key#23L, grp#25L, ... 3 more fields], [key#33L, grp#35L, ... 3 more fields], Inner": JoinText(
        "SortMergeJoin",
        "Inner",
        None,
        ("key#23L", "grp#25L", "... 3 more fields"),
        ("key#33L", "grp#35L", "... 3 more fields"),
    ),
    # Literals with brackets, which Spark writes without quotes
    "BroadcastHashJoin [key#1L], [key#7L], LeftOuter, BuildRight, (name#2 < concat(name#8, ()), false, false": (
        JoinText("BroadcastHashJoin", "LeftOuter", "right", ("key#1L",), ("key#7L",), "(name#2 < concat(name#8, ())")
    ),
    "BroadcastHashJoin [key#1L], [key#7L], LeftOuter, BuildRight, (name#2 < concat(name#8, ),)), false, false": (
        JoinText("BroadcastHashJoin", "LeftOuter", "right", ("key#1L",), ("key#7L",), "(name#2 < concat(name#8, ),))")
    ),
    "SortMergeJoin [concat(name#2, [)], [name#8], Inner": JoinText(
        "SortMergeJoin", "Inner", None, ("concat(name#2, [)",), ("name#8",)
    ),
    # Cut off, or unlike any that Spark writes
    "SortMergeJoin": JoinText("SortMergeJoin"),
    "SortMergeJoin [key#9L], [key#1": JoinText("SortMergeJoin", None, None, ("key#9L",)),
    "SortMergeJoin [concat(name#2, ()], [name#8], Inner": JoinText(
        "SortMergeJoin", "Inner", None, ("concat(name#2, ()",), ("name#8",)
    ),
}


@pytest.mark.parametrize("simple", SHUFFLES, ids=lambda simple: simple[:60])
def test_a_shuffle_is_what_its_text_says(simple: str) -> None:
    """Partitioning, keys, number of partitions and origin of an Exchange are what its text says."""
    assert shuffle_text(simple) == SHUFFLES[simple]


@pytest.mark.parametrize("simple", MODES)
def test_a_broadcasts_mode_has_no_plan_id(simple: str) -> None:
    assert broadcast_mode(simple) == MODES[simple]


@pytest.mark.parametrize("simple", JOINS)
def test_a_join_is_what_its_name_and_text_say(simple: str) -> None:
    """Strategy, type, build side, keys, condition and skew of a join are what its name and text say."""
    assert join_text(simple.split(" ")[0], simple) == JOINS[simple]


def test_every_strategy_is_in_the_table() -> None:
    """The table has a text of each of the five joins."""
    assert {text.strategy for text in JOINS.values()} == set(JOIN_STRATEGIES)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        ("a, b,c ", ["a", "b", "c"]),
        ("f(a, g[b, c]), {d, e}", ["f(a, g[b, c])", "{d, e}"]),
        ("a), b", ["a)", "b"]),
        ("f(a, b", ["f(a, b"]),
        ("f([), b", ["f([)", "b"]),
        ("f(]), b", ["f(])", "b"]),
        (",,", []),
    ],
)
def test_commas_inside_brackets_do_not_split(text: str, parts: list[str]) -> None:
    assert split(text) == parts


PIECES = (
    "Exchange", "SortMergeJoin", "BroadcastHashJoin", "CartesianProduct", "(skew=true)", "hashpartitioning", "Inner",
    "ExistenceJoin", "BuildRight", "true", "k#1", "[plan_id=7]", "... 3 more fields", " ", ", ", "(", ")", "[", "]",
    "{", "}", "200", "²", "٣", "\n", "\0", "\ud800",
)  # fmt: skip
texts = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(name=texts, simple=texts)
def test_no_text_is_an_error(name: str, simple: str) -> None:
    shuffle = shuffle_text(simple)
    assert shuffle.partitions is None or 0 <= shuffle.partitions < 2**63
    broadcast_mode(simple)
    for join_name in (name, *JOIN_STRATEGIES):
        join = join_text(join_name, simple)
        assert join is None or join.build_side in (None, "left", "right")


@pytest.mark.parametrize(
    "text",
    [
        lambda size: "Exchange f(" + "(" * size,
        lambda size: "Exchange " + "(" * size + "]" * size,
        lambda size: "Exchange " + "a, " * size,
        lambda size: "SortMergeJoin [" + "k, " * size,
        lambda size: "SortMergeJoin x" + ", true" * size + ".",
    ],
)
def test_a_long_text_takes_linear_time(text: Callable[[int], str]) -> None:
    """The time to read a text grows linearly with its length."""

    def prepare(size: int) -> Callable[[], None]:
        simple = text(size)

        def read() -> None:
            shuffle_text(simple)
            join_text("SortMergeJoin", simple)
            broadcast_mode(simple)

        return read

    check_cpu_time(prepare, 50_000)  # an eighth of it is too long to be cached


def test_long_texts_are_forgotten() -> None:
    """The cache of texts stays small, although a sender may make texts as long as a document."""
    tracemalloc.start()
    try:
        for number in range(10):
            key = f"k{number}" * 20_000
            assert join_text("SortMergeJoin", f"SortMergeJoin [{key}], [b], Inner") is not None
            assert shuffle_text(f"Exchange hashpartitioning({key}, 4)").partitions == 4
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 400_000
