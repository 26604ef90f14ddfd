"""Plays a part of a company's busiest hour at real times: ``python -m bench.busy_hour --help``.

**Company.** ``--applications`` a day, of which a third start within one hour; each runs 30 queries one after the
other, whose durations are log-normal around ``--median`` seconds. The benchmark plays ``--minutes`` of that hour, and
what is under way when they begin. **Documents.** The recorded ones of an event log, with times, names and ids of the
driver that sends them: one at a query's end, one for each time at which the listener reports its progress, and those of
the application: at its start, every 30 s, and at its end. A job sends the same queries each time that it runs. Each
driver has a connection and an address of its own; nothing is repeated. **Measures.** Answers; the time from when a
document was due to its answer, which is when its rows can be read; that of `/metrics`, read every 5 s; the CPU of
collector and PostgreSQL, and their memory over time; the size of the database. In the end each query whose last
document was accepted must be stored as ended.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from sqlalchemy import text
from tests.documents import application

from bench.company import Driver, Seen
from bench.ingestion import documents, with_ids_of
from bench.serving import cpu_seconds, postgres_pids, serving, shared_memory_mb, with_children
from joinsight.contract.document import Document, Execution
from joinsight.store.database import open_database

QUERIES = 30
BUSIEST = 1 / 3
SIGMA = 1.2
JOBS = 600
ADDRESSES = 1_000
SIGN_OF_LIFE_S, PROGRESS_S = 30, 10
_TIMES = re.compile(rb"(?<=[:\[,])1[67]\d{11}(?=[,\]}])")
"""Times in milliseconds, wherever a document has them."""


@dataclass(frozen=True)
class Due:
    """A document to send, in seconds since the start."""

    at: float
    driver: int
    document: Document | None
    """None: the application's."""
    started_at: float = 0
    is_last: bool = False
    """Whether its application ends with it."""


class Run:
    """An application: when it sends what."""

    def __init__(self, number: int, start: float, recorded: Sequence[Execution], median: float) -> None:
        self.number, self.start = number, start
        self._chance = random.Random(number)
        self._recorded, self._median = recorded, median

    def documents(self) -> list[Due]:
        """All that it sends."""
        sent: list[Due] = []
        end = self.start + 1
        for query in range(QUERIES):
            began = end + self._chance.expovariate(1)
            end = began + self._median * self._chance.lognormvariate(0, SIGMA)
            ended = self._recorded[(self.number % JOBS + query) % len(self._recorded)]
            of_query = msgspec.structs.replace(ended, execution_id=query, root_execution_id=query)
            running = msgspec.structs.replace(of_query, state="running", ended_at_ms=None, statement=None)
            sent += [Due(at, self.number, running, began) for at in progress(began, end)]
            sent.append(Due(end, self.number, of_query, began))
        times = [self.start + SIGN_OF_LIFE_S * number for number in range(1 + int((end - self.start) / SIGN_OF_LIFE_S))]
        sent += [Due(at, self.number, None, self.start) for at in times]
        sent.append(Due(end, self.number, None, self.start, is_last=True))
        return sent


def progress(began: float, end: float) -> Iterator[float]:
    """When the listener reports a query that runs: `LiveExecution.isProgressDue`."""
    first = last = began + PROGRESS_S
    at = first
    while at < end:
        if at == first or at - last >= min(60, (at - first) / 10):
            last = at
            yield at
        at += PROGRESS_S


def body_of(due: Due, sequence: int, epoch: float) -> bytes:
    """The request."""
    common = {
        "application_id": f"application-{due.driver:06}",
        "job_name": f"job-{due.driver % JOBS}",
        "sequence": sequence,
    }
    at_ms, started_at_ms = (round(1000 * (epoch + each)) for each in (due.at, due.started_at))
    made: Document
    if due.document is None:
        ended = {"state": "ended", "ended_at_ms": at_ms} if due.is_last else {}
        made = application(**common, **ended, started_at_ms=started_at_ms, documents_made=sequence)
    else:
        made = msgspec.structs.replace(due.document, origin="live", **common)
    listener = msgspec.structs.replace(made.listener, id=f"listener-{due.driver}")
    line = with_ids_of(msgspec.json.encode(msgspec.structs.replace(made, listener=listener)), due.driver)
    if due.document is not None:
        line = _TIMES.sub(partial(_later, started_at_ms - due.document.started_at_ms), line)
    return gzip.compress(line, 1)


def _later(by: int, found: re.Match[bytes]) -> bytes:
    return b"%d" % (int(found[0]) + by)


