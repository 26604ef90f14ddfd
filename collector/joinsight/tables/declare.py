"""How a table is declared: a frozen row class, each field of which is a column.

::

    class ShuffleRow(ExecutionKey, frozen=True, kw_only=True):
        \"\"\"A shuffle exchange of the final plan.\"\"\"  # the comment of the table
        node_id: Int = required("node of the final plan")  # integer NOT NULL
        bytes_written: Bytes | None = metric("shuffle bytes written", "bytes written")  # bigint, from Spark's metric

The annotation gives the type, in Python and in SQL, and the unit; the function says whether it may be NULL. All else is
made of this: SQLAlchemy's tables, what is written, the data dictionary, the columns of the views.

Rows are msgspec's Structs, because a document has a hundred: one of 19 columns is made in 1 µs, a dataclass in 7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, StructMeta
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE, JSONB
from sqlalchemy.sql.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from joinsight.contract.document import MAX_LONG, Accumulator

Int = Annotated[int, Integer()]
Long = Annotated[int, BigInteger()]
Bytes = Annotated[int, BigInteger(), "bytes"]
Rows = Annotated[int, BigInteger(), "rows"]
Ms = Annotated[int, BigInteger(), "ms"]
Ns = Annotated[int, BigInteger(), "ns"]
Ratio = Annotated[float, Double(), "ratio"]
Json = Annotated[Any, JSONB(none_as_null=True)]
Strings = Annotated[Mapping[str, str], JSONB(none_as_null=True)]
Ranges = Annotated[Any, INT8MULTIRANGE()]
"""A set of whole numbers, as psycopg's `Multirange`."""

Row = dict[str, Any]
"""A row as it is read back: its columns, and joined columns."""

_TYPES: Mapping[Any, TypeEngine[Any]] = {
    int: BigInteger(),
    str: Text(),
    bool: Boolean(),
    float: Double(),
    datetime: DateTime(timezone=True),
    date: Date(),
    list[str]: ARRAY(Text),
    list[int]: ARRAY(Integer),
    list[float]: ARRAY(Double),
}

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)


@dataclass(frozen=True, slots=True)
class _Declared:
    comment: str
    nullable: bool = True
    one_of: Sequence[str] = ()
    source: tuple[str, str, str | None] | None = None
    """Spark's metric, the `Accumulator`'s attribute, and the operator with the metric if not the row's own."""
    only: Sequence[str] | None = None
    """Several columns: the fields of a part of the row."""
    default: Any = None
    earlier: str | None = None
    """SQL: the value in rows of a collector that does not know the column yet."""


def required(comment: str, *, one_of: Sequence[str] = (), default: Any = NODEFAULT, earlier: str | None = None) -> Any:
    """A NOT NULL column, limited to `one_of` if given. With a `default` of None, the writer fills it in.

    `earlier`, in SQL, is its value in rows of before the migration that adds it, and of collectors of the release
    before, which still write during an upgrade.
    """
    return _Declared(comment, False, one_of, default=default, earlier=earlier)


def column(comment: str, *, one_of: Sequence[str] = ()) -> Any:
    """A nullable column; NULL where the value is unknown."""
    return _Declared(comment, one_of=one_of)


def metric(name: str, comment: str, *, statistic: str = "sum", of: str | None = None) -> Any:
    """A column from a metric of Spark (`from_metrics`): of the row's node, or of the operator `of`."""
    return _Declared(comment, source=(name, statistic, of))


def columns(comment: str = "", *, only: Sequence[str] | None = None) -> Any:
    """A part of the row, a Struct: a column for each of its fields, or of those in `only`; all NULL without it.

    Without a `comment`, columns have the names and descriptions of the fields; with one, the part's name and the
    comment are prefixed. A field without a description is described by its name.
    """
    return _Declared(comment, only=only)


