"""The collector as an ASGI application: ``POST /v1/documents``, ``/metrics``, ``/healthz``, ``/readyz``, and `pages`.

Answers to ``POST /v1/documents``:

====  ====================================================================================================
200   all documents are committed
400   the lines listed in ``refused`` will never be taken; all others are committed
401   the bearer token is missing, wrong or one for reading; nothing was read
403   a web page sends this, or the collector has no token and was called by another name than this machine's
408   the body did not come in time
413   the request is too large; send fewer documents at once
415   it does not say ``Content-Type: application/x-ndjson`` and ``Content-Encoding: gzip``; nothing was read
429   too many requests, or too many bytes, at once; retry after ``Retry-After`` seconds
500   a fault of the collector's, with a traceback in its log; nothing is committed; retry
503   the database is not there, is too slow, or the collector is shutting down; nothing is committed; retry
      after ``Retry-After`` seconds
====  ====================================================================================================

Those that speak of the documents (200, 400 and 413) are JSON objects with ``accepted``, how many are committed, and
``refused``, the lines and reasons: by these two a sender tells a collector's answer from that of a proxy before it.
An answer that gets lost does no harm: what is sent again is recognised. A request is answered in `BODY_SECONDS` and
`TURN_SECONDS`, what it takes to read it, which `decode` bounds, and what PostgreSQL takes, in which no lock is waited
for longer than `LOCK_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from joinsight.decode import MAX_REQUEST_BYTES, Batch, Stamp, decode_request
from joinsight.document import Document, Execution
from joinsight.errors import DocumentError, SchemaError, TooLarge
from joinsight.findings import Finder
from joinsight.rows import application_row, execution_rows
from joinsight.serve.access import guarded, refusal, wrong_kind
from joinsight.serve.logs import fields
from joinsight.serve.metrics import DEFAULT_JOB_NAMES, Metrics
from joinsight.serve.pages import Pages
from joinsight.serve.places import Busy, Place, Places, Sender, Turns
from joinsight.serve.protocol import ENTITLED
from joinsight.serve.tokens import Tokens
from joinsight.store.database import check_schema
from joinsight.store.database import reason as database_reason
from joinsight.store.going_on import GoingOn
from joinsight.store.writer import Writer, Written

RETRY_AFTER_SECONDS = 5
BODY_SECONDS = 60
"""From the head of a request to the end of its body."""
TURN_SECONDS = 15
"""For one of the turns; longer, and the sender has gone."""
LOCK_SECONDS = 10
"""For a lock in PostgreSQL: another writer's, or that of someone who alters a table."""
READY_SECONDS = 1
"""How long an answer to ``/readyz`` holds: anyone may ask, and must not keep the database busy."""

_LOGGED_REFUSALS = 5
_STRANGERS = 1_000
_STRANGER_SECONDS = 600
_T = TypeVar("_T")

log = logging.getLogger("joinsight")


def make_app(
    engine: Engine,
    tokens: Tokens | None = None,
    finder: Finder | None = None,
    job_names: int = DEFAULT_JOB_NAMES,
) -> Starlette:
    """The collector on a database whose schema is up to date; without tokens it takes them from this machine.

    `job_names` is how many jobs have metrics of their own.

    ``state.collector`` is the `Collector` behind it.
    """
    tokens = tokens or Tokens()
    collector = Collector(engine, tokens, finder or Finder(), Metrics(job_names))
    app = Starlette(
        routes=[
            Route("/v1/documents", collector.documents, methods=["POST"]),
            Route("/metrics", guarded(collector.metrics_page, tokens)),
            Route("/healthz", guarded(collector.healthy, tokens)),
            Route("/readyz", guarded(collector.ready, tokens)),
            *Pages(engine, tokens, collector.stranger).routes(),
        ]
    )
    app.state.collector = collector
    return app


