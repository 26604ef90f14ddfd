"""Requests that are written together: each has the result that it would have alone."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import Connection, Engine, text
from tests.documents import execution, request
from tests.serve.real import get, in_threads, post, until, writers_that_wait

from joinsight.analysis.rows import Rows
from joinsight.base.errors import DocumentError
from joinsight.contract import decode
from joinsight.demo.runner import collector
from joinsight.findings import FindingsEngine
from joinsight.serve import admission, ingest
from joinsight.serve.admission import Busy
from joinsight.serve.ingest import Ingest
from joinsight.serve.ingest_request import Closed, Ingested, IngestRequest, RetryAlone
from joinsight.serve.metrics import Metrics
from joinsight.store import writer

LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5_000))  # too long for an index


def pending(body: bytes, alone: bool = False) -> IngestRequest:
    return IngestRequest(bytearray(body), {"client": "127.0.0.1", "token": None}, alone)


def of(name: str, number: int = 0) -> bytes:
    """The body of a request with one execution of an application."""
    return request(execution(application_id=name, execution_id=number))


def stored(engine: Engine, prefix: str) -> dict[str, int]:
    """The applications with this prefix that have executions, and the transaction that wrote the last of them."""
    rows = "SELECT application_id, max(CAST(CAST(xmin AS text) AS bigint)) FROM execution"
    statement = text(f"{rows} WHERE application_id LIKE :prefix GROUP BY 1")
    with engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(statement, {"prefix": f"{prefix}%"})}


@contextmanager
def held(engine: Engine, *names: str) -> Iterator[None]:
    """Lock the rows of these applications, which are stored first."""
    for name in names:
        writer.Writer(engine).write([execution(application_id=name, execution_id=1_000)])
    with engine.connect() as connection:
        lock = text("SELECT 1 FROM application WHERE application_id = ANY(:names) FOR UPDATE")
        connection.execute(lock, {"names": list(names)})
        yield


def make_ingest(engine: Engine, metrics: Metrics | None = None) -> Ingest:
    return Ingest(engine, FindingsEngine(), metrics or Metrics(5))


def test_each_has_its_own_result(engine: Engine) -> None:
    """Bad lines, documents that only PostgreSQL refuses, and bodies that are no request concern only their sender."""
    mixed = (
        execution(application_id="own-b"),
        b"no JSON",
        execution(application_id="own-b", execution_id=1, job_name=LONG),
    )
    group = [pending(each) for each in (of("own-a"), request(*mixed), b"no gzip", of("own-c"), of("own-a"))]
    make_ingest(engine).ingest(group)
    assert group[0].result.result() == Ingested(1, [])
    accepted = group[1].result.result()
    assert (accepted.accepted, [line for line, _ in accepted.refused]) == (1, [2, 3])
    assert "exceeds btree version" in accepted.refused[1][1]
    with pytest.raises(DocumentError, match="not gzip"):
        group[2].result.result()
    assert group[3].result.result() == group[4].result.result() == Ingested(1, [])
    assert stored(engine, "own-").keys() == {"own-a", "own-b", "own-c"}


def test_a_lock_that_one_needs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group waits less for it, and nothing of the group is written; alone, the others are."""
    monkeypatch.setattr(ingest, "GROUP_LOCK_SECONDS", 1)
    monkeypatch.setattr(ingest, "LOCK_SECONDS", 600)
    shared = make_ingest(engine)
    with held(engine, "lock-stuck"):
        group = [pending(of(name)) for name in ("lock-stuck", "lock-good")]
        shared.ingest(group)
        assert all(isinstance(each.result.exception(), RetryAlone) for each in group)
        assert "lock-good" not in stored(engine, "lock-")
        shared.ingest([good := pending(of("lock-good"), alone=True)])
        assert good.result.result() == Ingested(1, [])
        assert "lock-good" in stored(engine, "lock-")
    shared.ingest([stuck := pending(of("lock-stuck"), alone=True)])
    assert stuck.result.result() == Ingested(1, [])


