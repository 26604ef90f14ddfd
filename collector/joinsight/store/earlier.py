"""What earlier runs say, for findings: small questions, which an index answers, in the transaction of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from joinsight.store.models import broadcast

RUNS = 20
"""How many are looked at."""
MOST_ASKED = 2_000
"""Questions of one batch: a plan may have tens of thousands of broadcasts, and others wait for their turn."""


class EarlierRuns:
    """The `History` of `joinsight.findings`, as PostgreSQL has it."""

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = MOST_ASKED

    def broadcast_rows(self, operator_key: str, before: datetime) -> Sequence[int]:
        """Rows of the latest runs of a broadcast, the last one first, of those that succeeded.

        None from the question on that is one too many.
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
