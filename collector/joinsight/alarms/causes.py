"""The first causes of a regression, by `joinsight why` of a typical run before and one since."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, Engine, select, update

from joinsight.base.errors import JoinsightError
from joinsight.queries import reading
from joinsight.tables import EXECUTION_KEY, Row, alarm
from joinsight.why import NOT_EXPLAINED, Cause, explain

MOST_CAUSES = 3
MOST_AT_ONCE = 20
MOST_EXPLAINED = 20
"""Regressions of a list of which the causes are worked out."""


def first_causes(connection: Connection, row: Row) -> list[Cause]:
    """The largest named causes of a row with two executions, as `read_regressions` has them; may be empty."""
    names = [[prefix + name for name in EXECUTION_KEY] for prefix in ("baseline_", "")]
    if any(row[name] is None for each in names for name in each):
        return []
    keys = [(row[a], row[b], row[c], row[d]) for a, b, c, d in names]
    try:
        before, after = (reading.read_plan(connection, key) for key in keys)
        found = explain(before, after)
    except (JoinsightError, IndexError):  # one is no longer stored
        return []
    return [cause for cause in found.causes if cause.code != NOT_EXPLAINED and cause.wall_ms > 0][:MOST_CAUSES]


def store_causes(engine: Engine) -> int:
    """Work out the causes of alarms that have none yet; returns their number."""
    c = alarm.c
    missing = select(alarm).where(c.causes.is_(None), c.closed_at.is_(None)).order_by(c.raised_at.desc())
    with engine.begin() as connection:
        rows = [dict(row) for row in connection.execute(missing.limit(MOST_AT_ONCE)).mappings()]
        for row in rows:
            of_alarm = (c[column.name] == row[column.name] for column in alarm.primary_key)
            found = [asdict(cause) for cause in first_causes(connection, row)]
            connection.execute(update(alarm).where(*of_alarm).values(causes=found))
    return len(rows)
