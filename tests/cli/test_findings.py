"""`joinsight findings`, and the findings that `joinsight plan` shows below the tree, on recorded Spark executions."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine
from tests.findings.recorded import SMALL, UNLIMITED, recordings

from joinsight.cli import cli
from joinsight.findings import FindingsEngine
from joinsight.present.findings import impact, occurrence
from joinsight.queries.filters import SORTS
from joinsight.store.writer import Writer

NAMES = ("clean", "collected", "broadcast-timeout", "cache-filled", "broadcast-slow")
Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """A store that holds some recordings, numbered in this order."""
    documents = [
        msgspec.structs.replace(recordings()[name], application_id="app", execution_id=number)
        for number, name in enumerate(NAMES)
    ]
    Writer(engine, FindingsEngine(SMALL, UNLIMITED)).write(documents)
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


BY_TIME = ["cache-filled", "collected", "broadcast-timeout", "broadcast-slow", "broadcast-slow"]
EARLY = ("--since", "2026-01-01")
EACH = ("--each", "--json")


def test_single_findings_are_sorted(invoke: Invoke) -> None:
    """By severity the critical one first; by impact, where bytes count like time."""
    assert [name for name, _ in found(invoke("findings", *EACH, "--sort", "recent"))] == BY_TIME
    by_severity = found(invoke("findings", *EACH))
    assert by_severity[0] == ("broadcast-timeout", "broadcast-failed")
    assert by_severity[-1] == ("cache-filled", "cache-read-once")
    assert found(invoke("findings", *EACH, "--sort", "impact"))[0][0] in ("broadcast-timeout", "cache-filled")
    for sort in SORTS["findings"]:
        assert invoke("findings", "--each", "--sort", sort).exit_code == 0
        assert len(invoke("findings", *EARLY, "--json", "--sort", sort).stdout.splitlines()) == len(BY_TIME)


@pytest.mark.parametrize("grouping", [EARLY, ("--each",)], ids=str)
def test_findings_are_filtered(invoke: Invoke, grouping: tuple[str, ...]) -> None:
    """By their kind and severity, and as operators are; what selects an execution shows each."""

    def ask(*arguments: str) -> list[tuple[str, str]]:
        return found(invoke("findings", *grouping, "--json", *arguments))

    assert ask("--finding", "broadcast-not-worth-it") == [("broadcast-slow", "broadcast-not-worth-it")]
    assert ask("--severity", "info") == [("cache-filled", "cache-read-once")]
    assert ask("--state", "failed") == [("broadcast-timeout", "broadcast-failed")]
    assert ask("--execution", "app/1") == [("collected", "driver-collect")]
    assert len(ask("--application", "app")) == len(BY_TIME)
    key = json.loads(invoke("findings", "--each", "--finding", "broadcast-not-worth-it", "--json").stdout)[
        "operator_key"
    ]
    assert ask("--operator", key[:8]) == [("broadcast-slow", "broadcast-not-worth-it")]
    assert ask("--limit", "2", "--since", "2026-01-01")[0] == ("broadcast-timeout", "broadcast-failed")
    assert ask("--job", "another") == []
    assert "'skew' is not one of 'broadcast-failed'" in invoke("findings", "--finding", "skew").output


@pytest.mark.parametrize("grouping", [(), ("--each",)])
def test_it_says_how_many_there_are(invoke: Invoke, grouping: tuple[str, ...]) -> None:
    """Where a limit leaves some out."""
    number = len(invoke("findings", *EARLY, *grouping, "--json").stdout.splitlines())
    assert number > 1
    for arguments in ((), ("--json",)):
        shown = invoke("findings", *EARLY, *grouping, *arguments, "--limit", "1")
        assert shown.stderr == f"1 of {number} shown (all: --limit {number})\n"
    assert invoke("findings", *EARLY, *grouping, "--limit", str(number)).stderr == ""


def test_without_findings_it_says_of_which_time(invoke: Invoke) -> None:
    """Groups are of a month; single ones of all times."""
    month_ago = datetime.now(timezone.utc) - timedelta(days=30)
    shown = invoke("findings", "--job", "another")
    assert (shown.stdout, shown.exit_code) == ("", 0)
    assert shown.stderr.startswith(f"No matching findings since {month_ago:%Y-%m-%d}")
    assert "since 2026-01-01 00:00." in invoke("findings", *EARLY, "--job", "another").stderr
    assert invoke("findings", "--each", "--job", "another").stderr == "No matching findings.\n"


DETAILS = """\
  The query failed: its broadcast was not ready after 1 s (spark.sql.broadcastTimeout).
  Check what the broadcast side computes: the tasks beneath it take most of the time. Make it
