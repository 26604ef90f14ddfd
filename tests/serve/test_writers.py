"""Processes that write: they do what the collector's own process does, and may end at any time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.exc import OperationalError
from tests.documents import execution, request
from tests.serve.real import Service, get, in_threads, locked, post, service, until, writers_that_wait
from tests.serve.test_ingest import LONG, make_ingest, of, pending, stored
from tests.store.test_embedded import with_proc

from joinsight.base.errors import DocumentError
from joinsight.findings import Thresholds
from joinsight.serve import writers as writers_module
from joinsight.serve.admission import MAX_WRITING
from joinsight.serve.ingest_request import Closed, Ingested, IngestRequest, RetryAlone, WorkerDied
from joinsight.serve.metrics import Metrics
from joinsight.serve.writers import Writers
from joinsight.store.database import reason


@contextmanager
def writing(engine: Engine, number: int = 2, metrics: Metrics | None = None) -> Iterator[Writers]:
    writers = Writers(engine, Thresholds(), metrics or Metrics(5), number, "text")
    try:
        yield writers
    finally:
        writers.end()
        assert not processes()


def processes() -> list[int]:
    """The ids of all processes that write."""
    return [each.pid or 0 for each in multiprocessing.active_children() if each.name == "joinsight-writer"]


def group(prefix: str) -> list[IngestRequest]:
    """Good and bad requests of several senders."""
    mixed = (
        execution(application_id=f"{prefix}b"),
        b"no JSON",
        execution(application_id=f"{prefix}b", execution_id=1, job_name=LONG),
    )
    return [pending(each) for each in (of(f"{prefix}a"), request(*mixed), b"no gzip", of(f"{prefix}c"))]


def counted(metrics: Metrics) -> list[str]:
    """The lines of the page that depend on documents, not on time."""
    names = ("joinsight_documents", "joinsight_refused", "joinsight_exec", "joinsight_job", "joinsight_batch")
    return [line for line in metrics.page().decode().splitlines() if line.startswith(names) and "_created" not in line]


def test_results_and_metrics_are_those_of_one_process(engine: Engine) -> None:
    here, there = Metrics(5), Metrics(5)
    own = group("local-")  # with the length of "there-", for an error names the size of an index row
    make_ingest(engine, here).ingest(own)
    with writing(engine, metrics=there) as writers:
        assert len(processes()) == 2
        for number in range(MAX_WRITING):  # each slot
            others = group("there-") if number == 0 else [pending(of(f"there-{number}"))]
            writers.ingest(others)
            if number == 0:
                assert counted(there) == counted(here)
                for one, other in zip(own, others, strict=True):
                    if (error := one.result.exception()) is None:
                        assert one.result.result() == other.result.result()
                    else:
                        assert isinstance(error, DocumentError)
                        assert str(other.result.exception()) == str(error)
            else:
                assert others[0].result.result() == Ingested(1, [])
        assert writers.writing == 0
    assert stored(engine, "there-").keys() == {f"there-{name}" for name in "abc123"}


def test_a_large_body_is_passed_without_copies_of_it(engine: Engine) -> None:
    """Threads of the collector would keep their memory: 8 senders took it from 90 to 650 MiB."""
    with writing(engine, 1) as writers:
        large = pending(b"no gzip" * (2 << 20))
        tracemalloc.start()
        writers.ingest([large])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert isinstance(large.result.exception(), DocumentError)
    assert peak < len(large.body) / 2


@pytest.mark.parametrize("alone", [False, True])
def test_a_process_is_killed(engine: Engine, alone: bool) -> None:
    """Its requests fail, as after any other error; another process takes its place."""
    prefix = f"killed-{alone}-"
    with writing(engine, 1) as writers:
        writers.ingest([first := pending(of(f"{prefix}first"))])
        [killed] = processes()
        os.kill(killed, signal.SIGSTOP)
        lost = (
            [pending(of(f"{prefix}lost"), alone=True)] if alone else [pending(of(f"{prefix}{each}")) for each in "ab"]
        )
        thread = threading.Thread(target=writers.ingest, args=(lost,))
        thread.start()
        until(lambda: writers.writing == len(lost), "the process has the requests")
        os.kill(killed, signal.SIGKILL)
        thread.join()
        assert [type(each.result.exception()) for each in lost] == ([WorkerDied] if alone else [RetryAlone] * 2)
        until(lambda: processes() and killed not in processes(), "another one has started")
        for number in range(MAX_WRITING):
            writers.ingest([again := pending(of(f"{prefix}again", number))])
            assert again.result.result() == Ingested(1, [])
        assert first.result.result() == Ingested(1, []) and killed not in processes()
    assert stored(engine, prefix).keys() == {f"{prefix}first", f"{prefix}again"}


def test_without_a_database() -> None:
    """The error is the one that the collector tells its senders of; a process does not end because of it."""
    nowhere = create_engine(make_url("postgresql+psycopg://nobody@127.0.0.1:1/nothing"))
    with writing(nowhere, 1) as writers:
        running = processes()
        for _ in range(2):
            writers.ingest([request := pending(of("nowhere"), alone=True)])
            error = request.result.exception()
            assert isinstance(error, OperationalError) and "refused" in reason(error)
        assert processes() == running


def test_requests_after_the_end_are_refused(engine: Engine) -> None:
    """Nothing is written any more, and each request is told."""
    with writing(engine, 1) as writers:
        writers.ingest([pending(of("closing"))])
        writers.close()

        def is_closed() -> bool:
            writers.ingest([late := pending(of("closing-late"), alone=True)])
            return isinstance(late.result.exception(), Closed)

        until(is_closed, "the process knows")
        before = stored(engine, "closing-late")
        assert is_closed() and stored(engine, "closing-late") == before


def test_a_request_that_comes_after_the_end_fails(engine: Engine) -> None:
    """It does not wait for a slot for ever: a thread may start it while the collector ends."""
    with writing(engine, 1) as writers:
        pass
    late = pending(of("after the end"))
    in_threads(lambda: writers.ingest([late]))()
    assert isinstance(late.result.exception(), Closed)


def test_a_process_that_hangs_does_not_hold_up_the_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a collector does not wait for it; its requests fail."""
    monkeypatch.setattr(writers_module, "END_SECONDS", 0.1)
    with writing(engine, 1) as writers:
        [hanging] = processes()
        os.kill(hanging, signal.SIGSTOP)
        stuck = pending(of("hanging"), alone=True)
        thread = threading.Thread(target=writers.ingest, args=([stuck],))
        thread.start()
        until(lambda: writers._free.qsize() == MAX_WRITING - 1, "it has a slot")
    thread.join()
    assert isinstance(stuck.result.exception(), WorkerDied)


