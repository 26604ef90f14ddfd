"""Reads earlier runs for findings: small index lookups in the transaction of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from joinsight.tables import broadcast

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
