"""Failures of PostgreSQL, the network, another collector or our own code delay documents, but lose none."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, make_url, select, text
from sqlalchemy.exc import OperationalError
from tests.documents import LISTENER, OTHER_LISTENER, application, execution, planned, request
from tests.serve.real import (
    DOCUMENTS,
    SECONDS,
    dial,
    get,
    head,
    in_threads,
    locked,
    lost,
    post,
    sending,
    service,
    status,
    until,
    writers_that_wait,
)

from joinsight import tables
from joinsight.analysis.rows import Plans, execution_rows
from joinsight.contract.decode import HEADERS
from joinsight.contract.document import Document, Execution, Stage
from joinsight.demo.runner import collector
from joinsight.store import embedded, writer
from joinsight.store.database import connect, upgrade
from joinsight.store.writer import Writer

PLAN = """
SortMergeJoin | [k#1], [k#2], Inner | number of output rows={rows}
  Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3] | data size=4000, records read=1+2
  BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=9, time to collect=1500
"""
WRITTEN = ("updated_at", "first_heard_at", "last_heard_at")


def content(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, without the times when it was written."""
    with engine.connect() as connection:
        return {
            table.name: [
                {name: value for name, value in row.items() if name not in WRITTEN}
                for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()
            ]
            for table in tables.metadata.sorted_tables
        }


def of(found: dict[str, list[dict[str, Any]]], name: str) -> int:
    """How many of the rows are an application's."""
    return sum(row["application_id"] == name for rows in found.values() for row in rows if "application_id" in row)


def batch_of(name: str) -> list[Document]:
    documents: list[Document] = [application(application_id=name)]
    return documents + [planned(PLAN.format(rows=n), application_id=name, execution_id=n) for n in range(1, 4)]


@contextmanager
def collectors(engine: Engine, number: int) -> Iterator[list[str]]:
    """Several collectors on one database, each with its own connections, as in separate processes."""
    url = engine.url.render_as_string(hide_password=False)
    with ExitStack() as stack:
        engines = [stack.enter_context(connect(url)) for _ in range(number)]
        yield [stack.enter_context(collector(each, 0, []))[0] for each in engines]


# PostgreSQL


def kill(folder: Path) -> None:
    """kill -9 of the postmaster."""
    found = embedded.status(folder)
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)