class _RowType(StructMeta):
    """Keeps the declarations of a row's fields, and leaves their defaults to the Struct."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:
        declared = {field: each for field, each in namespace.items() if isinstance(each, _Declared)}
        row: Any = super().__new__(
            cls, name, bases, namespace | {field: each.default for field, each in declared.items()}, **config
        )
        row.declared = {**getattr(bases[0], "declared", {}), **declared}
        return row


class TableRow(Struct, frozen=True, metaclass=_RowType):
    """A row of a table."""

    declared: ClassVar[Mapping[str, _Declared]]
    """Its fields, in the order of the columns."""


class ExecutionKey(TableRow, frozen=True, kw_only=True):
    """The first columns of every row of an execution; their tables are partitioned by the month of its start."""

    started_at: datetime = required("when the execution started; the partition's key")
    application_id: str = required("Spark's application id")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    execution_id: Long = required("Spark's SQL execution id, unique within the application attempt")


EXECUTION_KEY = tuple(ExecutionKey.declared)


def table_of(row: type, name: str, *items: SchemaItem, key: Sequence[str] = ()) -> Table:
    """The table of a row class, in `metadata`. `key`: its primary key; for rows of an execution, the rest of it."""
    partitioned = issubclass(row, ExecutionKey)
    checks = [
        CheckConstraint(f"{field} IN ({', '.join(map(repr, declared.one_of))})", name=field)
        for field, declared, _ in _fields(row)
        if declared.one_of
    ]
    return Table(
        name,
        metadata,
        *columns_of(row),
        PrimaryKeyConstraint(*(EXECUTION_KEY if partitioned else ()), *key),
        *checks,
        *items,
        comment=row.__doc__,
        info={"row": row, "partitioned": partitioned},
        postgresql_partition_by="RANGE (started_at)" if partitioned else None,
    )


def largest(table: str, what: str, name: str | None = None, then: str = "") -> Index:
    """An index that serves a sort by `what`, then by the column `then`: largest first, unmeasured values last; then
    the newest first.
    """
    call = re.fullmatch(r"\w+\(.*\)", what)  # PostgreSQL shows these without parentheses
    return Index(
        f"ix_{table}_{name or what}_largest",
        text(f"{what if name is None or call else f'({what})'} DESC NULLS LAST"),
        *([text(f"{then} DESC NULLS LAST")] if then else []),
        text("started_at DESC"),
    )


def of_executions(*sorted_by: str) -> Index:
    """An index by which the operators of many executions are found and sorted without reading their rows."""
    return Index(
        None,
        *("application_id", "attempt_id", "execution_id"),
        postgresql_include=("started_at", "node_id", *sorted_by),
    )


def from_metrics(row: type, metrics: Mapping[str, Accumulator], of: str | None = None) -> dict[str, Any]:
    """The measured numbers by column, None where unmeasured. `metrics`: those of a node; `of`: as in `metric`."""
    return {
        name: None if (measured := metrics.get(spark)) is None else getattr(measured, statistic)
        for name, spark, statistic in _sources(row, of)
    }


def total(values: Iterable[int | None]) -> int | None:
    """The sum of the measured values, limited to a bigint; None if none was measured."""
    known: Sequence[int] = [value for value in values if value is not None]
    return max(-MAX_LONG, min(sum(known), MAX_LONG)) if known else None


@lru_cache(None)
def _sources(row: type, of: str | None) -> Sequence[tuple[str, str, str]]:
    sources = ((field, declared.source) for field, declared, _ in _fields(row))
    return [(name, *source[:2]) for name, source in sources if source is not None and source[2] == of]


@lru_cache(None)
def values_of(row: type) -> Callable[[Any], Sequence[Any]]:
    """A function that returns the values of such a row, in the order of the table's columns."""
    if not _has_parts(row):
        return attrgetter(*(name for name, _, _ in _fields(row)))
    fields = [(field, _part_names(hint, declared)) for field, declared, hint in _fields(row)]

    def values(of: Any) -> Sequence[Any]:
        found: list[Any] = []
        for name, parts in fields:
            value = getattr(of, name)
            found += [value] if parts is None else [value and getattr(value, part) for part in parts]
        return found

    return values


def as_columns(row: Any) -> dict[str, Any]:
    """A row as a dict by column name."""
    kind: type = type(row)
    return dict(zip(_names_of(kind), values_of(kind)(row), strict=True))


def as_json(rows: Sequence[TableRow]) -> str:
    """Rows of one table as JSON objects by column name, as PostgreSQL reads them."""
    has_parts = bool(rows) and _has_parts(type(rows[0]))
    return msgspec.json.encode([as_columns(row) for row in rows] if has_parts else rows).decode()


@lru_cache(None)
def _has_parts(row: type) -> bool:
    """Whether a field of the row is several columns."""
    return any(_part_names(hint, declared) for _, declared, hint in _fields(row))


@lru_cache(None)
def _names_of(row: type) -> Sequence[str]:
    return [column.name for column in columns_of(row)]


def columns_of(row: type) -> Iterator[Column[Any]]:
    """New columns of a row class."""
    for field, declared, hint in _fields(row):
        parts = _part_names(hint, declared)
        if parts is None:
            kind, unit, _ = _read(hint)
            info = {"unit": unit}
            earlier = None if declared.earlier is None else text(declared.earlier)
            settings: dict[str, Any] = {"nullable": declared.nullable, "server_default": earlier, "info": info}
            yield Column(field, kind, comment=declared.comment, **settings)
            continue
        hints = get_type_hints(_without_none(hint), include_extras=True)
        for part in parts:
            kind, unit, description = _read(hints[part])
            name = f"{field}_{part}" if declared.comment else part
            comment = f"{declared.comment}: {description or part}" if declared.comment else description
            yield Column(name, kind, comment=comment, info={"unit": unit})


@lru_cache(None)
def _fields(row: type) -> Sequence[tuple[str, _Declared, Any]]:
    """Name, declaration and annotation of each field."""
    assert issubclass(row, TableRow)
    hints = get_type_hints(row, include_extras=True)
    return [(name, declared, hints[name]) for name, declared in row.declared.items()]


def _part_names(hint: Any, declared: _Declared) -> Sequence[str] | None:
    part = _without_none(hint)
    if not (isinstance(part, type) and issubclass(part, Struct)):
        return None
    return declared.only or part.__struct_fields__


def _without_none(hint: Any) -> Any:
    """``T`` of ``T | None``."""
    return next(kind for kind in get_args(hint) if kind is not NoneType) if NoneType in get_args(hint) else hint


def _read(hint: Any) -> tuple[TypeEngine[Any], str | None, str | None]:
    """SQL type, unit and description of an annotation."""
    kind, details = hint, list[Any]()
    while get_origin(kind := _without_none(kind)) is Annotated:
        kind, *more = get_args(kind)
        details += more
    sql = next((each for each in details if isinstance(each, TypeEngine)), None)
    unit = next((each for each in details if isinstance(each, str)), None)
    described = (each.description for each in details if isinstance(each, Meta) and each.description)
    return sql if sql is not None else _TYPES[kind], unit, next(described, None)
