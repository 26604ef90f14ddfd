"""Monthly partitions of the tables that grow with executions.

Collectors create them ahead of their month; a row that is older than the store, for example from a spool folder,
creates those of its month. A new partition needs its table for itself for a moment, and everything queues behind who
waits for that: so nobody waits long behind a reader. Rows whose month has no partition go to the default partitions,
and move when it is created; those with impossible times, because a clock was wrong, stay there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.exc import DBAPIError

from joinsight import tables
from joinsight.base.errors import DatabaseError
from joinsight.store.database import LOCK_SECONDS, holder, is_busy
from joinsight.tables import Row

_EARLIEST = datetime(2014, 1, 1, tzinfo=timezone.utc)  # Spark SQL 1.0; anything earlier is a wrong clock
AHEAD = timedelta(days=62)
MONTHS_AT_ONCE = 6
"""Most months that one batch of rows, or a look at the default partitions, creates: the rest waits for the next."""
_CHILDREN_FIRST = (*(table.name for table in tables.CHILDREN), tables.execution.name)
"""Then a month of executions has all its tables, also after a creation that failed half-way."""
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
# Months of rows in the default partitions that can have partitions: few rows, as each table has an index by time
_STRAYED = " UNION ".join(
    f"""SELECT to_char(started_at AT TIME ZONE 'UTC', 'YYYY_MM') FROM "{table}_default"
        WHERE started_at >= :earliest AND started_at < :latest"""
    for table in _CHILDREN_FIRST
)
_MISDATED = """
    SELECT application_id, count(*) AS executions, min(started_at) AS first_start, max(started_at) AS last_start
    FROM execution_default GROUP BY application_id ORDER BY executions DESC, application_id LIMIT :limit
"""


def month_of(time: datetime) -> str:
    """``2026_11``: the suffix of the partitions for this time."""
    return time.astimezone(timezone.utc).strftime("%Y_%m")


def create(engine: Engine, months: Iterable[str], limit: int | None = None) -> None:
    """Create the missing partitions of these months, at most `limit` months, the newest first.

    Impossible months are skipped: their rows go to the default partition. Raises `DatabaseError` when a table was in
    use for 2 s, and SQLAlchemy's errors.
    """
    with engine.connect() as connection:
        attached = set(connection.scalars(text(_ATTACHED), {"tables": list(_CHILDREN_FIRST)}))
    missing = {
        month: [table for table in _CHILDREN_FIRST if f"{table}_{month}" not in attached]
        for month in sorted(filter(_is_possible, months), reverse=True)
    }
    for month in [month for month, names in missing.items() if names][:limit]:
        for table in missing[month]:
            try:
                _create(engine, table, month)
            except DBAPIError as error:
                if not is_busy(error):
                    raise
                raise DatabaseError(f"table {table} is in use{holder(engine, [table])}") from None


def create_ahead(engine: Engine) -> int:
    """Create the partitions of this month and the next, and of possible months of rows in the default partitions.

    Returns the number of executions in the default partition whose month is impossible. Raises as `create` does; the
    next call, or the month's first row, creates what is missing.
    """
    now = datetime.now(timezone.utc)
    create(engine, {month_of(now + timedelta(days=days)) for days in range(AHEAD.days + 1)})
    with engine.connect() as connection:
        strayed = connection.scalars(text(_STRAYED), {"earliest": _EARLIEST, "latest": now + AHEAD}).all()
        by_month = _default_months(connection)
    create(engine, strayed, MONTHS_AT_ONCE)
    return sum(executions for month, executions in by_month.items() if not _is_possible(month))


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
    return month_of(_EARLIEST) <= month <= month_of(datetime.now(timezone.utc) + AHEAD)


def _create(engine: Engine, table: str, month: str) -> None:
    """Create one partition, in a transaction of its own: a transaction that locks one table only cannot deadlock."""
    partition, default = f"{table}_{month}", f"{table}_default"
    start, end = _bounds(month)
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
        connection.execute(text(f'LOCK TABLE ONLY "{table}"'))
        if connection.scalar(text("SELECT to_regclass(:name)"), {"name": partition}) is not None:
            return  # by another program, while this one waited
        for statement in (
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
