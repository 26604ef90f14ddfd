"""Ingests requests: decodes, writes and counts their documents, and reports refused ones. Independent of HTTP.

Requests that arrive while others are written are written together, in one transaction: each transaction costs as much
as several documents. Each request still gets its own result, after the commit. If anything goes wrong, except that
PostgreSQL refuses a document, which the writer isolates, each request of the group is written again, alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Engine, event

from joinsight.base.errors import DocumentError, TooLarge
from joinsight.contract.decode import Batch, Header, decode_request
from joinsight.contract.document import Document
from joinsight.findings import FindingsEngine
from joinsight.serve.admission import Busy
from joinsight.serve.ingest_request import Closed, Ingested, IngestRequest, RetryAlone
from joinsight.serve.logs import fields
from joinsight.serve.metrics import WriterCounts
from joinsight.store.writer import Writer, Written

LOCK_SECONDS = 10
"""Longest wait for a lock in PostgreSQL, of another writer or of someone who alters a table."""
GROUP_LOCK_SECONDS = 2
"""`LOCK_SECONDS` for requests that are written together, so that none waits long for a lock that another one needs."""
MAX_GROUP_PARTS = 50_000
"""Maximum nodes, metrics, tags and other parts of requests that are written together: some 100 usual documents."""
MAX_LARGE = 2
"""Maximum large requests at a time: one that is decoded and written, and one that waits for it."""
_LOGGED_REFUSALS = 5

log = logging.getLogger("joinsight")


class Writing:
    """How many requests are being decoded and written; safe to use from several threads."""

    def __init__(self) -> None:
        self._by_thread: dict[int, int] = {}  # its operations are atomic

    @property
    def requests(self) -> int:
        """Their number."""
        return sum(list(self._by_thread.values()))

    @contextmanager
    def of(self, requests: Sequence[IngestRequest]) -> Iterator[None]:
        """Count these until the context ends."""
        self._by_thread[threading.get_ident()] = len(requests)
        try:
            yield
        finally:
            del self._by_thread[threading.get_ident()]


class _Deferred(Exception):
    """A request is large, so it is decoded alone."""


class Ingest:
    """Writes requests to the database; safe to use from several threads."""

    def __init__(self, engine: Engine, findings: FindingsEngine, metrics: WriterCounts) -> None:
        event.listen(engine, "connect", _limit_locks)
        engine.dispose()  # existing connections have no limit
        self._writer = Writer(engine, findings, self._check_cancelled)
        self._metrics = metrics
        self._writing = Writing()
        self._large = threading.Semaphore(MAX_LARGE)
        self._turn = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Abort batches that are not being written yet, at their next plan."""
        self._closed = True

    def end(self) -> None:
        """Nothing is left to end."""

    @property
    def writing(self) -> int:
        """Number of requests that are being decoded and written."""
        return self._writing.requests

    def ingest(self, requests: Sequence[IngestRequest]) -> None:
        """Commit the documents of each request, except those that will never be accepted, and set its result."""
        together: Sequence[tuple[IngestRequest, Batch]]
        waiting: Sequence[IngestRequest]
        alone = list(requests) if len(requests) == 1 else []
        with self._writing.of(requests):
            try:
                waiting = [] if alone else sorted(requests, key=lambda each: len(each.body))  # quick ones first
                while waiting or alone:
                    with ExitStack() as turn:
                        if waiting:
                            together, waiting = self._decode(waiting, partial(_defer, alone))
                        else:
                            together, _ = self._decode([alone.pop()], partial(self._take_turn, turn))
                        if together:
                            self._write(together)
                        together = ()  # before another one takes its turn
            except BaseException as error:
                undone = [each for each in requests if not each.result.done()]
                fail(undone, error, is_group=len(requests) > 1)
                alone.clear()  # an exception refers to it and these: else both would stay
                requests, waiting, together, undone = (), (), (), []

    def _check_cancelled(self) -> None:
        """Raise `Closed` after `close`."""
        if self._closed:
            raise Closed

    def _decode(
        self, requests: Sequence[IngestRequest], before_large: Callable[[IngestRequest], None]
    ) -> tuple[list[tuple[IngestRequest, Batch]], Sequence[IngestRequest]]:
        """Those of the first requests that are written together; and the rest, not decoded, as it would take memory."""
        together: list[tuple[IngestRequest, Batch]] = []
        parts = 0
        for position, request in enumerate(requests):
            self._check_cancelled()
            started = time.perf_counter()
            try:
                batch = decode_request(request.body, partial(before_large, request))
            except _Deferred:
                continue
            except Busy as error:
                request.result.set_exception(error.with_traceback(None))
                continue
            except (DocumentError, TooLarge) as error:
                self._count_received(request)
                request.result.set_exception(error.with_traceback(None))
                continue
            parts += sum(number for unit, number in batch.size.items() if unit not in ("characters", "named stages"))
            parts += len(batch.documents) + len(batch.refused)
            if together and parts > MAX_GROUP_PARTS:
                return together, requests[position:]
            self._count_received(request, batch, time.perf_counter() - started)
            together.append((request, batch))
        return together, ()

    def _take_turn(self, turn: ExitStack, _: IngestRequest) -> None:
        """Wait until no other large request is decoded or written, as each takes much memory; `turn` ends that.

        Raises `Busy` if too many wait, as each takes a slot.
        """
        if not self._large.acquire(blocking=False):
            raise Busy("too many large requests")
        turn.callback(self._large.release)
        while not self._turn.acquire(timeout=1):
            self._check_cancelled()
        turn.callback(self._turn.release)

    def _count_received(self, request: IngestRequest, batch: Batch | None = None, seconds: float = 0) -> None:
        if request.alone:
            return  # it was counted together with others
        self._metrics.count("joinsight_received_bytes_total", len(request.body))
        if batch is not None:
            self._metrics.observe("joinsight_decode_seconds", seconds)
            self._metrics.observe("joinsight_batch_documents", len(batch.documents) + len(batch.refused))

    def _write(self, together: Sequence[tuple[IngestRequest, Batch]]) -> None:
        """Write these requests in one transaction, and set their results."""
        started = time.perf_counter()
        documents = [document for _, batch in together for _, document in batch.documents]
        headers = [header for _, batch in together for header in batch.headers]
        is_group = len(together) > 1
        try:
            written = self._writer.write(documents, headers, GROUP_LOCK_SECONDS if is_group else None)
        except Exception as error:
            fail([request for request, _ in together], error, is_group=is_group)
            together = ()  # an exception refers to these: else both would stay
            return
        self._metrics.observe("joinsight_write_seconds", time.perf_counter() - started)
        self._count(written, [batch for _, batch in together])
        reasons = {id(document): reason for document, reason in written.refused}
        for request, batch in together:
            refused = [(line, reasons[id(each)]) for line, each in batch.documents if id(each) in reasons]
            accepted = len(batch.documents) - len(refused)
            batch.refused += refused
            batch.refused.sort()
            _log_refusals(batch, request.sender)
            request.result.set_result(Ingested(accepted, batch.refused))

    def _count(self, written: Written, batches: Sequence[Batch]) -> None:
        metrics = self._metrics
        metrics.written()
        refused = len(written.refused)
        for batch in batches:
            refused += len(batch.refused)
            for kind, number in batch.refused_by_kind.items():
                metrics.count("joinsight_refused_documents_total", number, kind)
        metrics.count("joinsight_refused_documents_total", len(written.refused) - written.faults, "database")
        metrics.count("joinsight_refused_documents_total", written.faults, "fault")
        for outcome, number in ("stored", written.stored), ("stale", written.stale), ("refused", refused):
            metrics.count("joinsight_documents_total", number, outcome)
        for rows in written.finished:
            metrics.finished(rows)


def _defer(alone: list[IngestRequest], request: IngestRequest) -> None:
    alone.append(request)
    raise _Deferred


def fail(requests: Sequence[IngestRequest], error: BaseException, *, is_group: bool) -> None:
    """Let requests fail; after a group, nobody knows yet which of them is at fault."""
    for request in requests:
        request.result.set_exception(RetryAlone() if is_group and not isinstance(error, Closed) else error)


def _limit_locks(connection: Any, _: object) -> None:
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.commit()


def _log_refusals(batch: Batch, sender: Mapping[str, str | None]) -> None:
    context = dict(sender)
    readable: list[Document | Header] = [*(d for _, d in batch.documents), *(header for header, _ in batch.headers)]
    if readable:
        context |= {"application": readable[0].application_id, "listener": readable[0].listener.id}
    for line, reason in batch.refused[:_LOGGED_REFUSALS]:
        log.warning("document refused", extra=fields(**context, line=line, reason=reason))
    if len(batch.refused) > _LOGGED_REFUSALS:
        more = len(batch.refused) - _LOGGED_REFUSALS
        log.warning("more documents of the same request refused", extra=fields(**context, documents=more))
