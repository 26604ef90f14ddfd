"""Budgets: each form kept and broken, on executions that Spark recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.conftest import ROOT

from joinsight.base.errors import JoinsightError
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.measuring.budgets import broken
from joinsight.measuring.checking import Checked
from joinsight.measuring.checking import Test as PytestTest
from joinsight.measuring.measurement import MeasuredExecution, measured_execution

CORPUS = Path(__file__).parents[1] / "corpus"


def recorded(*names: str) -> list[MeasuredExecution]:
    documents = [decode_document(line) for name in names for line in (CORPUS / name).read_bytes().splitlines()]
    return [measured_execution(each) for each in documents if isinstance(each, Execution)]


SKEWED = recorded("spark-skewed-join-split.ndjson")
FAILED = recorded("spark-broadcast-that-failed.ndjson")
PRUNED = recorded("spark-dynamic-partition-pruning.ndjson")


@pytest.mark.parametrize(
    "budget",
    [
        "no cartesian product",
        "no cartesian products",
        "at most 4 shuffles",
        "at least 4 shuffles",
        "exactly 4 shuffles",
        "exactly 1 query",
        "at  most 1\tjoin",
        "no broadcast",
        "no broadcast joins",
        "exactly 1 sort-merge join",
        "no shuffled hash joins",
        "no nested loop join",
        "shuffle bytes below 62 MB",
        "shuffle bytes below 59 MiB",
        "shuffle bytes below 0.062GB",
        "broadcast bytes below 1 B",
        "spilled bytes below 1 kB",
        "task time below 1 h",
        "wall time below 60 min",
        "the join is sort-merge",
        "every join is sort-merge",
        "the join on customer_id is sort-merge",
        "the join on customer_id = customer_id is sort-merge",
        "no finding",
        "no findings above info",
    ],
)
def test_a_budget_that_is_kept(budget: str) -> None:
    assert broken([budget], SKEWED) == []


@pytest.mark.parametrize(
    ("what", "column", "unit", "size"),
    [
        *(
            ("shuffle bytes", "shuffle_write_bytes", unit, 1000**power)
            for power, unit in enumerate(("B", "kB", "MB", "GB"))
        ),
        *(
            ("shuffle bytes", "shuffle_write_bytes", unit, 1024**power)
            for power, unit in enumerate(("KiB", "MiB", "GiB"), 1)
        ),
        ("shuffle bytes", "shuffle_write_bytes", "KB", 1000),
        *(("task time", "task_time_ms", *unit) for unit in (("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000))),
        *(("wall time", "duration_ms", *unit) for unit in (("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000))),
    ],
)
def test_the_units_of_a_budget(what: str, column: str, unit: str, size: int) -> None:
    """What there is is not below itself, but below a little more."""
    exact = getattr(SKEWED[0].row, column)
    assert exact > 1000
    assert broken([f"{what} below {exact / size:.12f} {unit}"], SKEWED) != []
    assert broken([f"{what} below {(exact + 1) / size:.12f} {unit}"], SKEWED) == []


BROKEN = [
    ("at most 3 shuffles", "there are 4 (by segment; by segment, receipt; by customer_id; by customer_id)"),
    ("exactly 5 shuffles", "there are 4 (by segment; by segment, receipt; by customer_id; by customer_id)"),
    ("no sort-merge join", "there is 1 (join on customer_id)"),
    ("at least 2 queries", f"there is 1 ({SKEWED[0].title})"),
    ("at least 1 cartesian product", "there are 0"),
    ("shuffle bytes below 61 MB", "it is 58.9 MiB"),
    ("the join on customer_id is broadcast", "the join on customer_id is sort-merge"),
    ("every join is shuffled hash", "the join on customer_id is sort-merge"),
    ("the join on store_id is broadcast", "there is no such join; there is a join on customer_id"),
]


@pytest.mark.parametrize(("budget", "found"), BROKEN)
def test_a_budget_that_is_broken(budget: str, found: str) -> None:
    """Says what there is."""
    assert broken([budget], SKEWED) == [f"{budget}: {found}"]


def is_budget(text: str) -> bool:
    try:
        broken([text], SKEWED)
    except JoinsightError:
        return False
    return True


def test_budgets_in_the_docs() -> None:
    """Each sentence in the page's table is a budget, and so is each word beside it, in its place."""
    table = (ROOT / "docs/pytest.md").read_text().partition("| Budget | Also |")[2].partition("\n\n")[0]
    rows = [re.findall("`(.*?)`", line) for line in table.splitlines()[2:]]
    assert len(rows) == 7
    places = ("{}", "no {}", "{} shuffles", "{} below 1 B", "{} below 1 h", "every join is {}")
    for sentence, *also in rows:
        assert is_budget(sentence)
        for word in also:
            assert any(is_budget(place.format(word)) for place in places), word


