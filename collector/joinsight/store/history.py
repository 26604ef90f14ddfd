"""What other executions say about findings: small index lookups in the transaction of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, and_, delete, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from joinsight.findings import cache_read_once
from joinsight.tables import EXECUTION_KEY, CacheRow, ExecutionRow, broadcast, cache, execution, finding

RUNS = 20
"""Maximum earlier runs that count."""
MAX_READ = 100
"""Maximum earlier runs that are read, of any job: a development run must not read the whole history of production."""
MAX_LOOKUPS = 2_000
"""Lookups of one batch, limited because a plan may have tens of thousands of broadcasts while other batches wait."""


class EarlierRuns:
    """The `History` of `joinsight.findings`, from PostgreSQL."""

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = MAX_LOOKUPS

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> Sequence[int]:
        """The rows of a broadcast in the latest runs before `run` that succeeded, the last one first.

        Only runs of the same job and origin, among the last `MAX_READ` of the broadcast. Empty once the batch has made
        `MAX_LOOKUPS` lookups.
        """
        self._left -= 1
        if self._left < 0:
            return ()
        latest = (
            select(broadcast)
            .where(broadcast.c.operator_key == operator_key, broadcast.c.started_at < run.started_at)
            .where(broadcast.c.outcome == "succeeded", broadcast.c.rows.is_not(None))
            .order_by(broadcast.c.started_at.desc())
            .limit(MAX_READ)
            .subquery()
        )
        same = and_(*(execution.c[name] == latest.c[name] for name in EXECUTION_KEY))
        statement = (
            select(latest.c.rows)
            .join(execution, same)
            .where(execution.c.job_name == run.job_name, execution.c.origin == run.origin)
            .order_by(latest.c.started_at.desc())
            .limit(RUNS)
        )
        return [rows for rows in self._connection.scalars(statement) if rows is not None]


def remove_refuted(connection: Connection, stored: Iterable[CacheRow]) -> None:
    """Remove findings that a cached table is read once, where another execution reads it.

    `stored` are the uses of cached tables in a batch, which is in the tables. Either execution may arrive first.
    """
    used = sorted({(row.application_id, row.attempt_id, row.cache_id) for row in stored})
    if not used:
        return
    filled, other = cache.alias("filled"), cache.alias("other")
    same = ("application_id", "attempt_id", "cache_id")
    connection.execute(
        delete(finding)
        .where(finding.c.finding == cache_read_once.ID, finding.c.node_id == filled.c.node_id)
        .where(*(finding.c[name] == filled.c[name] for name in EXECUTION_KEY))
        .where(*(filled.c[name] == other.c[name] for name in same), filled.c.execution_id != other.c.execution_id)
        .where(tuple_(*(filled.c[name] for name in same)).in_(used))
    )
