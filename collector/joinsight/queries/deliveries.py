"""What each listener delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, and_, func, select, tuple_

from joinsight.queries.filters import ids_of
from joinsight.store.delivery import missing
from joinsight.tables import Row, application, delivery, execution

_LISTENER_KEY = ("application_id", "attempt_id", "listener_id")


def read_deliveries(connection: Connection, id_or_name: str | None, since: datetime | None, limit: int) -> list[Row]:
    """The delivery of each listener's documents, the most recently active listener first.

    Each with its application (None if all its documents were refused), the number of its `next_attempt` that sent
    any (or None), the number of `executions` by state, and of `incomplete` ones by the code of the reason (its
    sentence for listeners without codes).
    """
    d, a = delivery.c, application.c
    statement = (
        select(delivery, a.name, a.state, a.started_at, missing(dict(d), d.documents_made).label("sequences_missing"))
        .outerjoin(application, and_(d.application_id == a.application_id, d.attempt_id == a.attempt_id))
        .order_by(d.last_heard_at.desc(), d.application_id)
        .limit(limit)
    )
    if id_or_name is not None:
        statement = statement.where(d.application_id.in_(ids_of(id_or_name)))
    if since is not None:
        statement = statement.where(d.last_heard_at >= since)
    rows = {tuple(row[name] for name in _LISTENER_KEY): dict(row) for row in connection.execute(statement).mappings()}
    for row in rows.values():
        for name in [name for name in row if name.startswith("sequences_")]:
            row[name] = None if row[name] is None else [[each.lower, each.upper - 1] for each in row[name]]
        row["executions"], row["incomplete"] = {}, {}
    _add_next_attempts(connection, rows.values())
    key = [execution.c[name] for name in _LISTENER_KEY]
    is_listed = tuple_(*key).in_(list(rows))
    for *listener, state, number in connection.execute(
        select(*key, execution.c.state, func.count()).where(is_listed).group_by(*key, execution.c.state)
    ):
        rows[tuple(listener)]["executions"][state] = number
    codes = func.coalesce(execution.c.incomplete_codes, execution.c.incomplete)
    each = select(*key, func.unnest(codes).label("reason")).where(is_listed).subquery()
    of_listener = [each.c[name] for name in _LISTENER_KEY]
    reasons = select(*of_listener, each.c.reason, func.count()).group_by(*of_listener, each.c.reason)
    reasons = reasons.order_by(func.count().desc(), each.c.reason)
    for *listener, reason, number in connection.execute(reasons):
        rows[tuple(listener)]["incomplete"][reason] = number
    return list(rows.values())


def _add_next_attempts(connection: Connection, rows: Collection[Row]) -> None:
    """Set `next_attempt` of each row; attempts have numbers in YARN's cluster mode only."""
    attempts: dict[str, list[int]] = defaultdict(list)
    c = application.c
    ids = {row["application_id"] for row in rows if row["attempt_id"]}
    for app, attempt in connection.execute(select(c.application_id, c.attempt_id).where(c.application_id.in_(ids))):
        attempts[app] += [int(attempt)] * attempt.isdecimal()
    for row in rows:
        this = row["attempt_id"]
        later = (each for each in attempts[row["application_id"]] if this.isdecimal() and each > int(this))
        row["next_attempt"] = min(later, default=None)
