"""Stores why runs took longer than the typical run before, so that SQL can add causes up over many runs."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Engine, insert, text

from joinsight.base.errors import JoinsightError
from joinsight.present.values import execution_name
from joinsight.queries import reading
from joinsight.tables import Row, cause
from joinsight.why import Why, explain

RECENT = timedelta(days=2)
KEPT = timedelta(days=400)
MOST_AT_ONCE = 30
NORMAL = "normal"
"""The code of a run whose time is within the scatter."""
# Longer than usual, by the stored baselines: the scatter is worked out for these only
SLOW = """
    SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id
    FROM execution e
    JOIN baseline b ON b.job_name = e.job_name AND b.query_shape = e.query_shape AND b.origin = e.origin
    WHERE e.started_at >= :recent AND e.state = 'succeeded' AND e.incomplete IS NULL AND NOT e.is_outer
        AND b.as_of = (SELECT max(as_of) FROM baseline) AND b.operator_key = '' AND b.measure = 'duration_ms'
        AND e.duration_ms > 1.15 * b.median AND e.duration_ms > b.median + 200
        AND NOT EXISTS (SELECT FROM cause c WHERE (c.started_at, c.application_id, c.attempt_id, c.execution_id)
            = (e.started_at, e.application_id, e.attempt_id, e.execution_id))
    ORDER BY e.started_at DESC LIMIT :most
"""


def store_run_causes(engine: Engine, now: datetime) -> int:
    """Divide the time of some slow runs that were not divided yet; returns their number."""
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE cause IN SHARE ROW EXCLUSIVE MODE"))
        connection.execute(text("DELETE FROM cause WHERE started_at < :oldest"), {"oldest": now - KEPT})
        slow = connection.execute(text(SLOW), {"recent": now - RECENT, "most": MOST_AT_ONCE}).all()
        for started_at, application_id, attempt_id, execution_id in slow:
            key = (started_at, application_id, attempt_id, execution_id)
            try:
                before = reading.read_plan(connection, reading.find_typical(connection, key))
                found = explain(before, reading.read_plan(connection, key))
                rows = _rows(found, execution_name(before.execution))
            except JoinsightError:  # there is no earlier run
                rows = [_row(NORMAL, 0, 0, "")]
            same = {"started_at": started_at, "application_id": application_id, "attempt_id": attempt_id}
            connection.execute(insert(cause), [{**same, "execution_id": execution_id, **row} for row in rows])
    return len(slow)


def _rows(found: Why, compared_with: str) -> list[Row]:
    if found.is_normal or not found.causes:
        return [_row(NORMAL, found.difference_ms, found.task_difference_ms, compared_with)]
    return [
        _row(each.code, each.wall_ms, each.task_ms, compared_with)
        | {"stage_id": each.place["stage"], "evidence": list(each.evidence) or None}
        for each in found.causes
    ]


def _row(code: str, wall_ms: int, task_ms: int, compared_with: str) -> Row:
    numbers = {"code": code, "wall_ms": wall_ms, "task_ms": task_ms, "compared_with": compared_with}
    return {**numbers, "stage_id": None, "evidence": None}
