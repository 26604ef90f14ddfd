"""Writes documents to PostgreSQL: one transaction a batch, each execution replaced as a whole by a newer document.

An application's row is the lock that serializes collectors: a batch locks those of its
applications, in the order of their keys, before anything else. Then it reads what is stored, and
`replacement` decides. The child rows of executions that are replaced are deleted, findings of those that have ended are
computed, and one statement writes all rows, each table's from a JSON parameter: that takes half the CPU of a COPY for
each table where a batch is one document, and less up to twenty (docs/decisions/024). Findings that another execution
refutes are removed.

A document that cannot be stored is refused on its own: because no rows can be made of it, or because
PostgreSQL refuses them, in the schema of this program. Only then a batch takes more than one transaction.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import reduce
from typing import Any, TypeVar

from psycopg.errors import CheckViolation, NotNullViolation
from sqlalchemy import ARRAY, BigInteger, Connection, Engine, Table, any_, literal, select, true, tuple_
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from joinsight import tables
from joinsight.analysis.rows import Plans, Rows, application_row, application_row_of, execution_rows
from joinsight.base.errors import DatabaseError, SchemaError
from joinsight.contract.document import Application, Document, Execution
from joinsight.findings import FindingsEngine
from joinsight.store import delivery, partitions
from joinsight.store.database import check_schema, reason
from joinsight.store.history import EarlierRuns, remove_refuted
from joinsight.store.replacement import Version, replaces, version_of
from joinsight.tables import ApplicationRow, ExecutionRow, as_json

_KEY = tables.EXECUTION_KEY
_STATEMENT_ROWS = 500
BUSY_SECONDS = 60
"""Pause after a month whose partitions could not be created, because a table was in use."""
_PROGRAM_LIMIT_EXCEEDED = "54"  # class of SQLSTATEs: a text too long for an index, say
_Key = tuple[Any, ...]
_T = TypeVar("_T")
_Made = tuple[Document, ApplicationRow | Rows]

log = logging.getLogger("joinsight")


@dataclass(slots=True)
class Written:
    """The result of writing a batch."""

    stored: int = 0
    """Documents that were stored or updated."""
    stale: int = 0
    """Documents that changed nothing: repeated, or superseded by a newer one."""
    repaired: int = 0
    """Stored documents of an event log that replaced an execution's live document."""
    finished: list[Rows] = field(default_factory=list)
    """The rows of executions that have now succeeded or failed, and had not before."""
    refused: list[tuple[Document, str]] = field(default_factory=list)
    """Documents that will never be stored, with the reason."""
    faults: int = 0
    """Refused documents that no rows could be made of: faults of this program."""

    def add(self, other: Written) -> None:
        """Add the result of another batch."""
        self.stored += other.stored
        self.stale += other.stale
        self.repaired += other.repaired
        self.finished += other.finished
        self.refused += other.refused
        self.faults += other.faults


