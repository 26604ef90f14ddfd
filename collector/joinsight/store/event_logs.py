"""Reads and writes table `event_log`: which event logs were read, their size at the time, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from sqlalchemy import ARRAY, Connection, Engine, Text, any_, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from joinsight.tables import event_log


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a log's files, by which changes are detected."""

    size_bytes: int
    modified_at: datetime
    """To the millisecond."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class LogTotals:
    """Totals over all event logs."""

    logs: int
    partial: int
    failed: int
    last_read_at: datetime | None


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of reading a log; see the columns of `event_log`."""

    path: str
    application_id: str
    attempt_id: str
    size_bytes: int
    modified_at: datetime
    is_open: bool
    outcome: str
    problems: list[str]
    is_compacted: bool
    missing_files: int
    lines: int
    event_bytes: int
    executions: int
    reader_version: str


def moment(milliseconds: int) -> datetime:
    """The time of a file system's timestamp, in ms since the epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def seen(engine: Engine, paths: Sequence[str]) -> dict[str, tuple[FileState, str]]:
    """State and outcome of the logs at these paths when they were last read, by path."""
    c = event_log.c
    states: dict[str, tuple[FileState, str]] = {}
    wanted = any_(literal(list(paths), ARRAY(Text)))  # a single parameter for any number of paths
    statement = select(c.path, c.size_bytes, c.modified_at, c.is_open, c.outcome).where(c.path == wanted)
    with engine.connect() as connection:
        for path, size, modified, is_open, outcome in connection.execute(statement):
            states[path] = FileState(size, modified, is_open), outcome
    return states


def write(engine: Engine, entry: Entry) -> None:
    """Insert or replace a log's row."""
    values = asdict(entry) | {"problems": entry.problems or None, "read_at": func.clock_timestamp()}
    statement = insert(event_log).values(values)
    changed = {name: statement.excluded[name] for name in values if name != "path"}
    with engine.begin() as connection:
        connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=changed))


def done(engine: Engine, since: datetime) -> tuple[int, int]:
    """Number and total bytes of the logs that were read since then."""
    c = event_log.c
    with engine.connect() as connection:
        number, size = connection.execute(
            select(func.count(), func.coalesce(func.sum(c.size_bytes), 0)).where(c.read_at >= since)
        ).one()
    return number, int(size)


def summary(connection: Connection) -> LogTotals:
    """Totals over all logs that were ever read."""
    c = event_log.c
    partial, failed = (func.count().filter(c.outcome == outcome) for outcome in ("partial", "failed"))
    return LogTotals(*connection.execute(select(func.count(), partial, failed, func.max(c.read_at))).one())
