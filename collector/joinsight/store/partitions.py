"""Monthly partitions of the tables that grow with executions.

Collectors make them before their month comes, so that its first row finds them; a row that is older than the store, as
from a spool folder, makes those of its month. What no month can hold, because a clock was wrong, is in the default
partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from itertools import product

from sqlalchemy import Connection, Engine, Table, text

from joinsight.rows import Row
from joinsight.store import models

_LOCK = 0x6A6F696E  # pg_advisory_lock: one at a time makes partitions
_EARLIEST = "2014_01"  # Spark SQL 1.0; anything earlier is a wrong clock and goes to the default partition
_AHEAD = timedelta(days=62)
_AHEAD_LOCK_MS = 2_000  # nothing waits for a month that has not come; what queues behind the lock does
_ATTACHED = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST(:tables AS text[])) AS name)
"""
_SIZES = """
    SELECT c.relname, pg_table_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = CAST(to_regclass(:table) AS oid)
"""
_DEFAULT_MONTHS = """
    SELECT to_char(started_at AT TIME ZONE 'UTC', 'YYYY_MM'), count(*) FROM execution_default GROUP BY 1
"""

_MISPLACED = """
    SELECT application_id, count(*) AS executions, min(started_at) AS first_start, max(started_at) AS last_start
    FROM execution_default GROUP BY application_id ORDER BY executions DESC, application_id LIMIT :limit
"""


def month_of(time: datetime) -> str:
    """``2026_11``: names the partition that a row of this time belongs to."""
    return time.astimezone(timezone.utc).strftime("%Y_%m")


def create(engine: Engine, months: Iterable[str]) -> None:
    """Make the partitions of these months where they are missing.

    Months that no clock can rightly give are left out: their rows go to the default partition.
    """
    _create_missing(engine, filter(_is_possible, months))


def create_ahead(engine: Engine) -> int:
    """Make the partitions of this month and the next ones, and of possible months that default partitions have rows of.

    Returns how many executions stay in the default partition. Gives up where a lock is not to be had within 2 s: raises
    SQLAlchemy's `OperationalError`; what is missing is made at the next call, or by the month's first row.
    """
    now = datetime.now(timezone.utc)
    ahead = {month_of(now + timedelta(days=days)) for days in range(_AHEAD.days + 1)}
    with engine.connect() as connection:
        found = _default_months(connection)
    _create_missing(engine, ahead | set(filter(_is_possible, found)), lock_ms=_AHEAD_LOCK_MS)
    if not found:
        return 0
    with engine.connect() as connection:
        return sum(_default_months(connection).values())


def misplaced(connection: Connection, limit: int) -> list[Row]:
    """Applications with executions in the default partition, most first: how many, their first and last start."""
    return [dict(row) for row in connection.execute(text(_MISPLACED), {"limit": limit}).mappings()]


def sizes(connection: Connection, table: Table) -> dict[str, int]:
    """Bytes on disk by month that has a partition, or rows in the default one: which counts as a whole for each."""
    found: dict[str, int] = {row[0]: row[1] for row in connection.execute(text(_SIZES), {"table": table.name})}
    default = found.pop(f"{table.name}_default", 0)
    return {name.removeprefix(f"{table.name}_"): size for name, size in found.items()} | dict.fromkeys(
        _default_months(connection), default
    )


def _default_months(connection: Connection) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(text(_DEFAULT_MONTHS))}


def _is_possible(month: str) -> bool:
    return _EARLIEST <= month <= month_of(datetime.now(timezone.utc) + _AHEAD)


def _create_missing(engine: Engine, months: Iterable[str], lock_ms: int | None = None) -> None:
    tables = [table.name for table in models.PARTITIONED]
    with engine.connect() as connection:
        there = set(connection.scalars(text(_ATTACHED), {"tables": tables}))
    for table, month in product(tables, sorted(months)):
        if f"{table}_{month}" not in there:
            _create(engine, table, month, lock_ms)


def _create(engine: Engine, table: str, month: str, lock_ms: int | None) -> None:
    """In a transaction of its own: who holds the lock of one table and no other deadlocks with nobody."""
    partition, default = f"{table}_{month}", f"{table}_default"
    start, end = _bounds(month)
    with engine.begin() as connection:
        if lock_ms is not None:
            connection.execute(text(f"SET LOCAL lock_timeout = {lock_ms}"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if connection.scalar(text("SELECT to_regclass(:name)"), {"name": partition}) is not None:
            return
        for statement in (
            f'LOCK TABLE ONLY "{table}"',
            f'CREATE TABLE "{partition}" (LIKE "{table}" INCLUDING ALL)',
            # A clock that was ahead may have left rows of this month where PostgreSQL suffers them no longer
            f"WITH early AS (DELETE FROM \"{default}\" WHERE started_at >= '{start}' AND started_at < '{end}'"
            f' RETURNING *) INSERT INTO "{partition}" SELECT * FROM early',
            f"ALTER TABLE \"{table}\" ATTACH PARTITION \"{partition}\" FOR VALUES FROM ('{start}') TO ('{end}')",
        ):
            connection.execute(text(statement))


def _bounds(month: str) -> tuple[str, str]:
    year, number = map(int, month.split("_"))
    after = (year + 1, 1) if number == 12 else (year, number + 1)
    return f"{year:04}-{number:02}-01 00:00+00", f"{after[0]:04}-{after[1]:02}-01 00:00+00"
