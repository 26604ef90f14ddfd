"""How the commands show AQE decisions and possible broadcasts, on recorded Spark executions."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.documents import planned, replanned

from joinsight.cli import cli
from joinsight.contract.decode import decode_document
from joinsight.store.writer import Writer

RECORDED = sorted((Path(__file__).parents[1] / "corpus").glob("spark-*.ndjson"))
POSSIBLE = """
    {strategy} | [k#1], [k#2], Inner{build} | number of output rows=90
      Exchange | hashpartitioning(k#1, 8), [plan_id=3] | data size=50000000, shuffle records written=40
      Exchange | hashpartitioning(k#2, 8), [plan_id=4] | data size=30, shuffle records written=3
"""


@pytest.fixture(scope="module")
def run(engine: Engine) -> Callable[..., str]:
    """Runs a command on a store that has the recorded executions."""
    documents = [decode_document(line) for file in RECORDED for line in file.read_bytes().splitlines()]
    drawn = [
        planned(POSSIBLE.format(strategy=strategy, build=build), application_id=application)
        for strategy, build, application in (
            ("SortMergeJoin", "", "merged"),
            ("ShuffledHashJoin", ", BuildRight", "hashed"),
            ("ShuffledHashJoin", ", BuildLeft", "hashed-left"),
        )
    ]
    nothing = replanned("Sort\n  Range", "LocalTableScan | <empty>, [k#1]", application_id="nothing")
    assert Writer(engine).write([*documents, *drawn, nothing]).refused == []
    url = engine.url.render_as_string(hide_password=False)

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(cli, arguments, env={"JOINSIGHT_DATABASE_URL": url})
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


def decided(shown: str) -> list[str]:
    """The lines of the decisions below the tree."""
    lines = shown.partition("AQE decided:\n")[2].splitlines()
    return [line.strip() for line in takewhile(lambda line: line.startswith("  "), lines)]


LINES = {
    "corpus-spark-aqe-to-broadcast-4.3.0/6": [
        "plan 2, 1.8 s: SortMergeJoin became BroadcastHashJoin on key: right side 720 B, 20 rows",
        "plan 2, 1.8 s: local read of 4 partitions by key: 721 B, 20 rows",
        "plan 3, 2.0 s: local read of 4 partitions by key: 696.6 KiB, 20,000 rows",
    ],
    "corpus-spark-skewed-join-split/16": [
        "plan 2, 1.0 s: split 1 skewed partition into 2 by customer_id, largest 7.1 MiB now",
        "plan 4, 4.8 s: coalesced 16 partitions into 1 by segment, median 2.6 KiB",
    ],
    "corpus-spark-aqe-empty-4.3.0/10": [
        "plan 2, 219 ms: SortMergeJoin returns no rows (input: 1093.8 KiB, 20,000 rows)",
        "plan 2, 219 ms: Exchange hashpartitioning is no longer needed (received 1093.8 KiB, 20,000 rows)",
        "plan 2, 219 ms: Exchange hashpartitioning is no longer needed (received 0 rows)",
    ],
    "corpus-spark-aqe-join-with-nothing-4.3.0/12": [
        "plan 2, 304 ms: SortMergeJoin was removed: one of its sides is empty (input: 468.8 KiB, 20,000 rows)",
        "plan 2, 304 ms: coalesced 4 partitions into 1 by key, median 98.9 KiB",
        "plan 2, 304 ms: Exchange hashpartitioning is no longer needed (received 0 rows)",
    ],
    "corpus-spark-aqe-cached-table-broadcast-4.3.0/24": [
        "plan 2, 981 ms: SortMergeJoin became BroadcastHashJoin on spent: left side 32.0 MiB, 801 rows, as built",
        "plan 2, 981 ms: Exchange hashpartitioning is no longer needed",
        "plan 2, 981 ms: Exchange hashpartitioning is no longer needed",
    ],
    "corpus-spark-broadcast-that-failed/26": [],
    "nothing/0": ["plan 1, 500 ms: Range returns no rows"],
}


@pytest.mark.parametrize("execution", LINES)
def test_decisions_are_said_below_the_tree(run: Callable[..., str], execution: str) -> None:
    """A line each, with the plan, when, and what was measured."""
    assert decided(run("plan", execution)) == LINES[execution]


def test_every_version_has_its_own(run: Callable[..., str]) -> None:
    """``--version`` and ``--all-versions`` say what each plan changed, below that plan."""
    execution = "corpus-spark-aqe-to-broadcast-4.3.0/6"
    first, second, third = LINES[execution]
    assert decided(run("plan", execution, "--version", "1")) == []
    assert decided(run("plan", execution, "--version", "2")) == [first, second]
    everything = run("plan", execution, "--all-versions")
    assert everything.count("AQE decided:") == 2
    assert everything.index(second) < everything.index("Plan 3,") < everything.index(third)


def test_json_has_the_decisions(run: Callable[..., str]) -> None:
    stored = json.loads(run("plan", "corpus-spark-aqe-to-broadcast-4.3.0/6", "--json"))
    first = stored["decisions"][0]
    assert (first["version"], first["position"], first["kind"]) == (2, 0, "join_strategy")
    assert (first["before"], first["after"], first["bytes_before"]) == ("SortMergeJoin", "BroadcastHashJoin", 720)


@pytest.mark.parametrize(
    ("application", "build"),
    [
        ("merged", "right?"),
        ("hashed", "right?"),
        ("hashed-left", "left, right?"),
        ("corpus-spark-aqe-to-broadcast-4.3.0", "right"),
    ],
)
def test_a_side_that_could_have_been_broadcast_is_marked(run: Callable[..., str], application: str, build: str) -> None:
    """In the column of the side that was built; within 100 columns."""
    _, header, row = run("joins", "--application", application).splitlines()
    assert row[header.index("build") :].startswith(f"{build}  ")
    assert max(len(header), len(row)) <= 100


def test_a_join_that_could_not_have_been_broadcast_has_no_mark(run: Callable[..., str]) -> None:
    """The threshold was switched off: nothing stands in the column, which is left out."""
    assert "build" not in run("joins", "--application", "corpus-spark-aqe-reused-joins-4.3.0")
