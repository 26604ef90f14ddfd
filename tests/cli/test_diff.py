"""`joinsight diff` on a real store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine
from tests.comparable import NUMBERS, PLAN
from tests.documents import STARTED_AT_MS, application, execution, planned

from joinsight.base.errors import NotFound
from joinsight.cli import cli
from joinsight.contract.document import Nested
from joinsight.store.writer import Writer

HOUR = 3_600_000


def night(number: int, drawing: str = PLAN, **changes: Any) -> Any:
    """A run of the nightly query, an hour after the one before."""
    numbers = {name: changes.pop(name, value) for name, value in NUMBERS.items()}
    started_at = STARTED_AT_MS + number * HOUR
    standard = {
        "application_id": f"app-{number}",
        "job_name": "nightly",
        "description": "the nightly query",
        "execution_id": number,
        "started_at_ms": started_at,
        "ended_at_ms": started_at + 60_000,
    }
    return planned(drawing.format(**numbers), **{**standard, **changes})


def merge(number: int, ms: int, **changes: Any) -> list[Any]:
    """A MERGE that took so long, nearly all of it in the second of the two executions that it started."""
    common = {"application_id": f"merge-{number}", "started_at_ms": STARTED_AT_MS, "job_name": "merges"}
    ends = STARTED_AT_MS + 1_000, STARTED_AT_MS + ms
    nested = [Nested(number + 1, STARTED_AT_MS, ends[0]), Nested(number + 2, ends[0], ends[1])]
    log = [Nested(number + 3, STARTED_AT_MS, STARTED_AT_MS + 10)]
    root = {"root_execution_id": number, **common}
    return [
        planned("Execute MergeIntoCommand", execution_id=number, nested=[*nested, *log], ended_at_ms=ends[1], **common),
        planned("Range (0, 5)", execution_id=number + 1, ended_at_ms=ends[0], description="find", **root),
        night(number + 2, ended_at_ms=ends[1], **{**root, "started_at_ms": ends[0], "description": "write", **changes}),
        execution(execution_id=number + 3, description="Delta: Filtering files for query", **root),
    ]


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """Four nights: one that failed and one that is incomplete between a good and a bad one; and another query."""
    slow: dict[str, Any] = {"spill": 900_000_000, "largest": 300, "ended_at_ms": STARTED_AT_MS + 3 * HOUR + 200_000}
    documents = [
        application(application_id="app-0", configuration={"spark.sql.shuffle.partitions": "8"}),
        night(0, configuration={"spark.sql.ansi.enabled": "true"}),
        night(1, state="failed", error="it broke"),
        night(2, incomplete=["3 of 9 task ends of stage 4 were not seen"]),
        night(3, **slow),
        execution(application_id="other", execution_id=9, started_at_ms=STARTED_AT_MS + 1, job_name="nightly"),
        night(4, job_name="hourly"),
        night(5, job_name="yearly", state="running", started_at_ms=STARTED_AT_MS + 2, ended_at_ms=None),
        *merge(20, 5_000),
        *merge(30, 9_000, spill=900_000_000),
        night(34, application_id="merge-30", root_execution_id=30, description="only now"),
    ]
    Writer(engine).write(documents)
    return engine


def diff(engine: Engine, *arguments: str) -> Result:
    """Runs the command."""
    url = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["diff", *arguments], env={"JOINSIGHT_DATABASE_URL": url})


EXPECTED = """\
the nightly query
A app-0/0 2026-01-01 00:00 succeeded after 1 min
B app-3/3 2026-01-01 03:00 succeeded after 3 min 20 s 3.3×
The same query: shape {shape}.
The same plan: {plan}.
Spark 4.3.0.

Configuration
spark.sql.ansi.enabled true → (default)
spark.sql.shuffle.partitions 8 → (default)

Joins
operator what A B
{join} Inner a = c spilled, in memory 0 B 858.3 MiB

