"""The ledger of event logs: what was read, how large it was then, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from sqlalchemy import ARRAY, Connection, Engine, Text, any_, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from joinsight.store.models import event_log


@dataclass(frozen=True, slots=True)
class Seen:
    """By what a change of a log is seen."""

    size_bytes: int
    modified_at: datetime
    """To the millisecond."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What the ledger has."""

    logs: int
    partial: int
    failed: int
    last_read_at: datetime | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A log as it was read; see the columns of `event_log`."""

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
    """Of a file system's time."""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def seen(engine: Engine, paths: Sequence[str]) -> dict[str, tuple[Seen, str]]:
    """Of the logs at these paths, as they were when they were last read, and with which outcome."""
    c = event_log.c
    found: dict[str, tuple[Seen, str]] = {}
    wanted = any_(literal(list(paths), ARRAY(Text)))  # one parameter, however many there are
    statement = select(c.path, c.size_bytes, c.modified_at, c.is_open, c.outcome).where(c.path == wanted)
    with engine.connect() as connection:
        for path, size, modified, is_open, outcome in connection.execute(statement):
            found[path] = Seen(size, modified, is_open), outcome
    return found


def write(engine: Engine, entry: Entry) -> None:
    """Enter a log, in place of what was entered of it before."""
    values = asdict(entry) | {"problems": entry.problems or None, "read_at": func.clock_timestamp()}
    statement = insert(event_log).values(values)
    changed = {name: statement.excluded[name] for name in values if name != "path"}
    with engine.begin() as connection:
        connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=changed))


def done(engine: Engine, since: datetime) -> tuple[int, int]:
    """How many logs were entered since then, and their size in bytes."""
    c = event_log.c
    with engine.connect() as connection:
        number, size = connection.execute(
            select(func.count(), func.coalesce(func.sum(c.size_bytes), 0)).where(c.read_at >= since)
        ).one()
    return number, int(size)


def summary(connection: Connection) -> Summary:
    """Of all logs that were ever read."""
    c = event_log.c
    partial, failed = (func.count().filter(c.outcome == outcome) for outcome in ("partial", "failed"))
    return Summary(*connection.execute(select(func.count(), partial, failed, func.max(c.read_at))).one())
