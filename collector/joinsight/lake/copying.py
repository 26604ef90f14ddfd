"""What runs in Spark's Python workers: rows out of PostgreSQL by COPY, as Arrow batches, and back into it.

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
"""Of CSV; a batch ends with the row that exceeds it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, how it is asked for and what becomes of it."""

    name: str
    sql: str
    """An expression; its text in CSV is `sent`."""
    sent: str
    """The Arrow type that CSV is read as."""
    arrow: str
    """The type that it ends as: another one for moments (``int64``, microseconds) and lists (JSON)."""


_LISTS = {"list<int32>": pa.int32(), "list<string>": pa.string()}


def reader(
    conninfo: str, statements: list[list[str]], fields: list[Field]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: the rows of a batch are numbers of lists of queries, which are carried out one by one.

    The URL with its password is in this closure, not in Spark's configuration or plans, which others can read.
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
        # A single block, so that no row has to fit into less
        csv.ReadOptions(column_names=[field.name for field in fields], block_size=len(text) + 1, use_threads=False),
        # An empty line is a row of one column that is NULL
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


def _array(found: Any, field: Field) -> pa.Array:
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks)
    if field.arrow == field.sent:
        return found
    if field.arrow in _LISTS:
        values = [None if text is None else json.loads(text) for text in found.to_pylist()]
        return pa.array(values, pa.list_(_LISTS[field.arrow]))
    return found.cast(pa.timestamp("us", tz="UTC"))


def replacer(
    conninfo: str, table: str, columns: list[str], keys: list[str], unit: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: writes a task's rows in one transaction, in place of all rows of the same units.

    A task must have all rows of each of its units (columns that name, say, a day). Gives the number of rows. A task
    that runs twice, even at the same time, leaves what it leaves once.
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
