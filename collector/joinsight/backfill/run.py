"""The driver: finds logs, leaves out those that have not changed, has the others read, and says what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from joinsight.backfill.find import find
from joinsight.backfill.share import SPLIT_BYTES, Found, Shares, share
from joinsight.backfill.work import Done, Store, fold_logs, open_local, read_logs, read_units
from joinsight.errors import JoinsightError
from joinsight.findings.thresholds import Thresholds
from joinsight.store import ledger

CONNECTIONS = 16
_FOLLOW_SECONDS = 1.0


@dataclass(slots=True)
class Report:
    """What a run did."""

    found: int = 0
    unchanged: int = 0
    """Logs that were read before, and are as they were then."""
    unchanged_partial: int = 0
    """Of these, those of which not all could be read then."""
    done: list[Done] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that could not be listed, and why."""
    seconds: float = 0.0

    @property
    def event_bytes(self) -> int:
        return sum(each.entry.event_bytes for each in self.done)

    def of(self, outcome: str) -> list[Done]:
        """Logs that were read with this outcome."""
        return [each for each in self.done if each.entry.outcome == outcome]

    @property
    def is_complete(self) -> bool:
        """Nothing is left that another run might read."""
        return not self.unreadable and not self.of("failed")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    logs: int
    of_logs: int
    bytes: int
    of_bytes: int
    """As the files have them."""
    seconds: float


def backfill(
    spark: SparkSession,
    engine: Engine,
    paths: Sequence[str],
    *,
    again: bool = False,
    connections: int = CONNECTIONS,
    split: int = SPLIT_BYTES,
    thresholds: Thresholds | None = None,
    follow: Callable[[Progress], None] | None = None,
) -> Report:
    """Read the event logs at these paths and store them.

    `again`: those too that have not changed. At most `connections` tasks write to PostgreSQL at the same time. `follow`
    is called every second, from another thread. Raises `JoinsightError` if a path is not there or Spark fails;
    what was read by then is stored and entered in the ledger.
    """
    started = time.monotonic()
    listing = find(spark, paths)
    report = Report(found=len(listing.logs), unreadable=listing.unreadable)
    before = {} if again else ledger.seen(engine, list(listing.logs))
    news: list[Found] = []
    for key, found in listing.logs.items():
        seen, outcome = before.get(key, (None, ""))
        if seen != found.seen or outcome == "failed":
            news.append(found)
        else:
            report.unchanged += 1
            report.unchanged_partial += outcome == "partial"
    if news:
        store = Store(engine.url.render_as_string(hide_password=False), thresholds or Thresholds())
        with _following(engine, news, follow):
            report.done = _read(spark, news, share(news, split, connections), store, connections)
    report.seconds = time.monotonic() - started
    return report


def _read(spark: SparkSession, logs: list[Found], shares: Shares, store: Store, connections: int) -> list[Done]:
    context = spark.sparkContext
    parts: list[Any] = []
    if shares.large:
        parts.append(_large(context, logs, shares, store))
    if shares.small:
        groups = [[logs[number] for number in group] for group in shares.small]
        parts.append(context.parallelize(groups, len(groups)).mapPartitions(partial(_read_groups, store)))
    # One job, so that small logs are read while large ones are put together; only its last stage writes
    try:
        work = context.union(parts)
        if work.getNumPartitions() > connections:
            work = work.coalesce(connections)
        found: list[Done] = work.collect()
    except Py4JJavaError as error:
        raise JoinsightError(f"Spark gave up; run it again to go on from here. {_reason(error)}") from error
    return found


def _large(context: Any, logs: list[Found], shares: Shares, store: Store) -> Any:
    units = context.parallelize(shares.units, len(shares.units))
    records = units.mapPartitions(partial(read_units, opener=open_local))
    task = {number: group for group, numbers in enumerate(shares.large) for number in numbers}
    in_order = records.repartitionAndSortWithinPartitions(len(shares.large), lambda key: task[key[0]])
    large = {number: logs[number] for number in task}
    names = {(unit.log, unit.part): unit.path.rpartition("/")[2] for unit in shares.units}
    return in_order.mapPartitions(lambda some: fold_logs(some, large, names, store))


def _read_groups(store: Store, groups: Iterator[list[Found]]) -> Iterator[Done]:
    for group in groups:
        yield from read_logs(group, open_local, store)


@contextmanager
def _following(engine: Engine, logs: list[Found], follow: Callable[[Progress], None] | None) -> Iterator[None]:
    """Calls `follow` with what the ledger says: executors enter each log that is done."""
    if follow is None:
        yield
        return
    with engine.connect() as connection:
        since: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    started = time.monotonic()
    over = threading.Event()
    size = sum(found.size for found in logs)

    def tell() -> None:
        while not over.wait(_FOLLOW_SECONDS):
            try:
                number, its_size = ledger.done(engine, since)
            except SQLAlchemyError:  # the executors' word counts
                continue
            follow(Progress(number, len(logs), its_size, size, time.monotonic() - started))

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _reason(error: Py4JJavaError) -> str:
    """What the Python of an executor raised, if that was it, else what Spark says."""
    text = str(error.java_exception.getMessage() or error.java_exception.toString())
    _, _, trace = text.partition("Traceback (most recent call last):")
    raised = [line for line in trace.partition("\n\n")[0].splitlines() if line and not line.startswith(" ")]
    return (raised[0] if raised else text.strip().splitlines()[0])[:1000]