def test_the_cost_of_a_measured_execution_adds_up() -> None:
    """What a measured execution cost adds up to its duration and its task time, and has its join."""
    [execution] = SKEWED
    assert sum(item.wall_ms for item in execution.cost.items) == execution.duration_ms
    assert sum(item.task_time_ms for item in execution.cost.items) == execution.row.task_time_ms
    assert [join.node_id for join in execution.cost.joins] == [join.node_id for join in execution.joins]


def test_all_broken_budgets_are_listed() -> None:
    both = [*SKEWED, *PRUNED]
    assert broken(["exactly 2 joins", "no broadcast", "the join is broadcast"], both) == [
        "no broadcast: there is 1 (32.0 MiB)",
        "the join is broadcast: there are 2: join on customer_id; join on day",
    ]
    assert broken(["the join on day is broadcast", "at most 1 broadcast"], both) == []
    wrong = "every join is broadcast: the join on customer_id is sort-merge"
    assert broken(["every join is broadcast"], both) == [wrong]


def test_wall_time_counts_a_nested_execution_once() -> None:
    """It is within the time of the one that started it; its tasks are its own."""
    (line,) = (CORPUS / "spark-skewed-join-split.ndjson").read_bytes().splitlines()[-1:]
    outer = json.loads(line)
    nested = {**outer, "execution_id": outer["execution_id"] + 1, "root_execution_id": outer["execution_id"]}
    documents = [decode_document(json.dumps(each).encode()) for each in (outer, nested)]
    both = [measured_execution(each) for each in documents if isinstance(each, Execution)]
    wall, task = (getattr(both[0].row, column) for column in ("duration_ms", "task_time_ms"))
    assert broken([f"wall time below {wall + 1} ms", f"task time below {2 * task + 1} ms"], both) == []
    assert len(broken([f"wall time below {wall} ms", f"task time below {2 * task} ms"], both)) == 2


def test_what_a_table_format_reads_for_itself_counts_as_no_query(tmp_path: Path) -> None:
    """Neither it nor its joins and shuffles, nor in a golden plan; its tasks count."""
    (line,) = (CORPUS / "spark-skewed-join-split.ndjson").read_bytes().splitlines()[-1:]
    own = {**json.loads(line), "execution_id": 90, "description": "Delta: Compute snapshot for version: 5"}
    document = decode_document(json.dumps(own).encode())
    assert isinstance(document, Execution)
    both = [measured_execution(document), *SKEWED]
    task = SKEWED[0].row.task_time_ms or 0
    assert broken(["exactly 1 query", "exactly 1 join", "exactly 4 shuffles", "the join is sort-merge"], both) == []
    assert len(broken([f"task time below {2 * task} ms"], both)) == 1
    test = PytestTest("x::y", "y", tmp_path, tmp_path / "page.html", updates=True, record=None)
    checked = Checked(None, test)
    checked._executions, checked._problem = tuple(both), None
    checked.must_match()
    assert (tmp_path / "y.plan").read_text().count("# ") == 1


def test_no_join_at_all() -> None:
    """There is none to name."""
    assert broken(["the join is broadcast"], []) == ["the join is broadcast: there is no such join"]


def test_findings_are_counted_by_severity() -> None:
    (wrong,) = broken(["no finding above warning", "no finding"], FAILED)[:1]
    assert wrong.startswith("no finding above warning: critical: The query failed")
    assert broken(["no finding"], []) == []


@pytest.mark.parametrize(
    "budget",
    [
        "",
        "no cartesian joins",
        "at most two shuffles",
        "at most 2 exchanges",
        "shuffle bytes below 10 TB",
        "shuffle bytes below ten MB",
        "shuffle bytes above 10 MB",
        "task time below 10 MB",
        "the join on a is fast",
        "a join is broadcast",
        "no finding above critical",
        "no finding above error",
    ],
)
def test_what_is_no_budget(budget: str) -> None:
    """Is an error that shows the forms, and never a budget that is kept."""
    with pytest.raises(JoinsightError, match=r"is not a budget\. Budgets are:\n  no cartesian product"):
        broken([budget], SKEWED)
