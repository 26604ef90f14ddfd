"""The driver: finds logs, leaves out those that have not changed, has the others read, and says what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from joinsight.attach import listener_jar
from joinsight.backfill.find import find
from joinsight.backfill.share import SPLIT_BYTES, Found, Shares, Unit, share
from joinsight.backfill.streams import INPUT_FORMAT, SETTING, Streams, setting
from joinsight.backfill.work import LOCAL, Done, Opener, Store, fold_logs, open_local, read_logs, read_units
from joinsight.errors import JoinsightError
from joinsight.findings.thresholds import Thresholds
from joinsight.lake import CONNECTIONS
from joinsight.lake.session import task_reason
from joinsight.store import ledger

_FOLLOW_SECONDS = 1.0
_T = TypeVar("_T")


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
    stretches: int
    of_stretches: int
    """Of large logs, which are read before they are written."""
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
        shares = share(news, split, connections)
        with _following(spark, engine, news, len(shares.units), follow):
            try:
                report.done = _read(spark, news, shares, store, connections)
            except (Py4JJavaError, PythonException) as error:
                problem = f"Spark gave up; run it again to go on from here. {task_reason(str(error))}"
                raise JoinsightError(problem) from None
    report.seconds = time.monotonic() - started
    return report


def _read(spark: SparkSession, logs: list[Found], shares: Shares, store: Store, connections: int) -> list[Done]:
    parts: list[Any] = []
    if shares.large:
        parts.append(_large(spark, logs, shares, store))
    if shares.small:
        groups = [[logs[number] for number in group] for group in shares.small]
        parts.append(_spread(spark, groups, _files, partial(read_logs, store)))
    # One job, so that small logs are read while large ones are put together; only its last stage writes
    work = spark.sparkContext.union(parts)
    if work.getNumPartitions() > connections:
        work = work.coalesce(connections)
    found: list[Done] = work.collect()
    return found


def _large(spark: SparkSession, logs: list[Found], shares: Shares, store: Store) -> Any:
    records = _spread(spark, [[unit] for unit in shares.units], list, read_units)
    task = {number: group for group, numbers in enumerate(shares.large) for number in numbers}
    in_order = records.repartitionAndSortWithinPartitions(len(shares.large), lambda key: task[key[0]])
    large = {number: logs[number] for number in task}
    names = {(unit.log, unit.part): unit.path.rpartition("/")[2] for unit in shares.units}
    return in_order.mapPartitions(partial(fold_logs, store, large, names))


def _files(logs: list[Found]) -> list[Unit]:
    return [Unit(0, 0, path) for found in logs for path in found.log.files]


def _spread(
    spark: SparkSession,
    tasks: list[_T],
    units: Callable[[_T], list[Unit]],
    work: Callable[[Opener, _T], Iterator[Any]],
) -> Any:
    """What `work` gives of each task, for which it can open the `units`."""
    context: Any = spark.sparkContext
    of_tasks = [units(task) for task in tasks]
    if all(unit.path.startswith(LOCAL) for some in of_tasks for unit in some):
        return context.parallelize(tasks, len(tasks)).mapPartitions(
            lambda some: chain.from_iterable(work(open_local, task) for task in some)
        )
    # Python has no way to other file systems: Java reads for it
    spark.sql(f"ADD JAR '{listener_jar()}'")
    conf = {SETTING: setting(of_tasks)}
    types = "org.apache.hadoop.io.IntWritable", "org.apache.hadoop.io.BytesWritable"
    chunks = context.newAPIHadoopRDD(INPUT_FORMAT, *types, conf=conf)
    return chunks.mapPartitionsWithIndex(
        lambda number, records: work(Streams(records, of_tasks[number]).open, tasks[number])
    )


@contextmanager
def _following(
    spark: SparkSession, engine: Engine, logs: list[Found], stretches: int, follow: Callable[[Progress], None] | None
) -> Iterator[None]:
    """Calls `follow` with what the ledger says, in which executors enter each log, and what Spark says of stretches."""
    if follow is None:
        yield
        return
    with engine.connect() as connection:
        since: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    started = time.monotonic()
    over = threading.Event()
    size = sum(found.size for found in logs)
    tracker = spark.sparkContext.statusTracker()

    def tell() -> None:
        read = 0
        while not over.wait(_FOLLOW_SECONDS):
            try:
                number, its_size = ledger.done(engine, since)
                running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except (SQLAlchemyError, Py4JError):  # the word of those who do the work counts
                continue
            tasks = [stage.numCompletedTasks for stage in running if stage and stage.numTasks == stretches]
            read = max([read, *tasks]) if tasks else stretches if read else 0
            seconds = time.monotonic() - started
            follow(Progress(number, len(logs), its_size, size, read, stretches, seconds))

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
