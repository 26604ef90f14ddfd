"""What the commands read: executions, plans, shuffles, broadcasts, joins and deliveries, as PostgreSQL has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, select, tuple_

from joinsight.errors import ConfigurationError, NotFound
from joinsight.rows import Row
from joinsight.store.delivery import count
from joinsight.store.models import (
    EXECUTION_KEY,
    application,
    broadcast,
    delivery,
    execution,
    joins,
    node_metric,
    plan_version,
)
from joinsight.store.models import shuffle as shuffle_table

Key = tuple[datetime, str, str, int]

KEY_LENGTH = 16
"""Characters of a query's shape, a plan's fingerprint and an operator's key."""

_KEY = re.compile(f"[0-9a-f]{{4,{KEY_LENGTH}}}")

SORTS: Mapping[str, Mapping[str, ColumnElement[Any]]] = {
    "queries": {
        "recent": execution.c.started_at.desc(),
        "time": execution.c.duration_ms.desc().nulls_last(),
        "size": execution.c.shuffle_write_bytes.desc().nulls_last(),
        "spill": execution.c.disk_spilled_bytes.desc().nulls_last(),
    },
    "shuffles": {
        "size": shuffle_table.c.bytes_written.desc().nulls_last(),
        "time": (shuffle_table.c.write_time_ns / 1_000_000 + shuffle_table.c.fetch_wait_ms).desc().nulls_last(),
        "skew": shuffle_table.c.skew_ratio.desc().nulls_last(),
        "recent": shuffle_table.c.started_at.desc(),
    },
    "broadcasts": {
        "size": broadcast.c.size_bytes.desc().nulls_last(),
        "time": (broadcast.c.collect_ms + broadcast.c.build_ms + broadcast.c.broadcast_ms).desc().nulls_last(),
        "recent": broadcast.c.started_at.desc(),
    },
    "joins": {
        "size": joins.c.output_rows.desc().nulls_last(),
        "time": execution.c.duration_ms.desc().nulls_last(),
        "spill": joins.c.spill_bytes.desc().nulls_last(),
        "recent": joins.c.started_at.desc(),
    },
}
"""Orders that each command offers; the first is its standard."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the reader asked for; empty fields ask for all."""

    application: str | None = None
    """Its id, or its name."""
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: str | None = None
    execution: str | None = None
    shape: str | None = None
    """A `query_shape`, or how it begins."""
    operator: str | None = None
    """An `operator_key`, or how it begins; not for queries."""
    limit: int = 20


