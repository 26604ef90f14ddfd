"""`joinsight regressions` on a real store."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, delete, insert
from tests.store.test_regressions import BEFORE, MIB, plant

from joinsight import tables
from joinsight.cli import cli
from joinsight.present.regressions import reason

NOW = datetime.now(timezone.utc) + timedelta(hours=1)  # the first run of the last seven days stays in them for an hour


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """A query that became slower, one that writes more, one of more data and one that is as ever."""
    usual = [60_000] * 7
    plant(engine, "slower", [*BEFORE, *[150_000] * 7], end=NOW)
    grown = [{"input_bytes": MIB}] * 20 + [{"input_bytes": 3 * MIB}] * 7
    plant(engine, "grown", [*BEFORE, *[120_000] * 7], each=grown, shape="feedfeedfeedfeed", end=NOW)
    written = [{"bytes_written": 100 * MIB}] * 20 + [{"bytes_written": 300 * MIB}] * 7
    plant(engine, "wide", [*BEFORE, *usual], operators=written, end=NOW)
    plant(engine, "as ever", [*BEFORE, *usual], end=NOW)
    return engine


def regressions(engine: Engine, *arguments: str) -> Result:
    """Runs the command."""
    url = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["regressions", *arguments], env={"JOINSIGHT_DATABASE_URL": url})


def jobs(engine: Engine, *arguments: str) -> list[str]:
    """The jobs in the output of ``--json``, in its order."""
    result = regressions(engine, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line)["job_name"] for line in result.stdout.splitlines()]


def test_the_most_costly_stands_first(filled: Engine) -> None:
    """Each with what, from where to where, why, since when, and the command that tells more."""
    lines = [" ".join(line.split()) for line in regressions(filled).stdout.splitlines()]
    since = (NOW - timedelta(days=7) + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M")
    assert lines[0] == "job query what before now factor why level cost"
    assert lines[1] == "slower 01234567 duration 1 min 2 min 30 s 2.5× same plan suspected 10 min 30 s"
    assert lines[2] == f"since {since}, 7 runs; 1.0× the data; query of slower"
    assert lines[3] == "joinsight diff slower-18/7 slower-26/7"
    assert lines[4] == "grown feedfeed duration 1 min 2 min 2.0× data grew suspected 7 min"
    assert lines[5] == f"since {since}, 7 runs; 3.0× the data; query of grown"
    assert lines[7] == "wide 01234567 shuffle bytes written 100.0 MiB 300.0 MiB 3.0× same plan suspected"
    assert lines[8] == f"since {since}, 7 runs; shuffle key of s; query of wide"
    assert len(lines) == 10


def test_the_command_shown_works(filled: Engine) -> None:
    """The command names two executions that exist."""
    url = filled.url.render_as_string(hide_password=False)
    lines = [line for line in regressions(filled).stdout.splitlines() if "joinsight diff" in line]
    assert len(lines) == 3
    names = {line.split()[2].split("/")[0].rsplit("-")[0] for line in lines}
    assert names == {"slower", "grown", "wide"}
    result = CliRunner().invoke(cli, lines[0].split()[1:], env={"JOINSIGHT_DATABASE_URL": url})
    assert result.exit_code == 0, result.output
    assert "2.5×" in result.stdout


FILTERED = [
    ([], ["slower", "grown", "wide"]),
    (["--job", "grown"], ["grown"]),
    (["--kind", "same_plan"], ["slower", "wide"]),
    (["--kind", "plan_changed"], []),
    (["--limit", "1"], ["slower"]),
    (["--since", "2d"], []),
    (["--minimum-change", "1.2"], ["slower", "wide"]),
    (["--mads", "100"], ["wide"]),
    (["--minimum-runs", "21"], []),
    (["--baseline-runs", "4"], []),
]


@pytest.mark.parametrize(("arguments", "expected"), FILTERED, ids=lambda value: " ".join(value))
def test_they_are_filtered(filled: Engine, arguments: list[str], expected: list[str]) -> None:
    """By job, kind and number, and by other thresholds."""
    assert jobs(filled, *arguments) == expected


def test_nothing_found_is_said(filled: Engine) -> None:
    """The exit code is 0 without regressions; how many queries were compared, or which runs are missing."""
    result = regressions(filled, "--job", "as ever")
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(r"No regressions since .{16}: 1 of 1 queries compared\.\n", result.stderr)
    result = regressions(filled, "--job", "as ever", "--minimum-runs", "50")
    assert re.fullmatch(
        r"Not enough runs to compare \(23 of 53 so far\): a query needs 3 successful runs since .{16}"
        r" and 50 before\.\n",
        result.stderr,
    )
    assert "No successful runs since" in regressions(filled, "--job", "unknown").stderr
    assert regressions(filled, "--limit", "1").stderr == "1 shown, there are more (--limit)\n"


def test_until_there_are_enough_runs_the_last_two_are_compared(empty: Engine) -> None:
    """A slower run of the same plan with the same data and CPU time was slowed by the machine; it says so."""
    plant(empty, "young", [60_000, 61_000, 140_000], end=NOW)
    shown = regressions(empty)
    assert "Not enough runs to compare (3 of 8 so far)" in shown.stderr
    assert "query of young in young: 1 min 1 s → 2 min 20 s, 2.3×" in shown.stdout
    assert "  joinsight why young-1/7 young-2/7" in shown.stdout


WORK = {"plan_fingerprint": "p", "input_bytes": 1000, "shuffle_write_bytes": 0, "cpu_time_ms": 5_000}


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ({}, "same plan, same data, same CPU time, slower: the machine was busy"),
        ({"cpu_time_ms": 9_000}, "same plan, same data, 1.8× the CPU time"),
        ({"cpu_time_ms": None}, ""),
        ({"input_bytes": 3000}, "same plan, 3.0× the data"),
        ({"shuffle_write_bytes": 10}, "same plan, other data"),
        ({"plan_fingerprint": "q"}, "another plan"),
    ],
)
def test_a_reason_is_what_differs_first(now: dict[str, object], text: str) -> None:
    """Plan, then data, then CPU time; where all are the same, it was the machine."""
    assert reason((WORK, {**WORK, **now})) == text
    assert reason(None) == ""


def test_certain_ones_come_first(filled: Engine) -> None:
    """With their level and since when, also failures and those that medians do not show."""
    since = NOW - timedelta(days=40)
    certain = {"query_shape": "0123456789abcdef", "origin": "live", "raised_at": NOW, "since": since, "runs": 9}
    certain |= {"evidence_weeks": 5000.0, "kind": "same_plan", "measure": "duration_ms", "title": None}
    wide = {**certain, "job_name": "wide", "before": 50_000.0, "after": 60_000.0}
    slower = {**certain, "job_name": "slower", "before": 60_000.0, "after": 150_000.0}
    failing = {**certain, "job_name": "as ever", "measure": "failed", "kind": "failing", "before": 0.01, "after": 1.0}
    with filled.begin() as connection:
        connection.execute(insert(tables.alarm), [wide, slower, failing])
    try:
        found = [json.loads(line) for line in regressions(filled, "--json").stdout.splitlines()]
        shown = [(each["job_name"], each["measure"], each["level"]) for each in found]
        assert shown == [
            ("slower", "duration_ms", "certain"),
            ("wide", "duration_ms", "certain"),
            ("as ever", "failed", "certain"),
            ("grown", "duration_ms", "suspected"),
            ("wide", "bytes_written", "suspected"),
        ]
        assert datetime.fromisoformat(found[0]["since"]) == since and found[1]["cost_ms"] == 90_000
        assert len({frozenset(each) for each in found}) == 1, "all have the same columns"
        text = " ".join(regressions(filled).stdout.split())
        assert "as ever 01234567 failures 1% 100% 100× failing certain" in text
        assert jobs(filled, "--kind", "failing") == ["as ever"]
    finally:
        with filled.begin() as connection:
            connection.execute(delete(tables.alarm))