@contextmanager
def started_again(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The killed one, at the same address."""
    until(lambda: not embedded.alive(folder), "its last process has gone")
    monkeypatch.setattr(embedded, "free_port", lambda: make_url(url).port)
    with embedded.embedded_postgres(folder) as again:
        assert again == url
        yield


@pytest.mark.matrix
def test_postgresql_is_killed_in_the_middle_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of the postmaster: 503, nothing half written; once it runs again the same collector takes the batch."""
    with embedded.embedded_postgres(tmp_path) as url, connect(url) as engine:
        upgrade(engine)
        with ExitStack() as stack, service(url) as running, dial(running.url) as sender:
            body = request(*batch_of("postmaster"))
            with pytest.raises(OperationalError), locked(engine, "execution_metrics"):
                sender.sendall(head(len(body)) + body)
                until(lambda: writers_that_wait(engine) == 1, "half of the batch is written")
                kill(tmp_path)
                assert status(sender) == 503
                for _ in range(3):
                    assert post(running.url, body).status_code == 503
                assert get(running.url + "/readyz").status_code == 503
                engine.connect()
            stack.enter_context(started_again(tmp_path, url, monkeypatch))
            assert of(content(engine), "postmaster") == 0
            answer = post(running.url, body)
            assert (answer.status_code, answer.json()) == (200, {"accepted": 4, "refused": []})
            until(lambda: running.logged("database available again"), "it is logged")
            assert len(running.logged("database unavailable")) == len(running.logged("database available again")) == 1
            until(lambda: get(running.url + "/readyz").status_code == 200, "it is ready again")


@pytest.mark.matrix
def test_documents_arrive_while_postgresql_and_a_collector_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two collectors take documents all the time: what they accepted is stored, and each document is accepted once the
    database is back, or the other collector is asked."""
    with embedded.embedded_postgres(tmp_path) as url, connect(url) as engine, ExitStack() as stack:
        upgrade(engine)
        with service(url) as one, service(url) as other, sending(one.url, other.url) as accepted:
            until(lambda: accepted, "documents arrive")
            kill(tmp_path)
            until(lambda: one.logged("database unavailable"), "one collector saw it")
            until(lambda: other.logged("database unavailable"), "the other one did")
            stack.enter_context(started_again(tmp_path, url, monkeypatch))
            before = len(accepted)
            until(lambda: len(accepted) > before + 2, "documents arrive again")
            one.signal(signal.SIGKILL)
            one.end()
            before = len(accepted)
            until(lambda: len(accepted) > before + 2, "the other collector takes them")
        assert not lost(engine, accepted)


def test_a_session_is_ended_in_the_middle_of_a_batch(engine: Engine) -> None:
    """503 and nothing half written; the next attempt succeeds."""
    body = request(*batch_of("session"))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with collectors(engine, 1) as (url,), dial(url) as sender:
        with locked(engine, "execution_metrics") as connection:
            sender.sendall(head(len(body)) + body)
            until(lambda: writers_that_wait(engine) == 1, "half of the batch is written")
            connection.execute(text(end))
            assert status(sender) == 503
        assert of(content(engine), "session") == 0
        assert post(url, body).json() == {"accepted": 4, "refused": []}
    assert of(content(engine), "session") > 0


# The network


def test_an_answer_that_gets_lost(engine: Engine) -> None:
    """A sender that is cut off before its answer finds the batch stored, and counted once, when it sends it again."""
    body = request(*batch_of("lost answer"))
    with collectors(engine, 1) as (url,):
        with dial(url) as sender, locked(engine):
            sender.sendall(head(len(body)) + body)
            until(lambda: writers_that_wait(engine) == 1, "the batch is being written")
            sender.close()
        until(lambda: of(content(engine), "lost answer"), "it is written nevertheless")
        before = content(engine)
        assert post(url, body).json() == {"accepted": 4, "refused": []}
        page = get(url + "/metrics").text
    assert content(engine) == before
    assert 'joinsight_executions_total{state="succeeded"} 3.0' in page
    assert 'joinsight_documents_total{outcome="stale"} 4.0' in page


# Two collectors


def history(names: list[str]) -> list[Document]:
    """All documents of some applications in the order in which they were made: progress, ends, a restarted listener."""
    made: list[Document] = []
    for name in names:
        for sequence in range(1, 13):
            n = sequence % 3
            over = sequence > 9
            common: dict[str, Any] = {"application_id": name, "sequence": sequence, "listener": LISTENER}
            if sequence in (1, 6, 12):
                ended = "ended" if sequence == 12 else "running"
                made.append(application(**common, state=ended, documents_made=sequence))
            state = "succeeded" if over else "running"
            made.append(planned(PLAN.format(rows=sequence), execution_id=n, **common, state=state))
    return made


@pytest.mark.matrix
def test_two_collectors_store_what_one_orderly_delivery_leaves(
    engine: Engine, make_database: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Documents repeated, reordered and sent to both at once leave what one orderly delivery leaves."""
    names = ["two-a", "two-b", "two-c"]
    made = history(names)
    with connect(make_database()) as orderly:
        upgrade(orderly)
        for document in made:
            Writer(orderly).write([document])
        expected = content(orderly)
    dice = random.Random(7)
    statuses: list[int] = []

    def sender(url: str, seed: int) -> Callable[[], None]:
        mine = random.Random(seed)
        documents = made * 2
        mine.shuffle(documents)
        batches = [request(*documents[start : start + 9]) for start in range(0, len(documents), 9)]

        def run() -> None:
            with httpx.Client(base_url=url, headers=HEADERS, timeout=SECONDS) as client:
                for body in batches:
                    while (code := client.post(DOCUMENTS, content=body).status_code) in (429, 503):
                        statuses.append(code)
                    statuses.append(code)

        return run

    with collectors(engine, 2) as urls:
        in_threads(*(sender(url, dice.randrange(1_000)) for url in urls * 3))()
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) == 6 * len(range(0, 2 * len(made), 9))
    found = content(engine)
    mine = {table: [row for row in rows if row.get("application_id") in names] for table, rows in found.items()}
    assert mine == expected
    assert "deadlock" not in str([getattr(record, "fields", "") for record in caplog.records])