Shuffles
operator what A B change
{shuffle} by a skew 1.5× 15.0× 10.0×
"""


def test_what_changed_is_shown(filled: Engine) -> None:
    """Header, configuration, and of the operators only what changed more than a little, with the rule below it."""
    rows = json.loads(diff(filled, "app-0/0", "app-3/3", "--json").stdout)
    shown = diff(filled, "app-0/0", "app-3/3").stdout
    keys = {
        "shape": rows["a"]["execution"]["query_shape"],
        "plan": rows["a"]["execution"]["plan_fingerprint"],
        "join": rows["joins"][0]["a"]["operator_key"][:8],
        "shuffle": rows["shuffle"][0]["a"]["operator_key"][:8],
    }
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    expected = EXPECTED.format(**keys).splitlines()
    assert lines[: len(expected)] == expected
    assert "Hidden: changes below 20 %" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_one_alone_is_compared_with_the_run_before(filled: Engine) -> None:
    """The last one that succeeded and is complete, of the same query in the same job."""
    assert diff(filled, "app-3/3").stdout == diff(filled, "app-0/0", "app-3/3").stdout
    for first in ("app-0/0", "last"):  # `last` is of another job
        result = diff(filled, first)
        assert isinstance(result.exception, NotFound)
        assert "No earlier complete run" in str(result.exception)


def test_everything_is_shown_on_request(filled: Engine) -> None:
    """``--all`` has each measure of each operator; ``--json`` all columns of both and what changed."""
    shown = diff(filled, "app-0/0", "app-3/3", "--all").stdout
    for text in ("SortMergeJoin", "BroadcastHashJoin", "driver time", "task time", "fetch wait"):
        assert text in shown
    assert "Shown is" not in shown
    rows = json.loads(diff(filled, "app-0/0", "app-3/3", "--json").stdout)
    assert [pair["changed"] for pair in rows["joins"]] == [["spill_bytes"], []]
    assert rows["joins"][0]["b"]["spill_bytes"] == 900_000_000
    assert rows["configuration"]["spark.sql.ansi.enabled"] == {"a": "true", "b": None}


def test_what_two_runs_of_a_command_started_is_shown(filled: Engine) -> None:
    """What differs much of the same part, and what only one started; not what Delta read of its log."""
    shown = diff(filled, "merge-20/20", "merge-30/30").stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    at = lines.index("Both started execution 32: write")
    assert lines[at + 1].startswith("A merge-20/22 ") and lines[at + 2].endswith(" succeeded after 8.0 s 2.0×")
    assert lines[at + 4] == "Joins" and lines[at + 6].endswith("Inner a = c spilled, in memory 0 B 858.3 MiB")
    assert "Only B started execution 34: only now, 1 min" in lines
    assert "1 other execution that both started differs little." in lines
    assert "Filtering files" not in shown
    rows = json.loads(diff(filled, "merge-20/20", "merge-30/30", "--json").stdout)
    assert [each["b"]["execution"]["execution_id"] for each in rows["started"]] == [31, 32, 34]
    assert [pair["changed"] for pair in rows["started"][1]["joins"]] == [["spill_bytes"], []]
    assert rows["started"][2]["a"] is None


def test_a_running_one_is_said_to_have_more_to_come(filled: Engine) -> None:
    for given in (("app-0/0", "app-5/5"), ("app-5/5", "app-0/0")):
        assert "It still runs: its numbers are those of its last report" in diff(filled, *given).stdout
    assert "still runs" not in diff(filled, "app-0/0", "app-1/1").stdout


def test_different_queries_are_said_to_be(filled: Engine) -> None:
    """Failed, incomplete and other executions can be compared too, and the reader is told."""
    shown = diff(filled, "app-1/1", "app-2/2").stdout
    assert "it broke" in shown
    assert "These numbers may be partial: 3 of 9 task ends" in shown
    shown = diff(filled, "app-0/0", "other/9").stdout
    assert "Unknown whether this is the same query" in shown
    assert shown.count("only in A") == 5
    assert "Another job: nightly → hourly." in diff(filled, "app-0/0", "last").stdout
