"""Finds executions and applications whose driver is gone, and says so in the store: they become `lost`.

An execution is lost when its application has ended without it, or when nothing was heard of its listener for a while;
an application when nothing was heard of any of its listeners.
Nothing is declared lost before the collector itself has been up, with its database, for that long: silence that may be
our own proves nothing. A later document of what is lost replaces it like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, text

from joinsight.incomplete import reason
from joinsight.store.upkeep import repeating

SWEEP_SECONDS = 30
NOW = "SELECT now()"
DEFAULT_LOST_AFTER = timedelta(minutes=5)
_ENDED_FOR = timedelta(minutes=1)
"""Documents may overtake each other: so long those of an application that has ended may still be under way."""
LOCK = 0x6A6F6970  # pg_try_advisory_xact_lock: of several collectors one sweeps

log = logging.getLogger("joinsight")

# Executions that run and whose silence is telling. The partial index on running executions finds them.
SILENT = """
    FROM execution e
    JOIN application a USING (application_id, attempt_id)
    LEFT JOIN delivery d ON (d.application_id, d.attempt_id, d.listener_id)
        = (e.application_id, e.attempt_id, e.listener_id)
    WHERE e.state = 'running' AND e.origin = 'live'
        AND coalesce(d.last_heard_at, e.updated_at)
            < now() - CASE a.state WHEN 'ended' THEN least(:ended_for, :lost_after) ELSE :lost_after END
"""
# Applications that have not ended and of which nothing was heard. The partial index on open applications finds them.
SILENT_APPLICATIONS = """
    FROM application a
    WHERE a.state IN ('unknown', 'running') AND a.origin = 'live'
        AND coalesce(
            (SELECT max(d.last_heard_at) FROM delivery d
                WHERE (d.application_id, d.attempt_id) = (a.application_id, a.attempt_id)),
            a.updated_at
        ) < now() - :lost_after
"""
# The application's row is the writers' lock. One that is locked is being written, so its driver lives.
_CANDIDATES = f"""
    SELECT application_id, attempt_id FROM application
    WHERE (application_id, attempt_id) IN (
        SELECT e.application_id, e.attempt_id {SILENT}
        UNION SELECT a.application_id, a.attempt_id {SILENT_APPLICATIONS}
    )
    ORDER BY application_id, attempt_id
    FOR UPDATE SKIP LOCKED
"""
# Under the locks once more: a document may have come in between.
_DECLARE = f"""
    WITH silent AS (
        SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id,
            CASE a.state WHEN 'ended' THEN CAST(:ended AS text[]) ELSE CAST(:silent AS text[]) END AS reason
        {SILENT} AND (e.application_id, e.attempt_id)
            IN (SELECT * FROM unnest(CAST(:applications AS text[]), CAST(:attempts AS text[])))
    ), declared AS (
        UPDATE execution e
        SET state = 'lost', updated_at = now(), incomplete_codes = array_append(incomplete_codes, reason[1]),
            incomplete = array_append(incomplete, reason[2])
        FROM silent s
        WHERE (e.started_at, e.application_id, e.attempt_id, e.execution_id)
            = (s.started_at, s.application_id, s.attempt_id, s.execution_id)
        RETURNING e.started_at, e.application_id, e.attempt_id, e.execution_id
    ), broadcasts AS (
        UPDATE broadcast b SET outcome = 'unknown'
        FROM declared s
        WHERE (b.started_at, b.application_id, b.attempt_id, b.execution_id)
            = (s.started_at, s.application_id, s.attempt_id, s.execution_id) AND b.outcome = 'running'
    )
    SELECT count(*) FROM declared
"""
# updated_at stays: it says when the application was last heard of
_DECLARE_APPLICATIONS = f"""
    UPDATE application SET state = 'lost'
    WHERE (application_id, attempt_id) IN (
        SELECT a.application_id, a.attempt_id {SILENT_APPLICATIONS} AND (a.application_id, a.attempt_id)
            IN (SELECT * FROM unnest(CAST(:applications AS text[]), CAST(:attempts AS text[])))
    )
"""


class Sweeper:
    """Sweeps the store whenever `tick` is called, once it has been called without a gap for `lost_after`.

    A tick that fails or comes late (a process that was suspended, a database that was gone) is a gap: nothing may have
    been received during it. The time is the database's.
    """

    def __init__(self, engine: Engine, lost_after: timedelta) -> None:
        self._engine = engine
        self._lost_after = lost_after
        self._able_since: datetime | None = None
        self._last_tick: datetime | None = None

    def tick(self) -> int:
        """Declare lost what is; returns how many executions that are. Raises SQLAlchemy's errors."""
        with self._engine.begin() as connection:
            now: datetime = connection.execute(text(NOW)).scalar_one()
            late = self._last_tick is None or now - self._last_tick > timedelta(seconds=2 * SWEEP_SECONDS)
            if late or self._able_since is None:
                self._able_since = now
            self._last_tick = now
            if now - self._able_since < self._lost_after:
                return 0
            return declare_lost(connection, self._lost_after)


def declare_lost(connection: Connection, lost_after: timedelta) -> int:
    """Declare executions and applications lost of which nothing was heard for so long; returns how many executions.

    Does nothing while another collector does it.
    """
    if not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": LOCK}):
        return 0
    times = {"ended_for": _ENDED_FOR, "lost_after": lost_after}
    found = connection.execute(text(_CANDIDATES), times).all()
    if not found:
        return 0
    applications, attempts = (list(names) for names in zip(*found, strict=True))
    those = {"applications": applications, "attempts": attempts}
    reasons = {
        "ended": list(reason("application_ended")),
        "silent": list(reason("driver_lost", time=duration_text(lost_after))),
    }
    lost = int(connection.execute(text(_DECLARE), {**times, **those, **reasons}).scalar_one())
    gone = connection.execute(text(_DECLARE_APPLICATIONS), {**times, **those}).rowcount
    if lost or gone:
        what = f"{gone} applications and {lost} executions"
        log.warning("%s are lost: their driver is gone, or cannot reach any collector", what)
    return lost


def duration_text(time: timedelta) -> str:
    """``90s`` or ``5m``."""
    seconds = round(time.total_seconds())
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


@contextmanager
def sweeping(engine: Engine, lost_after: timedelta, on_lost: Callable[[int], None]) -> Iterator[None]:
    """Sweep every 30 s in a thread of its own as long as the context lasts; `on_lost` is told how many were lost."""
    sweeper = Sweeper(engine, lost_after)
    with repeating("lost", SWEEP_SECONDS, lambda: on_lost(sweeper.tick()), "lost executions were not looked for"):
        yield
