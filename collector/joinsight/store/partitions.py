"""Monthly partitions of the tables that grow with executions, made when the first row of a month comes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from itertools import product

from sqlalchemy import Engine, text

from joinsight.store import models

_LOCK = 0x6A6F696E  # pg_advisory_lock: one at a time makes partitions
_EARLIEST = "2014_01"  # Spark SQL 1.0; anything earlier is a wrong clock and goes to the default partition
_AHEAD = timedelta(days=62)


def month_of(time: datetime) -> str:
    """``2026_11``: names the partition that a row of this time belongs to."""
    return time.astimezone(timezone.utc).strftime("%Y_%m")


def create(engine: Engine, months: Iterable[str]) -> None:
    """Make the partitions of these months where they are missing.

    Months that no clock can rightly give are left out: their rows go to the default partition.
    """
    latest = month_of(datetime.now(timezone.utc) + _AHEAD)
    wanted = sorted(month for month in months if _EARLIEST <= month <= latest)
    for table, month in product(models.PARTITIONED, wanted):
        _create(engine, table.name, month)


def _create(engine: Engine, table: str, month: str) -> None:
    """In a transaction of its own: who holds the lock of one table and no other deadlocks with nobody."""
    partition, default = f"{table}_{month}", f"{table}_default"
    start, end = _bounds(month)
    with engine.begin() as connection:
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
