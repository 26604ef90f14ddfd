"""Watches memory and storage through the life of an application: ``python -m bench.long_life --help``.

``executions``: one driver runs many short queries, by default 100,000: in turns a shuffle with an aggregation, a
broadcast join and a sort-merge join of a few rows, each planned once. ``stream``: one streaming query with a stateful
aggregation runs a micro-batch a second for ``--minutes``. ``quick-stream``: one without state, of 100 rows and one task
a micro-batch, runs as many as it can. A micro-batch of both is two executions, of which one is outer. ``day``: 12 hours
at a hundred times the speed. One query runs from the first minute to the last, others beside it; heartbeats of the
executor and reports of progress come every 100 ms in place of 10 s, so there are as many as in 12 hours.

The driver has the plugin, so that it also samples its tasks, and sends to `joinsight serve` with the embedded
PostgreSQL, on the same machine. Ten times in its life: what a garbage collection leaves on the driver's heap, of this
Joinsight's own objects (without the arrays and texts that these refer to), the resident memory of the collector, and
what a query or micro-batch takes in the database. In the end the database must have every execution, and the delivery
account must say that nothing was lost. Spark keeps the last 1,000 executions for its own UI: its heap grows at first.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Engine, text

from bench.overhead import create_views
from bench.serving import TOKEN, Collector, memory_mb, serving
from joinsight.driver.attach import listener_jar
from joinsight.store.database import open_database

_CHECKS = 10
_MB = 1 << 20
_CONF = {
    "spark.plugins": "io.joinsight.JoinsightPlugin",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.joinsight.jobName": "long life",
    "spark.joinsight.shutdownTimeout": "10m",
}


_SPEED = 100
_QUICK = {
    "spark.master": "local[3]",
    "spark.executor.heartbeatInterval": f"{10_000 // _SPEED}ms",
    "spark.joinsight.progressInterval": f"{10_000 // _SPEED}ms",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("life", choices=("executions", "stream", "quick-stream", "day"))
    parser.add_argument("--executions", type=int, default=100_000, help="of `executions`")
    parser.add_argument("--hours", type=float, default=12, help="of `day`")
    parser.add_argument("--minutes", type=float, default=60, help="of streams")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        serving(Path(name)) as collector,
        open_database(None, collector.folder) as engine,
    ):
        with session(Path(name), collector, _QUICK if options.life == "day" else {}) as spark:
            watch = Watch(spark, collector, engine)
            if options.life == "executions":
                run_executions(spark, options.executions, watch)
            elif options.life == "day":
                run_day(spark, options.hours, watch)
            else:
                rows = (rate if options.life == "stream" else quick)(spark)
                run_stream(rows, Path(name), options.minutes, watch)
        watch.at_the_end()


@contextmanager
def session(folder: Path, collector: Collector, more: dict[str, str]) -> Iterator[SparkSession]:
    """A driver with the plugin, which sends to this collector."""
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    builder = SparkSession.builder.master("local[2]").appName("long life").config(map=_CONF | more)
    builder.config("spark.driver.extraClassPath", listener_jar())
    builder.config("spark.joinsight.url", f"http://127.0.0.1:{collector.port}")
    builder.config("spark.joinsight.tokenFile", str(token))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class Watch:
    """Prints a line of measurements whenever it is called."""

    def __init__(self, spark: SparkSession, collector: Collector, engine: Engine) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._collector = collector
        self._engine = engine
        self._empty = self._database()[1]
        self._started = time.monotonic()
        print(f"load {os.getloadavg()[0]:.1f}; Spark {spark.version}")
        columns = ("minutes", "queries in the database", "driver's heap, MB", "of it Joinsight's objects")
        print("|", " | ".join((*columns, "collector, MB", "bytes a query")), "|")
        print("|---|---|---|---|---|---|")

    def __call__(self) -> None:
        """Measure, and print a line."""
        stored, size = self._database()
        minutes = (time.monotonic() - self._started) / 60
        living, count, own = self._living()
        each = (size - self._empty) / max(1, stored)
        print(
            f"| {minutes:.1f} | {stored:,} | {living / _MB:.1f} | {count:,}, {own:,} bytes"
            f" | {memory_mb(self._collector.pid)} | {each:,.0f} |",
            flush=True,
        )

    def at_the_end(self) -> None:
        """Print what arrived, of what the driver made."""
        with self._engine.connect() as connection:
            stored, last = connection.execute(text("SELECT count(*), max(execution_id) FROM execution")).one()
            columns = "documents_made, documents_missing, documents_dropped, documents_refused, events_dropped"
            account = connection.execute(text(f"SELECT {columns} FROM delivery")).mappings().one()
        print(f"in the database: {stored:,} executions, the last is {last:,}; {dict(account)}")

    def _database(self) -> tuple[int, int]:
        """Queries or micro-batches that are stored, and the bytes of the database."""
        with self._engine.connect() as connection:
            stored = connection.execute(text("SELECT count(*) FROM execution WHERE NOT is_outer")).scalar_one()
            return stored, connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()

    def _living(self) -> tuple[int, int, int]:
        """Bytes of all objects that live on the driver's heap; the number and bytes of those of Joinsight's classes."""
        pid = str(self._jvm.java.lang.ProcessHandle.current().pid())
        done = subprocess.run(["jcmd", pid, "GC.class_histogram"], capture_output=True, text=True, check=True)
        total = re.search(r"^Total\s+\d+\s+(\d+)", done.stdout, re.MULTILINE)
        own = re.findall(r"^\s*\d+:\s+(\d+)\s+(\d+)\s+\[*L?io\.joinsight\.", done.stdout, re.MULTILINE)
        assert total, done.stdout
        return int(total[1]), sum(int(count) for count, _ in own), sum(int(size) for _, size in own)


def run_executions(spark: SparkSession, number: int, watch: Watch) -> None:
    """Run as many queries."""
    frames = queries(spark)
    for index in range(number):
        frames[index % len(frames)]._jdf.collectAsList()
        if (index + 1) % max(1, number // _CHECKS) == 0:
            watch()


def run_day(spark: SparkSession, hours: float, watch: Watch) -> None:
    """Run one query for as long, and others beside it."""
    frames = queries(spark)
    seconds = 3600 * hours / _SPEED
    slept = f"java_method('java.lang.Thread', 'sleep', {round(1000 * seconds)}L)"
    with ThreadPoolExecutor(1) as pool:
        longest = pool.submit(spark.sql(f"SELECT {slept} FROM range(0, 1, 1, 1)").collect)
        checks = [time.monotonic() + seconds * (number + 1) / _CHECKS for number in range(_CHECKS)]
        for frame in cycle(frames):
            frame._jdf.collectAsList()
            if time.monotonic() >= checks[0]:
                watch()
                del checks[0]
                if not checks:
                    break
        longest.result()


def queries(spark: SparkSession) -> list[DataFrame]:
    """Three that are planned once, so that most of the time goes into executions."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    create_views(spark)
    texts = (
        "SELECT k, count(*) FROM facts GROUP BY k",
        "SELECT g, count(*), sum(id) FROM facts JOIN dims USING (k) GROUP BY g",
        "SELECT /*+ MERGE(d) */ d.g, f.id FROM facts f JOIN dims d ON f.k = d.k WHERE f.id < 100",
    )
    return [spark.sql(each) for each in texts]


def rate(spark: SparkSession) -> DataFrame:
    """Counts of keys; the source has new rows once a second."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    return rows.selectExpr("value % 100 AS k").groupBy("k").count()


def quick(spark: SparkSession) -> DataFrame:
    """New rows whenever a micro-batch has ended."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).option("numPartitions", 1).load()
    return rows.selectExpr("value % 100 AS k")


def run_stream(rows: DataFrame, folder: Path, minutes: float, watch: Watch) -> None:
    """Run micro-batches for as long."""
    query: Any = (
        rows.writeStream.outputMode("update")
        .format("noop")
        .queryName("counts")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    for _ in range(_CHECKS):
        time.sleep(60 * minutes / _CHECKS)
        assert query.isActive, query.exception()
        watch()
    query.stop()


if __name__ == "__main__":
    main()
