"""Runs in Spark's Python workers: reads rows from PostgreSQL by COPY as Arrow batches, and writes rows back.

PostgreSQL sends a message for each row; a few thousand of these at a time are parsed as CSV by PyArrow, so that the
memory of a task does not grow with the table. This module imports nothing else of Joinsight.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from pyarrow import csv

BATCH_BYTES = 4 << 20
"""Size of a batch as CSV; the row that exceeds it is the last."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, the expression that reads it and its types."""

    name: str
    sql: str
    """The SQL expression."""
    sent: str
    """The Arrow type that the CSV is parsed as."""
    arrow: str
    """The final type, which differs from `sent` for times (``int64``, microseconds) and lists (JSON)."""


_LISTS = {"list<int32>": pa.int32(), "list<string>": pa.string()}


def reader(
    conninfo: str, statements: list[list[str]], fields: list[Field]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: each input row is an index into `statements`, whose queries are executed one by one.

    The connection string with its password is in this closure, not in Spark's configuration or plans, which others can
    read.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for statement in statements[number]:
                        yield from _copied(cursor, statement, fields)

    return read


def _copied(cursor: psycopg.Cursor[Any], statement: str, fields: list[Field]) -> Iterator[pa.RecordBatch]:
    with cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv)") as copy:
        rows: list[bytes] = []
        size = 0
        for row in copy:
            rows.append(bytes(row))
            size += len(row)
            if size > BATCH_BYTES:
                yield _batch(b"".join(rows), fields)
                rows, size = [], 0
        if rows:
            yield _batch(b"".join(rows), fields)


def _batch(text: bytes, fields: list[Field]) -> pa.RecordBatch:
    table = csv.read_csv(
        io.BytesIO(text),
        # A single block, because a row must fit into a block
        csv.ReadOptions(column_names=[field.name for field in fields], block_size=len(text) + 1, use_threads=False),
        # An empty line is a row whose only column is NULL
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types={field.name: pa.type_for_alias(field.sent) for field in fields},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    ).combine_chunks()
    arrays = [_array(table.column(number).combine_chunks(), field) for number, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


def _array(column: Any, field: Field) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if field.arrow == field.sent:
        return column
    if field.arrow in _LISTS:
        values = [None if text is None else json.loads(text) for text in column.to_pylist()]
        return pa.array(values, pa.list_(_LISTS[field.arrow]))
    return column.cast(pa.timestamp("us", tz="UTC"))


def replacer(
    conninfo: str, table: str, columns: list[str], keys: list[str], unit: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: writes a task's rows in one transaction, replacing all rows of the same units.

    `unit` are columns, such as a day; a task must have all rows of each of its units. Yields the number of rows. A task
    that runs twice, even at the same time, has the same effect as once.
    """
    listed = ", ".join(columns)
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = 0
        with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMPORARY TABLE staged (LIKE {table}) ON COMMIT DROP")
            with cursor.copy(f"COPY staged ({listed}) FROM STDIN") as copy:
                for batch in batches:
                    for row in batch.to_pylist():
                        copy.write_row([row[name] for name in columns])
                        written += 1
            units = ", ".join(unit)
            cursor.execute(f"DELETE FROM {table} WHERE ({units}) IN (SELECT {units} FROM staged)")
            cursor.execute(
                f"INSERT INTO {table} ({listed}) SELECT {listed} FROM staged"
                f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"
            )
        yield pa.RecordBatch.from_arrays([pa.array([written], pa.int64())], names=["rows"])

    return write
