"""Ingests requests in processes of their own, because Python uses one core a process: for collectors under load.

Each process has an `Ingest` with an engine of its own, and threads for its share of the slots of `admission`: all else,
HTTP, limits, metrics, pages and periodic work, stays in the collector's own process. A slot is a pipe: one group of
requests goes in, their results and what was counted come out. A process that ends is replaced; the requests that it was
at are written again, alone, and PostgreSQL rolls back what was not committed. A process that stands still is killed.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from sqlalchemy import URL, Engine

from joinsight.base.gc_tuning import collect_seldom
from joinsight.findings import FindingsEngine, Thresholds
from joinsight.serve.admission import MAX_WRITING
from joinsight.serve.ingest import Ingest, Writing, fail
from joinsight.serve.ingest_request import Closed, Ingested, IngestRequest, RetryAlone, WorkerDied
from joinsight.serve.logs import configure, fields
from joinsight.serve.metrics import Call, Metrics, Recorder
from joinsight.store.database import embedded_folder, engine_for

END_SECONDS = 5
"""Longest wait for a process that has been asked to end."""

STILL_SECONDS = 30
"""A process that gives no sign of life for this long, however much it has to do, is killed."""
START_SECONDS = 600
"""`STILL_SECONDS` for a process that starts."""
_WATCH_SECONDS = 5
_CHUNK = 1 << 20
"""Bytes of a body in one message: copies of large bodies would leave a thread with memory that the system needs."""

log = logging.getLogger("joinsight")

_Result = Ingested | tuple[BaseException, str]
_Reply = tuple[list[_Result], list[Call]]
_Running = tuple[BaseProcess, list[Connection]]
"""A process, with a pipe for each of its slots and one that asks for a sign of life, and tells it to close."""


class _Remote(Exception):
    """The traceback of an exception in another process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class _Work:
    """What a process needs to know."""

    url: URL
    folder: Path | None
    thresholds: Thresholds
    log_format: str