@pytest.mark.parametrize("is_bad", [False, True], ids=["good", "bad"])
def test_waiting_requests_are_written_in_one_transaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_bad: bool
) -> None:
    """Requests that wait for a slot are written in one transaction; if one of them is at fault, it alone fails."""
    prefix = f"http-{is_bad}-"
    copy = writer._write_executions

    def faulty(connection: Connection, executions: Sequence[Rows]) -> None:
        if is_bad and any(rows.execution.application_id == f"{prefix}c" for rows in executions):
            raise RuntimeError("unthought of")
        copy(connection, executions)

    monkeypatch.setattr(writer, "_write_executions", faulty)
    monkeypatch.setattr(admission, "MAX_WRITING", 1)
    answers: dict[str, int] = {}

    def send(name: str) -> None:
        answers[name] = post(url, of(f"{prefix}{name}")).status_code

    with collector(engine, 0, []) as (url, _):
        with held(engine, f"{prefix}first"):
            join_first = in_threads(lambda: send("first"))
            until(lambda: writers_that_wait(engine) == 1, "the slot is taken")
            join = in_threads(*(lambda name=name: send(name) for name in "abc"))
            until(lambda: "waiting 4.0" in get(url + "/metrics").text, "the others wait")
        join_first()
        join()
    assert answers == {"first": 200, "a": 200, "b": 200, "c": 500 if is_bad else 200}
    found = stored(engine, prefix)
    assert found.keys() == {f"{prefix}{name}" for name in ("first", *"abc"[: 3 - is_bad])}
    assert len(set(found.values())) == (3 if is_bad else 2)


def test_documents_over_the_bounds_are_written_one_by_one(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with more parts than a transaction takes are written one after the other."""
    shared = make_ingest(engine)
    shared.ingest(group := [pending(of(f"parts-{number}")) for number in range(3)])
    assert len(set(stored(engine, "parts-").values())) == 1
    monkeypatch.setattr(ingest, "MAX_GROUP_PARTS", 10)
    tagged = [execution(application_id=f"parts-{number}", execution_id=1, job_tags=["x"] * 10) for number in range(3)]
    shared.ingest(group := [pending(request(each)) for each in tagged])
    assert [each.result.result() for each in group] == [Ingested(1, [])] * 3
    assert len(set(stored(engine, "parts-").values())) == 3


def test_large_requests_take_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time is decoded and written, and small ones of its group before it; one more waits, until the end."""
    monkeypatch.setattr(decode, "LARGE_UNPACKED_BYTES", 10_000)
    large = request(*(execution(application_id="turn-large", execution_id=number) for number in range(20)))
    shared = make_ingest(engine)
    first, third, *group = (pending(each) for each in (large, large, large, of("turn-small")))
    with held(engine, "turn-large"):
        join_first = in_threads(lambda: shared.ingest([first]))
        until(lambda: writers_that_wait(engine) == 1, "the first one is being written")
        join_group = in_threads(lambda: shared.ingest(group))
        assert group[1].result.result() == Ingested(1, [])
        join_third = in_threads(lambda: shared.ingest([third]))
        until(lambda: group[0].result.done() or third.result.done(), "one of the others is refused")
        shared.close()
        join_group()
        join_third()
        assert {type(each.result.exception()) for each in (group[0], third)} == {Busy, Closed}
    join_first()
    assert first.result.result() == Ingested(20, [])


def test_a_large_request_that_waits_holds_no_other(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decoded before it is gone when it takes its turn, as each takes much memory."""
    monkeypatch.setattr(decode, "LARGE_UNPACKED_BYTES", 0)
    take_turn = Ingest._take_turn
    decoded: list[int] = []

    def count(self: Ingest, turn: ExitStack, large: IngestRequest) -> None:
        decoded.append(sum(isinstance(each, decode.Batch) and bool(each.documents) for each in gc.get_objects()))
        take_turn(self, turn, large)

    monkeypatch.setattr(Ingest, "_take_turn", count)
    gc.collect()
    make_ingest(engine).ingest(group := [pending(of("held", number)) for number in range(3)])
    assert [each.result.result() for each in group] == [Ingested(1, [])] * 3
    assert decoded == [decoded[0]] * 3


def test_requests_after_the_end_are_refused(engine: Engine) -> None:
    """Nothing is written, and each request is told."""
    shared = make_ingest(engine)
    shared.close()
    shared.ingest(group := [pending(of("closed-a")), pending(of("closed-b"))])
    assert all(isinstance(each.result.exception(), Closed) for each in group)
    assert not stored(engine, "closed-")


def test_a_sender_that_no_longer_waits(engine: Engine) -> None:
    """Its documents are written, and so are the others'."""
    group = [pending(of("gone-a")), pending(of("gone-b"))]
    assert not group[0].result.cancel()
    make_ingest(engine).ingest(group)
    assert [each.result.result() for each in group] == [Ingested(1, [])] * 2
