"""Counts running executions, undelivered documents and regressions in the database.

The counts are the same at each collector of a database, and correct right after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine, text

ACTIVITY_TIMEOUT = "10s"
REGRESSIONS_TIMEOUT = "30s"
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
_ALARMS = "SELECT measure, count(*) AS number FROM alarm WHERE closed_at IS NULL GROUP BY measure"
_FORECASTS = (
    "SELECT kind, count(*) AS number FROM forecast WHERE earliest_at < now() + interval '30 days'"
    " AND computed_at = (SELECT max(computed_at) FROM forecast) GROUP BY kind"
)
_REGRESSIONS = "SELECT kind, subject, count(*) FROM v_regressions GROUP BY kind, subject"


@dataclass(frozen=True, slots=True)
class Activity:
    """Running executions and undelivered documents."""

    executions: int
    """Running live executions."""
    oldest_start: datetime | None
    """Start of the oldest of them; None if none is running."""
    applications: int
    """Running applications with a listener in contact in the last five minutes."""
    undelivered: Mapping[tuple[str, str], int]
    """Documents by application (running, ended, silent) and fate (missing, refused, dropped), of listeners in contact
    in the last 24 hours."""
    dropped_events: int
    """Events that Spark dropped before these listeners saw them."""


def count_activity(engine: Engine) -> Activity:
    """The activity now; raises SQLAlchemy's errors, also after `ACTIVITY_TIMEOUT`."""
    with engine.begin() as connection:
        _limit(connection, ACTIVITY_TIMEOUT)
        executions, oldest = connection.execute(text(_RUNNING)).one()
        by_application = {row.application: row for row in connection.execute(text(_DELIVERY))}
    undelivered = {
        (application, fate): int(getattr(by_application.get(application), fate, None) or 0)
        for application in ("running", "ended", "silent")
        for fate in ("missing", "refused", "dropped")
    }
    listeners = by_application.values()
    return Activity(
        executions,
        oldest,
        sum(row.reporting for row in listeners),
        undelivered,
        sum(int(row.events or 0) for row in listeners),
    )


def count_regressions(engine: Engine) -> Mapping[tuple[str, str], int]:
    """Regressions of the last seven days by kind and subject; raises SQLAlchemy's errors, also after
    `REGRESSIONS_TIMEOUT`."""
    with engine.begin() as connection:
        _limit(connection, REGRESSIONS_TIMEOUT)
        return Counter({(kind, subject): number for kind, subject, number in connection.execute(text(_REGRESSIONS))})


def count_alarms(engine: Engine) -> Mapping[str, int]:
    """Certain regressions that are not over, by measure; raises SQLAlchemy's errors, also after `ACTIVITY_TIMEOUT`."""
    with engine.begin() as connection:
        _limit(connection, ACTIVITY_TIMEOUT)
        return {row.measure: row.number for row in connection.execute(text(_ALARMS))}


def count_forecasts(engine: Engine) -> Mapping[str, int]:
    """What may reach its limit within 30 days, by kind; raises SQLAlchemy's errors, also after `ACTIVITY_TIMEOUT`."""
    with engine.begin() as connection:
        _limit(connection, ACTIVITY_TIMEOUT)
        return {row.kind: row.number for row in connection.execute(text(_FORECASTS))}


def _limit(connection: Connection, timeout: str) -> None:
    connection.execute(text(f"SET LOCAL statement_timeout = '{timeout}'"))
