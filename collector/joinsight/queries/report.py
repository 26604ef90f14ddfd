"""What `joinsight report` asks: what became faster, and what costs most."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from joinsight.queries.reading import complete_titles
from joinsight.tables import Row

MOST_COMPARED = 200
"""Queries of the window, by their total time, that are compared with before."""
_RAN = """
    SELECT e.job_name, e.query_shape, e.origin, count(*) AS runs, max(e.title) AS title, max(e.started_at) AS last_at,
        sum(e.duration_ms)::bigint AS duration_ms, sum(e.task_time_ms)::bigint AS task_time_ms,
        count(*) FILTER (WHERE e.state = 'failed') AS failed,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY e.duration_ms)
            FILTER (WHERE e.state = 'succeeded' AND e.incomplete IS NULL) AS median_ms,
        count(*) FILTER (WHERE e.state = 'succeeded' AND e.incomplete IS NULL) AS comparable
    FROM execution e
    WHERE e.started_at >= :since AND e.query_shape IS NOT NULL AND NOT e.is_outer
        AND (CAST(:job AS text) IS NULL OR e.job_name = :job)
    GROUP BY e.job_name, e.query_shape, e.origin
"""
_COSTLY = f"SELECT r.*, r.task_time_ms / nullif(sum(r.task_time_ms) OVER (), 0) AS share FROM ({_RAN}) AS r"
# As joinsight_regressions, with the signs turned: by a share, an amount, and the scatter of the runs before
_FASTER = f"""SELECT r.*, u.median AS before_ms, u.median / nullif(r.median_ms, 0) AS factor
    FROM (SELECT * FROM ({_RAN}) AS r WHERE r.comparable >= 3 ORDER BY r.duration_ms DESC LIMIT :compared) AS r
    CROSS JOIN LATERAL joinsight_usual(r.job_name, r.query_shape, r.origin, :since) AS u
    WHERE u.runs >= 5 AND u.median > 1.3 * r.median_ms AND u.median >= r.median_ms + 1000
        AND u.median - 3 * (1 + 5.0 / u.runs) * u.spread > r.median_ms
"""
_LAST_RUN = """
    SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id FROM execution e
    WHERE e.query_shape = r.query_shape AND e.job_name = r.job_name AND e.started_at = r.last_at LIMIT 1
"""


def read_costly(connection: Connection, since: datetime, job: str | None, limit: int) -> list[Row]:
    """Queries by the run time of their tasks since then, with the `share` of all of it."""
    return _first(connection, _COSTLY, "task_time_ms DESC NULLS LAST", {"since": since, "job": job, "limit": limit})


def read_faster(connection: Connection, since: datetime, job: str | None, limit: int) -> list[Row]:
    """Queries whose median since then is below that before, by the time that this saves."""
    values = {"since": since, "job": job, "limit": limit, "compared": MOST_COMPARED}
    return _first(connection, _FASTER, "(before_ms - median_ms) * comparable DESC", values)


def _first(connection: Connection, found: str, order: str, values: Mapping[str, Any]) -> list[Row]:
    """The first of these queries in this order, with complete titles and the key of the last run."""
    order = f"ORDER BY {order}, job_name, query_shape"
    first = f"SELECT * FROM ({found}) AS found {order} LIMIT :limit"
    first = f"SELECT * FROM ({first}) AS r CROSS JOIN LATERAL ({_LAST_RUN}) AS last_run {order}"
    rows = [dict(row) for row in connection.execute(text(first), values).mappings()]
    complete_titles(connection, rows)
    return rows