class Writers:
    """Writes requests to the database, as `Ingest` does, in `number` processes; safe to use from several threads."""

    def __init__(self, engine: Engine, thresholds: Thresholds, metrics: Metrics, number: int, log_format: str) -> None:
        work = _Work(engine.url, embedded_folder(engine), thresholds, log_format)
        slots = [len(range(index, MAX_WRITING, number)) for index in range(number)]
        self._processes = [_Process(work, count) for count in slots]
        self._free: queue.SimpleQueue[tuple[_Process, int] | None] = queue.SimpleQueue()
        """Free slots; None after the end, for all that come then."""
        for slot in range(MAX_WRITING):  # of each process in turn
            self._free.put((self._processes[slot % number], slot // number))
        self._metrics = metrics
        self._writing = Writing()

    @property
    def writing(self) -> int:
        """Number of requests that are being decoded and written."""
        return self._writing.requests

    def close(self) -> None:
        """Abort batches that are not being written yet, at their next plan."""
        for process in self._processes:
            process.close()

    def end(self) -> None:
        """End the processes, and what they are still writing after some seconds."""
        with suppress(queue.Empty):
            for _ in range(MAX_WRITING):
                if free := self._free.get(timeout=END_SECONDS):
                    process, slot = free
                    process.hang_up(slot)
        self._free.put(None)
        for each in self._processes:
            each.end()

    def ingest(self, requests: Sequence[IngestRequest]) -> None:
        """Commit the documents of each request, except those that will never be accepted, and set its result."""
        with self._writing.of(requests):
            free = self._free.get()
            if free is None:
                self._free.put(None)
                fail(requests, Closed(), is_group=len(requests) > 1)
                return
            process, slot = free
            try:
                results, calls = process.ask(slot, requests)
                self._metrics.add(calls)
                for request, result in zip(requests, results, strict=True):
                    if isinstance(result, Ingested):
                        request.result.set_result(result)
                    else:
                        error, where = result
                        error.__cause__ = _Remote(where)
                        request.result.set_exception(error)
            except WorkerDied as lost:
                for request in requests:
                    request.result.set_exception(lost if request.alone else RetryAlone())
            except BaseException as error:
                fail([each for each in requests if not each.result.done()], error, is_group=len(requests) > 1)
            finally:
                self._free.put(free)


class _Process:
    """A process, which is replaced when it ends."""

    def __init__(self, work: _Work, slots: int) -> None:
        self._work = work
        self._slots = slots
        self._lock = threading.Lock()
        self._closed = False
        self._started: BaseProcess | None = None  # it has given a sign of life
        self._running = self._start()
        threading.Thread(target=self._watch, name="joinsight-watch-writer", daemon=True).start()

    def _watch(self) -> None:
        """Replace the process when it has ended or stands still; until the end."""
        while not self._closed:
            process, pipes = self._running
            alive = False
            with suppress(EOFError, OSError):
                alive = self._answers(process, pipes[-1])
            if alive:
                time.sleep(_WATCH_SECONDS)
            elif not self._closed:
                self._replace(process)

    def _answers(self, process: BaseProcess, pipe: Connection) -> bool:
        """Whether the process gives a sign of life in time. Raises `EOFError` or `OSError` if it has ended."""
        pipe.send(None)
        asked_at = time.monotonic()
        while not pipe.poll(_WATCH_SECONDS):
            if time.monotonic() - asked_at > (STILL_SECONDS if process is self._started else START_SECONDS):
                return False
        pipe.recv()
        self._started = process
        return True

    def _start(self) -> _Running:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(self._slots + 1)]
        theirs = [each for _, each in pipes]
        process = context.Process(target=_run, args=(self._work, theirs), name="joinsight-writer", daemon=True)
        process.start()
        for each in theirs:
            each.close()  # only the process has them, so its end is seen
        return process, [ours for ours, _ in pipes]

    def ask(self, slot: int, requests: Sequence[IngestRequest]) -> _Reply:
        """What the process replies. Raises `WorkerDied` if it ends."""
        process, pipes = self._running
        try:
            _send(pipes[slot], requests)
            reply: _Reply = pipes[slot].recv()
            return reply
        except (EOFError, OSError):
            self._replace(process)
            raise WorkerDied(f"a process that wrote documents ended with exit code {process.exitcode}") from None

    def _replace(self, ended: BaseProcess) -> None:
        """Start another process instead, unless that was done already."""
        with self._lock:
            ended.kill()  # its pipe is closed, so it is at its end anyway, or it stands still
            ended.join()
            if self._running[0] is ended and not self._closed:
                message = "a process that writes documents ended or stood still: another one starts"
                log.error(message, extra=fields(exit_code=ended.exitcode))
                self._running = self._start()

    def close(self) -> None:
        """Tell the process to abort what is not being written yet; it is not replaced any more."""
        with self._lock:
            self._closed = True
            self._running[1][-1].close()

    def hang_up(self, slot: int) -> None:
        """Close the pipe of a slot that nobody uses."""
        self._running[1][slot].close()

    def end(self) -> None:
        """Wait some seconds for the process to end, then kill it."""
        self.close()
        process = self._running[0]
        with self._lock:  # two threads that wait for one process confuse each other (in multiprocessing)
            process.join(END_SECONDS)
            process.kill()
            process.join()


def _run(work: _Work, pipes: list[Connection]) -> None:
    """A process, until the pipes are closed: by the collector, or by its end."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the collector decides when
        signal.signal(number, signal.SIG_IGN)
    configure(work.log_format)
    collect_seldom()
    recorder = Recorder()
    ingest = Ingest(engine_for(work.url, work.folder), FindingsEngine(work.thresholds), recorder)
    threads = [threading.Thread(target=_serve, args=(pipe, ingest, recorder)) for pipe in pipes[:-1]]
    for thread in threads:
        thread.start()
    with suppress(EOFError, OSError):
        while True:
            pipes[-1].recv()
            pipes[-1].send(None)
    ingest.close()


def _serve(pipe: Connection, ingest: Ingest, recorder: Recorder) -> None:
    """The work of a slot."""
    with suppress(EOFError, OSError):
        while True:
            pendings = _receive(pipe)
            ingest.ingest(pendings)
            pipe.send(([_result(each) for each in pendings], recorder.take()))
            del pendings  # before it waits


def _send(pipe: Connection, requests: Sequence[IngestRequest]) -> None:
    starts = [range(0, len(each.body), _CHUNK) for each in requests]
    pipe.send([(len(chunks), each.sender, each.alone) for chunks, each in zip(starts, requests, strict=True)])
    for chunks, each in zip(starts, requests, strict=True):
        for start in chunks:
            pipe.send_bytes(each.body[start : start + _CHUNK])


def _receive(pipe: Connection) -> list[IngestRequest]:
    requests = []
    for chunks, sender, alone in pipe.recv():
        request = IngestRequest(bytearray(), sender, alone)
        for _ in range(chunks):
            request.body += pipe.recv_bytes()
        requests.append(request)
    return requests


def _result(pending: IngestRequest) -> _Result:
    error = pending.result.exception()
    if error is None:
        return pending.result.result()
    where = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, where
