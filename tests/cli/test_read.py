"""The reading commands on a real store: filters, orders, JSON, drawn plans and error messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text
from tests.documents import STARTED_AT_MS, Plan, PlanNode, application, draw, execution, planned

from joinsight.base.errors import ConfigurationError, NotFound
from joinsight.cli import cli
from joinsight.queries.filters import SORTS
from joinsight.store.writer import Writer

HOUR = 3_600_000
SHAPE, FINGERPRINT = "323ca4dd7bea4fc7", "18571f04388f3a74"  # of the skewed join
Invoke = Callable[..., Result]

SKEWED = """
    AdaptiveSparkPlan | isFinalPlan=true
      SortMergeJoin(skew=true) | [k#1L], [k#2L], Inner | number of output rows=60+40
        Sort | [k#1L ASC NULLS FIRST], false, 0 | sort time=5+6
          AQEShuffleRead | coalesced and skewed
            Exchange | hashpartitioning(k#1L, 200), ENSURE_REQUIREMENTS, [plan_id=7] | data size=900, shuffle bytes written=2097152+2097152, shuffle records written=500+500, records read=10+20+970, shuffle write time=3000000
              FileScan parquet spark_catalog.default.sales | [k#1L] | number of output rows=1000
        Sort | [k#2L ASC NULLS FIRST], false, 0
          Exchange | hashpartitioning(k#2L, 200), ENSURE_REQUIREMENTS, [plan_id=8] | shuffle bytes written=1024, shuffle records written=7, records read=?
"""
BROADCAST = """
    BroadcastHashJoin | [store_id#1], [store_id#9], LeftOuter, BuildRight, false | number of output rows=3
      Range | (0, 3) | number of output rows=3
      BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=3] | data size=4194304, number of output rows=2, time to collect=30, time to build=4, time to broadcast=5
"""


def documents() -> list[Any]:
    """Two applications: a nightly job that ran two hours apart, and another job between them."""
    first = planned(
        SKEWED,
        execution_id=1,
        sequence=2,
        description="the skewed join",
        job_name="nightly",
        call_site="count at /jobs/sales.py:42",
    )
    nodes, accumulators = draw(BROADCAST)
    earlier, _ = draw("SortMergeJoin | [store_id#1], [store_id#9], LeftOuter")
    second = execution(
        execution_id=2,
        sequence=3,
        description="the broadcast",
        job_name="nightly",
        started_at_ms=STARTED_AT_MS + 2 * HOUR,
        ended_at_ms=STARTED_AT_MS + 2 * HOUR + 90_000,
        plans=[Plan(STARTED_AT_MS + 2 * HOUR, earlier), Plan(STARTED_AT_MS + 2 * HOUR + 500, nodes)],
        accumulators=accumulators,
        incomplete=["3 of 9 task ends of stage 4 were not seen"],
    )
    other = execution(
        application_id="app-other",
        application_name="other app",
        attempt_id="2",
        job_name="other",
        execution_id=1,
        user="ana_maria",
        session_id="s-1",
        user_tags=["etl", "eu"],
        description="broken\n  query",
        state="failed",
        error="it broke",
        origin="event_log",
        started_at_ms=STARTED_AT_MS + HOUR,
        ended_at_ms=STARTED_AT_MS + HOUR + 10,
    )
    server = application(
        application_id="app-other", attempt_id="2", application_name="other app", job_name="other", user="me"
    )
    return [application(application_name="my app", job_name="nightly", user="me"), server, first, second, other]


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """A store that holds `documents`."""
    Writer(engine).write(documents())
    with engine.begin() as connection:  # as a listener's empty user was stored before schema 10
        connection.execute(text("UPDATE execution SET user_name = '' WHERE execution_id = 2"))
    return engine


@pytest.fixture
def invoke(filled: Engine) -> Iterator[Invoke]:
    """Runs a command on that store."""
    url = filled.url.render_as_string(hide_password=False)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments, env={"JOINSIGHT_DATABASE_URL": url})

    yield run


def ids(result: Result) -> list[tuple[str, int]]:
    """Which executions a ``--json`` answer holds, in its order."""
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [(row["application_id"], row["execution_id"]) for row in rows]


MINE = "local-1767225600000"
FILTERED = [
    ([], [(MINE, 2), ("app-other", 1), (MINE, 1)]),
    (["--sort", "time"], [(MINE, 2), (MINE, 1), ("app-other", 1)]),
    (["--application", MINE], [(MINE, 2), (MINE, 1)]),
    (["--application", "my app"], [(MINE, 2), (MINE, 1)]),
    (["--application", "my"], []),
    (["--job", "other"], [("app-other", 1)]),
    (["--user", "ana_maria"], [("app-other", 1)]),
    (["--user", "ana"], []),
    (["--user", "me"], [(MINE, 2), (MINE, 1)]),
    (["--session", "s-1"], [("app-other", 1)]),
    (["--tag", "etl"], [("app-other", 1)]),
    (["--tag", "etl", "--user", "bob"], []),
    (["--state", "failed"], [("app-other", 1)]),
    (["--since", "2026-01-01T01:00"], [(MINE, 2), ("app-other", 1)]),
    (["--since", "2026-01-01T02:00+01:00", "--until", "2026-01-01T02:00Z"], [("app-other", 1)]),
    (["--since", "1h"], []),
    (["--limit", "1"], [(MINE, 2)]),
]


@pytest.mark.parametrize(("arguments", "expected"), FILTERED, ids=lambda value: " ".join(map(str, value))[:40])
def test_queries_are_filtered_and_sorted(invoke: Invoke, arguments: list[str], expected: list[Any]) -> None:
    """Each filter leaves matching executions; the default order is newest first."""
    assert ids(invoke("queries", "--json", *arguments)) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [("shuffles", [(MINE, 1), (MINE, 1)]), ("broadcasts", [(MINE, 2)]), ("joins", [(MINE, 1), (MINE, 2)])],
)
def test_operators_are_listed_with_their_execution(invoke: Invoke, command: str, expected: list[Any]) -> None:
    """Largest first; ``--execution`` keeps those of one."""
    assert ids(invoke(command, "--json")) == expected
    assert ids(invoke(command, "--json", "--execution", f"{MINE}/1")) == [one for one in expected if one[1] == 1]
    assert ids(invoke(command, "--json", "--job", "other")) == []


@pytest.mark.parametrize("command", ["queries", "shuffles", "broadcasts", "joins"])
def test_every_order_works(invoke: Invoke, command: str) -> None:
    """PostgreSQL takes each of the orders that the help offers."""
    for sort in SORTS[command]:
        assert invoke(command, "--sort", sort).exit_code == 0


def test_a_query_and_its_operators_are_followed(invoke: Invoke) -> None:
    """``--shape`` and ``--operator`` find by a key or its first digits; the tables show eight of them."""
    join, other = [json.loads(line) for line in invoke("joins", "--json").stdout.splitlines()]
    shown = invoke("joins").stdout
    assert join["operator_key"][:8] in shown
    assert join["operator_key"] not in shown
    for key in (join["operator_key"], join["operator_key"][:8], join["operator_key"][:4]):
        assert ids(invoke("joins", "--json", "--operator", key)) == [(MINE, 1)]
    assert ids(invoke("joins", "--json", "--operator", other["operator_key"])) == [(MINE, 2)]
    for command in ("shuffles", "broadcasts"):
        row = json.loads(invoke(command, "--json").stdout.splitlines()[0])
        found = invoke(command, "--json", "--operator", row["operator_key"]).stdout
        assert [json.loads(line)["node_id"] for line in found.splitlines()] == [row["node_id"]]
    assert SHAPE[:8] in invoke("queries").stdout
    for key in (SHAPE, SHAPE[:8]):
        assert ids(invoke("queries", "--json", "--shape", key)) == [(MINE, 1)]
        assert ids(invoke("shuffles", "--json", "--shape", key)) == [(MINE, 1), (MINE, 1)]
    assert ids(invoke("queries", "--json", "--shape", "0123456789abcdef")) == []


def test_json_holds_raw_numbers(invoke: Invoke) -> None:
    """Bytes, rows and nanoseconds as they are stored; NULL is null."""
    row = json.loads(invoke("shuffles", "--json").stdout.splitlines()[0])
    assert row["bytes_written"] == 4_194_304
    assert row["write_time_ns"] == 3_000_000
    assert row["skew_ratio"] == 970 / 20
    assert row["fetch_wait_ms"] is None
    assert row["started_at"] == "2026-01-01T00:00:00+00:00"


def test_piped_output_is_whole(filled: Engine, invoke: Invoke) -> None:
    """Where the output is not a terminal, nothing is cut, and one long text pushes no column out of sight."""
    long = "a long query " * 9
    Writer(filled).write([execution(application_id="long", execution_id=3, description=long, error=long * 9)])
    shown = invoke("queries").stdout
    assert long.strip() in shown
    assert max(len(line) for line in shown.splitlines() if long.strip() not in line) < 200
    assert (long * 9).strip() in invoke("plan", "long/3").stdout
    assert "4.0 MiB" in invoke("shuffles").stdout
    assert "48.5×" in invoke("shuffles").stdout
    assert "SortMergeJoin (skew)" in invoke("joins").stdout


def test_a_list_says_that_there_is_more(invoke: Invoke) -> None:
    """How many rows there are, and the option that shows them, apart from the rows."""
    two = ["--job", "nightly"]
    assert invoke("queries", "--limit", "1", *two).stderr == "1 of 2 shown (all: --limit 2)\n"
    assert invoke("queries", "--limit", "1", "--json", *two).stderr == "1 of 2 shown (all: --limit 2)\n"
    assert invoke("queries", "--limit", "2", *two).stderr == ""
    for command in ("shuffles", "joins"):
        for sort in SORTS[command]:
            more = "1 of 2 shown (all: --limit 2)\n"
            assert invoke(command, "--limit", "1", "--sort", sort, *two).stderr == more
            assert invoke(command, "--limit", "1", "--sort", sort, "--shape", SHAPE[:8]).stderr == (
                more if command == "shuffles" else ""
            )


def test_jobs_are_named_where_there_are_several(invoke: Invoke) -> None:
    assert "nightly" in invoke("queries").stdout
    assert "nightly" not in invoke("queries", "--job", "nightly").stdout


def test_applications_are_named_where_there_are_several(invoke: Invoke) -> None:
    """With one application the id is enough; with several each row says what `joinsight plan` takes."""
    assert f"Application {MINE}" in invoke("queries", "--job", "nightly").stdout
    assert "app-other/2/1" in invoke("queries").stdout


def test_nothing_found_is_said(invoke: Invoke) -> None:
    """No matching rows are neither an error nor an empty table."""
    result = invoke("queries", "--job", "unknown")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No matching executions." in result.stderr


TREE = f"""\
the skewed join
local-1767225600000/1  2026-01-01 00:00  succeeded after 1.0 s  from sales.py:42
shape {SHAPE}, final plan {FINGERPRINT}

100 % of 1.0 s: the driver took 1.0 s, most of it between stages.
Look at what the driver does then: planning again under AQE, many small jobs, or its memory and CPU.
                                                                      rows      bytes     time  skew
⋈ SortMergeJoin(skew=true) [k], [k], Inner                             100
├─ Sort [k ASC NULLS FIRST], false, 0                                                    11 ms
│  ⇄ Exchange hashpartitioning(k, 200), coalesced and skewed         1,000    4.0 MiB     3 ms 48.5×
│  FileScan parquet default.sales [k]                                1,000
└─ Sort [k ASC NULLS FIRST], false, 0
   ⇄ Exchange hashpartitioning(k, 200)                                    7  1,024 B
Where the time went:
  driver       1.0 s 100.0%
"""


def test_plan_draws_the_tree_with_what_it_cost(invoke: Invoke) -> None:
    """Operators from the root down, with rows, bytes, time and skew; what was not measured is blank. Then the causes of
    the wall time."""
    assert invoke("plan", f"{MINE}/1").stdout.split("\n")[:7] == TREE.split("\n")[:7]
    drawn = [line.split() for line in invoke("plan", f"{MINE}/1").stdout.splitlines()]
    assert drawn == [line.split() for line in TREE.splitlines()]


def test_the_users_line_is_named(invoke: Invoke) -> None:
    """In the header of a plan, after the title in a list, and as a word of searches."""
    assert invoke("plan", f"{MINE}/1").stdout.splitlines()[1].endswith("  from sales.py:42")
    assert "sales.py:42  the skewed join" in invoke("queries", "--search", "sales.py:42").stdout
    assert " from " not in invoke("plan", "2").stdout.splitlines()[1]


def test_plan_says_that_it_is_of_an_event_log(invoke: Invoke) -> None:
    assert "read from an event log" in invoke("plan", "app-other/2/1").stdout
    assert "event log" not in invoke("plan", f"{MINE}/1").stdout


def test_plan_shows_earlier_versions(invoke: Invoke) -> None:
    """One version, or all of them, oldest first; partial ones are marked."""
    everything = invoke("plan", "2", "--all-versions").stdout
    assert "Plan 0, 0 ms after the start: replaced by AQE" in everything
    assert "Plan 1, 500 ms after the start: the final plan" in everything
    assert everything.index("SortMergeJoin") < everything.index("BroadcastHashJoin")
    assert "These numbers may be partial: 3 of 9 task ends of stage 4 were not seen" in everything
    one = invoke("plan", "last", "--version", "0").stdout
    assert "SortMergeJoin" in one
    assert "BroadcastHashJoin" not in one


def test_plan_shows_all_metrics_in_sparks_words(invoke: Invoke) -> None:
    """``--metrics`` puts every measured metric below its operator."""
    shown = invoke("plan", f"{MINE}/1", "--metrics").stdout
    assert "records read: 1,000" in shown
    assert "shuffle bytes written: total (min, med, max (stageId: taskId)) 4.0 MiB (2.0 MiB, 2.0 MiB, 2.0 MiB" in shown


def test_plan_as_json_holds_everything(invoke: Invoke) -> None:
    """Execution, plan versions and metrics in one object."""
    stored = json.loads(invoke("plan", "2", "--json").stdout)
    assert stored["execution"]["description"] == "the broadcast"
    assert [version["version"] for version in stored["versions"]] == [0, 1]
    assert {row["name"] for row in stored["metrics"]} >= {"time to collect", "number of output rows"}


def test_an_execution_without_a_plan_is_shown(invoke: Invoke) -> None:
    shown = invoke("plan", "app-other/2/1").stdout
    assert "failed after 10 ms" in shown
    assert "it broke" in shown
    assert "No plan" in shown


WRONG = [
    (["plan", "77"], NotFound, "No execution 77"),
    (["plan", "elsewhere/1"], NotFound, "No execution elsewhere/1"),
    (["plan", "x"], ConfigurationError, "APPLICATION/12"),
    (["plan", "/4"], ConfigurationError, "APPLICATION/12"),
    (["plan", "9999999999999999999999"], ConfigurationError, "APPLICATION/12"),
    (["queries", "--shape", "abc"], ConfigurationError, "the first 4 or more"),
    (["joins", "--operator", "SortMergeJoin"], ConfigurationError, "16 hexadecimal digits"),
    (["plan", "2", "--version", "5"], NotFound, "the versions are 0 to 1"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_what_cannot_be_found_is_said(invoke: Invoke, arguments: list[str], error: type, text: str) -> None:
    """An execution or version that is not there, or not named rightly, says what would be right."""
    result = invoke(*arguments)
    assert isinstance(result.exception, error)
    assert text in str(result.exception)


def test_deep_plans_are_drawn(filled: Engine, invoke: Invoke) -> None:
    """A plan of 5,000 unions, each below the other, is drawn without recursion; its indentation is cut."""
    deep = [PlanNode("Union", -1, "Union")]
    for level in range(5_000):
        deep += [PlanNode("Range", 2 * level, f"Range {level}"), PlanNode("Union", 2 * level, "Union")]
    deep[-1] = PlanNode("Range", deep[-1].parent, "Range bottom")
    plans, ended = [Plan(STARTED_AT_MS, deep)], STARTED_AT_MS + 900
    e = execution(application_id="deep", execution_id=9, plans=plans, description="deep", ended_at_ms=ended)
    Writer(filled).write([e])
    result = invoke("plan", "deep/9")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert any("Range bottom" in line for line in lines[5_000:])
    assert max(map(len, lines)) <= 130
