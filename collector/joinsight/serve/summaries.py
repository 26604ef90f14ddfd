"""Parts of pages that a page can do without: one that takes too long or fails is replaced by a sentence.

What is expensive is computed once a minute, for all readers.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from joinsight.alarms.causes import first_causes
from joinsight.pages.home import MAX_SHOWN, MAX_TRENDS, JobLine, Overview, PageSection, job_lines, worst_of_queries
from joinsight.present.findings import checked
from joinsight.present.regressions import KINDS, causes_text, none_found, reason
from joinsight.queries import lists, trends
from joinsight.queries.browse import matching
from joinsight.queries.filters import Filters
from joinsight.queries.regressions import MINIMUM_RUNS, RECENT_RUNS, count_comparable, read_regressions
from joinsight.serve.logs import fields
from joinsight.store.database import reason as database_reason
from joinsight.tables import Row

STATEMENT_SECONDS = 2
"""Statement timeout of a summary."""
FRESH_SECONDS = 60
"""How long a summary is cached, also one that took too long."""
MAX_CACHED = 32
"""Maximum number of cached summaries; of more, the least recently used ones are dropped."""
MOST_REGRESSIONS = 200
_MOST_FILTERED = 2_000
"""Regressions of which those that match filters are looked for."""

_TREND = timedelta(days=30)
"""How far the charts of jobs go back before the time that the home page is about."""
_QUERY_CANCELED = "57014"
"""SQLSTATE of a statement that took longer than its timeout."""

log = logging.getLogger("joinsight")
T = TypeVar("T")
Nothing = tuple[str, Sequence[Row]]
"""Why there are no rows, and runs that are slower than the one before."""


def no_regressions(connection: Connection, since: datetime, job: str | None, shape: str | None = None) -> Nothing:
    """Why no regressions are shown; until there are enough runs, with those that are slower than the last one."""
    counted = count_comparable(connection, since, MINIMUM_RUNS, job, shape)
    why = none_found(counted, since, MINIMUM_RUNS, RECENT_RUNS)
    if counted["comparable"] or not counted["queries"]:
        return why, ()
    return why, trends.read_slower_than_last(connection, since, job, shape, MAX_SHOWN)


def checks(connection: Connection, filters: Filters, since: datetime) -> str:
    """How many checks of how many executions since then ran; empty for none."""
    number, longest = lists.read_checked(connection, replace(filters, since=since))
    return checked(number, lists.MOST_CHECKED, longest)


def with_reasons(connection: Connection, regressions: Sequence[Row], most: int) -> list[Row]:
    """Regressions with ``reason``, a text, which is empty but for the first `most` of queries: the first causes, or
    else what differs of those with the same plan.
    """
    return [
        {**row, "reason": _reason(connection, row) if row["subject"] == "query" and place < most else ""}
        for place, row in enumerate(regressions)
    ]


def _reason(connection: Connection, row: Row) -> str:
    causes = causes_text([asdict(cause) for cause in first_causes(connection, row)])
    if causes or row["kind"] != "same_plan":
        return f"{KINDS[row['kind']]}: {causes}" if causes else ""
    return reason(trends.read_work(connection, row))


class Summaries:
    """Reads summaries; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: dict[Hashable, _Cached] = {}  # the most recently used last

    def overview(
        self,
        connection: Connection,
        job: str | None,
        jobs: PageSection[Row],
        since: datetime,
        until: datetime | None = None,
    ) -> Overview:
        """What happened to a job, or to all if it is None, in a window of `browse.read_window`; `jobs` are those of
        `read_jobs`.
        """
        of_job = f" --job {shlex.quote(job)}" if job else ""

        def no_findings() -> Nothing:
            return f"No findings: {checks(connection, Filters(job=job), since) or 'nothing ran.'}", ()

        def findings() -> Sequence[Row]:
            return lists.read_finding_groups(connection, Filters(since=since, job=job, limit=MAX_SHOWN))

        def lines() -> Sequence[JobLine]:
            first = jobs.rows[:MAX_TRENDS]
            return job_lines(trends.read_trends(connection, first, since - _TREND))

        return Overview(
            days=trends.WINDOW.days,
            job=job,
            since=since,
            until=until,
            regressions=self.regressions(connection, job, since),
            failures=summary(
                connection,
                "Failures",
                f"joinsight queries --state failed{of_job}",
                lambda: trends.read_failures(connection, since, MAX_SHOWN + 1, job),
            ),
            findings=self._fresh(connection, "Findings", f"joinsight findings{of_job}", findings, job, no_findings),
            jobs=PageSection(problem=jobs.problem) if job or jobs.problem else summary(connection, "Jobs", "", lines),
            number_of_jobs=len(jobs.rows),
        )

    def regressions(
        self, connection: Connection, job: str | None, since: datetime, filters: Filters | None = None
    ) -> PageSection[Row]:
        """The most costly regression of each query; with filters, of those whose last run matches, and not cached."""

        def read() -> Sequence[Row]:
            most = MOST_REGRESSIONS if filters is None else _MOST_FILTERED
            rows = read_regressions(connection, since, {}, job=job, limit=most)
            if filters is not None:
                rows = matching(connection, rows, replace(filters, since=None))
            return with_reasons(connection, worst_of_queries(rows), MAX_SHOWN)

        of_job = f" --job {shlex.quote(job)}" if job else ""
        command = f"joinsight regressions{of_job}"
        if filters is not None:
            return summary(connection, "Regressions", command, read, lambda: ("No matching regressions.", ()))
        return self._fresh(
            connection, "Regressions", command, read, job, lambda: no_regressions(connection, since, job)
        )

    def _fresh(
        self,
        connection: Connection,
        name: str,
        command: str,
        read: Callable[[], Sequence[Row]],
        job: str | None,
        nothing: Callable[[], Nothing] = lambda: ("", ()),
    ) -> PageSection[Row]:
        """The summary as of the last minute; of several readers who need it, one computes it."""
        with self._lock:
            cached = self._cached.pop((name, job), None) or _Cached()
            self._cached[name, job] = cached
            if len(self._cached) > MAX_CACHED:
                del self._cached[next(iter(self._cached))]
        with cached.lock:
            if cached.summary is None or self._clock() >= cached.expires:
                cached.summary = summary(connection, name, command, read, nothing)
                cached.expires = self._clock() + FRESH_SECONDS
            return cached.summary


