"""Deletes old data: whole months, and applications without any remaining execution.

A month is dropped in one transaction per table; the wait for the lock on the parent ends after 2 s, so that a long
reader delays the drop, but not the collectors that would queue behind it. `DROP TABLE` is atomic; a month of which
some tables are gone is completed by the next call (docs/decisions/006).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from joinsight.base.errors import DatabaseError
from joinsight.store.database import LOCK_SECONDS, PAUSES, exclusively, holder, is_busy, reason
from joinsight.tables import CHILDREN, EXECUTION_KEY, PARTITIONED, execution

_ROWS = 100_000
"""Applications deleted in one transaction."""
_OLD = """
    WITH part AS (
        SELECT parent.relname AS parent, c.oid, c.oid::regclass::text AS name,
            CAST(nullif(c.reltuples, -1) AS bigint) AS rows, pg_total_relation_size(c.oid) AS bytes,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \\('([^']+)'\\) TO \\('([^']+)'\\)$$) AS bounds
        FROM pg_class parent JOIN pg_inherits i ON i.inhparent = parent.oid JOIN pg_class c ON c.oid = i.inhrelid
        WHERE parent.oid IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST(:tables AS text[])) AS name)
    )
    SELECT parent AS "table", oid, name, rows, bytes, CAST(bounds[1] AS timestamptz) AS starts_at
    FROM part WHERE CAST(bounds[2] AS timestamptz) <= now() - :keep
"""
# In the default partitions, where start times are wrong, the time when a row was stored counts
_MISDATED = "SELECT count(*) FROM execution_default WHERE :all OR updated_at < now() - :keep"
_KEYS = ", ".join(EXECUTION_KEY)
_DELETE_MISDATED = f"""
    DELETE FROM "{{table}}" WHERE ({_KEYS}) IN
        (SELECT {_KEYS} FROM execution_default WHERE :all OR updated_at < now() - :keep)
"""
# Applications without contact since then and without executions. Partitions that will be dropped do not
# count, so that a dry run finds what the real one does.
_SILENT = """
    CASE a.state WHEN 'ended' THEN coalesce(a.ended_at, a.updated_at) ELSE a.updated_at END < now() - :keep
    AND NOT EXISTS (SELECT FROM delivery h WHERE (h.application_id, h.attempt_id) = (a.application_id, a.attempt_id)
        AND h.last_heard_at >= now() - :keep)
    AND NOT EXISTS (SELECT FROM execution e WHERE (e.application_id, e.attempt_id) = (a.application_id, a.attempt_id)
        AND e.tableoid <> ALL(CAST(:going AS oid[]))
        AND NOT (e.tableoid = CAST('execution_default' AS regclass) AND (:all OR e.updated_at < now() - :keep)))
"""
_APPLICATIONS = f"SELECT count(*) FROM application a WHERE {_SILENT}"
_DELIVERIES = f"""
    SELECT count(*) FROM delivery d WHERE last_heard_at < now() - :keep AND NOT EXISTS (SELECT FROM application a
        WHERE (a.application_id, a.attempt_id) = (d.application_id, d.attempt_id) AND NOT ({_SILENT}))
"""
# Locked rows are being written: their drivers live, or documents of them arrive late.
_LOCK_APPLICATIONS = f"""
    SELECT application_id, attempt_id FROM application a
    WHERE (application_id, attempt_id) > (:application, :attempt) AND {_SILENT}
    ORDER BY application_id, attempt_id LIMIT :limit FOR UPDATE SKIP LOCKED
"""
# Checked again under the locks: an execution may have arrived in between.
_DELETE_APPLICATIONS = f"""
    WITH gone AS (
        DELETE FROM application a WHERE {_SILENT} AND (application_id, attempt_id)
            IN (SELECT * FROM unnest(CAST(:applications AS text[]), CAST(:attempts AS text[])))
        RETURNING application_id, attempt_id
    ), theirs AS (
        DELETE FROM delivery d USING gone g WHERE (d.application_id, d.attempt_id) = (g.application_id, g.attempt_id)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM theirs)
