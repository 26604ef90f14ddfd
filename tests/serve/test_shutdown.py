"""When a service ends, in order or killed, confirmed documents are committed and no others are partly stored."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, func, select
from tests.documents import STARTED_AT_MS, Plan, PlanNode, application, execution, planned, request
from tests.serve.real import dial, get, head, in_threads, locked, post, service, status, until, writers_that_wait

from joinsight import tables
from joinsight.store import embedded

PLAN = """
SortMergeJoin | [k#1], [k#2], Inner | number of output rows=50
  Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3] | data size=4000, records read=1+2
"""


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def batch_of(name: str) -> bytes:
    return request(
        application(application_id=name), *(planned(PLAN, application_id=name, execution_id=i) for i in (1, 2))
    )


def rows_of(engine: Engine, name: str) -> int:
    """How many rows of all tables are stored of an application."""
    with engine.connect() as connection:
        return sum(
            connection.scalar(select(func.count()).select_from(table).where(table.c.application_id == name)) or 0
            for table in tables.metadata.sorted_tables
            if "application_id" in table.c
        )


@pytest.mark.matrix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_batch_in_work_is_finished(engine: Engine, number: signal.Signals) -> None:
    """At a signal a batch that is being written is committed and answered; one that waits or comes gets 503 or no
    connection, and what is half sent is not waited for. Then the service ends with 0."""
    name = f"finished-{number.name}"
    answers: dict[str, httpx.Response] = {}
    short = "from joinsight.serve import admission; admission.MAX_WRITING = 1"
    with service(url_of(engine), patch=short) as running:
        url = running.url

        def send(which: str) -> Callable[[], None]:
            def run() -> None:
                answers[which] = post(url, batch_of(f"{name}-{which}"))

            return run

        with locked(engine), dial(url) as half, dial(url) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(idle) == 200
            half.sendall(head(1_000) + b"x" * 500)
            join_first = in_threads(send("written"))
            until(lambda: writers_that_wait(engine) == 1, "the batch is being written")
            join_second = in_threads(send("waits"))
            until(lambda: "waiting 2.0" in get(url + "/metrics").text, "a second one waits")
            running.signal(number)
            join_second()
            assert (answers["waits"].status_code, answers["waits"].headers["retry-after"]) == (503, "5")
            assert "shutting down" in answers["waits"].text
            assert status(half) == 503
            with pytest.raises(OSError):
                dial(url)
            assert running.process.poll() is None
        join_first()
        assert answers["written"].json() == {"accepted": 3, "refused": []}
        assert running.end() == 0
    assert [event["message"] for event in running.log][-2:] == [
        f"shutting down; a second {number.name} stops at once",
        "stopped",
    ]
    assert rows_of(engine, f"{name}-written") > 0
    assert rows_of(engine, f"{name}-waits") == 0


@pytest.mark.matrix
def test_a_batch_that_is_only_read_is_not(engine: Engine) -> None:
    """What is not being written yet is given up at the next plan, however much there is left to read: it is answered
    with 503, nothing of it is stored, and the service ends with 0."""
    body = request(execution(application_id="heavy", plans=[Plan(STARTED_AT_MS, [PlanNode("Union", -1)])] * 1_000))
    answers: list[httpx.Response] = []
    slow = """
import time
from joinsight.analysis import rows
build = rows.build
rows.build = lambda *a, **k: time.sleep(0.1) or build(*a, **k)
"""
    with service(url_of(engine), patch=slow) as running:
        url = running.url
        join = in_threads(lambda: answers.append(post(url, body)))
        until(lambda: "joinsight_decode_seconds_count 1.0" in get(url + "/metrics").text, "it is decoded")
        running.signal(signal.SIGTERM)
        join()
        assert running.end() == 0
    assert [(each.status_code, each.headers["retry-after"]) for each in answers] == [(503, "5")]
    assert rows_of(engine, "heavy") == 0


def test_an_idle_service_ends_at_once(engine: Engine) -> None:
    """Without work there is nothing to wait for."""
    with service(url_of(engine)) as running:
        running.signal(signal.SIGTERM)
        assert running.end() == 0


def test_a_second_signal_ends_at_once(engine: Engine) -> None:
    """The batch that is being written is not answered, and rolled back."""
    with service(url_of(engine)) as running, locked(engine), dial(running.url) as sender:
        body = batch_of("second signal")
        sender.sendall(head(len(body)) + body)
        until(lambda: writers_that_wait(engine) == 1, "the batch is being written")
        running.signal(signal.SIGTERM)
        until(lambda: running.logged("shutting down"), "it has begun to end")
        running.signal(signal.SIGTERM)
        assert running.end() == -signal.SIGTERM
        assert status(sender) == 0
    assert rows_of(engine, "second signal") == 0


def test_a_batch_that_takes_too_long_is_given_up(engine: Engine) -> None:
    """At its timeout the service responds 503 and ends with exit code 1, however long PostgreSQL would take."""
    short = "from joinsight.serve import ingest, server\ningest.LOCK_SECONDS = 600; server.SHUTDOWN_SECONDS = 1"
    with service(url_of(engine), patch=short) as running, locked(engine), dial(running.url) as sender:
        body = batch_of("given up")
        sender.sendall(head(len(body)) + body)
        until(lambda: writers_that_wait(engine) == 1, "the batch is being written")
        running.signal(signal.SIGTERM)
        assert running.end() == 1
        assert status(sender) == 503
        assert running.logged("stopped")[0]["unfinished"] == 1
    assert rows_of(engine, "given up") == 0


@pytest.mark.matrix
def test_a_kill_before_the_commit_leaves_no_answer_and_no_rows(engine: Engine) -> None:
    """After kill -9 the sender has no answer and the database nothing; sent again, the batch is whole."""
    body = batch_of("killed")
    with service(url_of(engine)) as running, dial(running.url) as sender, locked(engine, "execution_metrics"):
        sender.sendall(head(len(body)) + body)
        until(lambda: writers_that_wait(engine) == 1, "half of the batch is written")
        running.signal(signal.SIGKILL)
        assert running.end() == -signal.SIGKILL
        assert status(sender) == 0
    until(lambda: writers_that_wait(engine) == 0, "PostgreSQL has noticed")
    assert rows_of(engine, "killed") == 0
    with service(url_of(engine)) as running:
        assert post(running.url, body).json() == {"accepted": 3, "refused": []}
    assert rows_of(engine, "killed") > 0


def test_the_embedded_database_ends_too(tmp_path: Path) -> None:
    """A service on its own PostgreSQL stops it in order: nothing is left to recover."""
    data = tmp_path / "data"
    with service("", "--data", str(data)) as running:
        assert post(running.url, batch_of("embedded")).status_code == 200
        assert embedded.status(data) is not None
        running.signal(signal.SIGTERM)
        assert running.end() == 0
    assert embedded.status(data) is None
    with embedded.embedded_postgres(data):
        pass
    log = (data / "postgres.log").read_text()
    assert "recovery" not in log and "not properly shut down" not in log