class _Refused(Exception):
    """A request that gets another answer than 200 or 400."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class _Closed(Exception):
    """The collector takes nothing more."""


class Collector:
    """Takes batches from the network to the database; `_store` and `_check` run in threads, all else in one loop."""

    def __init__(self, engine: Engine, tokens: Tokens, finder: Finder, metrics: Metrics) -> None:
        event.listen(engine, "connect", _limit_locks)
        engine.dispose()  # connections from before know no limit
        self._engine = engine
        self._writer = Writer(engine, finder, self._go_on)
        self._tokens = tokens
        self._metrics = metrics
        self._places = Places()
        self._metrics.show(self._places)
        self._turns = Turns()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._writing: set[int] = set()  # threads; of a set, adding and removing are atomic
        self._closed = False
        self._said: dict[tuple[str, str], float] = {}  # when this was last said of a client
        self._lost_at: float | None = None
        self._readiness: tuple[float, Response] | None = None
        self._asking = asyncio.Lock()

    def close(self) -> None:
        """Take nothing more: batches that are being written are answered when they are, all others with 503.

        These are those that wait, now, and those that are being read, at the next plan.
        """
        self._closed = True
        for work in self._waiting:
            work.cancel()

    @property
    def writing(self) -> int:
        """Batches that are being decoded and written, answered for or not."""
        return len(self._writing)

    # Documents

    async def documents(self, request: Request) -> Response:
        """Store a batch."""
        client = request.client.host if request.client else ""
        elsewhere = refusal(request, self._tokens, writes=True)
        token = None if elsewhere else self._token(request, client)
        told = {"client": client, "token": token}
        try:
            if elsewhere:
                self._say_seldom(client, "a request that may be a web page's is refused", elsewhere)
                raise _Refused(403, elsewhere)
            if token is None and not self._tokens.open:
                raise _Refused(401, "the bearer token is missing or wrong")
            if token is not None:
                setattr(request.state, ENTITLED, True)
            if wrong := wrong_kind(request):
                self._say_seldom(client, "a request is refused by its headers", wrong)
                raise _Refused(415, wrong)
            response = await self._documents(request, client, told)
        except _Refused as refused:
            headers = {name.replace("_", "-"): value for name, value in refused.headers.items()}
            response = JSONResponse({"error": str(refused)}, refused.status, headers)
        except ClientDisconnect:
            response = _bad("the request broke off", 400, told)
        except TooLarge as error:
            response = _bad(str(error), 413, told)
        except DocumentError as error:
            response = _bad(str(error), 400, told)
        except Exception:
            log.exception("a fault in the collector, the sender will retry", extra=fields(**told))
            response = JSONResponse({"error": "a fault in the collector; its log says more"}, 500)
        if response.status_code == 200:
            setattr(request.state, ENTITLED, True)
        self._metrics.count("joinsight_requests_total", 1, str(response.status_code))
        return response

    async def _documents(self, request: Request, client: str, told: dict[str, str | None]) -> Response:
        try:
            with self._places.of(client) as place:
                sender = client, told["token"]
                body = await self._interruptible(self._turn(request, place, sender))
                try:
                    batch, written = await run_in_threadpool(self._store, body)
                finally:
                    self._turns.give_back(sender)
        except Busy as busy:
            raise _later(429, str(busy)) from None
        except SQLAlchemyError as error:
            self._database_lost(error)
            raise _later(503, "the database is not there or does not take the batch") from None
        except (asyncio.CancelledError, _Closed):
            if not self._closed:
                raise
            raise _later(503, "the collector is shutting down") from None
        self._database_back()
        _log_refusals(batch, told)
        accepted = len(batch.documents) - len(written.refused)
        refused = [{"line": line, "reason": reason} for line, reason in batch.refused]
        return JSONResponse({"accepted": accepted, "refused": refused}, 400 if refused else 200)

    def _token(self, request: Request, client: str) -> str | None:
        """The name of the token that the request shows, None if it shows none of ours."""
        if self._tokens.open:
            return None
        name = self._tokens.sender(request.headers.get("authorization", ""))
        if name is not None:
            self._metrics.count("joinsight_token_requests_total", 1, name)
        else:
            self.stranger(client)
        return name

    def stranger(self, client: str) -> None:
        """Log, seldom, that someone shows no token of ours."""
        self._say_seldom(client, "a client shows no token, or a wrong one")

    def _say_seldom(self, client: str, message: str, reason: str | None = None) -> None:
        now = time.monotonic()
        if len(self._said) >= _STRANGERS:
            self._said.clear()
        if now - self._said.get((client, message), -_STRANGER_SECONDS) >= _STRANGER_SECONDS:
            self._said[client, message] = now
            log.warning(message, extra=fields(client=client, reason=reason))

    async def _turn(self, request: Request, place: Place, sender: Sender) -> bytearray:
        """The body, when it is its turn to be written: the caller gives the turn back."""
        try:
            body = await asyncio.wait_for(_read(request, place), BODY_SECONDS)
        except asyncio.TimeoutError:
            raise _Refused(408, f"the body did not come within {BODY_SECONDS} s", connection="close") from None
        place.wait()
        try:
            await asyncio.wait_for(self._turns.take(sender), TURN_SECONDS)
        except asyncio.TimeoutError:
            raise _later(503, "the database is too slow for all that comes") from None
        return body

    async def _interruptible(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What `work` gives; `close` cancels it."""
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        if self._closed:
            task.cancel()
        try:
            return await task
        finally:
            self._waiting.discard(task)

    def _store(self, body: bytearray) -> tuple[Batch, Written]:
        self._writing.add(threading.get_ident())
        try:
            return self._decode_and_write(body)
        finally:
            self._writing.discard(threading.get_ident())

    def _go_on(self) -> None:
        """Raises `_Closed` when what is not written yet is not to be written any more."""
        if self._closed:
            raise _Closed

    def _decode_and_write(self, body: bytearray) -> tuple[Batch, Written]:
        metrics = self._metrics
        self._go_on()
        metrics.count("joinsight_received_bytes_total", len(body))
        started = time.perf_counter()
        batch = decode_request(body)
        decoded = time.perf_counter()
        metrics.observe("joinsight_decode_seconds", decoded - started)
        metrics.observe("joinsight_batch_documents", len(batch.documents) + len(batch.refused))
        written = self._write([document for _, document in batch.documents], batch.stamps)
        metrics.observe("joinsight_write_seconds", time.perf_counter() - decoded)
        metrics.written()
        for kind, number in batch.refused_by_kind.items():
            metrics.count("joinsight_refused_documents_total", number, kind)
        lines = {id(document): line for line, document in batch.documents}
        batch.refused += [(lines[id(document)], reason) for document, reason in written.refused]
        batch.refused.sort()
        for outcome, number in ("stored", written.stored), ("stale", written.stale), ("refused", len(batch.refused)):
            metrics.count("joinsight_documents_total", number, outcome)
        for rows in written.finished:
            metrics.finished(rows)
        return batch, written

    def lost(self, executions: int) -> None:
        """Count executions that were declared lost."""
        self._metrics.count("joinsight_executions_total", executions, "lost")

    def misplaced(self, executions: int) -> None:
        """Show how many executions are in the default partition."""
        self._metrics.count_misplaced(executions)

    def regressed(self, found: Mapping[tuple[str, str], int] | None) -> None:
        """Show how many regressions there are; None: it is not known."""
        self._metrics.count_regressions(found)

    def going_on(self, found: GoingOn | None) -> None:
        """Show what runs and what did not arrive; None: it is not known."""
        self._metrics.count_going_on(found)

    def _write(self, documents: list[Document], refused: list[tuple[Stamp, str]]) -> Written:
        """Write the batch without those documents that we fail to make rows of: sent again, they would fail again."""
        try:
            written, failing = self._writer.write(documents, refused), []
        except (SQLAlchemyError, MemoryError, _Closed):
            raise
        except Exception:
            failing = [(document, reason) for document in documents if (reason := self._failure(document))]
            if not failing:
                raise
            bad = {id(document) for document, _ in failing}
            good = [document for document in documents if id(document) not in bad]
            written = self._writer.write(good, [*refused, *failing])
        self._metrics.count("joinsight_refused_documents_total", len(written.refused), "database")
        self._metrics.count("joinsight_refused_documents_total", len(failing), "fault")
        written.refused += failing
        return written

    def _failure(self, document: Document) -> str | None:
        """Why no rows can be made of a document: a fault of ours that nobody has thought of."""
        self._go_on()
        try:
            if isinstance(document, Execution):
                execution_rows(document)
            else:
                application_row(document)
        except Exception as error:
            execution = document.execution_id if isinstance(document, Execution) else None
            about = fields(application=document.application_id, execution=execution)
            log.exception("a fault in the collector: a document could not be read", extra=about)
            return f"could not be read: {type(error).__name__}: {error}"[:300]
        return None

    def _database_lost(self, error: SQLAlchemyError) -> None:
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            log.error(
                "database lost: batches are not written, their senders retry",
                extra=fields(reason=database_reason(error)),
            )

    def _database_back(self) -> None:
        if self._lost_at is not None:
            seconds = round(time.monotonic() - self._lost_at, 1)
            self._lost_at = None
            log.info("database back: batches are written again", extra=fields(after_seconds=seconds))

    # Pages

    async def metrics_page(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(self._metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def healthy(self, request: Request) -> Response:
        """The process lives."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """The database answers and has the right schema."""
        async with self._asking:
            if self._readiness is None or time.monotonic() > self._readiness[0]:
                response = await run_in_threadpool(self._check)
                self._readiness = time.monotonic() + READY_SECONDS, response
        return self._readiness[1]

    def _check(self) -> Response:
        try:
            with self._engine.connect() as connection:
                connection.execute(text("SELECT 1"))
            check_schema(self._engine)
        except SchemaError as error:
            return PlainTextResponse(f"{error}\n", status_code=503)
        except SQLAlchemyError as error:
            return PlainTextResponse(f"the database does not answer: {database_reason(error)}\n", status_code=503)
        return PlainTextResponse("ok\n")


async def _read(request: Request, place: Place) -> bytearray:
    """The body; raises `TooLarge`, if it can before anything is read, and `Busy`."""
    too_large = f"the request is larger than {MAX_REQUEST_BYTES} bytes"
    if int(request.headers.get("content-length", 0)) > MAX_REQUEST_BYTES:  # digits only, or h11 had refused it
        raise TooLarge(too_large)
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > MAX_REQUEST_BYTES:
            raise TooLarge(too_large)
        place.take(len(chunk))
        body += chunk
    return body


def _limit_locks(connection: Any, _: object) -> None:
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.commit()


def _log_refusals(batch: Batch, told: dict[str, str | None]) -> None:
    about = dict(told)
    senders: list[Document | Stamp] = [*(d for _, d in batch.documents), *(stamp for stamp, _ in batch.stamps)]
    for sender in senders[:1]:
        about |= {"application": sender.application_id, "listener": sender.listener.id}
    for line, reason in batch.refused[:_LOGGED_REFUSALS]:
        log.warning("document refused", extra=fields(**about, line=line, reason=reason))
    if len(batch.refused) > _LOGGED_REFUSALS:
        more = len(batch.refused) - _LOGGED_REFUSALS
        log.warning("more documents of the same request refused", extra=fields(**about, documents=more))


def _bad(reason: str, status: int, told: dict[str, str | None]) -> Response:
    log.warning("request refused", extra=fields(**told, status=status, reason=reason))
    return JSONResponse({"accepted": 0, "refused": [], "error": reason}, status)


def _later(status: int, reason: str) -> _Refused:
    return _Refused(status, reason, retry_after=str(RETRY_AFTER_SECONDS))
