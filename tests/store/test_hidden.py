"""Executions without work of their own: lists and `last` leave them out, and say how many."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS, execution, planned

from joinsight.base.errors import NotFound
from joinsight.base.timeparse import parse_moment
from joinsight.cli import cli
from joinsight.contract.document import Execution, Job
from joinsight.queries import lists, reading, trends
from joinsight.queries.filters import Filters
from joinsight.serve.app import make_app
from joinsight.serve.tokens import Tokens
from joinsight.store.writer import Writer

MINUTE = 60_000
VIEW = "createOrReplaceTempView at <unknown>:0"


def ran(number: int, ms: int, **changes: Any) -> Execution:
    """An execution that began in this minute and took so many milliseconds."""
    started = STARTED_AT_MS + number * MINUTE
    return execution(
        **{"execution_id": number, "started_at_ms": started, "ended_at_ms": started + ms, "sequence": number, **changes}
    )


def jobs(started_at_ms: int = STARTED_AT_MS) -> list[Job]:
    """One job of Spark."""
    return [Job(1, started_at_ms, [], "succeeded", started_at_ms + 1)]


DOCTOR = "Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=9"
RUNS = [
    ran(1, 0, description=VIEW),
    ran(2, 20, jobs=jobs(), description="a short query"),
    ran(3, 999, description="SHOW TABLES"),
    ran(4, 1_000, description="a long command"),
    ran(5, 5, state="failed", error="no such table", description="a wrong command"),
    ran(6, 5, incomplete=["Spark dropped 3 events"], description="jobs were not seen"),
    ran(7, 0, description=VIEW),
    planned(
        DOCTOR,
        execution_id=8,
        sequence=8,
        started_at_ms=STARTED_AT_MS + 8 * MINUTE,
        ended_at_ms=STARTED_AT_MS + 8 * MINUTE + 900,
        application_id="doctors",
        job_name="joinsight doctor",
        description="joinsight doctor",
        jobs=jobs(),
    ),
    ran(9, 700, job_name="joinsight doctor", description="joinsight doctor", state="failed", jobs=jobs()),
]
SHOWN = [6, 5, 4, 2]


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> Iterator[None]:
    """These executions are stored."""
    Writer(engine).write(RUNS)
    yield


def run(engine: Engine, *arguments: str) -> Result:
    """A command on the store."""
    url = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, arguments, env={"JOINSIGHT_DATABASE_URL": url})


def ids(result: Result) -> list[int]:
    """The executions of a list."""
    return [json.loads(line)["execution_id"] for line in result.stdout.splitlines()]


def page(engine: Engine, address: str) -> tuple[list[int], str]:
    """The executions that a page lists, and its text."""

    async def get() -> str:
        transport = httpx.ASGITransport(make_app(engine, Tokens("")))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(address)).text

    text = asyncio.run(get())
    return [int(number) for number in re.findall(r'class="id name"[^>]* title="\w+[-\w]*/(\d+)"', text)], text


def test_a_list_leaves_them_out_and_counts_them(engine: Engine) -> None:
    """Short successes without a Spark job, and the query of doctor; not those that may have had jobs."""
    result = run(engine, "queries", "--json")
    assert ids(result) == SHOWN
    assert result.stderr == "5 more without work of their own (--show all)\n"
    assert ids(run(engine, "queries", "--json", "--show", "all")) == list(range(9, 0, -1))
    assert run(engine, "queries", "--show", "all").stderr == ""


@pytest.mark.parametrize(
    ("limit", "counted"), [(1, "3 more"), (2, "3 more"), (3, "3 more"), (4, "5 more")], ids=lambda each: str(each)
)
def test_only_those_between_the_shown_are_counted(engine: Engine, limit: int, counted: str) -> None:
    """A list that ends at its limit counts those that its rows would have been among."""
    stderr = run(engine, "queries", "--json", "--limit", str(limit)).stderr
    assert f"{counted} without work of their own (--show all)\n" in stderr


def test_a_list_of_nothing_else_says_so(engine: Engine) -> None:
    """Where nothing is left, the way to see them is named."""
    result = run(engine, "queries", "--job", "joinsight doctor")
    assert (result.stdout, result.stderr) == (
        "",
        "No matching executions. `joinsight queries` without filters shows the latest executions.\n"
        "2 more without work of their own (--show all)\n",
    )
    assert ids(run(engine, "queries", "--json", "--job", "joinsight doctor", "--show", "all")) == [9, 8]


def test_the_last_execution_is_one_that_did_something(engine: Engine) -> None:
    """`last` goes by the same rule; an id names any execution."""
    with engine.connect() as connection:
        assert reading.find_execution(connection, "last")[3] == 6
        assert reading.find_execution(connection, "doctors/8")[3] == 8


def test_a_store_without_any_other_says_so(empty: Engine) -> None:
    """`last` names the option that lists them."""
    Writer(empty).write([RUNS[0]])
    with empty.connect() as connection, pytest.raises(NotFound, match="joinsight queries --show all"):
        reading.find_execution(connection, "last")


def test_pages_follow_the_same_rule(engine: Engine) -> None:
    """The home page lists and counts as the command does, with a link to all; so does each page of a list."""
    shown, text = page(engine, "/")
    assert shown == SHOWN
    assert '5 more without work of their own: <a href="/?show=all">show</a>' in text
    assert page(engine, "/?show=all")[0] == list(range(9, 0, -1))
    doctors = page(engine, "/?application=doctors")[1]
    assert '1 more without work of their own: <a href="/?application=doctors&amp;show=all">show</a>' in doctors
    assert "without work of their own: <a" not in page(engine, "/?sort=time")[1]  # they would be its end


def test_a_page_counts_those_among_its_own_rows(engine: Engine) -> None:
    """Pages of a long list count each of them once."""
    by = Filters(limit=2)
    with engine.connect() as connection:
        first = lists.read_queries(connection, by, "recent")
        end = lists.cursor_at(first[-1], "recent")
        second = lists.read_queries(connection, by, "recent", end)
        counted = [
            lists.count_hidden(connection, by, None, lists.cursor_at(first[-1], "recent", is_before=True)),
            lists.count_hidden(connection, by, end, None),
        ]
    assert [row["execution_id"] for row in (*first, *second)] == SHOWN
    assert counted == [3, 2]


def test_the_query_of_doctor_is_in_no_list_or_total(engine: Engine) -> None:
    """Neither its shuffle, nor its job, nor its failure."""
    since = parse_moment("since", "2026-01-01")
    assert run(engine, "shuffles", "--json").stdout == ""
    with engine.connect() as connection:
        assert [row["job_name"] for row in trends.read_jobs(connection, since)] == ["test"]
        assert [row["title"] for row in trends.read_failures(connection, since, 9)] == ["a wrong command"]
        days = trends.read_jobs(connection, since + timedelta(days=1))
    assert days == []
