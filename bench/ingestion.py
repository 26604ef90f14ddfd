"""Measures how fast documents become rows, beside a bare COPY of the same rows: ``python -m bench.ingestion --help``.

**Data.** The documents of event logs, or of a recorded one (`tests/eventlog`), each as often as `--documents` needs,
with other execution ids, so each is new to the database, and other ids of expressions, plans and accumulators, as each
run of a job has. **Conditions**, in turns in each round, each on empty tables: ``writer``, the collector's `Writer`;
``other plans``, the same with other names of columns in each document, so no plan comes again; ``copy``, the same rows
as ``writer`` with one COPY a table into the same tables, one transaction a batch; ``collector``, the documents of
``writer`` sent to `joinsight serve` with two writers, a request for each batch, on several connections that each have
an application of their own and wait for the answer. **Measures.** Documents and rows a second of wall time, the CPU of
this process or of the collector's, and that of PostgreSQL (from /proc). Findings are computed in all: by the writer,
and before the clock starts for ``copy``. The first line says how many documents have plans that are equal to no other's
but for ids and literals, first those of ``writer``.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy import Engine, text
from tests.copying import copy_rows
from tests.eventlog.recorded import log_at, read, recorded
from tests.versions import NEWEST

from bench.serving import SENT, Collector, cpu_seconds, postgres_pids, serving, with_children
from joinsight import tables
from joinsight.analysis.rows import Plans, Rows, execution_rows
from joinsight.base.gc_tuning import collect_seldom
from joinsight.contract.document import Document, Execution
from joinsight.findings import FindingsEngine
from joinsight.findings.finding import NoHistory
from joinsight.plan.keys import KEY_CACHE
from joinsight.store import partitions
from joinsight.store.database import open_database
from joinsight.store.writer import Writer

_T = TypeVar("_T")
CONNECTIONS = 24
"""To the collector, as many drivers have; with fewer its processes wait for requests."""
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
    return dataclasses.replace(rows, finding=FindingsEngine().rows(rows, NoHistory()))


def bare_copy(engine: Engine, batch: Sequence[Rows]) -> None:
    """Copy a batch."""
    with engine.begin() as connection:
        for table in (tables.execution, *tables.CHILDREN):
            rows = (
                [rows.execution for rows in batch]
                if table is tables.execution
                else [row for each in batch for row in getattr(each, table.name)]
            )
            if rows:
                copy_rows(connection, table, rows)


def empty(engine: Engine) -> None:
    """Empty all tables of executions."""
    names = ", ".join(f'"{table.name}"' for table in (tables.application, tables.execution, *tables.CHILDREN))
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {names}, delivery CASCADE"))


def requests(every: Sequence[Execution], size: int) -> Iterator[bytes]:
    """A request for each batch; those of a connection have an application of their own."""
    for number, batch in enumerate(batches(every, size)):
        of_one = (msgspec.structs.replace(d, application_id=f"app-{number % CONNECTIONS}") for d in batch)
        yield gzip.compress(b"\n".join(map(msgspec.json.encode, of_one)), 1)


def post(collector: Collector, bodies: Iterator[bytes]) -> None:
    """Send these on one connection, one after the other, until they are stored."""
    connection = HTTPConnection("127.0.0.1", collector.port)
    for body in bodies:
        while True:
            connection.request("POST", "/v1/documents", body, SENT)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            assert answer.status == 429, answer.status
            time.sleep(0.01)
    connection.close()


class Bench:
    """The conditions, on the database of a running collector."""

    def __init__(self, found: Sequence[Execution], collector: Collector, engine: Engine) -> None:
        self.made, self.others = runs(found, other_plans=False), runs(found, other_plans=True)
        self.rows = [rows_of(each) for each in self.made]
        self._collector, self._engine, self._writer = collector, engine, Writer(engine)
        partitions.create(engine, {partitions.month_of(each.execution.started_at) for each in self.rows})

    def run(self, what: str, size: int) -> tuple[float, float, float]:
        """Seconds of wall time, CPU of the client and CPU of PostgreSQL for all documents in batches of this size."""
        empty(self._engine)
        KEY_CACHE.forget()  # what a round before has seen must not count as plans that come again
        bodies = list(requests(self.made, size)) if what == "collector" else []
        postgres = postgres_pids(self._collector.folder)
        client = with_children(self._collector.pid) if what == "collector" else [os.getpid()]
        before, started = (cpu_seconds(client), cpu_seconds(postgres)), time.perf_counter()
        if what == "copy":
            for each in batches(self.rows, size):
                bare_copy(self._engine, each)
        elif what == "collector":
            shares = [iter(bodies[number::CONNECTIONS]) for number in range(CONNECTIONS)]
            with ThreadPoolExecutor(CONNECTIONS) as threads:
                list(threads.map(partial(post, self._collector), shares))
        else:
            for batch in batches(self.made if what == "writer" else self.others, size):
                assert self._writer.write(batch).stored == len(batch)
        wall = time.perf_counter() - started
        with self._engine.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM execution")).scalar() == len(self.made)
        now = {*postgres, *postgres_pids(self._collector.folder)}  # backends come and go; what has gone is the parent's
        return wall, cpu_seconds(client) - before[0], cpu_seconds(now) - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="*", help="event logs; none: the recorded one of the tests")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 20])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writers", type=int, default=2, help="of the collector")
    options = parser.parse_args()
    collect_seldom()  # as the collector does
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), options.writers) as collector,
        open_database(None, collector.folder) as engine,
    ):
        bench = Bench(documents(options.documents, options.logs), collector, engine)
        n, number = len(bench.made), sum(1 + sum(len(getattr(r, t.name)) for t in tables.CHILDREN) for r in bench.rows)
        print(f"{n} documents; distinct plans: {distinct(bench.rows)}, {distinct(list(map(rows_of, bench.others)))}")
        print("batch  what         documents/s   rows/s   ms of CPU a document: client, server")
        for size in options.batch:
            measured: dict[str, list[tuple[float, float, float]]] = {
                "writer": [],
                "other plans": [],
                "collector": [],
                "copy": [],
            }
            for _ in range(options.rounds):
                for what, taken in measured.items():
                    taken.append(bench.run(what, size))
            for what, taken in measured.items():
                wall, client, server = (statistics.median(each) for each in zip(*taken, strict=True))
                print(
                    f"{size:>5}  {what:<11}  {n / wall:>11,.0f}  {number / wall:>7,.0f}"
                    f"   {1000 * client / n:>6.2f}, {1000 * server / n:.2f}"
                )


if __name__ == "__main__":
    main()
