"""Stores what regressions compare with, as of midnights (docs/decisions/009-baselines-are-of-a-moment.md).

A collector does it every night, and `joinsight rollup` again.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone

from sqlalchemy import Connection, Engine, text

KEPT = timedelta(days=35)
"""Long enough for windows of a week and of a month, if they are stored every night."""


def moment(now: datetime) -> datetime:
    """The last midnight in UTC a week ago."""
    return datetime.combine((now - timedelta(days=7)).astimezone(timezone.utc).date(), time(0), timezone.utc)


def replace(engine: Engine, as_of: datetime) -> int:
    """Store the baselines as of a midnight, and delete expired ones; returns the number of rows."""
    with engine.begin() as connection:
        _lock(connection)
        return _replace(connection, as_of)


def store_missing(engine: Engine, as_of: datetime) -> int:
    """As `replace`, unless there are some as of this midnight."""
    with engine.begin() as connection:
        _lock(connection)
        stored = text("SELECT EXISTS (SELECT FROM baseline WHERE as_of = :as_of)")
        return 0 if connection.scalar(stored, {"as_of": as_of}) else _replace(connection, as_of)


def _lock(connection: Connection) -> None:
    """One program after the other."""
    connection.execute(text("LOCK TABLE baseline IN SHARE ROW EXCLUSIVE MODE"))


def _replace(connection: Connection, as_of: datetime) -> int:
    expired = "DELETE FROM baseline WHERE as_of = :as_of OR as_of < :oldest"
    connection.execute(text(expired), {"as_of": as_of, "oldest": as_of - KEPT})
    computed = text("INSERT INTO baseline SELECT * FROM joinsight_baselines(:as_of)")
    return connection.execute(computed, {"as_of": as_of}).rowcount
