"""The comparison of two executions matches operators by key and lists important changes first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.comparable import NUMBERS, PLAN
from tests.documents import planned, stored_rows

from joinsight.analysis.comparison import ComparedExecution, Measure, MeasureChange, compare
from joinsight.contract.document import Execution

CORPUS = Path(__file__).parents[1] / "corpus"


def run(drawing: str = PLAN, **changes: Any) -> ComparedExecution:
    """An execution of the plan with some numbers changed."""
    numbers = {name: changes.pop(name, value) for name, value in NUMBERS.items()}
    return run_of(planned(drawing.format(**numbers), **changes))


def run_of(e: Execution) -> ComparedExecution:
    """The rows of a document as the store gives them back."""
    rows = stored_rows(e)
    return ComparedExecution(
        rows["execution"][0],
        {"configuration": {"spark.a": "1"}, "spark_version": "4.3.0"},
        rows["joins"],
        rows["shuffle"],
        rows["broadcast"],
        rows["stage"],
    )


def changed(a: ComparedExecution, b: ComparedExecution) -> dict[str, list[tuple[str, Any, Any]]]:
    """What changed more than a little, by table, in its order."""
    comparison = compare(a, b)
    found = {
        table: [(c.measure.name, c.before, c.after) for pair in pairs for c in pair.changes if c.is_large]
        for table, pairs in comparison.pairs.items()
    }
    return {table: changes for table, changes in found.items() if changes}


def test_the_same_run_twice_shows_nothing() -> None:
    """Every operator is matched with itself and nothing changed."""
    comparison = compare(run(), run(execution_id=2))
    assert (comparison.same_query, comparison.same_plan, comparison.configuration) == (True, True, {})
    assert [len(comparison.pairs[table]) for table in ("joins", "shuffle", "broadcast", "stage")] == [2, 2, 1, 1]
    assert not any(pair.is_large for pairs in comparison.pairs.values() for pair in pairs)


def test_what_changed_is_found_in_its_operator() -> None:
    """A spill, a skew and a larger broadcast each show in the operator that has them, the largest change first."""
    b = run(spill=900_000_000, largest=300, size=9_000_000, written=5_100_000)
    assert changed(run(), b) == {
        "joins": [("spill_bytes", 0, 900_000_000), ("build_bytes", 4_000_000, 9_000_000)],
        "shuffle": [("skew_ratio", 1.5, 15.0)],
        "broadcast": [("size_bytes", 4_000_000, 9_000_000)],
    }
    [join, _] = compare(run(), b).pairs["joins"]
    assert join.row["strategy"] == "SortMergeJoin"
    assert [change.is_worse for change in join.changes if change.is_large] == [True]
    [back, _] = compare(b, run()).pairs["joins"]
    assert [change.is_worse for change in back.changes if change.is_large] == [False]


def test_a_join_is_matched_whatever_its_strategy() -> None:
    """Broadcast instead of sorted: one pair whose strategy changed, and exchanges that only one of them has."""
    broadcast = PLAN.replace(
        "SortMergeJoin | [a#1], [c#5], Inner", "BroadcastHashJoin | [a#1], [c#5], Inner, BuildRight"
    )
    broadcast = broadcast.replace(
        "Exchange | hashpartitioning(c#5, 8)", "BroadcastExchange | HashedRelationBroadcastMode()"
    )
    comparison = compare(run(), run(broadcast))
    assert (comparison.same_query, comparison.same_plan) == (True, False)
    join = comparison.pairs["joins"][0]
    assert [(c.measure.name, c.before, c.after) for c in join.changes if c.measure.name == "strategy"] == [
        ("strategy", "SortMergeJoin", "BroadcastHashJoin")
    ]
    alone = {table: [(p.a is None, p.b is None) for p in comparison.pairs[table]] for table in ("shuffle", "broadcast")}
    assert alone == {"shuffle": [(False, False), (False, True)], "broadcast": [(False, False), (True, False)]}


def test_configuration_of_application_and_session_is_compared() -> None:
    """The session's setting counts over the application's; a setting that one leaves at its default is None."""
    b = run(configuration={"spark.a": "2", "spark.b": "x"})
    assert compare(run(), b).configuration == {"spark.a": ("1", "2"), "spark.b": (None, "x")}


def command(*started: ComparedExecution) -> ComparedExecution:
    """A command that started these, and read Delta's log, too."""
    log = run(execution_id=99, description="Delta: Filtering files for query")
    return replace(run_of(planned("Execute MergeIntoCommand")), started=[log, *started])


def test_what_two_runs_of_a_command_started_is_compared() -> None:
    """The same query with itself, in the order of B; Delta's reads of its log are compared as tasks only."""
    other = "Scan parquet t | [k#1] | number of output rows=5"
    a = command(run(execution_id=2), run_of(planned(other, execution_id=3)))
    b = command(run(execution_id=7, spill=900_000_000), run(execution_id=8))
    comparison = compare(a, b)
    [slow, more, less] = comparison.parts
    assert slow.comparison is not None and slow.is_large
    [join, _] = slow.comparison.pairs["joins"]
    assert [change.measure.name for change in join.changes if change.is_large] == ["spill_bytes"]
    assert (more.a, more.b, more.comparison, more.is_large) == (None, b.started[2], None, True)
    assert (less.a, less.b, less.comparison) == (a.started[2], None, None)
    [alike] = compare(command(run(execution_id=2)), command(run(execution_id=5))).parts
    assert not alike.is_large
    [stages] = comparison.pairs["stage"]
    assert (stages.a or {})["stages"] == 2 * len(run().stage) and (stages.b or {})["stages"] == 3 * len(run().stage)


def test_different_queries_are_compared_too() -> None:
    """Nothing is matched; all of it is listed as in one alone."""
    other = run_of(msgspec.json.decode((CORPUS / "spark-skewed-join-split.ndjson").read_bytes(), type=Execution))
    comparison = compare(run(), other)
    assert comparison.same_query is False
    for table in ("joins", "shuffle", "broadcast"):
        alone = [(pair.a is None, pair.b is None) for pair in comparison.pairs[table]]
        both = [(False, True)] * len(getattr(run(), table)) + [(True, False)] * len(getattr(other, table))
        assert alone == both
    assert changed(run(), other)["stage"]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_recorded_executions_equal_themselves(path: Path) -> None:
    """Every operator of a document is matched with itself, but for those that have no key of their own."""
    e = msgspec.json.decode(path.read_bytes().splitlines()[0], type=Execution)
    one = run_of(e)
    comparison = compare(one, run_of(e))
    assert all(pair.a and pair.b and not pair.is_large for pairs in comparison.pairs.values() for pair in pairs)


CHANGES = [
    ("bytes", 10 << 20, 13 << 20, True),
    ("bytes", 10 << 20, 12 << 20, False),
    ("bytes", 1_000, 100_000, False),
    ("bytes", None, 5 << 20, True),
    ("bytes", None, 0, False),
    ("ms", 1_000, 100, True),
    ("ratio", 1.1, 1.5, False),
    ("text", "a", None, True),
]


@pytest.mark.parametrize(("unit", "before", "after", "large"), CHANGES)
def test_a_little_is_a_share_and_an_amount(unit: str, before: Any, after: Any, large: bool) -> None:
    """Only what exceeds both is more than a little; what was not measured counts as nothing."""
    assert MeasureChange(Measure("x", "x", unit), before, after).is_large is large


def test_what_was_not_measured_is_neither_better_nor_worse() -> None:
    """NULL is not 0: a missing value is neither better nor worse."""
    assert MeasureChange(Measure("x", "x", "bytes", True), None, 5 << 20).is_worse is None
