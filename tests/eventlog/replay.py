"""Spark's own answer about an event log: its History Server's listeners replay it, then their store is read.

A script, not a test: it runs in a process of its own, with a PySpark of any version, without a SparkContext::

    python replay.py LOG... --out FILE

``--jars`` is a class path with the classes of metrics that are not Spark's, as of Iceberg.
``--pack CODEC=FILE`` also writes the first LOG, a plain one, as Spark's own codec packs it, flushed now and then.
Each LOG is a file, or a folder of a rolling log. FILE becomes a list, for each log `{"log", "seconds", "said": what
oracle.read says, "plan_versions": what oracle.plan_versions says, of a plain log}`; `seconds` is the time of the replay
alone, of the last of `--times` replays.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.exactness import oracle

FLUSH_BYTES = 250_000
# Nothing may be evicted before it is read.
RETAINED = {
    "spark.sql.ui.retainedExecutions": "100000",
    "spark.ui.retainedJobs": "100000",
    "spark.ui.retainedStages": "100000",
    "spark.ui.retainedTasks": "1000000",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay event logs as Spark's History Server does.")
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--pack", metavar="CODEC=FILE")
    parser.add_argument("--jars", default="")
    arguments = parser.parse_args()
    conf = SparkConf(loadDefaults=False).set("spark.driver.extraClassPath", arguments.jars)
    SparkContext._ensure_initialized(conf=conf if arguments.jars else None)
    jvm: Any = SparkContext._jvm
    found = []
    for log in arguments.logs:
        for _ in range(arguments.times):
            stores, seconds = replay(jvm, log)
        said = {"said": oracle.read(jvm, *stores), "plan_versions": oracle.plan_versions(jvm, files(log))}
        found.append({"log": str(log), "seconds": seconds, **said})
    arguments.out.write_text(json.dumps(found), encoding="utf-8")
    if arguments.pack:
        pack(jvm, arguments.logs[0], *arguments.pack.split("=", 1))


def replay(jvm: Any, log: Path) -> tuple[tuple[Any, Any], float]:
    """The application's and the SQL store after a replay, and the seconds that the replay took."""
    spark = jvm.org.apache.spark
    conf = spark.SparkConf(False)
    # As the History Server: what is replayed is added up where it stands in the log
    for key, value in {**RETAINED, "spark.appStateStore.asyncTracking.enable": "false"}.items():
        conf.set(key, value)
    kvstore = spark.status.ElementTrackingStore(spark.util.kvstore.InMemoryStore(), conf)
    bus = spark.scheduler.ReplayListenerBus()
    nothing = jvm.scala.Option.empty()
    bus.addListener(spark.sql.execution.ui.SQLAppStatusListener(conf, kvstore, False))
    bus.addListener(spark.status.AppStatusListener(kvstore, conf, False, nothing, nothing))
    path = jvm.org.apache.hadoop.fs.Path(log.resolve().as_uri())
    file_system = path.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
    started = time.monotonic()
    for file in files(log):
        path = jvm.org.apache.hadoop.fs.Path(file.resolve().as_uri())
        stream = spark.deploy.history.EventLogFileReader.openEventLog(path, file_system)
        bus.replay(stream, str(file), True, getattr(bus, "replay$default$4")())
        stream.close()
    seconds = time.monotonic() - started
    kvstore.close(False)
    stores = app_status_store(jvm, kvstore), spark.sql.execution.ui.SQLAppStatusStore(kvstore, nothing)
    return stores, seconds


def app_status_store(jvm: Any, kvstore: Any) -> Any:
    """`new AppStatusStore(kvstore)`, whose other arguments have defaults that grow in number."""
    (constructor,) = jvm.java.lang.Class.forName("org.apache.spark.status.AppStatusStore").getConstructors()
    arguments = jvm.java.util.ArrayList()
    arguments.add(kvstore)
    for _ in range(1, constructor.getParameterCount()):
        arguments.add(jvm.scala.Option.empty())
    return constructor.newInstance(arguments.toArray())


def pack(jvm: Any, log: Path, codec: str, target: str) -> None:
    """Write a log through Spark's codec."""
    conf = jvm.org.apache.spark.SparkConf(False)
    stream = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, codec).compressedContinuousOutputStream(
        jvm.java.io.FileOutputStream(target)
    )
    content = log.read_bytes()
    for start in range(0, len(content), FLUSH_BYTES):
        stream.write(bytearray(content[start : start + FLUSH_BYTES]))
        stream.flush()
    stream.close()


def files(log: Path) -> list[Path]:
    """The files of a log in their order."""
    if log.is_file():
        return [log]
    return sorted(log.glob("events_*"), key=lambda path: int(path.name.split("_")[1]))


if __name__ == "__main__":
    main()
