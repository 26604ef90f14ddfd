"""The pages for people: ``/`` is the home page and a list, ``/queries/KEY`` shows the runs of a query,
``/executions/NAME`` one execution, ``/compare`` two of them; NAME is as `joinsight plan` takes it. ``/queries``,
``/executions``, ``/streams``, ``/joins``, ``/shuffles``, ``/broadcasts``, ``/findings``, ``/regressions`` and ``/jobs``
are tables, ``/docs`` is the documentation.

====  ====================================================================================================
200   the page
400   a parameter is invalid; the page says why
401   the collector has tokens, and the request has none of a reader; a browser then asks for a user name (any) and a
      password (the token)
403   a page of another site sent the request, or the collector has no token and was not called by a loopback name
404   the execution is not stored, or has no such plan version or node
500   an internal error, with a traceback in the log
503   the database is unavailable, or the query took too long
====  ====================================================================================================

Readers never delay senders: at most `MAX_READING` pages are rendered at once, in threads, on separate connections.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from joinsight.base.errors import ConfigurationError, NotFound
from joinsight.base.timeparse import parse_moment
from joinsight.base.units import duration_text
from joinsight.pages import tables
from joinsight.pages.batches import MOST_FOLDED, are_read
from joinsight.pages.chart import spark
from joinsight.pages.comparison import Side, compare_page
from joinsight.pages.docs import docs_index, docs_page
from joinsight.pages.environment import SECURITY_POLICY, error_page, signed_in
from joinsight.pages.execution import drawing_file, execution_page
from joinsight.pages.home import MAX_TRENDS, days_text
from joinsight.pages.listing import Asked, list_page
from joinsight.pages.one_file import comparison_file, execution_file
from joinsight.pages.query import LIMITS, QueryRuns, query_page
from joinsight.pages.svg_file import file_name
from joinsight.pages.view import ViewOptions, number
from joinsight.present.values import execution_name, hidden_text, when
from joinsight.queries import browse, lists, reading, trends
from joinsight.queries.filters import FILTERS, Filters, Of, one_of
from joinsight.queries.regressions import read_regressions
from joinsight.serve.access import SAFE_HEADERS, forbidden
from joinsight.serve.logs import ThrottledLog, fields
from joinsight.serve.protocol import authorise
from joinsight.serve.summaries import (
    MOST_REGRESSIONS,
    Summaries,
    checks,
    no_regressions,
    summary,
    took_too_long,
    with_reasons,
)
from joinsight.serve.tokens import Tokens
from joinsight.serve.user_header import UserHeader
from joinsight.store.database import for_readers
from joinsight.store.database import reason as database_reason
from joinsight.tables import Row

MAX_READING = 2
"""Pages rendered concurrently: each takes a connection and, for a large plan, a fraction of a second of CPU."""
TURN_SECONDS = 10
"""Longest wait for one of `MAX_READING`."""
STATEMENT_SECONDS = 10
"""Statement timeout; a page takes a few statements."""

_CLOCKS_DIFFER = timedelta(days=1)
"""Runs may have started a little after now, by the clock of their driver."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": SECURITY_POLICY,
    "Referrer-Policy": "same-origin",
    **SAFE_HEADERS,
}

log = logging.getLogger("joinsight")


class _Text(StringConvertor):
    """A part of an address that may have any character: `path` stops at line breaks."""

    regex = "(?s:.+)"


register_url_convertor("text", _Text())


class _Problem(NamedTuple):
    status: int
    heading: str
    reason: str
    remedy: str = ""


_NO_TOKEN = _Problem(
    401,
    "Token required",
    "Sign in with a reader's token as the password; the user name can be anything. Senders' tokens do not open pages.",
    "The collector's administrator can give you one: a line read:NAME:TOKEN in its token file.",
)
_NAME_OF_AN_EXECUTION = (
    "The address is /executions/, the application id and the query's id in Spark's SQL tab."
    " If the query has run, joinsight doctor shows which documents of its application have arrived."
)
_RUNS_TO_COMPARE = (
    "The history of a query offers its runs to compare. An execution is named APPLICATION/12, as in its address."
)
_BUSY = _Problem(503, "Too many concurrent page requests", "Storing documents has priority.", "Try again.")
_FAULT = _Problem(500, "Internal error", "The page could not be rendered; see the collector's log.")


