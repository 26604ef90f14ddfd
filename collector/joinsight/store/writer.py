"""Writes documents to PostgreSQL: one transaction a batch, each execution replaced as a whole by a newer document.

An execution's row is inserted or, if this document is newer, updated; that row is also the lock that keeps two
collectors from mixing their work. Then the rows that belong to it are deleted, if there are any, and copied in.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Engine, Table, and_, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError

from joinsight.document import Application, Document, Execution
from joinsight.rows import Row, Rows, application_row, application_row_of, execution_rows
from joinsight.store import models, partitions

_KEY = models.EXECUTION_KEY
_BATCH_ROWS = 500
_Key = tuple[Any, ...]


@dataclass(slots=True)
class Written:
    """What a batch did to the store."""

    stored: int = 0
    """Documents that changed it."""
    stale: int = 0
    """Documents that were old news: repeated or overtaken."""
    finished: list[Rows] = field(default_factory=list)
    """The rows of executions that are over and were not before."""
    refused: list[tuple[Document, str]] = field(default_factory=list)


class Writer:
    """Writes batches through an engine; safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._months: set[str] = set()
        self._lock = threading.Lock()

    def write(self, documents: Sequence[Document]) -> Written:
        """Store a batch and commit. Raises SQLAlchemy's `OperationalError` when the database is not there.

        If PostgreSQL refuses a value that the schema of documents allows, the batch is written document by document
        and only the culprit is refused.
        """
        try:
            return self._write(documents)
        except (DataError, IntegrityError, ProgrammingError, UnicodeEncodeError) as error:
            if len(documents) == 1:  # the culprit
                reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
                return Written(refused=[(documents[0], f"PostgreSQL refused it: {reason}")])
        written = Written()
        for document in documents:
            one = self.write([document])
            written.stored += one.stored
            written.stale += one.stale
            written.finished += one.finished
            written.refused += one.refused
        return written

    def _write(self, documents: Sequence[Document]) -> Written:
        executions = _newest(d for d in documents if isinstance(d, Execution))
        applications = [d for d in documents if isinstance(d, Application)]
        rows = {key: execution_rows(e) for key, e in executions.items()}
        self._make_partitions([found["execution"][0] for found in rows.values()])
        with self._engine.begin() as connection:
            _write_applications(connection, applications, list(executions.values()))
            by_key = {_row_key(rows[key]["execution"][0]): rows[key] for key in sorted(rows)}
            over_before = _over(connection, list(by_key))
            accepted = _write_executions(connection, [found["execution"][0] for found in by_key.values()])
            _delete_children(connection, accepted)
            _copy_children(connection, [by_key[key] for key in accepted])
        stored = len(applications) + len(accepted)
        finished = [
            by_key[key]
            for key in accepted
            if by_key[key]["execution"][0]["state"] != "running" and key not in over_before
        ]
        return Written(stored, len(documents) - stored, finished)

    def _make_partitions(self, rows: list[Row]) -> None:
        months = {partitions.month_of(row["started_at"]) for row in rows} - self._months
        if months:
            with self._lock:
                partitions.create(self._engine, months)
                self._months |= months


def _newest(executions: Iterable[Execution]) -> dict[tuple[str, str, int], Execution]:
    """The newest document of each execution of the batch."""
    newest: dict[tuple[str, str, int], Execution] = {}
    for e in executions:
        key = (e.application_id, e.attempt_id, e.execution_id)
        old = newest.get(key)
        if old is None or (e.listener.id, e.sequence) > (old.listener.id, old.sequence) or e.listener != old.listener:
            newest[key] = e
    return newest


def _row_key(row: Row) -> _Key:
    return tuple(row[name] for name in _KEY)


def _upsert(table: Table, rows: list[Row], newer: Any) -> Insert:
    """Insert the rows; where one exists, update it if `newer(existing, excluded)` holds."""
    names = sorted({name for row in rows for name in row})
    values = [{name: row.get(name) for name in names} | {"updated_at": func.now()} for row in rows]
    statement = insert(table).values(values)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in (*names, "updated_at") if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed, where=newer(table.c, statement.excluded))


def _write_applications(connection: Connection, documents: list[Application], executions: list[Execution]) -> None:
    newest = {(a.application_id, a.attempt_id): a for a in sorted(documents, key=lambda a: a.sequence)}
    if newest:
        rows = [application_row(newest[key]) for key in sorted(newest)]
        connection.execute(
            _upsert(
                models.application,
                rows,
                lambda old, new: or_(old.listener_id != new.listener_id, old.sequence < new.sequence),
            )
        )
    told = {key: e for e in executions if (key := (e.application_id, e.attempt_id)) not in newest}
    if told:
        rows = [application_row_of(told[key]) | {"updated_at": func.now()} for key in sorted(told)]
        connection.execute(insert(models.application).values(rows).on_conflict_do_nothing())


def _write_executions(connection: Connection, rows: list[Row]) -> list[_Key]:
    """Insert or update; returns the keys of the rows written.

    A newer document of the same listener replaces an older one; between listeners, one that is not final yields.
    """

    def newer(old: Any, new: Any) -> Any:
        same = old.listener_id == new.listener_id
        return or_(
            and_(same, old.sequence < new.sequence),
            and_(~same, or_(old.state == "running", new.state != "running")),
        )

    accepted: list[_Key] = []
    table = models.execution
    for start in range(0, len(rows), _BATCH_ROWS):
        statement = _upsert(table, rows[start : start + _BATCH_ROWS], newer)
        accepted += map(tuple, connection.execute(statement.returning(*(table.c[name] for name in _KEY))))
    return accepted


def _over(connection: Connection, keys: list[_Key]) -> set[_Key]:
    """Of these executions, those that are stored as ended."""
    if not keys:
        return set()
    columns = [models.execution.c[name] for name in _KEY]
    rows = connection.execute(select(*columns).where(tuple_(*columns).in_(keys), models.execution.c.state != "running"))
    return {tuple(row) for row in rows}


def _delete_children(connection: Connection, keys: list[_Key]) -> None:
    if not keys:
        return
    for table in models.CHILDREN:
        connection.execute(table.delete().where(tuple_(*(table.c[name] for name in _KEY)).in_(keys)))


def _copy_children(connection: Connection, found: list[Rows]) -> None:
    by_table: dict[str, list[Row]] = defaultdict(list)
    for rows in found:
        for name, some in rows.items():
            by_table[name] += some
    cursor = connection.connection.cursor()
    for table in models.CHILDREN:
        if not by_table[table.name]:
            continue
        names = [column.name for column in table.columns]
        json = [isinstance(column.type, JSONB) for column in table.columns]
        quoted = ", ".join(f'"{name}"' for name in names)
        with cursor.copy(f'COPY "{table.name}" ({quoted}) FROM STDIN') as copy:
            for row in by_table[table.name]:
                values = (row.get(name) for name in names)
                copy.write_row([Jsonb(v) if j and v is not None else v for v, j in zip(values, json, strict=True)])