@pytest.mark.matrix
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_an_idle_process_that_ends_or_stands_still_is_replaced(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    """Before it has a request, and also when a request is larger than what the pipe holds."""
    monkeypatch.setattr(writers_module, "_WATCH_SECONDS", 0.1)
    with writing(engine, 1) as writers:
        writers.ingest([pending(of("idle"))])
        [idle] = processes()
        until(lambda: writers._processes[0]._started, "it has given a sign of life")
        os.kill(idle, end)
        if end == signal.SIGSTOP:
            monkeypatch.setattr(writers_module, "STILL_SECONDS", 0.1)
        large = pending(os.urandom(4 << 20))
        if end == signal.SIGSTOP:
            writers.ingest([large])
            assert isinstance(large.result.exception(), RetryAlone)
            monkeypatch.setattr(writers_module, "STILL_SECONDS", 1_200)
        until(lambda: processes() and idle not in processes(), "another one has started")
        writers.ingest([again := pending(of("idle", 1))])
        assert again.result.result() == Ingested(1, [])


@pytest.mark.matrix
@with_proc
def test_a_sender_does_not_notice_that_a_process_is_killed(engine: Engine) -> None:
    """Its request is written again by the next process; a second kill is answered 503, and no traceback is logged."""
    url = engine.url.render_as_string(hide_password=False)
    with service(url, "--writers", "1") as collector:
        assert post(collector.url, of("killed")).status_code == 200
        answers: list[int] = []
        for kills in (1, 2):
            answers.clear()
            with locked(engine):
                join = in_threads(lambda: answers.append(post(collector.url, of("killed", kills)).status_code))  # noqa: B023
                for number in range(kills):  # PostgreSQL goes on waiting for those that are killed
                    until(lambda: writers_that_wait(engine) == number + 1, "it is being written")  # noqa: B023
                    [victim] = writers_of(collector)
                    os.kill(victim, signal.SIGKILL)
                    until(lambda: victim not in writers_of(collector), "it has ended")  # noqa: B023
            join()
            assert answers == [200 if kills == 1 else 503]
            until(lambda: writers_that_wait(engine) == 0, "all have the lock")
        assert not [event for event in collector.log if "exception" in event]


def writers_of(collector: Service) -> list[int]:
    """The ids of the processes that write for a service."""
    threads = Path(f"/proc/{collector.process.pid}/task").iterdir()  # any may have started one
    children = [each for thread in threads for each in (thread / "children").read_text().split()]
    return [int(each) for each in children if b"spawn_main" in Path("/proc", each, "cmdline").read_bytes()]


@pytest.mark.matrix
@with_proc
def test_writers_do_not_outlive_their_collector(engine: Engine) -> None:
    """It counts what they wrote, ends them when it ends, and they do not outlive it when it is killed."""
    url = engine.url.render_as_string(hide_password=False)
    for number in (signal.SIGTERM, signal.SIGKILL):
        name = f"collector-{number.name}"
        with service(url, "--writers", "2") as collector:
            for index in range(2):  # so that both processes have started
                assert post(collector.url, of(name, index)).status_code == 200
            assert 'joinsight_documents_total{outcome="stored"} 2.0' in get(collector.url + "/metrics").text
            writers = [Path("/proc", str(each)) for each in writers_of(collector)]
            assert len(writers) == 2
            if number == signal.SIGTERM:
                for each in writers:
                    os.kill(int(each.name), number)  # as systemd does
                assert post(collector.url, of(name, 2)).status_code == 200
            collector.signal(number)
            assert collector.end() == (0 if number == signal.SIGTERM else -signal.SIGKILL)
            until(lambda: not any(each.exists() for each in writers), "they have ended")  # noqa: B023
        assert stored(engine, name)
