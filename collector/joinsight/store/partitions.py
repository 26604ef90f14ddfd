"""Monthly partitions of the tables that grow with executions.

Collectors create them ahead of their month; a row that is older than the store, for example from a spool folder,
creates those of its month. Rows with impossible times, because a clock was wrong, go to the default partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from itertools import product

from sqlalchemy import Connection, Engine, Table, text

from joinsight import tables
from joinsight.tables import Row

_LOCK = 0x6A6F696E  # pg_advisory_lock: one program creates partitions at a time
_EARLIEST = "2014_01"  # Spark SQL 1.0; anything earlier is a wrong clock and goes to the default partition
AHEAD = timedelta(days=62)
AHEAD_LOCK_MS = 2_000  # short, because writers queue behind the lock and nothing waits for a future month's partitions
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

_MISDATED = """
    SELECT application_id, count(*) AS executions, min(started_at) AS first_start, max(started_at) AS last_start
    FROM execution_default GROUP BY application_id ORDER BY executions DESC, application_id LIMIT :limit
"""


def month_of(time: datetime) -> str:
    """``2026_11``: the suffix of the partitions for this time."""
    return time.astimezone(timezone.utc).strftime("%Y_%m")


def create(engine: Engine, months: Iterable[str]) -> None:
    """Create the missing partitions of these months.

    Impossible months are skipped: their rows go to the default partition.
    """
    _create_missing(engine, filter(_is_possible, months))


def create_ahead(engine: Engine) -> int:
    """Create the partitions of this month and the next, and of possible months of rows in the default partitions.

    Returns the number of executions that remain in the default partition. Raises SQLAlchemy's `OperationalError` when a
    lock is not available within 2 s; the next call, or the month's first row, creates what is missing.
    """
    now = datetime.now(timezone.utc)
    ahead = {month_of(now + timedelta(days=days)) for days in range(AHEAD.days + 1)}
    with engine.connect() as connection:
        misdated = _default_months(connection)
    _create_missing(engine, ahead | set(filter(_is_possible, misdated)), lock_ms=AHEAD_LOCK_MS)
    if not misdated:
        return 0
    with engine.connect() as connection:
        return sum(_default_months(connection).values())


def misdated(connection: Connection, limit: int) -> list[Row]:
    """Applications with executions in the default partition, most first: number, first and last start."""
    return [dict(row) for row in connection.execute(text(_MISDATED), {"limit": limit}).mappings()]


def sizes(connection: Connection, table: Table) -> dict[str, int]:
    """Bytes on disk by month; a month with rows in the default partition has the size of that whole partition."""
    by_partition: dict[str, int] = {row[0]: row[1] for row in connection.execute(text(_SIZES), {"table": table.name})}
    default = by_partition.pop(f"{table.name}_default", 0)
    return {name.removeprefix(f"{table.name}_"): size for name, size in by_partition.items()} | dict.fromkeys(
        _default_months(connection), default
    )


def _default_months(connection: Connection) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(text(_DEFAULT_MONTHS))}


def _is_possible(month: str) -> bool:
    return _EARLIEST <= month <= month_of(datetime.now(timezone.utc) + AHEAD)


def _create_missing(engine: Engine, months: Iterable[str], lock_ms: int | None = None) -> None:
    names = [table.name for table in tables.PARTITIONED]
    with engine.connect() as connection:
        attached = set(connection.scalars(text(_ATTACHED), {"tables": names}))
    for table, month in product(names, sorted(months)):
        if f"{table}_{month}" not in attached:
            _create(engine, table, month, lock_ms)


def _create(engine: Engine, table: str, month: str, lock_ms: int | None) -> None:
    """Create one partition, in a transaction of its own: a transaction that locks one table only cannot deadlock."""
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
            # ATTACH fails if the default partition has rows of this month, which a clock that was ahead leaves there
            f"WITH early AS (DELETE FROM \"{default}\" WHERE started_at >= '{start}' AND started_at < '{end}'"
            f' RETURNING *) INSERT INTO "{partition}" SELECT * FROM early',
            f"ALTER TABLE \"{table}\" ATTACH PARTITION \"{partition}\" FOR VALUES FROM ('{start}') TO ('{end}')",
        ):
            connection.execute(text(statement))


def _bounds(month: str) -> tuple[str, str]:
    year, number = map(int, month.split("_"))
    after = (year + 1, 1) if number == 12 else (year, number + 1)
    return f"{year:04}-{number:02}-01 00:00+00", f"{after[0]:04}-{after[1]:02}-01 00:00+00"