"""
# Deliveries without an application: all documents of the listener were refused
_DELETE_ORPHANS = """
    DELETE FROM delivery d WHERE last_heard_at < now() - :keep AND NOT EXISTS (SELECT FROM application a
        WHERE (a.application_id, a.attempt_id) = (d.application_id, d.attempt_id))
"""


@dataclass(frozen=True, slots=True)
class Partition:
    """A month of a table; `rows` is PostgreSQL's estimate, None where it has none."""

    table: str
    name: str
    oid: int
    starts_at: datetime
    rows: int | None
    bytes: int


@dataclass(slots=True)
class Pruned:
    """What was deleted, or would be."""

    partitions: list[Partition] = field(default_factory=list)
    misdated: int = 0
    """Executions in the default partition."""
    applications: int = 0
    deliveries: int = 0


def preview(engine: Engine, keep: timedelta, misdated: bool = False) -> Pruned:
    """What `prune` would delete now; deletes nothing."""
    with engine.connect() as connection:
        parts = _old(connection, keep)
        times = _times(keep, misdated, parts)
        misdated_executions, applications, deliveries = (
            int(connection.execute(text(count), times).scalar_one())
            for count in (_MISDATED, _APPLICATIONS, _DELIVERIES)
        )
        return Pruned(parts, misdated_executions, applications, deliveries)


def prune(engine: Engine, keep: timedelta, misdated: bool = False) -> Pruned:
    """Delete the months that ended longer than `keep` ago, and applications without any remaining execution.

    Rows of the default partition are deleted if they were stored longer ago than that, with `misdated` all of them.
    Raises `DatabaseError` if another program prunes, or if a table stays in use through all attempts; what was
    deleted until then stays deleted.
    """
    with exclusively(engine):
        with engine.connect() as connection:
            pruned = Pruned(_old(connection, keep))
        for partition in pruned.partitions:
            _drop(engine, partition)
        times = _times(keep, misdated)
        with engine.begin() as connection:
            pruned.misdated = int(connection.execute(text(_MISDATED), times).scalar_one())
            for table in (*CHILDREN, execution):
                connection.execute(text(_DELETE_MISDATED.format(table=f"{table.name}_default")), times)
        _delete_applications(engine, times, pruned)
        with engine.begin() as connection:
            pruned.deliveries += connection.execute(text(_DELETE_ORPHANS), times).rowcount
    return pruned


def _times(keep: timedelta, misdated: bool, going: Iterable[Partition] = ()) -> dict[str, Any]:
    return {"keep": keep, "all": misdated, "going": [partition.oid for partition in going]}


def _old(connection: Connection, keep: timedelta) -> list[Partition]:
    """Partitions to drop: oldest month first, executions after their children, so that no child is orphaned."""
    tables = [table.name for table in PARTITIONED]
    rows = connection.execute(text(_OLD), {"tables": tables, "keep": keep})
    parts = [Partition(**row) for row in rows.mappings()]
    return sorted(parts, key=lambda part: (part.starts_at, part.table == execution.name, part.table))


def _drop(engine: Engine, partition: Partition) -> None:
    for pause in (*PAUSES, None):
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
                connection.execute(text(f"DROP TABLE {partition.name}"))
            return
        except DBAPIError as error:
            if not is_busy(error):
                raise DatabaseError(f"{partition.name} cannot be dropped: {reason(error)}") from None
        if pause is None:
            used = holder(engine, [partition.table, partition.name])
            raise DatabaseError(
                f"{partition.name} cannot be dropped, its table is in use{used}."
                " What was deleted before stays deleted: run it again later."
            )
        time.sleep(pause)


def _delete_applications(engine: Engine, times: dict[str, Any], pruned: Pruned) -> None:
    last = {"application": "", "attempt": "", "limit": _ROWS}
    while True:
        with engine.begin() as connection:
            locked = connection.execute(text(_LOCK_APPLICATIONS), {**times, **last}).all()
            if not locked:
                return
            keys = {"applications": [row[0] for row in locked], "attempts": [row[1] for row in locked]}
            applications, deliveries = connection.execute(text(_DELETE_APPLICATIONS), {**times, **keys}).one()
        last |= {"application": locked[-1][0], "attempt": locked[-1][1]}
        pruned.applications += applications
        pruned.deliveries += deliveries