async def not_found(request: Request, error: Exception) -> Response:
    """The response to an address or method that does not exist: a page for browsers, else a line."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    detail = error.detail if isinstance(error, HTTPException) else "Not Found"
    headers = dict((error.headers if isinstance(error, HTTPException) else None) or {})
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(detail, status, headers)
    remedy = "The pages are linked above."
    page = error_page("Not found", f"There is no page {request.url.path[:200]}.", remedy)
    return HTMLResponse(page, status, {**headers, **HEADERS})


class Pages:
    """Serves the pages, on read-only connections."""

    def __init__(
        self,
        engine: Engine,
        tokens: Tokens,
        throttled: ThrottledLog,
        core_hour_price: float | None = None,
        user_header: UserHeader | None = None,
    ) -> None:
        self._engine = for_readers(engine, STATEMENT_SECONDS)
        self._tokens = tokens
        self._throttled = throttled
        self._core_hour_price = core_hour_price
        self._user_header = user_header
        self._summaries = Summaries()
        self._turns = asyncio.Semaphore(MAX_READING)

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/", self.listing),
            Route("/executions", self.listing),
            Route("/executions/{name:text}", self.execution),
            Route("/queries", self.queries),
            Route("/queries/{key}", self.query),
            Route("/compare", self.comparison),
            *(Route(f"/{name}", self._list(name)) for name in ("joins", "shuffles", "broadcasts", "findings")),
            Route("/streams", self.streams),
            Route("/regressions", self.regressions),
            Route("/jobs", self.jobs),
            Route("/docs", self.docs),
            Route("/docs/{name}", self.docs),
        ]

    async def listing(self, request: Request) -> Response:
        """``GET /``: executions, with filters and order from the parameters."""

        def read(connection: Connection) -> str:
            asked = Asked.of(request.query_params)
            rows = lists.read_queries(connection, asked.filters, asked.sort, asked.cursor)
            if asked.folds and are_read(rows):
                many = replace(asked.filters, limit=MOST_FOLDED)
                rows = lists.read_queries(connection, many, asked.sort, asked.cursor)
            listed = asked.page(rows)
            since, until = browse.read_window(connection, datetime.now(timezone.utc))
            jobs = summary(connection, "Jobs", "", lambda: trends.read_jobs(connection, since))
            marks = summary(
                connection,
                "Marks of findings",
                "joinsight findings --each",
                lambda: list(lists.worst_findings(connection, listed.rows).items()),
            )
            overview = None
            if listed.rows and (asked.is_home or asked.is_job) and request.url.path == "/":
                overview = self._summaries.overview(connection, asked.filters.job, jobs, since, until)
            bounds = asked.bounds(listed)
            hidden = lists.count_hidden(connection, asked.filters, *bounds) if bounds else 0
            left_out = hidden_text(hidden, lists.MOST_HIDDEN)
            return list_page(asked, listed, marks, [job["job_name"] for job in jobs.rows], overview, left_out)

        return await self._answer(request, read)

    async def execution(self, request: Request) -> Response:
        """``GET /executions/NAME``; parameters: see `ViewOptions`; ``download`` gives the drawing or page as a file."""

        def read(connection: Connection) -> str | Response:
            asked = request.query_params
            name = request.path_params["name"]
            started_at = asked.get("started_at")
            moment = parse_moment("started_at", started_at) if started_at else None
            view = ViewOptions.of(asked)
            key = reading.find_execution(connection, name, moment)
            stored, run = reading.read_plan(connection, key), reading.read_run(connection, key)
            kind = one_of("download", asked.get("download", ""), ("", "svg", "html"))
            if kind == "svg":
                return _file(drawing_file(stored, view), file_name(name), "image/svg+xml")
            if kind == "html":
                return _file(execution_file(stored, run), file_name(name, ".html"), "text/html")
            return execution_page(stored, run, view)

        return await self._answer(request, read)

    async def query(self, request: Request) -> Response:
        """``GET /queries/KEY``: the runs of a query; parameters select its job, and which runs."""

        def read(connection: Connection) -> str:
            asked = request.query_params
            until = parse_moment("until", asked["until"]) if asked.get("until") else None
            limit = int(one_of("limit", asked.get("limit", str(LIMITS[0])), tuple(map(str, LIMITS))))
            given = FILTERS["shape"].value("key", request.path_params["key"])
            filters = Filters(shape=given, job=asked.get("job") or None, show="all", limit=1)
            newest = lists.read_queries(connection, filters, "recent")
            if not newest:
                raise NotFound(f"No execution of query {given}" + (f" in job {filters.job}." if filters.job else "."))
            return query_page(_runs_of(connection, newest[0], until, limit))

        return await self._answer(request, read, "The lists link to each query; `joinsight queries` shows the keys.")

    async def queries(self, request: Request) -> Response:
        """``GET /queries``: the queries of the last days."""

        def read(connection: Connection) -> str:
            asked = tables.WindowRequest.of("queries", request.query_params)
            since, until = _window(connection, asked.filters)
            rows = browse.read_query_groups(connection, since, asked.filters)
            return tables.queries_table(asked, rows, days_text(since, until)).html()

        return await self._answer(request, read)

    def _list(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """``GET /joins`` and the like: a list of operators or findings, with filters and order from the parameters."""

        async def page(request: Request) -> Response:
            def read(connection: Connection) -> str:
                asked = tables.ListRequest.of(name, request.query_params)
                if name != "findings":
                    rows = lists.read_list(connection, name, asked.filters, asked.sort)
                    if asked.folds and are_read(rows):
                        many = replace(asked.filters, limit=MOST_FOLDED)
                        rows = lists.read_list(connection, name, many, asked.sort)
                    return asked.table(rows, f"No matching {name}.").html()
                since = asked.filters.since or lists.finding_since(datetime.now(timezone.utc))
                rows = lists.read_finding_groups(connection, asked.filters, asked.sort)
                ran = "" if rows or asked.filters.given(Of.OPERATOR) else checks(connection, asked.filters, since)
                nothing = f"No matching findings: {ran}" if ran else "No matching findings."
                note = f"Findings since {when(since)}, by job, query and operator."
                return asked.table(rows, nothing, note).html()

            return await self._answer(request, read)

        return page

    async def streams(self, request: Request) -> Response:
        """``GET /streams``: the streaming queries of the last days."""

        def read(connection: Connection) -> str:
            asked = tables.WindowRequest.of("streams", request.query_params)
            since, until = _window(connection, asked.filters)
            job = asked.filters.job
            rows = lists.read_streams(connection, since, asked.filters.until, job=job, limit=tables.LIMITS[-1])
            shown = browse.matching(connection, rows, asked.filters)[: tables.LIMITS[0]]
            paced = [(row, browse.read_pace(connection, row, since)) for row in shown]
            return tables.streams_table(asked, paced, days_text(since, until)).html()

        return await self._answer(request, read)

    async def regressions(self, request: Request) -> Response:
        """``GET /regressions``: what became worse."""

        def read(connection: Connection) -> str:
            asked = tables.WindowRequest.of("regressions", request.query_params)
            since, _ = _window(connection, asked.filters)
            others = asked.filters if asked.given.keys() - {"job"} else None
            found = self._summaries.regressions(connection, asked.filters.job, since, others)
            return tables.regressions_table(asked, found.rows, found.nothing, found.problem).html()

        return await self._answer(request, read)

    async def jobs(self, request: Request) -> Response:
        """``GET /jobs``: the jobs of the last days, with what they cost."""

        def read(connection: Connection) -> str:
            asked = tables.WindowRequest.of("jobs", request.query_params)
            since, until = _window(connection, asked.filters)
            rows = trends.read_jobs(connection, since, asked.filters)
            names = [row["job_name"] for row in rows]
            charts = {
                trend.job["job_name"]: spark(trend.duration_ms, "Query time", duration_text)
                for trend in trends.read_trends(connection, rows[:MAX_TRENDS], since - trends.WINDOW)
            }
            owners = browse.read_owners(connection, names, since)
            days = days_text(since, until)
            return tables.jobs_table(asked, rows, owners, charts, self._core_hour_price, days).html()

        return await self._answer(request, read)

    async def docs(self, request: Request) -> Response:
        """``GET /docs`` and ``GET /docs/PAGE``."""
        name = request.path_params.get("name")

        def read(connection: Connection) -> str:
            return docs_page(name) if name else docs_index()

        return await self._answer(request, read, "")

    async def comparison(self, request: Request) -> Response:
        """``GET /compare``: execution `b` with `a`, by default its previous run; parameters select plans of AQE.

        ``download=html`` gives the page as a file.
        """

        def read(connection: Connection) -> str | Response:
            asked = request.query_params
            b = _named(connection, "b", asked.get("b", ""))
            a = _named(connection, "a", asked["a"]) if asked.get("a") else reading.find_previous(connection, b)
            sides = []
            for letter, key in (("A", a), ("B", b)):
                stored = reading.read_plan(connection, key)
                run = reading.read_run(connection, key, stored.nested)
                version = stored.version(number(asked, f"{letter.lower()}_version"))
                sides.append(Side(letter, stored, run, version))
            if one_of("download", asked.get("download", ""), ("", "html")):
                name = f"{execution_name(sides[0].stored.execution)}-{execution_name(sides[1].stored.execution)}"
                return _file(comparison_file(*sides), file_name(name, ".html"), "text/html")
            return compare_page(*sides)

        return await self._answer(request, read, _RUNS_TO_COMPARE)

    async def _answer(
        self, request: Request, read: Callable[[Connection], str | Response], where: str = _NAME_OF_AN_EXECUTION
    ) -> Response:
        """`where` says how to find what was not found."""
        problem = self._refusal(request)
        if problem is None:
            try:
                await asyncio.wait_for(self._turns.acquire(), TURN_SECONDS)
            except asyncio.TimeoutError:
                problem = _BUSY
        if problem is None:
            try:
                made = await run_in_threadpool(self._make, read, where)
            finally:
                self._turns.release()
            if isinstance(made, Response):
                return made
            if isinstance(made, str):
                return HTMLResponse(made, headers=HEADERS)
            problem = made
        headers = {**HEADERS, "WWW-Authenticate": 'Basic realm="Joinsight", charset="UTF-8"'}
        return HTMLResponse(
            error_page(problem.heading, problem.reason, problem.remedy),
            problem.status,
            headers if problem is _NO_TOKEN else HEADERS,
        )

    def _refusal(self, request: Request) -> _Problem | None:
        """The problem if the client may not read, else None; notes the user whom a proxy names."""
        signed_in.set("")
        if reason := forbidden(request, self._tokens):
            return _Problem(403, "Not allowed", reason)
        if self._tokens.open:
            return None
        shown = request.headers.get("authorization", "")
        client = request.client.host if request.client else ""
        if token := self._tokens.reader(shown):
            authorise(request.scope)
            user = self._user_header.user(token, request.headers) if self._user_header else ""
            if user is None:
                self._throttled.warning("user header ignored: repeated, too long or not printable", client)
            signed_in.set(user or "")
            return None
        if shown:
            self._throttled.unauthenticated(client)
        return _NO_TOKEN

    def _make(self, read: Callable[[Connection], str | Response], where: str) -> str | Response | _Problem:
        """The page or file, or the problem; runs in a thread."""
        try:
            with self._engine.connect() as connection:
                return read(connection)
        except (ConfigurationError, DataError) as error:
            reason = str(error) if isinstance(error, ConfigurationError) else database_reason(error)
            return _Problem(400, "Invalid request", reason)
        except NotFound as error:
            return _Problem(404, "Not found", str(error), where)
        except SQLAlchemyError as error:
            log.warning("page not rendered: the database failed", extra=fields(reason=database_reason(error)))
            if took_too_long(error):
                reason = f"The database took longer than {STATEMENT_SECONDS} s."
                return _Problem(503, "The query took too long", reason, "Choose a shorter time range.")
            return _Problem(503, "The database does not respond", "Senders keep their documents until it does.")
        except Exception:
            log.exception("internal error: a page could not be rendered")
            return _FAULT


def _window(connection: Connection, filters: Filters) -> tuple[datetime, datetime | None]:
    """The time that these filters ask for, by default that of `browse.read_window`; its end is None where it is now."""
    if filters.since:
        return filters.since, filters.until
    if filters.until:
        return filters.until - trends.WINDOW, filters.until
    return browse.read_window(connection, datetime.now(timezone.utc))


def _file(content: str, name: str, kind: str) -> Response:
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, 200, headers, kind)


def _runs_of(connection: Connection, newest: Row, until: datetime | None, limit: int) -> QueryRuns:
    shape, job, now = newest["query_shape"], newest["job_name"], datetime.now(timezone.utc)
    rows = trends.read_runs(connection, shape, job, until or now + _CLOCKS_DIFFER, limit + 1)
    if not rows:
        raise NotFound(f"No execution of query {shape} until {until}.")
    regressions = summary(
        connection,
        "Regressions",
        f"joinsight regressions --job {shlex.quote(job)}",
        lambda: with_reasons(
            connection,
            read_regressions(connection, now - trends.WINDOW, {}, job=job, shape=shape, limit=MOST_REGRESSIONS),
            MOST_REGRESSIONS,
        ),
        lambda: no_regressions(connection, now - trends.WINDOW, job, shape),
    )
    return QueryRuns(
        shape,
        job,
        trends.read_jobs_of_query(connection, shape),
        rows,
        trends.read_usual(connection, rows[0], now - trends.WINDOW),
        regressions,
        limit,
        until,
    )


def _named(connection: Connection, parameter: str, text: str) -> reading.Key:
    """The execution that a parameter names, ``APPLICATION/ID`` or ``APPLICATION/ID@START``."""
    name, _, started_at = text.rpartition("@") if "@" in text else (text, "", "")
    if not name:
        remedy = "Write /compare?a=APPLICATION/12&b=APPLICATION/34; without a, b is compared with its previous run."
        raise ConfigurationError(parameter, text, "not an execution", remedy)
    return reading.find_execution(connection, name, parse_moment(parameter, started_at) if started_at else None)
