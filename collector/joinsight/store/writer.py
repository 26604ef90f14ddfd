"""Writes documents to PostgreSQL: one transaction a batch, each execution replaced as a whole by a newer document.

An application's row is the lock that keeps two collectors from mixing their work: a batch takes those of its
applications, in the order of their keys, before it looks at anything else. An execution's row is inserted or, if this
document is newer, updated; then the rows that belong to it are deleted, if there are any, and copied in.
Findings are looked for in between, in executions that have ended.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Engine,
    Table,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from joinsight.document import Application, Document, Execution
from joinsight.findings import Finder
from joinsight.rows import Plans, Row, Rows, application_row, application_row_of, execution_rows
from joinsight.store import delivery, models, partitions
from joinsight.store.database import reason
from joinsight.store.earlier import EarlierRuns

_KEY = models.EXECUTION_KEY
_APPLICATION_KEY = ("application_id", "attempt_id")
_STATEMENT_ROWS = 500
_GOING_ON = ("running", "unknown", "lost")
_ENDED = ("succeeded", "failed")
_OVER = ("succeeded", "failed", "ended")
_PROGRAM_LIMIT_EXCEEDED = "54"  # class of SQLSTATEs: a text too long for an index, say
_Key = tuple[Any, ...]
_T = TypeVar("_T")
_D = TypeVar("_D", Application, Execution)


@dataclass(slots=True)
class Written:
    """What a batch did to the store."""

    stored: int = 0
    """Documents that changed it."""
    stale: int = 0
    """Documents that were old news: repeated or overtaken."""
    repaired: int = 0
    """Of these, the executions of live documents that those of an event log replaced."""
    finished: list[Rows] = field(default_factory=list)
    """The rows of executions that have succeeded or failed and had not before."""
    refused: list[tuple[Document, str]] = field(default_factory=list)


class Writer:
    """Writes batches through an engine; safe to use from several threads."""

    def __init__(self, engine: Engine, finder: Finder | None = None, go_on: Callable[[], None] = lambda: None) -> None:
        """`go_on` is called again and again before anything is written; what it raises ends the work."""
        self._engine = engine
        self._finder = finder or Finder()
        self._go_on = go_on
        self._months: set[str] = set()
        self._lock = threading.Lock()

    def write(self, documents: Sequence[Document], refused: Sequence[delivery.Refused] = ()) -> Written:
        """Store a batch and commit. Raises SQLAlchemy's `DBAPIError` when the database is not there or not in order.

        `refused` are documents that came with it and were refused: they are only counted. If PostgreSQL refuses a value
        that the schema of documents allows, the batch is written document by document and only the culprit is refused.
        """
        try:
            return self._write(documents, refused)
        except (DBAPIError, UnicodeEncodeError) as error:
            if not _is_refusal(error):
                raise
            if len(documents) + len(refused) <= 1:  # the culprit
                return self._refuse(documents, reason(error).splitlines()[0])
        for each in refused:
            self.write([], [each])
        written = Written()
        for document in documents:
            one = self.write([document])
            written.stored += one.stored
            written.repaired += one.repaired
            written.stale += one.stale
            written.finished += one.finished
            written.refused += one.refused
        return written

    def _refuse(self, culprits: Sequence[Document], reason: str) -> Written:
        """Count it, unless its very stamp is what PostgreSQL does not take."""
        written = Written(refused=[(document, f"PostgreSQL refused it: {reason}") for document in culprits])
        if culprits:
            self.write([], written.refused)
        return written

    def _write(self, documents: Sequence[Document], refused: Sequence[delivery.Refused]) -> Written:
        executions = _newest(
            (d for d in documents if isinstance(d, Execution)), lambda e: (*_application_key(e), e.execution_id)
        )
        applications = _newest((d for d in documents if isinstance(d, Application)), _application_key)
        rows = {key: execution_rows(e, Plans(e, self._go_on)) for key, e in executions.items()}
        self._make_partitions([found["execution"][0] for found in rows.values()])
        with self._engine.begin() as connection:
            stored = _write_applications(connection, applications, executions.values())
            by_key = {_row_key(rows[key]["execution"][0]): rows[key] for key in sorted(rows)}
            ended_before = _ended(connection, list(by_key))
            live_before = _live(connection, [key for key, rows in by_key.items() if _of_log(rows["execution"][0])])
            accepted = _write_executions(connection, [found["execution"][0] for found in by_key.values()])
            _delete_children(connection, accepted)
            history = EarlierRuns(connection)
            for key in accepted:
                by_key[key]["finding"] = self._finder.rows(by_key[key], history)
            _copy_children(connection, [by_key[key] for key in accepted])
            # A log is read again and again, whole: of what it brings no account is kept
            of_listeners = [each for each in refused if getattr(each[0], "origin", "live") == "live"]
            delivery.record(connection, [d for d in documents if d.origin == "live"], of_listeners)
        stored += len(accepted)
        finished = [
            by_key[key]
            for key in accepted
            if by_key[key]["execution"][0]["state"] in _ENDED and key not in ended_before
        ]
        repaired = len(live_before.intersection(accepted))
        return Written(stored, len(documents) - stored, repaired, finished)

    def _make_partitions(self, rows: list[Row]) -> None:
        months = {partitions.month_of(row["started_at"]) for row in rows} - self._months
        if months:
            with self._lock:
                partitions.create(self._engine, months)
                # Earlier ones may be pruned at any time, and are made again for what comes late
                self._months |= {month for month in months if month >= partitions.month_of(datetime.now(timezone.utc))}


def _is_refusal(error: DBAPIError | UnicodeEncodeError) -> bool:
    """The fault is the document's; all else, such as a missing table, is the database's and may pass."""
    if isinstance(error, (DataError, IntegrityError, UnicodeEncodeError)):
        return True
    return str(getattr(error.orig, "sqlstate", None)).startswith(_PROGRAM_LIMIT_EXCEEDED)


def _application_key(document: Document) -> _Key:
    return document.application_id, document.attempt_id


def _newest(documents: Iterable[_D], key: Callable[[_D], _Key]) -> dict[_Key, _D]:
    """By key the document that is left if they are stored one after the other, as `_supersedes` says."""
    newest: dict[_Key, _D] = {}
    for new in documents:
        old = newest.get(key(new))
        if old is None or _replaces(new, old):
            newest[key(new)] = new
    return newest


def _replaces(new: Application | Execution, old: Application | Execution) -> bool:
    """`_supersedes`, of documents."""
    new_is_over, old_is_over = new.state in _OVER, old.state in _OVER
    new_is_whole = not (isinstance(new, Execution) and new.incomplete)
    old_is_whole = not (isinstance(old, Execution) and old.incomplete)
    if new.origin != old.origin:
        if new.origin == "event_log":
            return new_is_over and (not old_is_over or (new_is_whole and not old_is_whole))
        return not old_is_over or (new_is_over and (new_is_whole or not old_is_whole))
    if new.origin == "event_log":
        better = (new_is_over, new_is_whole), (old_is_over, old_is_whole)
        told = (new.state, new.listener.id) != (old.state, old.listener.id)
        return better[0] > better[1] or (
            better[0] == better[1] and (new.sequence > old.sequence or (new.sequence == old.sequence and told))
        )
    if old.listener.id == new.listener.id:
        return old.sequence < new.sequence
    return old.state in _GOING_ON or new.state not in _GOING_ON


def _supersedes(new: Any, old: Any) -> ColumnElement[bool]:
    """Between documents of a listener its count decides; one of another listener yields if it is not final.

    A live document is better than one of an event log, which replaces it only if it ends what the live one did not, or
    is whole where the live one is partial. Of two readings of a log the one that ends it is better, then the one
    that is whole, then the one that read further: compaction makes a log shorter. Of equal ones, that of another
    version of this program.
    """
    new_is_over, old_is_over = new.state.in_(_OVER), old.state.in_(_OVER)
    new_is_whole, old_is_whole = ~_is_partial(new), ~_is_partial(old)
    log_over_live = and_(new_is_over, or_(~old_is_over, and_(new_is_whole, ~old_is_whole)))
    live_over_log = or_(~old_is_over, and_(new_is_over, or_(new_is_whole, ~old_is_whole)))
    better = tuple_(new_is_over, new_is_whole), tuple_(old_is_over, old_is_whole)
    told = or_(new.state != old.state, new.listener_id != old.listener_id)
    further = or_(new.sequence > old.sequence, and_(new.sequence == old.sequence, told))
    log_over_log = or_(better[0] > better[1], and_(better[0] == better[1], further))
    same = old.listener_id == new.listener_id
    of_another = or_(old.state.in_(_GOING_ON), new.state.not_in(_GOING_ON))
    live_over_live = case((same, old.sequence < new.sequence), else_=of_another)
    return case(
        (new.origin != old.origin, case((new.origin == "event_log", log_over_live), else_=live_over_log)),
        (new.origin == "event_log", log_over_log),
        else_=live_over_live,
    )


def _is_partial(row: Any) -> ColumnElement[bool]:
    """Of an execution; an application is never."""
    return row.incomplete.is_not(None) if "incomplete" in row else false()


def _of_log(row: Row) -> bool:
    return bool(row["origin"] == "event_log")


def _row_key(row: Row) -> _Key:
    return tuple(row[name] for name in _KEY)


def _upsert(table: Table, rows: list[Row]) -> Insert:
    """Insert the rows; where one exists, update it if the new one supersedes it.

    They travel as one parameter: a statement with one for each value takes longer to write than to carry out.
    """
    names = sorted({name for row in rows for name in row})
    sent = cast(literal(msgspec.json.encode(rows).decode(), Text), JSON)
    given = func.json_populate_recordset(literal_column(f'NULL::"{table.name}"'), sent).table_valued(*names)
    values = select(*(given.c[name] for name in names), func.now())
    statement = insert(table).from_select([*names, "updated_at"], values)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in (*names, "updated_at") if name not in keys}
    newer = _supersedes(statement.excluded, table.c)
    return statement.on_conflict_do_update(index_elements=keys, set_=changed, where=newer)


def _write_applications(
    connection: Connection, newest: dict[_Key, Application], executions: Iterable[Execution]
) -> int:
    """Write what is told of applications, by themselves or by executions; returns how many told something new.

    One after the other in the order of their keys, so that writers lock them in the same order. PostgreSQL also locks a
    row that it does not update.
    """
    told = {_application_key(e): e for e in executions}
    stored = 0
    for key in sorted(newest.keys() | told.keys()):
        if key in newest:
            statement = _upsert(models.application, [application_row(newest[key])])
            stored += len(connection.execute(statement.returning(models.application.c.attempt_id)).all())
        else:
            row = application_row_of(told[key]) | {"updated_at": func.now()}
            statement = insert(models.application).values(row)
            nothing = {"attempt_id": statement.excluded.attempt_id}
            lock = statement.on_conflict_do_update(index_elements=_APPLICATION_KEY, set_=nothing, where=false())
            connection.execute(lock)
    return stored


def _write_executions(connection: Connection, rows: list[Row]) -> list[_Key]:
    """Insert or update; returns the keys of the rows written."""
    accepted: list[_Key] = []
    table = models.execution
    for some in _portions(rows):
        statement = _upsert(table, some)
        accepted += map(tuple, connection.execute(statement.returning(*(table.c[name] for name in _KEY))))
    return accepted


def _ended(connection: Connection, keys: list[_Key]) -> set[_Key]:
    """Of these executions, those that are stored as succeeded or failed."""
    columns = [models.execution.c[name] for name in _KEY]
    ended: set[_Key] = set()
    for some in _portions(keys):
        found = select(*columns).where(tuple_(*columns).in_(some), models.execution.c.state.in_(_ENDED))
        ended.update(map(tuple, connection.execute(found)))
    return ended


def _live(connection: Connection, keys: list[_Key]) -> set[_Key]:
    """Of these executions, those that are stored as the listener told of them."""
    columns = [models.execution.c[name] for name in _KEY]
    live: set[_Key] = set()
    for some in _portions(keys):
        found = select(*columns).where(tuple_(*columns).in_(some), models.execution.c.origin == "live")
        live.update(map(tuple, connection.execute(found)))
    return live


def _delete_children(connection: Connection, keys: list[_Key]) -> None:
    for table in models.CHILDREN:
        for some in _portions(keys):
            connection.execute(table.delete().where(tuple_(*(table.c[name] for name in _KEY)).in_(some)))


def _portions(all_of: list[_T]) -> Iterator[list[_T]]:
    """As many as PostgreSQL likes in one statement."""
    for start in range(0, len(all_of), _STATEMENT_ROWS):
        yield all_of[start : start + _STATEMENT_ROWS]


def _copy_children(connection: Connection, found: list[Rows]) -> None:
    by_table: dict[str, list[Row]] = defaultdict(list)
    for rows in found:
        for name, some in rows.items():
            by_table[name] += some
    try:
        for table in models.CHILDREN:
            if by_table[table.name]:
                copy_rows(connection, table, by_table[table.name])
    except psycopg.Error as error:  # goes past SQLAlchemy, which would have made this of it
        raise DBAPIError.instance("COPY", None, error, psycopg.Error) from error


def copy_rows(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Copy rows into a table, past SQLAlchemy: errors are psycopg's. Columns that a row lacks are NULL."""
    names = [column.name for column in table.columns]
    json = [position for position, column in enumerate(table.columns) if isinstance(column.type, JSONB)]
    quoted = ", ".join(f'"{name}"' for name in names)
    cursor = connection.connection.cursor()
    with cursor.copy(f'COPY "{table.name}" ({quoted}) FROM STDIN') as copy:
        for row in rows:
            values = [row.get(name) for name in names]
            for position in json:
                if values[position] is not None:
                    values[position] = Jsonb(values[position], msgspec.json.encode)
            copy.write_row(values)
