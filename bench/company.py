"""Loads a collector as a company's drivers do: ``python -m bench.company --help``.

**Data.** The documents of a recorded event log, a request for each, from drivers with an application, a listener, a
connection and a loopback address of their own, or as many addresses as ``--addresses`` says. ``--vary`` gives each
driver other ids of expressions, plans and accumulators, as drivers have that ran something else before. **Load.** An
open loop: requests leave at their times, however slow the answers are; nothing is repeated. The collector is `joinsight
serve` with the embedded PostgreSQL, on the same machine; requests are made before the clock starts. **Measures.**
Answers by status; the time from when a request was due to its answer, which is when its rows can be read; the CPU of
collector, PostgreSQL and this process in cores; the collector's memory over time and that of PostgreSQL, where pages
that several processes share count once. In the end the executions in the database are counted: each accepted one must
be there. ``--rate`` takes several rates, one after the other, against the same collector.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from sqlalchemy import text

from bench.ingestion import documents, with_ids_of
from bench.serving import SENT, Collector, cpu_seconds, postgres_pids, serving, shared_memory_mb, with_children
from joinsight.store.database import open_database

_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **SENT}.items())
_KEPT_SECONDS = 5
"""How long Java keeps a connection that is not used."""


@dataclass
class Request:
    """A document on its way."""

    driver: int
    execution_id: int
    body: bytes


@dataclass
class Seen:
    """What the drivers saw at one rate."""

    statuses: Counter[str] = field(default_factory=Counter)
    polite: int = 0
    """Answers with Retry-After."""
    seconds: list[float] = field(default_factory=list)
    """From when an accepted request was due to its answer."""
    memory_mb: list[int] = field(default_factory=list)
    """The collector's, every five seconds."""


class Driver:
    """An address of its own, and a connection, kept for the time for which Java's client keeps one."""

    def __init__(self, number: int, port: int, addresses: int) -> None:
        number %= addresses
        self.address = f"127.1.{number // 250}.{number % 250 + 1}"
        self.port = port
        self._kept: tuple[float, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> tuple[str, bool]:
        """The status, and whether the answer has Retry-After."""
        kept, self._kept = self._kept, None
        if kept is not None and time.monotonic() - kept[0] < _KEPT_SECONDS and not kept[1].at_eof():
            _, reader, writer = kept
        else:
            if kept is not None:
                kept[2].close()
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.address, 0))
        writer.write(f"POST /v1/documents HTTP/1.1\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        found = re.search(r"content-length: (\d+)", head)
        await reader.readexactly(int(found[1]) if found else 0)
        if "connection: close" in head:
            writer.close()
        else:
            self._kept = time.monotonic(), reader, writer
        return head.split()[1], "retry-after:" in head

    def forget(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept[2].close()
            self._kept = None


def make_requests(drivers: int, number: int, first: int, vary: bool) -> list[Request]:
    """Requests of all drivers in turn."""
    recorded = documents(20)
    made = []
    for index in range(number):
        driver, execution_id = index % drivers, first + index
        document = msgspec.structs.replace(
            recorded[(index // drivers + driver) % len(recorded)],
            origin="live",
            application_id=f"application-{driver:04}",
            job_name=f"job-{driver % 200}",
            execution_id=execution_id,
            root_execution_id=execution_id,
            sequence=index // drivers + 1,
        )
        listener = msgspec.structs.replace(document.listener, id=f"listener-{first}-{driver}")
        line = msgspec.json.encode(msgspec.structs.replace(document, listener=listener))
        if vary:
            line = with_ids_of(line, driver)
        made.append(Request(driver, execution_id, gzip.compress(line, 1)))
    return made


async def send(requests: Sequence[Request], drivers: Sequence[Driver], rate: float, collector: int) -> Seen:
    """Send each request at its time; `collector` is the id of the process."""
    seen, busy = Seen(), [asyncio.Lock() for _ in drivers]
    started = time.monotonic() + 0.1

    async def one(request: Request, due: float) -> None:
        async with busy[request.driver]:  # a driver sends one request after the other
            try:
                status, polite = await drivers[request.driver].post(request.body)
            except (OSError, asyncio.IncompleteReadError) as error:
                status, polite = type(error).__name__, False
        seen.statuses[status] += 1
        seen.polite += polite
        if status == "200":
            seen.seconds.append(time.monotonic() - due)

    async def watching() -> None:
        while True:
            seen.memory_mb.append(shared_memory_mb(with_children(collector)))
            await asyncio.sleep(5)

    watcher = asyncio.ensure_future(watching())
    sent = []
    for index, request in enumerate(requests):
        due = started + index / rate
        if (early := due - time.monotonic()) > 0:
            await asyncio.sleep(early)
        sent.append(asyncio.ensure_future(one(request, due)))
    await asyncio.gather(*sent)
    watcher.cancel()
    for driver in drivers:
        driver.forget()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drivers", type=int, default=1000)
    parser.add_argument("--addresses", type=int, default=1000, help="that these share")
    parser.add_argument("--rate", type=float, nargs="*", default=[167, 1670], help="executions a second")
    parser.add_argument("--seconds", type=float, nargs="*", default=[60, 20], help="for each rate")
    parser.add_argument("--writers", type=int, default=0, help="of `joinsight serve`")
    parser.add_argument("--vary", action="store_true", help="other ids in the documents of each driver")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving(Path(name), options.writers) as collector:
        load(options, collector)


def load(options: argparse.Namespace, collector: Collector) -> None:
    """Measure each rate."""
    folder, port = collector.folder, collector.port
    drivers = [Driver(number, port, options.addresses) for number in range(options.drivers)]
    accepted = first = 0
    print(
        " rate/s  accepted  answers                        p50 ms  p99 ms  cores: collector, PostgreSQL, load; load avg"
    )
    for rate, seconds in zip(options.rate, options.seconds, strict=True):
        requests = make_requests(len(drivers), int(rate * seconds), first, options.vary)
        first += len(requests)
        pids = postgres_pids(folder)
        before = [cpu_seconds(each) for each in (with_children(collector.pid), pids, [os.getpid()])]
        started = time.monotonic()
        seen = asyncio.run(send(requests, drivers, rate, collector.pid))
        wall = time.monotonic() - started
        after = [
            cpu_seconds(each) for each in (with_children(collector.pid), {*pids, *postgres_pids(folder)}, [os.getpid()])
        ]
        accepted += seen.statuses["200"]
        cores = ", ".join(f"{(b - a) / wall:.2f}" for a, b in zip(before, after, strict=True))
        answers = ", ".join(f"{number} x {status}" for status, number in seen.statuses.most_common())
        ordered = sorted(seen.seconds)
        p50, p99 = (1000 * ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
        print(
            f"{rate:>7.0f}  {seen.statuses['200'] / wall:>6.0f}/s  {answers:<30} {p50:>6.0f}  {p99:>6.0f}"
            f"  {cores}; {os.getloadavg()[0]:.1f}"
        )
        each = [1000 * (b - a) / max(1, seen.statuses["200"]) for a, b in zip(before, after, strict=True)]
        print(f"         CPU, ms an accepted execution: {each[0]:.1f} of the collector, {each[1]:.1f} of PostgreSQL")
        print(f"         with Retry-After: {seen.polite}; collector's memory, MB: {seen.memory_mb}")
        print(f"         PostgreSQL's memory, MB: {shared_memory_mb(postgres_pids(folder))}")
    with open_database(None, folder) as engine, engine.connect() as connection:
        stored = connection.execute(text("SELECT count(*) FROM execution")).scalar()
    print(f"accepted {accepted}, stored {stored}")


if __name__ == "__main__":
    main()
