"""Measurements where things go wrong or happen at once, for `test_measure`: writes what was measured as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import joinsight
from joinsight.base.errors import JoinsightError
from joinsight.measuring.measurement import Measured

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.waiting import until

MEASUREMENTS = 15  # of each of two threads, while two others run queries

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.joinsight.shutdownTimeout", "1s").config("spark.driver.extraClassPath", sys.argv[2])
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
joinsight.attach(SparkSession.builder, url="http://127.0.0.1:9")
context = spark.sparkContext
# Without PySpark's handler, which waits for the connection that it interrupts if Ctrl-C comes at the wrong moment
signal.signal(signal.SIGINT, signal.default_int_handler)
bus = context._jsc.sc().listenerBus()
out: dict[str, Any] = {}


def states(measured: Measured) -> list[str]:
    return [each.row.state for each in measured.executions]


def measured_with(action: Callable[[], Any]) -> dict[str, Any]:
    """What a block is measured as in which the action runs, and what comes out of it."""
    said: dict[str, Any] = {"error": None}
    measured = joinsight.measure(spark)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with measured:
                action()
        except BaseException as error:
            said["error"] = type(error).__name__
            context.cancelAllJobs()
            said["after"] = spark.range(7).count()  # while the traceback lives
    said["warnings"] = [str(each.message) for each in caught if each.category is joinsight.JoinsightWarning]
    try:
        said["states"] = states(measured)
    except JoinsightError as error:
        said["states"] = str(error)
    else:
        said["text"] = str(measured)[:40]
    return said


def listeners() -> int:
    return sum("Joinsight" in each.getClass().getName() for each in bus.listeners())


# A query that ended before the block, of which listeners are told later
late = context._jvm.Late()
context._jsc.sc().addSparkListener(late)
for _ in range(3):
    spark.range(3).count()
with joinsight.measure(spark) as measured:
    spark.range(5).collect()
context._jsc.sc().removeSparkListener(late)
out["late"] = [each.title for each in measured.executions]

# At once
over = Event()
wrong: list[str] = []


def run_queries() -> None:
    while not over.is_set():
        spark.sql("SELECT count(*) FROM range(100) a JOIN range(10) b USING (id)").collect()


def measure_often() -> None:
    for _ in range(MEASUREMENTS):
        try:
            with joinsight.measure(spark) as measured:
                spark.range(3).count()
            if "succeeded" not in states(measured):
                wrong.append(str(states(measured)))
        except Exception as error:
            wrong.append(str(error)[:1000])


others = [Thread(target=run_queries) for _ in range(2)]
measuring = [Thread(target=measure_often) for _ in range(2)]
before = listeners()
for thread in (*others, *measuring):
    thread.start()
for thread in measuring:
    thread.join()
over.set()
for thread in others:
    thread.join()
out["at once"] = wrong

# A query that runs over the end of its block
wait = "reflect('java.lang.Thread', 'sleep', 1L)"
slow = spark.range(0, 1_000_000, 1, 2).selectExpr(f"{wait} AS slept")


def is_running() -> bool:
    tracker = context.statusTracker()
    return any(tracker.getStageInfo(stage).numActiveTasks for stage in tracker.getActiveStageIds())


def run_slowly() -> None:
    context.setLocalProperty("spark.job.interruptOnCancel", "true")  # else cancelled tasks may run on
    slow.collect()


def cancelled() -> None:
    try:
        run_slowly()
    except Exception as error:
        out["cancelled"] = type(error).__name__


thread = Thread(target=cancelled)
with joinsight.measure(spark) as measured:
    thread.start()
    until(is_running, "tasks of the slow query")
out["over the end"] = states(measured)
context.cancelAllJobs()
thread.join()

# Errors, of the user's and of ours
out["error"] = measured_with(lambda: spark.sql("SELECT raise_error('no')").collect())
with patch("joinsight.measuring.measurement.decode_document", side_effect=ValueError("not decoded")):
    out["not decoded"] = measured_with(lambda: spark.range(3).count())
    out["neither"] = measured_with(lambda: 1 / 0)


def interrupted() -> None:
    def interrupt() -> None:
        until(is_running, "tasks of the slow query")
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    run_slowly()


out["interrupted"] = measured_with(interrupted)
out["interrupted within"] = measured_with(lambda: measured_with(interrupted) and None)
bus.waitUntilEmpty(600_000)
out["listeners"] = [before, listeners()]


def stopped() -> None:
    spark.range(3).count()
    spark.stop()


with joinsight.measure(spark) as measured:
    stopped()
out["stopped"] = states(measured)
Path(sys.argv[1]).write_text(json.dumps(out))