class Writer:
    """Writes batches through an engine; safe to use from several threads."""

    def __init__(
        self, engine: Engine, findings: FindingsEngine | None = None, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        """`check_cancelled` is called repeatedly before anything is written; it raises to end the work."""
        self._engine = engine
        self._findings = findings or FindingsEngine()
        self._check_cancelled = check_cancelled
        self._months: set[str] = set()
        self._no_partitions_until = 0.0
        self._lock = threading.Lock()

    def write(
        self, documents: Sequence[Document], refused: Sequence[delivery.Refused] = (), lock_seconds: int | None = None
    ) -> Written:
        """Store a batch and commit. Raises SQLAlchemy's `DBAPIError` when the database is unavailable or faulty.

        `refused` are documents of the same request that were refused: they are only counted. If PostgreSQL refuses a
        value that the schema of documents allows, each half of the batch is written by itself, until the culprits are
        found. `lock_seconds` limits the wait for a lock more than the connection does.
        """
        try:
            return self._write(documents, refused, lock_seconds)
        except (DBAPIError, UnicodeEncodeError) as error:
            if not _is_refusal(error):
                raise
            if len(documents) + len(refused) <= 1:  # the culprit
                if not self._has_own_schema():
                    raise
                return self._refuse(documents, reason(error).splitlines()[0])
        written = Written()
        for half in _halves(documents, refused):
            written.add(self.write(*half, lock_seconds))
        return written

    def _has_own_schema(self) -> bool:
        """Whether the schema is this program's: another release's may refuse what is right."""
        try:
            check_schema(self._engine)
        except SchemaError as error:
            log.error("a document is deferred, its sender retries: %s", error)
            return False
        return True

    def _refuse(self, culprits: Sequence[Document], reason: str) -> Written:
        """Record the refusal, unless PostgreSQL refuses that too, because of the document's header."""
        written = Written(refused=[(document, f"PostgreSQL refused it: {reason}") for document in culprits])
        if culprits:
            self.write([], written.refused)
        return written

    def _write(
        self, documents: Sequence[Document], refused: Sequence[delivery.Refused], lock_seconds: int | None
    ) -> Written:
        newest, unreadable = self._newest(documents)
        executions = {
            _row_key(made.execution): (d, made)
            for d, made in newest
            if isinstance(d, Execution) and isinstance(made, Rows)
        }
        self._make_partitions(started_at for started_at, *_ in executions)
        with self._engine.begin() as connection:
            if lock_seconds is not None:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{lock_seconds}s'")
            stored = _write_applications(connection, newest)
            before = _stored(connection, tables.execution, list(executions))
            misdated = _misdated(connection, executions)
            versions = {key: version_of(document) for key, (document, _) in executions.items()}
            accepted = {
                key: executions[key][1]
                for key in sorted(executions)
                if (key not in before or replaces(versions[key], before[key]))
                and all(replaces(versions[key], old) for old in misdated.get(key, {}).values())
            }
            replaced = [
                other for key, olds in misdated.items() for other, old in olds.items() if replaces(versions[key], old)
            ]
            _delete_children(connection, [*(key for key in accepted if key in before), *replaced])
            _delete(connection, tables.execution, replaced)
            history = EarlierRuns(connection, accepted.values())
            for key, rows in accepted.items():
                accepted[key] = dataclasses.replace(rows, finding=self._findings.rows(rows, history))
            _write_executions(connection, list(accepted.values()))
            remove_refuted(connection, (row for rows in accepted.values() for row in rows.cache))
            # Documents of event logs are not accounted for: each reading of a log makes all of them again
            arrived = [d for d in documents if d.origin == "live" and not any(d is each for each, _ in unreadable)]
            of_listeners = [each for each in [*refused, *unreadable] if getattr(each[0], "origin", "live") == "live"]
            delivery.record(connection, arrived, of_listeners)
        stored += len(accepted)
        written = Written(stored, len(documents) - len(unreadable) - stored, refused=unreadable, faults=len(unreadable))
        for key, rows in accepted.items():
            new, old = versions[key], before.get(key) or next(iter(misdated.get(key, {}).values()), None)
            written.repaired += old is not None and (old.origin, new.origin) == ("live", "event_log")
            if new.is_over and not (old and old.is_over):
                written.finished.append(rows)
        return written

    def _newest(self, documents: Sequence[Document]) -> tuple[list[_Made], list[tuple[Document, str]]]:
        """For each application and execution the document that stays, with its rows; and those without rows.

        A document that no rows can be made of would fail on each retry, so it is refused, and the next newest stays.
        """
        by_key: dict[_Key, list[Document]] = defaultdict(list)
        for document in documents:
            key = *_application_key(document), getattr(document, "execution_id", None)
            by_key[key].append(document)
        newest: list[_Made] = []
        unreadable: list[tuple[Document, str]] = []
        for candidates in by_key.values():
            while candidates:
                document = reduce(_later, candidates)
                try:
                    newest.append((document, self._rows(document)))
                    break
                except MemoryError:
                    raise
                except Exception as error:
                    self._check_cancelled()  # raises if the error was a cancellation, which is not a fault
                    unreadable.append((document, _fault(document, error)))
                    candidates[:] = [each for each in candidates if each is not document]
        return newest, unreadable

    def _rows(self, document: Document) -> ApplicationRow | Rows:
        if isinstance(document, Application):
            return application_row(document)
        return execution_rows(document, Plans(document, self._check_cancelled))

    def _make_partitions(self, times: Iterable[datetime]) -> None:
        """Create the partitions of new months, unless a reader is in the way: the default partitions take any row."""
        months = set(map(partitions.month_of, times)) - self._months
        if not months:
            return
        with self._lock:
            if time.monotonic() < self._no_partitions_until:
                return
            try:
                partitions.create(self._engine, months, partitions.MONTHS_AT_ONCE)
            except DatabaseError as error:
                self._no_partitions_until = time.monotonic() + BUSY_SECONDS
                log.warning("rows of new months go to the default partitions for now: %s", error)
                return
            # Past months are not cached: they may be pruned at any time, and a late document creates them again
            self._months |= {month for month in months if month >= partitions.month_of(datetime.now(timezone.utc))}


def _halves(
    documents: Sequence[Document], refused: Sequence[delivery.Refused]
) -> Iterator[tuple[Sequence[Document], Sequence[delivery.Refused]]]:
    if documents and refused:
        yield (), refused
        yield documents, ()
        return
    middle = (len(documents) + len(refused)) // 2
    yield documents[:middle], refused[:middle]
    yield documents[middle:], refused[middle:]


def _is_refusal(error: DBAPIError | UnicodeEncodeError) -> bool:
    """Whether the document is at fault; other errors, such as a missing table, are the database's and may pass.

    So are values that a table requires or does not allow: documents are checked for these when they are decoded, so the
    table is of another release.
    """
    if isinstance(getattr(error, "orig", None), (CheckViolation, NotNullViolation)):
        return False
    if isinstance(error, (DataError, IntegrityError, UnicodeEncodeError)):
        return True
    return str(getattr(error.orig, "sqlstate", None)).startswith(_PROGRAM_LIMIT_EXCEEDED)


def _application_key(document: Document) -> _Key:
    return document.application_id, document.attempt_id


def _later(old: Document, new: Document) -> Document:
    return new if replaces(version_of(new), version_of(old)) else old


def _fault(document: Document, error: Exception) -> str:
    about: dict[str, object] = {"application": document.application_id}
    if isinstance(document, Execution):
        about["execution"] = document.execution_id
    log.exception("internal error: a document could not be read", extra={"fields": about})
    return f"could not be read: {type(error).__name__}: {error}"[:300]


def _row_key(row: ExecutionRow) -> _Key:
    return tuple(getattr(row, name) for name in _KEY)


def _insert(table: Table) -> str:
    """Inserts rows from a JSON parameter, updated now."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    values = names.replace('"updated_at"', "now()")
    rows = f'json_populate_recordset(NULL::"{table.name}", CAST(%s AS json))'
    return f'INSERT INTO "{table.name}" ({names}) SELECT {values} FROM {rows}'


def _upsert(table: Table) -> str:
    """Inserts rows from a JSON parameter, and replaces those that exist."""
    key = [column.name for column in table.primary_key]
    values = (f'"{each.name}" = excluded."{each.name}"' for each in table.columns if each.name not in key)
    return f"{_insert(table)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(values)}"


_NEW_APPLICATIONS = f"{_upsert(tables.application)} WHERE false RETURNING application_id, attempt_id"
"""Inserts applications, and returns their keys; those that exist stay unchanged, but are locked, too."""
_APPLICATIONS = _upsert(tables.application)
_EXECUTIONS = f"WITH {', '.join(f'{t.name}_ AS ({_insert(t)})' for t in tables.CHILDREN)} {_upsert(tables.execution)}"
"""Inserts the rows of all tables of `CHILDREN`, then of executions; a parameter each."""


def _write_executions(connection: Connection, executions: Sequence[Rows]) -> None:
    for chunk in _chunks(executions):
        children = [[row for rows in chunk for row in getattr(rows, table.name)] for table in tables.CHILDREN]
        of_tables = (*children, [rows.execution for rows in chunk])
        connection.exec_driver_sql(_EXECUTIONS, tuple(map(as_json, of_tables)))


def _write_applications(connection: Connection, newest: list[_Made]) -> int:
    """Lock the applications of these documents, write those that a document replaces, and return their number.

    In the order of their keys, so that writers lock them in the same order.
    """
    reported = {_application_key(d): d for d, _ in newest if isinstance(d, Application)}
    rows = {_application_key(d): application_row_of(d) for d, _ in newest if isinstance(d, Execution)}
    rows |= {_application_key(d): made for d, made in newest if isinstance(made, ApplicationRow)}
    new: set[_Key] = set()
    for chunk in _chunks([rows[key] for key in sorted(rows)]):
        new.update(map(tuple, connection.exec_driver_sql(_NEW_APPLICATIONS, (as_json(chunk),))))
    before = _stored(connection, tables.application, list(reported.keys() - new))
    better = [key for key in sorted(before) if replaces(version_of(reported[key]), before[key])]
    for chunk in _chunks([rows[key] for key in better]):
        connection.exec_driver_sql(_APPLICATIONS, (as_json(chunk),))
    return len(reported.keys() & new) + len(better)


def _stored(connection: Connection, table: Table, keys: list[_Key]) -> dict[_Key, Version]:
    """The stored versions of these applications or executions, by key."""
    key, c = list(table.primary_key), table.c
    is_complete = c.incomplete.is_(None) if "incomplete" in c else true()
    version = (c.origin, c.state, is_complete, c.listener_id, c.sequence)
    versions: dict[_Key, Version] = {}
    for chunk in _chunks(keys):
        for row in connection.execute(select(*key, *version).where(tuple_(*key).in_(chunk))):
            versions[tuple(row[: len(key)])] = Version(*row[len(key) :])
    return versions


def _misdated(
    connection: Connection, executions: Mapping[_Key, tuple[Execution, Rows]]
) -> dict[_Key, dict[_Key, Version]]:
    """By key, rows of the same execution with another key, because the listener or the log did not have its start.

    Then the time of its first event is in the key. Live documents with their start, which are nearly all, cost no query
    for this. Of two listeners, or of two logs, both rows stay.
    """
    suspects: dict[tuple[str, str], dict[int, _Key]] = defaultdict(dict)
    for key, (document, _) in executions.items():
        if document.origin == "event_log" or _lacks_start(document.incomplete_codes):
            suspects[document.application_id, document.attempt_id][document.execution_id] = key
    c = tables.execution.c
    key_columns = [c[name] for name in _KEY]
    version = (c.origin, c.state, c.incomplete.is_(None), c.listener_id, c.sequence)
    found: dict[_Key, dict[_Key, Version]] = defaultdict(dict)
    for (application, attempt), of_ids in suspects.items():
        ids = any_(literal(list(of_ids), ARRAY(BigInteger)))
        statement = select(*key_columns, *version, c.incomplete_codes).where(
            c.application_id == application, c.attempt_id == attempt, c.execution_id == ids
        )
        for row in connection.execute(statement):
            other, key = tuple(row[: len(_KEY)]), of_ids[row.execution_id]
            document = executions[key][0]
            lacks_start = _lacks_start(row.incomplete_codes) or _lacks_start(document.incomplete_codes)
            if other != key and row.origin != document.origin and lacks_start:
                found[key][other] = Version(*row[len(_KEY) : -1])
    return found


def _lacks_start(incomplete_codes: Sequence[str] | None) -> bool:
    return "start_not_seen" in (incomplete_codes or ())


def _delete_children(connection: Connection, keys: list[_Key]) -> None:
    for table in tables.CHILDREN:
        _delete(connection, table, keys)


def _delete(connection: Connection, table: Table, keys: list[_Key]) -> None:
    for chunk in _chunks(keys):
        connection.execute(table.delete().where(tuple_(*(table.c[name] for name in _KEY)).in_(chunk)))


def _chunks(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Chunks of at most `_STATEMENT_ROWS`, the rows of one statement."""
    for start in range(0, len(rows), _STATEMENT_ROWS):
        yield rows[start : start + _STATEMENT_ROWS]
