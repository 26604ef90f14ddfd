"""The verdict while a query runs: what is known at its last report, a task that runs far longer than the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS, application, planned, read_back

from joinsight.cli import cli
from joinsight.contract.document import Execution, Job, Spread, Stage
from joinsight.pages.execution import execution_page
from joinsight.queries import reading
from joinsight.store.writer import Writer
from joinsight.verdict import judge

EVEN = "10+10+10+10+10+10+10+10"
LAST = "10+10+10+10+10+10+10+900"
"""The task that runs has most."""
FIRST = "900+10+10+10+10+10+10+10"
"""A task that has ended had most."""


def at(ms: int) -> int:
    return STARTED_AT_MS + ms


def running(read: str = EVEN, made: str = EVEN, *, reported: int = 245_000, **stage: Any) -> Execution:
    """A join of two shuffles on four slots. Seven tasks took 3 s each; the eighth, 77, runs since 5 s."""
    exchange = f"hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=%d] | records read={read}"
    plan = f"""
    SortMergeJoin | [k#1], [k#2], Inner | number of output rows={made}
      Exchange | {exchange % 3}
      Exchange | {exchange % 5}
    """
    ran: dict[str, Any] = {"attempt": 0, "name": "s", "slots": 4}
    its: dict[str, Any] = {
        **{"tasks": 8, "succeeded_tasks": 7, "oldest_launch_at_ms": at(5_000), "oldest_task": 77},
        **{"run_time": Spread(2_900, 3_000, 3_100, 3_100, 70), "run_time_ms": 21_000},
        **stage,
    }
    stages = [
        Stage(**ran, id=6, tasks=4, state="succeeded", submitted_at_ms=at(500), completed_at_ms=at(2_000)),
        Stage(
            **{**ran, "parents": [6], **its},
            id=7,
            state="running",
            submitted_at_ms=at(2_000),
            first_launch_at_ms=at(2_000),
            last_finish_at_ms=at(8_000),
        ),
    ]
    jobs = [Job(0, at(500), [6, 7, 8])]
    return planned(plan, state="running", reported_at_ms=at(reported), jobs=jobs, stages=stages)


@pytest.mark.parametrize(
    ("read", "made", "code", "text"),
    [
        (LAST, LAST, "data_skew", "; it has read 93 % of 970 rows."),
        (EVEN, LAST, "output_skew", "; it has made 93 % of "),
        (EVEN, EVEN, "slow_host", ", with no more rows than the others have."),
        (FIRST, FIRST, "slow_host", ", with no more rows than the others have."),
    ],
)
def test_a_straggler_is_the_cause(read: str, made: str, code: str, text: str) -> None:
    """One of 8 tasks runs for 4 min; what it has read and made so far says why."""
    verdict = judge(read_back(running(read, made)))
    assert verdict.code == code, verdict.text
    assert "of 4 min 5 s so far went into stage 7" in verdict.text
    assert f"1 of 8 tasks still runs, for 4 min against a median of 3.0 s{text}" in verdict.text
    assert (verdict.stage, verdict.evidence["running_tasks"], verdict.evidence["elapsed_ms"]) == (7, 1, 240_000)
    assert 0.5 < verdict.share <= 1


@pytest.mark.parametrize(
    "changes",
    [
        {"reported": 20_000},  # two heartbeats have not come
        {"oldest_launch_at_ms": at(238_000)},  # it began late
        {"succeeded_tasks": 4, "run_time_ms": 12_000},  # half of them run
        {"oldest_launch_at_ms": None, "oldest_task": None},  # an older listener
    ],
)
def test_others_are_no_stragglers(changes: dict[str, Any]) -> None:
    assert "still run" not in judge(read_back(running(**changes))).text


def test_time_goes_on_until_the_last_report() -> None:
    """The path, the costs and the verdict take the time of the report, not that at which it was stored."""
    its = read_back(running())
    assert [(row["cause"], row["stage_id"], row["end_ms"]) for row in its.segments] == [
        ("prepare", None, 500),
        ("running", 6, 2_000),
        ("running", 7, 245_000),
    ]
    assert its.breakdown.wall_ms == judge(its).evidence["elapsed_ms"] + 5_000


def test_samples_divide_a_stage_of_which_no_task_has_ended() -> None:
    """They have no run time to divide yet; the wall time so far goes by their number."""
    none: dict[str, Any] = {"succeeded_tasks": 0, "run_time": None, "run_time_ms": 0, "oldest_launch_at_ms": at(2_000)}
    its = read_back(running(**none, tasks=4, samples={"operator SortMergeJoin": 90, "shuffle_read": 10}))
    waited = [(item.node_id, item.wall_ms, item.task_time_ms) for item in its.breakdown.items if item.wall_ms > 10_000]
    assert waited == [(0, 218_700, 0), (None, 24_300, 0)]


def test_of_a_lost_execution_the_last_report_stays() -> None:
    """Its tasks that ran then are not taken for ones that never were."""
    its = read_back(running(LAST, LAST))
    its.execution["state"] = "lost"
    assert judge(its).code == "data_skew"


def test_all_readers_take_the_time_of_the_report(engine: Engine) -> None:
    """Commands and the page, which is of a later time, by another clock."""
    e = structs.replace(running(LAST, LAST), application_id="app-runs")
    Writer(engine).write([application(application_id="app-runs"), e])
    environment = {"JOINSIGHT_DATABASE_URL": engine.url.render_as_string(hide_password=False)}
    shown = {}
    for name, *options in (("verdict", "--json"), ("cost",), ("plan",)):
        result = CliRunner().invoke(cli, [name, "app-runs/0", *options], env=environment)
        assert result.exit_code == 0, result.output
        shown[name] = " ".join(result.stdout.split())
    assert json.loads(shown["verdict"])["evidence"]["elapsed_ms"] == 240_000
    assert "So far, as of its last report." in shown["cost"] and "4 min 5 s" in shown["cost"]
    assert "99.8% stage 7, stage 6" in shown["plan"] and "at stake, 73 % of the time" in shown["plan"]
    with engine.connect() as connection:
        key = reading.find_execution(connection, "app-runs/0")
        page = execution_page(reading.read_plan(connection, key), reading.read_run(connection, key))
    assert "<dt>Elapsed</dt><dd>4 min 5 s</dd>" in page
    assert "Where the wall time goes" in page and "skewed-shuffle" in page
