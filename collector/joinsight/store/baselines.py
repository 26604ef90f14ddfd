"""Stores what regressions compare with, as of midnights (docs/decisions/009-baselines-are-of-a-moment.md).

A collector does it every night, and `joinsight rollup` again.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone

from sqlalchemy import Connection, Engine, text

KEPT = timedelta(days=35)
"""Long enough for windows of up to a month, if they are stored every night."""
WEEK = 7


def moment(now: datetime, days_ago: int = WEEK) -> datetime:
    """The last midnight in UTC so many days ago."""
    return datetime.combine((now - timedelta(days=days_ago)).astimezone(timezone.utc).date(), time(0), timezone.utc)


def replace(engine: Engine, as_of: datetime) -> int:
    """Store the baselines as of a midnight, and delete expired ones; returns the number of rows."""
    with engine.begin() as connection:
        _lock(connection)
        return _replace(connection, as_of)


def store_nightly(engine: Engine, now: datetime) -> int:
    """As `replace`, as of each midnight of the last week, for documents also arrive late.

    Does nothing if there are some as of the last midnight; returns the number of rows.
    """

    def are_there(connection: Connection) -> bool:
        stored = text("SELECT EXISTS (SELECT FROM baseline WHERE as_of = :as_of)")
        return bool(connection.scalar(stored, {"as_of": moment(now, 0)}))

    with engine.begin() as connection:
        if are_there(connection):
            return 0
        _lock(connection)
        if are_there(connection):
            return 0
        return sum(_replace(connection, moment(now, days)) for days in range(WEEK + 1))


def _lock(connection: Connection) -> None:
    """One program after the other."""
    connection.execute(text("LOCK TABLE baseline IN SHARE ROW EXCLUSIVE MODE"))


def _replace(connection: Connection, as_of: datetime) -> int:
    expired = "DELETE FROM baseline WHERE as_of = :as_of OR as_of < :oldest"
    connection.execute(text(expired), {"as_of": as_of, "oldest": as_of - KEPT})
    computed = text("INSERT INTO baseline SELECT * FROM joinsight_baselines(:as_of)")
    return connection.execute(computed, {"as_of": as_of}).rowcount