class Hour:
    """What is played, and what the drivers saw."""

    def __init__(self, options: argparse.Namespace) -> None:
        recorded = documents(20)
        chance = random.Random(0)
        self.seconds = 60 * options.minutes
        rate = options.applications * BUSIEST / 3600
        earliest = -4 * QUERIES * options.median  # some that started before are still under way
        starts = sorted(chance.uniform(earliest, self.seconds) for _ in range(round(rate * (self.seconds - earliest))))
        runs = [Run(number, start, recorded, options.median) for number, start in enumerate(starts)]
        every = (each for run in runs for each in run.documents() if 0 <= each.at < self.seconds)
        self.due = sorted(every, key=lambda each: each.at)
        self.drivers = len(runs)
        self.seen = Seen()
        self.metrics_s: list[float] = []
        self.ended: set[tuple[int, int]] = set()
        """Driver and number of the queries whose last document was accepted."""

    async def play(self, collector: int, port: int) -> None:
        """Send each document at its time; `collector` is the id of the process."""
        drivers: dict[int, Driver] = {}
        busy: dict[int, asyncio.Lock] = {}
        sequences = [0] * self.drivers
        epoch, started = time.time(), time.monotonic()

        async def one(due: Due) -> None:
            driver = drivers.setdefault(due.driver, Driver(due.driver, port, ADDRESSES))
            async with busy.setdefault(due.driver, asyncio.Lock()):  # one request after the other
                sequences[due.driver] += 1
                body = body_of(due, sequences[due.driver], epoch)
                try:
                    status, polite = await driver.post(body)
                except (OSError, asyncio.IncompleteReadError) as error:
                    status, polite = type(error).__name__, False
            self.seen.statuses[status] += 1
            self.seen.polite += polite
            if status == "200":
                self.seen.seconds.append(time.monotonic() - started - due.at)
                if isinstance(due.document, Execution) and due.document.state != "running":
                    self.ended.add((due.driver, due.document.execution_id))

        async def watching() -> None:
            while True:
                self.seen.memory_mb.append(shared_memory_mb(with_children(collector)))
                before = time.monotonic()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                self.metrics_s.append(time.monotonic() - before)
                writer.close()
                await asyncio.sleep(5)

        watcher = asyncio.ensure_future(watching())
        sent = set()
        for due in self.due:
            if (early := started + due.at - time.monotonic()) > 0:
                await asyncio.sleep(early)
            task = asyncio.ensure_future(one(due))
            sent.add(task)
            task.add_done_callback(sent.discard)
        await asyncio.gather(*sent)
        watcher.cancel()
        for driver in drivers.values():
            driver.forget()


def percentiles(seconds: Sequence[float]) -> str:
    """p50, p95 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return " / ".join(f"{1000 * ordered[int(len(ordered) * share)]:.0f}" for share in (0.5, 0.95, 0.99)) + " ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", type=int, default=10_000, help="a day")
    parser.add_argument("--median", type=float, default=10, help="duration of a query in seconds")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--writers", type=int, default=0, help="of `joinsight serve`")
    options = parser.parse_args()
    hour = Hour(options)
    kinds = [each.document is None for each in hour.due]
    queries = sum(isinstance(each.document, Execution) and each.document.state != "running" for each in hour.due)
    print(
        f"{options.minutes:g} minutes of the busiest hour of {options.applications:,} applications a day:"
        f" {hour.drivers:,} drivers, {queries:,} queries, {kinds.count(False) - queries:,} reports of progress,"
        f" {kinds.count(True):,} documents of applications; {len(hour.due) / hour.seconds:.0f} a second"
    )
    with tempfile.TemporaryDirectory() as name, serving(Path(name), options.writers) as collector:
        pids = postgres_pids(collector.folder)
        before = [cpu_seconds(each) for each in (with_children(collector.pid), pids, [os.getpid()])]
        asyncio.run(hour.play(collector.pid, collector.port))
        pids = [*{*pids, *postgres_pids(collector.folder)}]
        after = [cpu_seconds(each) for each in (with_children(collector.pid), pids, [os.getpid()])]
        took = [b - a for a, b in zip(before, after, strict=True)]
        seen, accepted = hour.seen, max(1, hour.seen.statuses["200"])
        print(f"answers: {dict(seen.statuses)}, with Retry-After {seen.polite}; load {os.getloadavg()[0]:.1f}")
        print(f"from due to its answer, p50 / p95 / p99: {percentiles(seen.seconds)}")
        print(f"/metrics: {percentiles(hour.metrics_s)}")
        cores = ", ".join(f"{each / hour.seconds:.2f}" for each in took)
        print(f"cores of collector, PostgreSQL, this process: {cores}")
        each = [1000 * seconds / accepted for seconds in took]
        print(f"CPU of a document, ms: {each[0]:.1f} of the collector, {each[1]:.1f} of PostgreSQL")
        print(f"PostgreSQL's memory, MB: {shared_memory_mb(postgres_pids(collector.folder))}")
        print(f"collector's memory every minute, MB: {seen.memory_mb[::12]}")
        with open_database(None, collector.folder) as engine, engine.connect() as connection:
            ended = "SELECT count(*) FROM execution WHERE state NOT IN ('running', 'lost')"
            stored = connection.scalar(text(ended)) or 0
            size = connection.scalar(text("SELECT pg_database_size(current_database())")) or 0
    print(f"ended queries accepted {len(hour.ended):,}, stored {stored:,}; the database takes {size / 1e6:.0f} MB")
    assert stored == len(hour.ended)


if __name__ == "__main__":
    main()
