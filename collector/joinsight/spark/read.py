"""Creates a DataFrame from a table or view: its schema, its queries, and their distribution to partitions."""

from __future__ import annotations

import atexit
import os
from calendar import monthrange
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import BigInteger, Boolean, Date, DateTime, Double, Engine, Integer
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import TypeEngine

from joinsight import tables
from joinsight.base.errors import ConfigurationError
from joinsight.spark.copying import Field, reader
from joinsight.spark.packages import CONNECTIONS
from joinsight.store import URL_VARIABLE, partitions
from joinsight.store.database import check_schema, conninfo, open_database
from joinsight.tables import views

TABLES = views.RELATIONS
CHUNK_BYTES = 64 << 20
"""Approximate bytes on disk that one query reads."""

Range = tuple[datetime, datetime]
"""A time range; the end is excluded."""
_FIRST, _LAST = (moment.replace(tzinfo=timezone.utc) for moment in (datetime.min, datetime.max))
ALWAYS: Sequence[Range] = ((_FIRST, _LAST),)
"""All times; no document has the last microsecond of the year 9999, which is excluded."""

_kept = ExitStack()
atexit.register(_kept.close)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a partitioned table that one query reads."""

    since: datetime
    until: datetime
    """Excluded."""
    bytes: float
    """Estimated bytes on disk, as if a month's rows were spread evenly."""


def read(
    spark: SparkSession,
    table: str,
    since: datetime | None,
    until: datetime | None,
    columns: Sequence[str] | None,
    url: str | None,
    connections: int,
) -> DataFrame:
    """Implements `joinsight.history`."""
    with ExitStack() as stack:
        database = stack.enter_context(open_database(url))
        check_schema(database)
        _check_time(table, since, until)
        ranges = [(_utc(since) or _FIRST, _utc(until) or _LAST)]
        frame = read_from(spark, database, table, columns, ranges, connections)
        if not (url or os.environ.get(URL_VARIABLE)):
            _kept.push(stack.pop_all())  # the DataFrame needs the embedded server
    return frame


def read_from(
    spark: SparkSession,
    engine: Engine,
    table: str,
    columns: Sequence[str] | None = None,
    ranges: Sequence[Range] = ALWAYS,
    connections: int = CONNECTIONS,
) -> DataFrame:
    """A DataFrame of a table in a database that must stay open while it is used; `ranges` must be in order."""
    fields = [_field(TABLES[table].columns[name]) for name in _names(table, columns)]
    selected = ", ".join(field.sql for field in fields)
    queries = [[f"SELECT {selected} FROM {table}"]]
    if is_partitioned(table):
        queries = [
            [
                f"SELECT {selected} FROM {table} WHERE started_at >= '{chunk.since.isoformat()}'"
                f" AND started_at < '{chunk.until.isoformat()}'"
                for chunk in share
            ]
            for share in _assign(list(_chunks(engine, table, ranges)), connections)
        ]
    numbers = spark.range(0, len(queries), 1, max(1, len(queries)))
    return numbers.mapInArrow(reader(conninfo(engine), queries, fields), _schema(fields))


def schema_of(table: str) -> str:
    """The columns of a table or view with Spark's types, as DDL."""
    return _schema([_field(column) for column in TABLES[table].columns])


def _schema(fields: Sequence[Field]) -> str:
    return ", ".join(f"`{field.name}` {_SPARK[field.arrow]}" for field in fields)


def is_partitioned(table: str) -> bool:
    """Whether its rows belong to executions, so that `started_at` can be filtered."""
    return TABLES[table] in tables.PARTITIONED or table in views.OPERATORS


def _names(table: str, columns: Sequence[str] | None) -> list[str]:
    if table not in TABLES:
        raise ConfigurationError("table", table, "unknown table or view", f"Name one of {', '.join(TABLES)}.")
    existing = list(TABLES[table].columns.keys())
    if columns is None:
        return existing
    for name in columns:
        if name not in existing:
            raise ConfigurationError("columns", name, f"{table} has no such column", f"It has {', '.join(existing)}.")
    if not columns:
        raise ConfigurationError("columns", columns, "no columns", "Name columns, or omit the argument to read all.")
    return list(columns)


def _check_time(table: str, since: datetime | None, until: datetime | None) -> None:
    if table in TABLES and not is_partitioned(table) and (since is not None or until is not None):
        problem = "its rows do not belong to executions"
        raise ConfigurationError("table", table, problem, "Omit since and until to read all of it.")


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


def _chunks(engine: Engine, table: str, ranges: Sequence[Range]) -> Iterator[Chunk]:
    """The chunks in order: whole days, or hours where a day is larger than `CHUNK_BYTES`."""
    base = views.OPERATORS.get(table, TABLES[table])
    with engine.connect() as connection:
        sizes = partitions.sizes(connection, base)
    for month, size in sorted(sizes.items()):
        starts, ends = month_bounds(month)
        wanted = size / CHUNK_BYTES
        days = monthrange(starts.year, starts.month)[1]
        step = (
            timedelta(hours=max(1, min(24, round(24 * days / wanted))))
            if wanted > days
            else timedelta(days=max(1, int(days / max(1.0, wanted))))
        )
        begin = starts
        while begin < ends:
            end = ends if ends - begin <= step else begin + step
            for since, until in ranges:
                first, last = max(begin, since), min(end, until)
                if first < last:
                    yield Chunk(first, last, size * ((last - first) / (ends - starts)))
            begin = end


def month_bounds(month: str) -> tuple[datetime, datetime]:
    """The start of a month such as ``2026_11``, and of the next month."""
    starts = datetime.strptime(month + " +0000", "%Y_%m %z")
    if (starts.year, starts.month) == (9999, 12):
        return starts, _LAST
    return starts, (starts + timedelta(days=31)).replace(day=1)


def _assign(chunks: list[Chunk], tasks: int) -> list[list[Chunk]]:
    """Contiguous chunks for at most this number of tasks, of about equal size."""
    total = sum(chunk.bytes for chunk in chunks) or 1.0
    shares: dict[int, list[Chunk]] = {}
    before = 0.0
    for chunk in chunks:
        shares.setdefault(min(tasks - 1, int(before / total * tasks)), []).append(chunk)
        before += chunk.bytes
    return list(shares.values())


_SPARK = {
    "timestamp": "timestamp",
    "date32": "date",
    "bool": "boolean",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "string": "string",
    "list<int32>": "array<int>",
    "list<string>": "array<string>",
}
_SENT: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    (BigInteger, "int64"),
    (Integer, "int32"),
    (Double, "double"),
    (Boolean, "bool"),
    (Date, "date32"),
)


def _field(column: Any) -> Field:
    kind, name = column.type, f'"{column.name}"'
    if isinstance(kind, DateTime):  # as a number, which is exact in any year
        return Field(column.name, f"CAST(extract(epoch FROM {name}) * 1000000 AS bigint)", "int64", "timestamp")
    if isinstance(kind, ARRAY):
        item = "int32" if isinstance(kind.item_type, Integer) else "string"
        return Field(column.name, f"to_json({name})", "string", f"list<{item}>")
    for known, sent in _SENT:
        if isinstance(kind, known):
            return Field(column.name, name, sent, sent)
    return Field(column.name, name, "string", "string")
