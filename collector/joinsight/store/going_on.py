"""What runs now and what did not arrive, as the database knows it: right with several collectors, and after a restart.

Counted in the background, never while Prometheus asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Engine, text

from joinsight.store.upkeep import counting

GOING_ON_SECONDS = 15
GOING_ON_TIMEOUT = "10s"
_RUNNING = "SELECT count(*), min(started_at) FROM execution WHERE state = 'running' AND origin = 'live'"
_DELIVERY = """
    SELECT CASE WHEN state = 'ended' THEN 'ended' WHEN runs THEN 'running' ELSE 'silent' END AS application,
        sum(documents_missing) AS missing, sum(documents_refused) AS refused, sum(documents_dropped) AS dropped,
        sum(events_dropped) AS events, count(*) FILTER (WHERE runs) AS reporting
    FROM (
        SELECT a.state, coalesce(a.state, 'unknown') NOT IN ('ended', 'lost')
            AND d.last_heard_at > now() - interval '5 minutes' AS runs,
            d.documents_missing, d.documents_refused, d.documents_dropped, d.events_dropped
        FROM delivery d LEFT JOIN application a USING (application_id, attempt_id)
        WHERE d.last_heard_at > now() - interval '24 hours' AND a.origin IS DISTINCT FROM 'event_log'
    ) listeners
    GROUP BY application
"""


@dataclass(frozen=True, slots=True)
class GoingOn:
    """What the store knows of what runs now, and of documents that are not here."""

    executions: int
    """That run."""
    oldest_start: datetime | None
    """Of these; None if there are none."""
    applications: int
    """That run, as their listeners have said in the last five minutes."""
    undelivered: Mapping[tuple[str, str], int]
    """Documents by application (running, ended, silent) and fate (missing, refused, dropped), of listeners heard of
    in the last 24 hours."""
    dropped_events: int
    """Of the same listeners."""


def count_going_on(engine: Engine) -> GoingOn:
    """As it is now. Raises SQLAlchemy's errors, and gives up after 10 s."""
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{GOING_ON_TIMEOUT}'"))
        executions, oldest = connection.execute(text(_RUNNING)).one()
        by_application = {row.application: row for row in connection.execute(text(_DELIVERY))}
    undelivered = {
        (application, fate): int(getattr(by_application.get(application), fate, None) or 0)
        for application in ("running", "ended", "silent")
        for fate in ("missing", "refused", "dropped")
    }
    listeners = by_application.values()
    return GoingOn(
        executions,
        oldest,
        sum(row.reporting for row in listeners),
        undelivered,
        sum(int(row.events or 0) for row in listeners),
    )


def counting_going_on(engine: Engine, on_counted: Callable[[GoingOn | None], None]) -> AbstractContextManager[None]:
    """Count what is going on every 15 seconds; `on_counted` is told, None when the database does not answer."""
    count = partial(count_going_on, engine)
    return counting("going-on", GOING_ON_SECONDS, count, on_counted, "what is going on was not counted")