def read_queries(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Executions."""
    return _rows(connection, _filtered(select(execution), filters, connection), SORTS["queries"][sort], filters)


def read_shuffles(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Shuffles with their execution's description."""
    return _operators(connection, shuffle_table, filters, SORTS["shuffles"][sort])


def read_broadcasts(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Broadcasts with their execution's description."""
    return _operators(connection, broadcast, filters, SORTS["broadcasts"][sort])


def read_joins(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Joins with their execution's description."""
    return _operators(connection, joins, filters, SORTS["joins"][sort])


def _operators(connection: Connection, table: Table, filters: Filters, order: ColumnElement[Any]) -> list[Row]:
    of_execution = and_(*(table.c[name] == execution.c[name] for name in EXECUTION_KEY))
    columns = (execution.c.job_name, execution.c.description, execution.c.state, execution.c.duration_ms)
    statement = select(table, *columns).join(execution, of_execution)
    if filters.operator is not None:
        statement = statement.where(_begins(table.c.operator_key, "--operator", filters.operator))
    return _rows(connection, _filtered(statement, filters, connection), order, filters, table)


def _filtered(statement: Select[Any], filters: Filters, connection: Connection) -> Select[Any]:
    c = execution.c
    if filters.application is not None:
        named = select(application.c.application_id).where(application.c.name == filters.application)
        statement = statement.where((c.application_id == filters.application) | c.application_id.in_(named))
    if filters.job is not None:
        statement = statement.where(c.job_name == filters.job)
    if filters.since is not None:
        statement = statement.where(c.started_at >= filters.since)
    if filters.until is not None:
        statement = statement.where(c.started_at < filters.until)
    if filters.state is not None:
        statement = statement.where(c.state == filters.state)
    if filters.shape is not None:
        statement = statement.where(_begins(c.query_shape, "--shape", filters.shape))
    if filters.execution is not None:
        key = find_execution(connection, filters.execution)
        statement = statement.where(*(c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)))
    return statement


def _begins(column: ColumnElement[Any], option: str, text: str) -> ColumnElement[bool]:
    """Whose key is `text`, or begins with it: a range, which an index serves in every collation."""
    if not _KEY.fullmatch(text):
        raise ConfigurationError(option, text, "this is no key", "Write 16 hexadecimal digits, or the first 4 or more.")
    if len(text) == KEY_LENGTH:
        return column == text
    return column.between(text.ljust(KEY_LENGTH, "0"), text.ljust(KEY_LENGTH, "f"))


def _rows(
    connection: Connection,
    statement: Select[Any],
    order: ColumnElement[Any],
    filters: Filters,
    table: Table = execution,
) -> list[Row]:
    tie: list[ColumnElement[Any]] = [table.c[name].desc() for name in EXECUTION_KEY]
    if "node_id" in table.c:
        tie.append(table.c.node_id)
    statement = statement.order_by(order, *tie).limit(filters.limit)
    return [dict(row) for row in connection.execute(statement).mappings()]


def find_execution(connection: Connection, text: str) -> Key:
    """The execution that a person means.

    ``last``, ``APPLICATION/ID``, ``APPLICATION/ATTEMPT/ID``, or ``ID``: of the newest application that has it.
    Raises `NotFound`, or `ConfigurationError` for a text of another form.
    """
    c = execution.c
    statement = select(*(c[name] for name in EXECUTION_KEY)).order_by(c.started_at.desc()).limit(1)
    parts = text.split("/")
    if text != "last":
        if len(parts) > 3 or not parts[-1].isdecimal() or len(parts[-1]) > 18 or not all(parts):
            raise ConfigurationError("EXECUTION", text, "this names none", "Write 12, APPLICATION/12 or last.")
        statement = statement.where(c.execution_id == int(parts[-1]))
    if len(parts) > 1:
        statement = statement.where(c.application_id == parts[0])
    if len(parts) > 2:
        statement = statement.where(c.attempt_id == parts[1])
    found = connection.execute(statement).first()
    if found is None:
        raise NotFound(f"There is no execution {text}. `joinsight queries` lists those that are stored.")
    return (found[0], found[1], found[2], found[3])


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """An execution with its plan versions and all metrics, by node and accumulator."""

    execution: Row
    versions: list[Row]
    metrics: list[Row]

    def version(self, number: int | None) -> Row | None:
        """A plan version, the final one for None; None if the execution has no plan at all."""
        if not self.versions:
            return None
        if number is None:
            return self.versions[-1]
        if not 0 <= number < len(self.versions):
            raise NotFound(f"There is no plan version {number}; the versions are 0 to {len(self.versions) - 1}.")
        return self.versions[number]


def read_plan(connection: Connection, key: Key) -> StoredPlan:
    """All that is stored of one execution's plans."""

    def of(table: Table, *order: ColumnElement[Any]) -> list[Row]:
        where = [table.c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
        return [dict(r) for r in connection.execute(select(table).where(*where).order_by(*order)).mappings()]

    return StoredPlan(
        of(execution)[0],
        of(plan_version, plan_version.c.version.asc()),
        of(node_metric, node_metric.c.node_id.asc(), node_metric.c.accumulator_id.asc()),
    )


_LISTENER_KEY = ("application_id", "attempt_id", "listener_id")


def read_deliveries(connection: Connection, named: str | None, since: datetime | None, limit: int) -> list[Row]:
    """What the documents of each listener have come to, the one that was heard last first.

    Each with its application (None where only refused documents of it came), the number of `executions` by state, and
    of `incomplete` ones by reason. Numbers in reasons are left out for this.
    """
    d, a = delivery.c, application.c
    statement = (
        select(delivery, a.name, a.state, a.started_at, count(d.sequences_refused).label("refused_here"))
        .outerjoin(application, and_(d.application_id == a.application_id, d.attempt_id == a.attempt_id))
        .order_by(d.last_heard_at.desc(), d.application_id)
        .limit(limit)
    )
    if named is not None:
        statement = statement.where((d.application_id == named) | (a.name == named))
    if since is not None:
        statement = statement.where(d.last_heard_at >= since)
    rows = {tuple(row[name] for name in _LISTENER_KEY): dict(row) for row in connection.execute(statement).mappings()}
    for row in rows.values():
        for name in ("sequences_arrived", "sequences_refused"):
            row[name] = [[each.lower, each.upper - 1] for each in row[name]]
        row["executions"], row["incomplete"] = {}, {}
    key = [execution.c[name] for name in _LISTENER_KEY]
    mine = tuple_(*key).in_(list(rows))
    for *of, state, number in connection.execute(
        select(*key, execution.c.state, func.count()).where(mine).group_by(*key, execution.c.state)
    ):
        rows[tuple(of)]["executions"][state] = number
    each = select(*key, func.unnest(execution.c.incomplete).label("reason")).where(mine).subquery()
    alike = func.regexp_replace(each.c.reason, r"\m[0-9]+\M", "...", "g")
    of_listener = [each.c[name] for name in _LISTENER_KEY]
    reasons = select(*of_listener, alike, func.count()).group_by(*of_listener, alike)
    reasons = reasons.order_by(func.count().desc(), alike)
    for *of, why, number in connection.execute(reasons):
        rows[tuple(of)]["incomplete"][why] = number
    return list(rows.values())
