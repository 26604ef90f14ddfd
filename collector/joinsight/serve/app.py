"""The collector as an ASGI application: ``POST /v1/documents``, ``/metrics``, ``/healthz``, ``/readyz``.

Answers to ``POST /v1/documents``:

====  ====================================================================================================
200   all documents are committed
400   the lines listed in ``refused`` will never be taken; all others are committed
401   the bearer token is missing or wrong
413   the request is too large; send fewer documents at once
429   too many requests at once; retry after ``Retry-After`` seconds
503   the database is not there; nothing is committed; retry after ``Retry-After`` seconds
====  ====================================================================================================
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Sequence

from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from joinsight.decode import MAX_REQUEST_BYTES, Batch, decode_request
from joinsight.errors import DocumentError, SchemaError, TooLarge
from joinsight.serve.metrics import Metrics
from joinsight.store.database import check_schema
from joinsight.store.writer import Writer, Written

RETRY_AFTER_SECONDS = 5
MAX_WRITING = 4
"""Batches decoded and written at once: more would not be faster and would take memory."""
MAX_WAITING = 64
"""Requests that may wait for that; the next one gets 429."""

log = logging.getLogger("joinsight")


def make_app(engine: Engine, tokens: Sequence[str] = ()) -> Starlette:
    """The collector on a database whose schema is up to date; without tokens it takes documents from anyone.

    ``state.collector`` is the `Collector` behind it.
    """
    collector = Collector(engine, tokens)
    app = Starlette(
        routes=[
            Route("/v1/documents", collector.documents, methods=["POST"]),
            Route("/metrics", collector.metrics_page),
            Route("/healthz", collector.healthy),
            Route("/readyz", collector.ready),
        ]
    )
    app.state.collector = collector
    return app


class Collector:
    """Takes batches from the network to the database."""

    def __init__(self, engine: Engine, tokens: Sequence[str]) -> None:
        self._engine = engine
        self._writer = Writer(engine)
        self._tokens = [token.encode() for token in tokens]
        self._metrics = Metrics()
        self._writing = asyncio.Semaphore(MAX_WRITING)
        self._waiting = 0

    async def documents(self, request: Request) -> Response:
        """Store a batch."""
        response = await self._documents(request)
        self._metrics.requests.labels(response.status_code).inc()
        return response

    async def _documents(self, request: Request) -> Response:
        if not self._allowed(request):
            return _error(401, "the bearer token is missing or wrong")
        if self._waiting >= MAX_WAITING:
            return _error(429, "too many requests at once", retry=True)
        self._waiting += 1
        try:
            body = await _read(request)
            async with self._writing:
                batch, written = await run_in_threadpool(self._store, body)
        except TooLarge as error:
            return _error(413, str(error))
        except DocumentError as error:
            return _error(400, str(error))
        except ClientDisconnect:
            return _error(400, "the request broke off")
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            log.error("a batch was not written, the sender will retry: %s", reason)
            return _error(503, "the database is not there or does not take the batch", retry=True)
        finally:
            self._waiting -= 1
        refused = [{"line": line, "reason": reason} for line, reason in batch.refused]
        for entry in refused:
            log.warning("refused document of line %(line)s: %(reason)s", entry)
        accepted = len(batch.documents) - len(written.refused)
        return JSONResponse({"accepted": accepted, "refused": refused}, status_code=400 if refused else 200)

    def _store(self, body: bytes) -> tuple[Batch, Written]:
        batch = decode_request(body)
        started = time.perf_counter()
        written = self._writer.write([document for _, document in batch.documents], batch.stamps)
        self._metrics.write_seconds.observe(time.perf_counter() - started)
        self._metrics.last_write.set_to_current_time()
        lines = {id(document): line for line, document in batch.documents}
        batch.refused += [(lines[id(document)], reason) for document, reason in written.refused]
        batch.refused.sort()
        self._metrics.documents.labels("stored").inc(written.stored)
        self._metrics.documents.labels("stale").inc(written.stale)
        self._metrics.documents.labels("refused").inc(len(batch.refused))
        for rows in written.finished:
            self._metrics.finished(rows)
        return batch, written

    def lost(self, executions: int) -> None:
        """Count executions that were declared lost."""
        self._metrics.executions.labels("lost").inc(executions)

    def _allowed(self, request: Request) -> bool:
        if not self._tokens:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        matches = [hmac.compare_digest(given.strip().encode(), token) for token in self._tokens]
        return scheme.lower() == "bearer" and any(matches)

    async def metrics_page(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(self._metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def healthy(self, request: Request) -> Response:
        """The process lives."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """The database answers and has the right schema."""
        try:
            await run_in_threadpool(self._check)
        except SchemaError as error:
            return PlainTextResponse(f"{error}\n", status_code=503)
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or error
            return PlainTextResponse(f"the database does not answer: {reason}\n", status_code=503)
        return PlainTextResponse("ok\n")

    def _check(self) -> None:
        with self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        check_schema(self._engine)


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_REQUEST_BYTES:
            raise TooLarge(f"the request is larger than {MAX_REQUEST_BYTES} bytes")
    return bytes(body)


def _error(status: int, reason: str, *, retry: bool = False) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if retry else None
    return JSONResponse({"error": reason}, status_code=status, headers=headers)
