"""What other executions say about findings: small index lookups in the transaction of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from joinsight.findings import cache_read_once
from joinsight.tables import EXECUTION_KEY, CacheRow, broadcast, cache, finding

RUNS = 20
"""Maximum earlier runs that are read."""
MAX_LOOKUPS = 2_000
"""Lookups of one batch, limited because a plan may have tens of thousands of broadcasts while other batches wait."""


class EarlierRuns:
    """The `History` of `joinsight.findings`, from PostgreSQL."""

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = MAX_LOOKUPS

    def broadcast_rows(self, operator_key: str, before: datetime) -> Sequence[int]:
        """The rows of a broadcast in its latest runs that succeeded, the last run first.

        Empty once the batch has made `MAX_LOOKUPS` lookups.
        """
        self._left -= 1
        if self._left < 0:
            return ()
        b = broadcast.c
        statement = (
            select(b.rows)
            .where(b.operator_key == operator_key, b.started_at < before)
            .where(b.outcome == "succeeded", b.rows.is_not(None))
            .order_by(b.started_at.desc())
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
