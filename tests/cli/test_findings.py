"""`joinsight findings`, and the findings that `joinsight plan` shows below the tree, on recorded Spark executions."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine
from tests.findings.recorded import SMALL, recordings

from joinsight.cli import cli
from joinsight.filters import SORTS
from joinsight.findings import Finder
from joinsight.store.writer import Writer

NAMES = ("clean", "skewed", "broadcast-timeout", "cache-filled", "spill")
Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """A store that holds some recordings, numbered in this order."""
    documents = [
        msgspec.structs.replace(recordings()[name], application_id="app", execution_id=number)
        for number, name in enumerate(NAMES)
    ]
    Writer(engine, Finder(SMALL)).write(documents)
    return engine


@pytest.fixture
def invoke(filled: Engine) -> Invoke:
    """Runs a command on that store."""
    url = filled.url.render_as_string(hide_password=False)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments, env={"JOINSIGHT_DATABASE_URL": url})

    return run


def found(result: Result) -> list[tuple[str, str]]:
    """Which executions and kinds a ``--json`` answer holds, in its order."""
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [(row["description"], row["finding"]) for row in rows]


BY_TIME = ["cache-filled", "spill", "spill", "skewed", "broadcast-timeout"]


def test_findings_are_listed_newest_first(invoke: Invoke) -> None:
    """In 100 columns; an execution without any is not there."""
    assert [name for name, _ in found(invoke("findings", "--json"))] == BY_TIME
    lines = invoke("findings").stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert lines[1].split() == ["id", "severity", "finding", "what"]
    assert lines[5].split()[:4] == ["1", "warning", "skewed-shuffle", "Of"] and lines[5].endswith("…")


def test_findings_are_sorted(invoke: Invoke) -> None:
    """By severity the critical one first; by impact, where bytes count like time."""
    by_severity = found(invoke("findings", "--sort", "severity", "--json"))
    assert by_severity[0] == ("broadcast-timeout", "broadcast-failed")
    assert by_severity[-1] == ("cache-filled", "cache-read-once")
    assert found(invoke("findings", "--sort", "impact", "--json"))[0][0] in ("broadcast-timeout", "cache-filled")
    for sort in SORTS["findings"]:
        assert invoke("findings", "--sort", sort, "--details").exit_code == 0


def test_findings_are_filtered(invoke: Invoke) -> None:
    """By their kind and severity, and as operators are."""
    assert found(invoke("findings", "--finding", "spill", "--json")) == [("spill", "spill")]
    assert found(invoke("findings", "--severity", "info", "--json")) == [("cache-filled", "cache-read-once")]
    assert found(invoke("findings", "--state", "failed", "--json")) == [("broadcast-timeout", "broadcast-failed")]
    assert found(invoke("findings", "--execution", "app/1", "--json")) == [("skewed", "skewed-shuffle")]
    key = json.loads(invoke("findings", "--finding", "skewed-shuffle", "--json").stdout)["operator_key"]
    assert found(invoke("findings", "--operator", key[:8], "--json")) == [("skewed", "skewed-shuffle")]
    assert invoke("findings", "--job", "another").stdout == ""
    assert "'skew' is not one of 'broadcast-failed'" in invoke("findings", "--finding", "skew").output


DETAILS = """\
  The query failed: its broadcast was not ready after 1 s (spark.sql.broadcastTimeout).
  Check what the broadcast side computes: the tasks beneath it take most of the time. Make it
"""


def test_findings_in_full(invoke: Invoke) -> None:
    """With --details, or of one execution: the sentence, the advice, the numbers, the page."""
    for arguments in (("--details", "--severity", "critical"), ("--execution", "app/2")):
        shown = invoke("findings", *arguments).stdout
        head, *rest = shown.splitlines()
        assert head.startswith("critical  broadcast-failed  app/2  2026-") and head.endswith("  broadcast-timeout")
        assert DETAILS in shown
        assert "timeout_s 1 | node 10, operator " in shown and "joinsight docs findings#broadcast-failed" in shown
        assert all(len(line) <= 100 for line in rest)


def test_a_plan_is_followed_by_what_was_found(invoke: Invoke) -> None:
    """Once, below the tree, the worst first; nothing where nothing was found. JSON has the rows."""
    shown = invoke("plan", "app/4").stdout
    assert shown.count("Findings:") == 1
    assert shown.index("Findings:") > shown.index("FileScan")
    assert "Tasks spilled 4.8 MiB to disk" in shown
    assert "Findings" not in invoke("plan", "app/0").stdout
    assert len(json.loads(invoke("plan", "app/4", "--json").stdout)["findings"]) == 2
