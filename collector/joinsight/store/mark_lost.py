"""Marks executions and applications as `lost` when their driver is gone.

An execution is lost when its application ended before it did, when its application's next attempt started, or when its
listener was silent for too long; an application is lost when all of its listeners were silent, or its next attempt
started. Silence counts only after the collector and its database have been up for that long, because it may be the
collector's own fault; a next attempt is evidence by itself. A later document of a lost execution or application
replaces it as usual.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, text

from joinsight.base.timeparse import format_duration
from joinsight.contract.incomplete import reason

REAP_SECONDS = 30
NOW = "SELECT now()"
DEFAULT_LOST_AFTER = timedelta(minutes=5)
_ENDED_FOR = timedelta(minutes=1)
"""Documents may overtake each other: those of an ended application may still arrive for this long."""
_RESTARTED_FOR = timedelta(seconds=10)
"""The same for an attempt whose next attempt started: its driver had ended before that one started."""
_NEVER = timedelta(days=36500)

log = logging.getLogger("joinsight")

# YARN numbers attempts from 1; only in cluster mode does a driver have one.
_RESTARTED = """
    (a.attempt_id ~ '^[0-9]{1,9}$' AND EXISTS (
        SELECT FROM application later
        WHERE later.application_id = a.application_id AND later.origin = 'live' AND later.attempt_id ~ '^[0-9]{1,9}$'
            AND (length(later.attempt_id), later.attempt_id) > (length(a.attempt_id), a.attempt_id)
    ))
"""
# Running executions whose listener was silent for too long. The partial index on running executions finds them.
SILENT = f"""
    FROM execution e
    JOIN application a USING (application_id, attempt_id)
    LEFT JOIN delivery d ON (d.application_id, d.attempt_id, d.listener_id)
        = (e.application_id, e.attempt_id, e.listener_id)
    WHERE e.state = 'running' AND e.origin = 'live'
        AND coalesce(d.last_heard_at, e.updated_at)
            < now() - CASE WHEN {_RESTARTED} THEN :restarted_for
                WHEN a.state = 'ended' THEN least(:ended_for, :lost_after) ELSE :lost_after END
"""
# Applications that have not ended and whose listeners were silent. The partial index on open applications finds them.
SILENT_APPLICATIONS = f"""
    FROM application a
    WHERE a.state IN ('unknown', 'running') AND a.origin = 'live'
        AND coalesce(
            (SELECT max(d.last_heard_at) FROM delivery d
                WHERE (d.application_id, d.attempt_id) = (a.application_id, a.attempt_id)),
            a.updated_at
        ) < now() - CASE WHEN {_RESTARTED} THEN :restarted_for ELSE :lost_after END
"""
# The application's row is the writers' lock. A locked one is being written, so its driver lives.
CANDIDATES = f"""
    SELECT application_id, attempt_id FROM application
    WHERE (application_id, attempt_id) IN (
        SELECT e.application_id, e.attempt_id {SILENT}
        UNION SELECT a.application_id, a.attempt_id {SILENT_APPLICATIONS}
    )
    ORDER BY application_id, attempt_id
    FOR UPDATE SKIP LOCKED
"""
# Checked again under the locks: a document may have arrived in between.
_DECLARE = f"""
    WITH silent AS (
        SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id,
            CASE WHEN {_RESTARTED} THEN CAST(:restarted AS text[])
                WHEN a.state = 'ended' THEN CAST(:ended AS text[]) ELSE CAST(:silent AS text[]) END AS reason
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
# updated_at stays: it is the time of the last contact with the application
_DECLARE_APPLICATIONS = f"""
    UPDATE application SET state = 'lost'
    WHERE (application_id, attempt_id) IN (
        SELECT a.application_id, a.attempt_id {SILENT_APPLICATIONS} AND (a.application_id, a.attempt_id)
            IN (SELECT * FROM unnest(CAST(:applications AS text[]), CAST(:attempts AS text[])))
    )
"""


class Reaper:
    """Marks at each `tick`, once ticks have come without a gap for `lost_after`.

    A tick that fails or is late (the process was suspended, the database was down) is a gap: nothing may have
    been received during it. What a next attempt proves lost is marked at each tick. Time is the database's.
    """

    def __init__(self, engine: Engine, lost_after: timedelta) -> None:
        self._engine = engine
        self._lost_after = lost_after
        self._able_since: datetime | None = None
        self._last_tick: datetime | None = None

    def tick(self) -> int:
        """Mark lost executions and applications; returns the number of executions. Raises SQLAlchemy's errors."""
        with self._engine.begin() as connection:
            now: datetime = connection.execute(text(NOW)).scalar_one()
            late = self._last_tick is None or now - self._last_tick > timedelta(seconds=2 * REAP_SECONDS)
            if late or self._able_since is None:
                self._able_since = now
            self._last_tick = now
            is_able = now - self._able_since >= self._lost_after
            return declare_lost(connection, self._lost_after if is_able else None)


def declare_lost(connection: Connection, lost_after: timedelta | None) -> int:
    """Mark executions and applications lost that were silent for `lost_after`; returns the number of executions.

    With None, only those whose next attempt started. Leaves out what another collector is marking.
    """
    times = {"ended_for": _ENDED_FOR, "lost_after": lost_after, "restarted_for": _RESTARTED_FOR}
    if lost_after is None:
        times |= {"ended_for": _NEVER, "lost_after": _NEVER}
    locked = connection.execute(text(CANDIDATES), times).all()
    if not locked:
        return 0
    applications, attempts = (list(names) for names in zip(*locked, strict=True))
    candidates = {"applications": applications, "attempts": attempts}
    reasons = {
        "ended": list(reason("application_ended")),
        "restarted": list(reason("attempt_restarted")),
        "silent": list(reason("driver_lost", time=format_duration(lost_after or _NEVER))),
    }
    lost = int(connection.execute(text(_DECLARE), {**times, **candidates, **reasons}).scalar_one())
    gone = connection.execute(text(_DECLARE_APPLICATIONS), {**times, **candidates}).rowcount
    if lost or gone:
        what = f"{gone} applications and {lost} executions"
        log.warning("marked %s lost: their driver is gone or cannot reach a collector", what)
    return lost
