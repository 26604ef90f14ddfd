"""Health checks: ``/healthz`` (the process), ``/readyz`` (its database), and outages in the log."""

from __future__ import annotations

import logging
import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from joinsight.base.errors import SchemaError
from joinsight.serve.cached import Cached
from joinsight.serve.logs import fields
from joinsight.store.database import check_schema, reason

log = logging.getLogger("joinsight")


class Health:
    """Responds to probes. For one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._unavailable_since: float | None = None
        self._readiness = Cached(self._check)

    async def live(self, request: Request) -> Response:
        """``GET /healthz``: 200 as long as the process runs."""
        return PlainTextResponse("ok\n")

    async def ready(self, request: Request) -> Response:
        """``GET /readyz``: 200 if the database answers and has this program's schema, else 503."""
        return await self._readiness.get()

    def _check(self) -> Response:
        try:
            check_schema(self._engine)
        except SchemaError as error:
            return PlainTextResponse(f"{error}\n", status_code=503)
        except SQLAlchemyError as error:
            return PlainTextResponse(f"the database does not answer: {reason(error)}\n", status_code=503)
        return PlainTextResponse("ok\n")

    def database_failed(self, error: SQLAlchemyError) -> None:
        """Log the start of an outage."""
        if self._unavailable_since is None:
            self._unavailable_since = time.monotonic()
            log.error("database unavailable: batches are deferred, senders retry", extra=fields(reason=reason(error)))

    def database_answered(self) -> None:
        """Log the end of an outage."""
        if self._unavailable_since is not None:
            seconds = round(time.monotonic() - self._unavailable_since, 1)
            self._unavailable_since = None
            log.info("database available again: batches are written", extra=fields(after_seconds=seconds))