class _Cached:
    """A summary, which one thread computes while others wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.summary: PageSection[Row] | None = None
        self.expires = 0.0


def summary(
    connection: Connection,
    name: str,
    command: str,
    read: Callable[[], Sequence[T]],
    nothing: Callable[[], Nothing] = lambda: ("", ()),
) -> PageSection[T]:
    """What `read` returns, or why it is missing; `command` prints the same in a terminal.

    `nothing` returns the sentence for no rows, and what is shown instead.

    Raises `SQLAlchemyError` if the connection is lost.
    """
    now = datetime.now(timezone.utc)
    savepoint = connection.begin_nested()
    try:
        connection.execute(
            text("SELECT set_config('statement_timeout', :limit, true)"), {"limit": f"{STATEMENT_SECONDS}s"}
        )
        rows = read()
        instead, slower = ("", ()) if rows else nothing()
        return PageSection(rows, instead, command=command, slower=slower, as_of=now)
    except SQLAlchemyError as error:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise
        log.warning("part of a page not computed", extra=fields(part=name.lower(), reason=database_reason(error)))
        why = "took too long to compute." if took_too_long(error) else "could not be computed; see the collector's log."
        return PageSection(problem=f"{name} {why}", command=command, as_of=now)
    finally:
        savepoint.rollback()  # restores the page's own timeout


def took_too_long(error: SQLAlchemyError) -> bool:
    """Whether the database canceled the statement."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) == _QUERY_CANCELED
