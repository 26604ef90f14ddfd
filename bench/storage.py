"""Measures the bytes that an execution takes in PostgreSQL, by table: ``python -m bench.storage --help``.

**Data.** The executions of event logs, each as often as ``--executions`` needs, of applications of 20 executions with
ids as long as YARN's; ids of expressions, plans and accumulators differ between applications. Without logs: the
recorded one of the tests. **Measures.** After VACUUM, for an execution: the rows of each table, and their bytes, those
that PostgreSQL stores apart (TOAST) and those of indexes; with ``--details`` also the bytes of each index and column,
with ``--parquet`` those of the files that `joinsight export` writes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from sqlalchemy import Connection, text
from tests.eventlog.recorded import log_at, read

from bench.ingestion import documents, with_ids_of
from joinsight import tables
from joinsight.contract.document import Execution
from joinsight.store.database import open_database, upgrade
from joinsight.store.writer import Writer

TABLES = (tables.execution, *tables.CHILDREN)
_APPLICATION = 20
_BATCH = 100
_SIZES = """
    SELECT pg_relation_size(t.oid), coalesce(pg_total_relation_size(nullif(t.reltoastrelid, 0)), 0),
           pg_indexes_size(t.oid)
    FROM pg_partition_tree(:name) AS p JOIN pg_class AS t ON t.oid = p.relid WHERE p.isleaf
"""
_INDEXES = """
    SELECT i.indexrelid::regclass::text, pg_relation_size(i.indexrelid)
    FROM pg_partition_tree(:name) AS p JOIN pg_index AS i ON i.indrelid = p.relid WHERE p.isleaf ORDER BY 2 DESC
"""


def executions_of(logs: list[Path]) -> list[Execution]:
    """The executions of event logs, or of the recorded one."""
    if not logs:
        return documents(20)
    return [each for log in logs for each in read(log_at(log))[0] if isinstance(each, Execution)]


def copies(executions: list[Execution], number: int) -> list[Execution]:
    """As many executions, of applications of their own."""
    made = []
    for index in range(number):
        document, application = executions[index % len(executions)], index // _APPLICATION
        document = msgspec.structs.replace(
            document,
            application_id=f"application_1763836800000_{application:05}",
            execution_id=index % _APPLICATION,
            root_execution_id=index % _APPLICATION,
            sequence=index + 1,
        )
        line = with_ids_of(msgspec.json.encode(document), application)
        made.append(msgspec.json.decode(line, type=Execution))
    return made


def show(connection: Connection, number: int, details: bool) -> None:
    """Print the sizes, in bytes for each of `number` executions."""
    print("table                 rows      heap     toast   indexes     total  % of all")
    found: dict[str, list[float]] = {}
    for table in TABLES:
        rows = connection.scalar(text(f"SELECT count(*) FROM {table.name}")) or 0
        parts = connection.execute(text(_SIZES), {"name": table.name}).all()
        sizes = [float(sum(each[i] for each in parts)) for i in range(3)]
        found[table.name] = [each / number for each in (rows, *sizes, sum(sizes))]
    found["all"] = [sum(each) for each in zip(*found.values(), strict=True)]
    for name, (rows, *sizes) in sorted(found.items(), key=lambda each: -each[1][-1]):
        shown = " ".join(f"{size:>9,.0f}" for size in sizes)
        print(f"{name:<18} {rows:>7.1f} {shown} {sizes[-1] / found['all'][-1]:>8.1%}")
    for table in TABLES if details else ():
        print(f"\n{table.name}")
        for index, size in connection.execute(text(_INDEXES), {"name": table.name}):
            print(f"  index {index:<80} {size / number:>8,.0f}")
        for column in table.columns:
            stored = connection.scalar(text(f'SELECT sum(pg_column_size("{column.name}")) FROM {table.name}')) or 0
            print(f"  column {column.name:<79} {stored / number:>8,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="*", help="event logs; none: the recorded one of the tests")
    parser.add_argument("--executions", type=int, default=2_000)
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--parquet", action="store_true")
    options = parser.parse_args()
    made = copies(executions_of(options.logs), options.executions)
    with tempfile.TemporaryDirectory() as folder, open_database(None, Path(folder), create=True) as engine:
        upgrade(engine)
        writer = Writer(engine)
        for start in range(0, len(made), _BATCH):
            written = writer.write(made[start : start + _BATCH])
            assert not written.refused, written.refused[0][1]
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM (ANALYZE)"))
            show(connection, len(made), options.details)
        if options.parquet:
            lake = Path(folder, "lake")
            command = [sys.executable, "-m", "joinsight.cli", "export", "--data", folder, "--to", str(lake)]
            subprocess.run(command, check=True)
            size = sum(file.stat().st_size for file in lake.rglob("*.parquet"))
            print(f"Parquet: {size / len(made):,.0f} bytes an execution")


if __name__ == "__main__":
    main()