"""


def test_a_finding_has_its_sentence_advice_numbers_and_page(invoke: Invoke) -> None:
    for arguments, head in (
        ((*EARLY, "--severity", "critical"), "critical  broadcast-failed  findings: broadcast-timeout"),
        (("--each", "--severity", "critical"), "critical  broadcast-failed  app/2  2026-"),
        (("--execution", "app/2"), "critical  broadcast-failed  app/2  2026-"),
    ):
        shown = invoke("findings", *arguments).stdout
        first, *rest = shown.splitlines()
        assert first.startswith(head) and first.endswith("broadcast-timeout")
        assert DETAILS in shown
        assert "timeout_s 1 | node 10, operator " in shown and "joinsight docs findings#broadcast-failed" in shown
        assert all(len(line) <= 100 for line in rest)


def test_a_group_says_how_often_and_since_when(invoke: Invoke) -> None:
    """Before its texts; then what is at stake, and how to draw the plan of the newest run."""
    lines = invoke("findings", *EARLY, "--finding", "broadcast-not-worth-it").stdout.splitlines()
    assert lines[1].startswith("  in 1 run, 2026-")
    assert lines[2].endswith("; impact 35.1 MiB")
    cached = invoke("findings", *EARLY, "--finding", "cache-read-once").stdout.splitlines()
    assert cached[2] == "  623 ms at stake, 56 % of the time; impact 917 ms"
    assert lines[-1] == "  joinsight plan app/4 | joinsight docs findings#broadcast-not-worth-it"


DAY = datetime(2026, 11, 20, 8, 30, tzinfo=timezone.utc)
GROUP = {
    **{"executions": 3, "runs": 1200, "wall_ms": None, "wall_is_partial": False, "duration_ms": None},
    **{"impact_ms": None, "impact_bytes": None},
    **{"first_run_at": DAY - timedelta(9), "first_seen_at": DAY - timedelta(5), "started_at": DAY, "last_run_at": DAY},
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "in 3 of 1,200 runs, first 2026-11-15 08:30, last 2026-11-20 08:30"),
        ({"first_run_at": DAY - timedelta(5)}, "in 3 of 1,200 runs, first 2026-11-15 08:30 or earlier, last"),
        ({"last_run_at": DAY + timedelta(1)}, "last 2026-11-20 08:30, not in the last run"),
        ({"executions": 1, "first_seen_at": DAY}, "in 1 of 1,200 runs, first 2026-11-20 08:30"),
        ({"executions": 1, "runs": 1, "first_seen_at": DAY, "first_run_at": DAY}, "in 1 run, 2026-11-20 08:30"),
    ],
)
def test_occurrences_say_since_when_and_whether_gone(changes: dict[str, Any], text: str) -> None:
    """When it began, if the time has an earlier run without it; when it was last seen, and whether it is gone."""
    said = occurrence({**GROUP, **changes})
    assert said.startswith(text) or said.endswith(text)


def test_an_impact_is_time_bytes_both_or_nothing() -> None:
    assert impact({"impact_ms": 90_000, "impact_bytes": 3 << 30}) == "1 min 30 s, 3.0 GiB"
    assert impact({"impact_ms": None, "impact_bytes": 3 << 30}) == "3.0 GiB"
    assert impact({"impact_ms": None, "impact_bytes": None}) == ""


def test_a_plan_is_followed_by_what_was_found(invoke: Invoke) -> None:
    """Once, below the tree, the worst first; nothing where nothing was found. JSON has the rows."""
    shown = invoke("plan", "app/4").stdout
    assert shown.count("Findings:") == 1
    assert shown.index("Findings:") > shown.index("FileScan")
    assert "has 400,000 rows" in shown
    assert "Findings" not in invoke("plan", "app/0").stdout
    assert len(json.loads(invoke("plan", "app/4", "--json").stdout)["findings"]) == 2
