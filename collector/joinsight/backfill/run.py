"""Runs a backfill: finds logs, skips unchanged ones, has the others read, and reports the results."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from joinsight.backfill.jvm import Reader, spark_jars
from joinsight.backfill.listing import Hadoop, Local, find
from joinsight.backfill.log_file import LogFile
from joinsight.backfill.planner import assign_logs
from joinsight.backfill.processes import read_in_processes
from joinsight.backfill.tasks import LogResult, Store, read_logs, write_logs
from joinsight.base.errors import JoinsightError
from joinsight.driver.attach import listener_jar
from joinsight.findings.thresholds import Thresholds
from joinsight.spark.packages import CONNECTIONS
from joinsight.store import event_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INPUT_FORMAT = "io.joinsight.eventlog.EventLogs"
_SETTING = "joinsight.event_logs"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_FOLLOW_SECONDS = 1.0


@dataclass(slots=True)
class Report:
    """The result of a run."""

    found: int = 0
    unchanged: int = 0
    """Logs that have not changed since they were read."""
    unchanged_partial: int = 0
    """Those of them that could only be read in part."""
    done: list[LogResult] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that could not be listed, with the reason."""
    empty: list[str] = field(default_factory=list)
    """Folders of rolling logs without a file of events."""
    left_out: list[str] = field(default_factory=list)
    """Files in folders, and matches of patterns, that are not event logs."""
    seconds: float = 0.0

    @property
    def event_bytes(self) -> int:
        return sum(each.entry.event_bytes for each in self.done)

    def of(self, outcome: str) -> list[LogResult]:
        """Logs that were read with this outcome."""
        return [each for each in self.done if each.entry.outcome == outcome]

    @property
    def is_complete(self) -> bool:
        """Whether another run could not read any more than this one."""
        return not self.unreadable and not self.of("failed")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run."""

    logs: int
    of_logs: int
    """Including files that may not be event logs."""
    bytes: int
    of_bytes: int
    """Size of the files."""
    seconds: float


def backfill(
    spark: SparkSession | None,
    engine: Engine,
    paths: Sequence[str],
    *,
    again: bool = False,
    connections: int = CONNECTIONS,
    thresholds: Thresholds | None = None,
    follow: Callable[[Progress], None] | None = None,
    reader: Reader | None = None,
) -> Report:
    """Read the event logs at these paths and store them; without Spark they are read on this machine.

    `again` also reads unchanged logs. At most `connections` tasks write to PostgreSQL at the same time. `follow` is
    called every second, from another thread. `reader`: a JVM that was started before, for a single log. Raises
    `JoinsightError` if a path does not exist or a task fails; logs that were read before stay stored and recorded in
    `event_log`.
    """
    started = time.monotonic()
    listing = find(Local() if spark is None else Hadoop(spark), paths)
    report = Report(found=len(listing.logs), unreadable=listing.unreadable, empty=listing.empty)
    before = {} if again else event_logs.seen(engine, list(listing.logs))
    changed: list[LogFile] = []
    for key, log in listing.logs.items():
        state, outcome = before.get(key, (None, ""))
        if state != log.state or outcome == "failed":
            changed.append(log)
        else:
            report.unchanged += 1
            report.unchanged_partial += outcome == "partial"
    if changed:
        store = Store(engine.url.render_as_string(hide_password=False), thresholds or Thresholds())
        with _following(engine, changed, follow):
            results = _read(spark, changed, store, connections, reader)
        report.done = [each for each in results if each.is_log]
        report.left_out = sorted(each.entry.path for each in results if not each.is_log)
        report.found -= len(report.left_out)
    report.seconds = time.monotonic() - started
    return report


def local_paths(paths: Iterable[str]) -> list[str]:
    """Those of these paths that are on this machine's disks, whatever Spark reads them."""
    schemes = {path: match[1] if (match := _SCHEME.match(path)) else None for path in paths}
    local = {"file"} if None not in schemes.values() or _names_file_system() else {"file", None}
    return [path for path, scheme in schemes.items() if scheme in local]


def can_read_here(paths: Sequence[str]) -> bool:
    """Whether these paths are on this machine's disks, and Spark is not configured to run elsewhere."""
    is_here = len(local_paths(paths)) == len(set(paths)) and "PYSPARK_GATEWAY_PORT" not in os.environ
    return is_here and not _spark_sets(r"spark\.master[\s=:]")


def _names_file_system() -> bool:
    """Whether paths without a scheme may be on another file system."""
    if "HADOOP_CONF_DIR" in os.environ or Path(_spark_conf(), "core-site.xml").exists():
        return True
    return _spark_sets(r"spark\.hadoop\.fs\.default")


def _spark_sets(setting: str) -> bool:
    try:
        lines = Path(_spark_conf(), "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return False
    return any(re.match(rf"\s*{setting}", line) for line in lines)


def _spark_conf() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_jars().with_name("conf"))


def _read(
    spark: SparkSession | None, logs: list[LogFile], store: Store, connections: int, reader: Reader | None
) -> list[LogResult]:
    if spark is None:
        try:
            return _read_here(logs, store, connections, reader)
        except JoinsightError as error:
            raise JoinsightError(f"The backfill stopped; run it again to continue. {error}") from None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    from joinsight.spark.session import task_reason

    try:
        return _read_by_spark(spark, logs, store, connections)
    except (Py4JJavaError, PythonException) as error:
        problem = f"Spark stopped; run the command again to continue. {task_reason(str(error))}"
        raise JoinsightError(problem) from None


def _read_here(logs: list[LogFile], store: Store, connections: int, reader: Reader | None) -> list[LogResult]:
    """Read in one process per core, each with its own JVM."""
    shares = assign_logs(logs, min(connections, os.cpu_count() or 1))
    if len(shares) == 1:
        return list(read_logs(store, shares[0], reader))
    return read_in_processes(store, shares)


def _read_by_spark(spark: SparkSession, logs: list[LogFile], store: Store, connections: int) -> list[LogResult]:
    shares = assign_logs(logs, connections)
    jar = listener_jar().resolve().as_uri().replace("'", "%27")  # as_uri leaves a quote, which would end the text
    spark.sql(f"ADD JAR '{jar}'")
    conf = {_SETTING: json.dumps([[log.request() for log in share] for share in shares])}
    context: Any = spark.sparkContext
    types = "org.apache.hadoop.io.NullWritable", "org.apache.hadoop.io.BytesWritable"
    records = context.newAPIHadoopRDD(_INPUT_FORMAT, *types, conf=conf)
    results: list[LogResult] = records.mapPartitionsWithIndex(
        lambda number, pairs: write_logs(store, shares[number], (bytes(line) for _, line in pairs))
    ).collect()
    return results


@contextmanager
def _following(engine: Engine, logs: list[LogFile], follow: Callable[[Progress], None] | None) -> Iterator[None]:
    """Call `follow` with the progress according to `event_log`, where tasks record each log."""
    if follow is None:
        yield
        return
    with engine.connect() as connection:
        since: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    started = time.monotonic()
    over = threading.Event()
    size = sum(log.state.size_bytes for log in logs)

    def tell() -> None:
        while not over.wait(_FOLLOW_SECONDS):
            try:
                number, its_size = event_logs.done(engine, since)
            except SQLAlchemyError:  # ignored: the tasks report their own errors
                continue
            follow(Progress(number, len(logs), its_size, size, time.monotonic() - started))

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
