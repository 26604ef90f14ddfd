"""Measures how fast documents become rows, beside a bare COPY of the same rows: ``python -m bench.ingestion --help``.

**Data.** The documents of event logs, or of a recorded one (`tests/eventlog`), each as often as `--documents` needs,
with other execution ids, so each is new to the database, and other ids of expressions, plans and accumulators, as each
run of a job has. **Conditions**, in turns in each round, each on empty tables: ``writer``, the collector's `Writer`;
``other plans``, the same with other names of columns in each document, so no plan comes again; ``copy``, the same rows
as ``writer`` with one COPY a table into the same tables, one transaction a batch. **Measures.** Documents and rows a
second of wall time, the CPU of this process, and that of PostgreSQL's backends (from /proc). Findings are computed in
all: by the writer, and before the clock starts for ``copy``. The first line says how many documents have plans that are
equal to no other's but for ids and literals, first those of ``writer``.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy import Engine, text
from tests.copying import copy_rows
from tests.eventlog.recorded import log_at, read, recorded
from tests.versions import NEWEST

from joinsight import tables
from joinsight.document import Document, Execution
from joinsight.findings import Finder
from joinsight.findings.finding import NoHistory
from joinsight.gc_tuning import collect_seldom
from joinsight.rows import Plans, Rows, execution_rows
from joinsight.store import partitions
from joinsight.store.database import open_database, upgrade
from joinsight.store.writer import Writer

_T = TypeVar("_T")
_TICKS = os.sysconf("SC_CLK_TCK")
_EXPRESSIONS = re.compile(rb"(?<=#)\d+|(?<=plan_id=)\d+")
_METRICS = re.compile(rb'(?<="id":)\d+(?=,"type")|(?<="metric":)\d+')
_COLUMNS = re.compile(rb"(?<=\w)(?=#\d)")


def documents(number: int, logs: Sequence[Path] = ()) -> list[Execution]:
    """Execution documents of these logs, or of the recorded one, with ids of their own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [log_at(log) for log in logs] or [recorded(NEWEST, Path(folder))[0]]
        found: list[Document] = [each for path in paths for each in read(path)[0]]
    executions = [each for each in found if isinstance(each, Execution)]
    return [
        msgspec.structs.replace(executions[index % len(executions)], execution_id=index, sequence=index + 1)
        for index in range(number)
    ]


def with_ids_of(document: bytes, driver: int) -> bytes:
    """A document with other ids of expressions, plans and accumulators."""
    document = _EXPRESSIONS.sub(partial(_shifted, 7 * driver), document)
    return _METRICS.sub(partial(_shifted, 11 * driver), document)


def _shifted(by: int, found: re.Match[bytes]) -> bytes:
    return b"%d" % (int(found[0]) + by)


def runs(every: Sequence[Execution], *, other_plans: bool) -> list[Execution]:
    """These documents with ids of their own; with `other_plans` also with names of columns of their own."""
    made = []
    for index, document in enumerate(every):
        suffix = b"_%05d" % (index if other_plans else 0)  # equally long
        line = with_ids_of(_COLUMNS.sub(suffix, msgspec.json.encode(document)), index)
        made.append(msgspec.json.decode(line, type=Execution))
    return made


def distinct(every: Sequence[Rows]) -> int:
    """How many executions have plans of their own, by their keys."""
    return len({(each.execution.query_shape, *(v.plan_fingerprint for v in each.plan_version)) for each in every})


def server_cpu(engine: Engine) -> float:
    """CPU seconds of all processes of this PostgreSQL so far, except of backends that have ended."""
    with engine.connect() as connection:
        pids = connection.execute(text("SELECT pid FROM pg_stat_activity")).scalars().all()
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += (int(fields[11]) + int(fields[12])) / _TICKS
    return total


def batches(every: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Batches in order."""
    for start in range(0, len(every), size):
        yield every[start : start + size]


def rows_of(document: Execution) -> Rows:
    """All rows of a document."""
    rows = execution_rows(document, Plans(document, lambda: None))
    rows = dataclasses.replace(
        rows, execution=msgspec.structs.replace(rows.execution, updated_at=datetime.now(timezone.utc))
    )
    return dataclasses.replace(rows, finding=Finder().rows(rows, NoHistory()))


def bare_copy(engine: Engine, batch: Sequence[Rows]) -> int:
    """Copy a batch; returns the number of rows."""
    number = 0
    with engine.begin() as connection:
        for table in (tables.execution, *tables.CHILDREN):
            rows = (
                [rows.execution for rows in batch]
                if table is tables.execution
                else [row for each in batch for row in getattr(each, table.name)]
            )
            if rows:
                number += len(rows)
                copy_rows(connection, table, rows)
    return number


def empty(engine: Engine) -> None:
    """Empty all tables of executions."""
    names = ", ".join(f'"{table.name}"' for table in (tables.application, tables.execution, *tables.CHILDREN))
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {names}, delivery CASCADE"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="*", help="event logs; none: the recorded one of the tests")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 20])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    collect_seldom()  # as the collector does
    found = documents(options.documents, options.logs)
    made, others = runs(found, other_plans=False), runs(found, other_plans=True)
    rows = [rows_of(each) for each in made]
    print(f"{len(made)} documents; distinct plans: {distinct(rows)}, {distinct([rows_of(each) for each in others])}")
    with tempfile.TemporaryDirectory() as folder, open_database(None, Path(folder), create=True) as engine:
        upgrade(engine)
        partitions.create(engine, {partitions.month_of(each.execution.started_at) for each in rows})
        writer = Writer(engine)
        print("batch  what         documents/s   rows/s   ms of CPU a document: client, server")
        for size in options.batch:
            measured: dict[str, list[tuple[float, float, float]]] = {"writer": [], "other plans": [], "copy": []}
            number = 0
            for _ in range(options.rounds):
                for what, taken in measured.items():
                    empty(engine)
                    before, cpu, started = server_cpu(engine), time.process_time(), time.perf_counter()
                    if what == "copy":
                        number = sum(bare_copy(engine, batch) for batch in batches(rows, size))
                    else:
                        for batch in batches(made if what == "writer" else others, size):
                            assert writer.write(batch).stored == len(batch)
                    wall, client = time.perf_counter() - started, time.process_time() - cpu
                    taken.append((wall, client, server_cpu(engine) - before))
            for what, taken in measured.items():
                wall, client, server = (statistics.median(each) for each in zip(*taken, strict=True))
                n = len(made)
                print(
                    f"{size:>5}  {what:<11}  {n / wall:>11,.0f}  {number / wall:>7,.0f}"
                    f"   {1000 * client / n:>6.2f}, {1000 * server / n:.2f}"
                )


if __name__ == "__main__":
    main()
