"""The collector as an ASGI application: ``POST /v1/documents``, ``/metrics``, ``/healthz``, ``/readyz``, and `pages`.

Responses to ``POST /v1/documents``:

====  ====================================================================================================
200   all documents are committed
400   the lines listed in ``refused`` will never be accepted; all others are committed
401   the bearer token is missing, wrong or a reader's; nothing was read
403   a web page sent the request, or the collector has no token and was not called by a loopback name
408   the body did not arrive in time
413   the request is too large; send fewer documents at once
415   not ``Content-Type: application/x-ndjson`` with ``Content-Encoding: gzip``; nothing was read
429   too many concurrent requests, large ones or bytes; retry after ``Retry-After`` seconds
500   an internal error, with a traceback in the log; retry
503   the database is unavailable or too slow, the process that wrote the batch ended, or the collector is shutting
      down; retry after ``Retry-After`` seconds
====  ====================================================================================================

Responses about the documents (200, 400 and 413) are JSON objects with ``accepted``, the number committed, and
``refused``, the lines and reasons: by these two a sender tells a collector's response from a proxy's.
After 500 and 503, as after a lost response, the batch is normally not committed; it may be if the database, a writer
or the collector ended just then. A retry does no harm, because repeated documents are recognised. A request is answered
within `BODY_SECONDS` and `SLOT_SECONDS`, plus the time to decode, which `decode` bounds, and to write, in which no lock
is waited for longer than `ingest.LOCK_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from joinsight.base.errors import DocumentError, TooLarge
from joinsight.contract.decode import MAX_REQUEST_BYTES
from joinsight.findings import FindingsEngine
from joinsight.serve.access import forbidden, guarded, unsupported_media_type
from joinsight.serve.admission import Admission, Busy, QuotaTicket, WriteSlots
from joinsight.serve.cached import Cached
from joinsight.serve.health import Health
from joinsight.serve.ingest import Ingest
from joinsight.serve.ingest_request import Closed, Ingested, IngestRequest, RetryAlone, WorkerDied
from joinsight.serve.logs import ThrottledLog, fields
from joinsight.serve.metrics import DEFAULT_JOB_NAMES, Metrics
from joinsight.serve.pages import Pages, not_found
from joinsight.serve.protocol import authorise
from joinsight.serve.refusals import DOCTOR, Refusals
from joinsight.serve.tokens import Tokens
from joinsight.serve.user_header import UserHeader
from joinsight.serve.writers import Writers

RETRY_AFTER_SECONDS = 5
BODY_SECONDS = 60
"""From the head of a request to the end of its body."""
SLOT_SECONDS = 15
"""Longest wait for a slot to write; a sender would not wait longer for a response."""
MAX_PROBES = 2
"""Requests for metrics and health that are processed in one round of the event loop, as anyone may send any number."""

_T = TypeVar("_T")

log = logging.getLogger("joinsight")


def make_app(
    engine: Engine,
    tokens: Tokens | None = None,
    findings: FindingsEngine | None = None,
    job_names: int = DEFAULT_JOB_NAMES,
    make_writers: Callable[[Metrics], Writers] | None = None,
    core_hour_price: float | None = None,
    user_header: UserHeader | None = None,
) -> Starlette:
    """The application on a database whose schema is up to date; without tokens it accepts documents from this machine
    only.

    `job_names` is the maximum number of jobs with their own metrics. `make_writers` makes what ingests in processes of
    their own; None: this process ingests. `core_hour_price` is for the page of jobs, `user_header` has
    the user whom pages name.
    ``state.collector`` is the `Collector` behind it.
    """
    tokens = tokens or Tokens()
    metrics, health, throttled = Metrics(job_names), Health(engine), ThrottledLog()
    ingest = make_writers(metrics) if make_writers else Ingest(engine, findings or FindingsEngine(), metrics)
    collector = Collector(tokens, ingest, health, metrics, throttled)
    turns = asyncio.Semaphore(MAX_PROBES)
    app = Starlette(
        routes=[
            Route("/v1/documents", collector.documents, methods=["POST"]),
            Route("/metrics", guarded(collector.metrics_page, tokens, turns)),
            Route("/healthz", guarded(health.live, tokens, turns)),
            Route("/readyz", guarded(health.ready, tokens, turns)),
            *Pages(engine, tokens, throttled, core_hour_price, user_header).routes(),
        ],
        exception_handlers={404: not_found, 405: not_found},
    )
    app.state.collector = collector
    return app


class _Late(Exception):
    """A deadline has passed."""


class Collector:
    """Receives batches in one event loop, and ingests them in threads."""

    def __init__(
        self, tokens: Tokens, ingest: Ingest | Writers, health: Health, metrics: Metrics, throttled: ThrottledLog
    ) -> None:
        self._tokens = tokens
        self._ingest = ingest
        self._health = health
        self.metrics = metrics
        self._page = Cached(metrics.page)
        self._throttled = throttled
        self._admission = Admission()
        metrics.show_admission(self._admission)
        self._refusals = Refusals()
        metrics.show_refusals(self._refusals)
        self._slots = WriteSlots(lambda group: run_in_threadpool(ingest.ingest, group), lambda: tokens.senders > 1)
        self._waiting: set[anyio.CancelScope] = set()
        self._closed = False

    def close(self) -> None:
        """Accept nothing more: batches that are being written are answered when committed, all others with 503.

        Waiting ones are answered at once, those that are being decoded at their next plan.
        """
        self._closed = True
        self._ingest.close()
        for scope in self._waiting:
            scope.cancel()

    def end(self) -> None:
        """End the processes that write, if there are any."""
        self._ingest.end()

    @property
    def writing(self) -> int:
        """Number of batches that are being decoded and written, also for senders that have disconnected."""
        return self._ingest.writing

    async def metrics_page(self, request: Request) -> Response:
        """``GET /metrics``."""
        return Response(await self._page.get(), media_type=CONTENT_TYPE_LATEST)

    async def documents(self, request: Request) -> Response:
        """``POST /v1/documents``."""
        client = request.client.host if request.client else ""
        sender: dict[str, str | None] = {"client": client, "token": None}
        try:
            sender["token"] = self._authenticate(request, client)
            ingested = await self._store(request, sender)
            refused = [{"line": line, "reason": reason} for line, reason in ingested.refused]
            response = JSONResponse({"accepted": ingested.accepted, "refused": refused}, 400 if refused else 200)
        except HTTPException as error:
            response = JSONResponse({"error": error.detail}, error.status_code, error.headers)
        except ClientDisconnect:
            response = _unreadable("the client disconnected during the request", 400, sender)
        except TooLarge as error:
            response = _unreadable(str(error), 413, sender)
        except DocumentError as error:
            response = _unreadable(str(error), 400, sender)
        except Exception:
            log.exception("internal error, the sender will retry", extra=fields(**sender))
            response = JSONResponse({"error": "internal error; the collector's log has the details"}, 500)
        if response.status_code == 200:
            authorise(request.scope)
        self.metrics.count("joinsight_requests_total", 1, str(response.status_code))
        if request.headers.get("user-agent") != DOCTOR:  # which reports it
            self._refusals.add(client, str(response.status_code))
        return response

    def _authenticate(self, request: Request, client: str) -> str | None:
        """The name of the request's token, None if none is required; raises `HTTPException`."""
        if reason := forbidden(request, self._tokens, writes=True):
            self._throttled.warning("request from a web page refused", client, reason)
            raise HTTPException(403, reason)
        token = None
        if not self._tokens.open:
            token = self._tokens.sender(request.headers.get("authorization", ""))
            if token is None:
                self._throttled.unauthenticated(client)
                raise HTTPException(401, "the bearer token is missing or wrong")
            self.metrics.count("joinsight_token_requests_total", 1, token)
            authorise(request.scope)
        if reason := unsupported_media_type(request):
            self._throttled.warning("request with an unsupported media type refused", client, reason)
            raise HTTPException(415, reason)
        return token

    async def _store(self, request: Request, sender: dict[str, str | None]) -> Ingested:
        try:
            with self._admission.ticket((sender["client"] or "", sender["token"])) as ticket:
                await self._receive(request, ticket)
                try:
                    ingested = await self._write(IngestRequest(ticket.body, sender))
                except RetryAlone:
                    ingested = await self._write(IngestRequest(ticket.body, sender, alone=True))
        except Busy as busy:
            raise _retry_later(429, str(busy)) from None
        except SQLAlchemyError as error:
            self._health.database_failed(error)
            raise _retry_later(503, "the database is unavailable or does not accept the batch") from None
        except WorkerDied:
            raise _retry_later(503, "the process that wrote the batch ended") from None
        except (asyncio.CancelledError, Closed):
            if not self._closed:
                raise
            raise _retry_later(503, "the collector is shutting down") from None
        self._health.database_answered()
        return ingested

    async def _receive(self, request: Request, ticket: QuotaTicket) -> None:
        try:
            await self._within(BODY_SECONDS, _read(request, ticket))
        except _Late:
            reason = f"the body did not arrive within {BODY_SECONDS} s"
            raise HTTPException(408, reason, {"Connection": "close"}) from None
        ticket.enqueue()

    async def _write(self, pending: IngestRequest) -> Ingested:
        """The result, when it is committed."""
        start = self._slots.add(pending)
        try:
            if not start.done():
                await self._within(SLOT_SECONDS, start)
            return await asyncio.wrap_future(pending.result)
        except _Late:
            raise _retry_later(503, "the database is too slow for the load") from None
        finally:
            self._slots.remove(pending)
            del pending  # an exception refers to it, which would refer to the exception

    async def _within(self, seconds: float, work: Awaitable[_T]) -> _T:
        """The result of `work`; raises `_Late` after this many seconds, and `Closed` after `close`.

        `work` is no task of its own: a task, its exception and the frames in its traceback refer to each other.
        """
        with anyio.move_on_after(seconds) as scope:
            self._waiting.add(scope)
            if self._closed:
                scope.cancel()
            try:
                return await work
            finally:
                self._waiting.discard(scope)
        raise Closed if self._closed else _Late


async def _read(request: Request, ticket: QuotaTicket) -> None:
    """Read the body into the ticket; raises `Busy`, and `TooLarge`, before reading if the request has a
    Content-Length."""
    too_large = f"the request is larger than {MAX_REQUEST_BYTES} bytes"
    if int(request.headers.get("content-length", 0)) > MAX_REQUEST_BYTES:  # h11 refuses anything but digits
        raise TooLarge(too_large)
    async for chunk in request.stream():
        if len(ticket.body) + len(chunk) > MAX_REQUEST_BYTES:
            raise TooLarge(too_large)
        ticket.add(chunk)


def _unreadable(reason: str, status: int, sender: dict[str, str | None]) -> JSONResponse:
    log.warning("request refused", extra=fields(**sender, status=status, reason=reason))
    return JSONResponse({"accepted": 0, "refused": [], "error": reason}, status)


def _retry_later(status: int, reason: str) -> HTTPException:
    return HTTPException(status, reason, {"Retry-After": str(RETRY_AFTER_SECONDS)})