@pytest.mark.matrix
def test_one_batch_to_both_at_once(engine: Engine) -> None:
    """Each round both answer 200, and the batch is stored once."""
    with collectors(engine, 2) as urls:
        for number in range(15):
            body = request(*batch_of(f"both-{number}"))
            statuses: list[int] = []

            def send(url: str, body: bytes = body, statuses: list[int] = statuses) -> None:
                statuses.append(post(url, body).status_code)

            in_threads(*(lambda url=url: send(url) for url in urls * 2))()
            assert statuses == [200] * 4  # no deadlock either: all lock in the same order
    for number in range(15):
        with engine.connect() as connection:
            c = tables.execution.c
            ids = select(c.execution_id).where(c.application_id == f"both-{number}").order_by(c.execution_id)
            assert list(connection.scalars(ids)) == [1, 2, 3]


def test_restarted_listener_is_the_later_one(engine: Engine) -> None:
    """With two listeners of one application the unfinished document yields, whichever collector receives it first."""
    with collectors(engine, 2) as (one, other):
        final = execution(application_id="two listeners", sequence=5)
        running = execution(application_id="two listeners", sequence=9, state="running", listener=OTHER_LISTENER)
        assert post(one, request(final)).status_code == 200
        assert post(other, request(running)).status_code == 200
    with engine.connect() as connection:
        c = tables.execution.c
        state = select(c.state).where(c.application_id == "two listeners")
        assert connection.scalar(state) == "succeeded"


# Our own code


def test_a_document_that_we_fail_to_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal error while making rows permanently refuses that document; the others are stored.

    The traceback is logged, and the fault of nobody but us: sent again, the batch would fail for ever.
    """

    def faulty(e: Execution, plans: Plans | None = None) -> Any:
        if e.description == "unthought of":
            raise ZeroDivisionError("division by zero")
        return execution_rows(e, plans)

    monkeypatch.setattr(writer, "execution_rows", faulty)
    twice = [Stage(7, 0, "a stage", 1, "succeeded")] * 2
    lines = (
        execution(application_id="fault", execution_id=1),
        execution(application_id="fault", execution_id=2, description="unthought of"),
        execution(application_id="fault", execution_id=3, stages=twice),
        execution(application_id="fault", execution_id=4),
    )
    with collectors(engine, 1) as (url,):
        answer = post(url, request(*lines))
    assert answer.status_code == 400
    assert [refused["line"] for refused in answer.json()["refused"]] == [2, 3]
    assert answer.json()["refused"][0]["reason"] == "could not be read: ZeroDivisionError: division by zero"
    assert answer.json()["accepted"] == 2
    assert [row["execution_id"] for row in content(engine)["execution"] if row["application_id"] == "fault"] == [1, 4]
    assert "ZeroDivisionError" in caplog.text and "Traceback" in caplog.text


def test_any_other_fault_is_no_verdict(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is not of one document's reading refuses nothing: 500, and the batch is taken afterwards."""
    body = request(*batch_of("other fault"))
    with collectors(engine, 1) as (url,):
        with monkeypatch.context() as broken:

            def fault(_: object, executions: Collection[object]) -> None:
                if executions:
                    raise RuntimeError("can't start new thread")

            broken.setattr(writer, "_write_executions", fault)
            assert post(url, body).status_code == 500
            assert of(content(engine), "other fault") == 0
        assert post(url, body).json() == {"accepted": 4, "refused": []}
