"""COPY of typed rows, for histories and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Table
from sqlalchemy.dialects.postgresql import JSONB

from joinsight.tables import values_of


def copy_rows(connection: Connection, table: Table, rows: Iterable[Any]) -> None:
    """Copy rows into their table, bypassing SQLAlchemy: errors are psycopg's."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    json = [position for position, column in enumerate(table.columns) if isinstance(column.type, JSONB)]
    values_of_row = values_of(table.info["row"])
    cursor = connection.connection.cursor()
    with cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
        for row in rows:
            values = list(values_of_row(row))
            for position in json:
                if values[position] is not None:
                    values[position] = Jsonb(values[position], msgspec.json.encode)
            copy.write_row(values)
