"""Two queries that lose an executor, for `test_lost_executor`: writes as JSON what was measured and what Spark counts.

The first one loses it while a stage runs: Spark runs its finished tasks again in the same attempt. The second one reads
the shuffle of an earlier query, whose lost files a stage makes again that has fewer tasks than its job announced.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import joinsight
from joinsight.measuring.measurement import Measured

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.waiting import until

TASKS = 4

out, folder, *settings = sys.argv[1:]
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in settings)).getOrCreate()
context = spark.sparkContext
store = context._jsc.sc().statusStore()
gate, here = Path(folder, "gate"), Path(folder, "first")


def parent(process: int) -> int:
    return int(Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[1])


def executors() -> list[int]:
    """The processes of the executors, children of the driver's JVM."""
    driver = context._gateway.proc.pid
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_executor = parent(int(path.name)) == driver and "ExecutorBackend" in (path / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if is_executor:
            found.append(int(path.name))
    return found


def waits(task: int) -> int:
    """The first task names its executor and waits at the gate."""
    if task == 0 and not here.exists():
        unfinished = here.with_suffix(".new")
        unfinished.write_text(str(parent(os.getppid())))
        unfinished.rename(here)
        while not gate.exists():
            time.sleep(0.02)
    return task


def stages(measured: Measured) -> list[dict[str, Any]]:
    """Tasks of the stages that ran, succeeded and failed, and the same as Spark counts them."""
    (execution,) = measured.executions
    found = []
    for stage in execution.stages:
        if stage.state == "skipped":
            continue
        of_spark = store.lastStageAttempt(stage.stage_id)
        found.append(
            {
                "ours": [stage.tasks, stage.succeeded_tasks, stage.failed_tasks],
                "spark": [of_spark.numTasks(), of_spark.numCompletedIndices(), of_spark.numFailedTasks()],
            }
        )
    return found


spark.conf.set("spark.sql.adaptive.enabled", "false")
name = f.udf(waits, "int")
query = spark.range(0, TASKS, 1, TASKS).select(name("id").alias("id")).repartition(2)
said = []
until(lambda: len(executors()) == 2, "two executors")
with joinsight.measure(spark) as measured:
    thread = Thread(target=query.collect)
    thread.start()
    tracker = context.statusTracker()

    def tasks() -> tuple[int, int]:
        """Those of the running stage that succeeded, and that failed, as Spark counts them."""
        running = [store.lastStageAttempt(stage) for stage in tracker.getActiveStageIds()]
        return sum(each.numCompleteTasks() for each in running), sum(each.numFailedTasks() for each in running)

    until(lambda: here.exists() and tasks() == (TASKS - 1, 0), "all tasks but one")
    first = int(here.read_text())
    (other,) = set(executors()) - {first}
    os.kill(other, signal.SIGKILL)
    until(lambda: tasks() == (2 * (TASKS - 1), TASKS - 1), "the finished tasks again, in another executor")
    gate.touch()
    thread.join()
said.append([measured.executions[0].row.incomplete, stages(measured)])
os.kill(first, signal.SIGKILL)
until(lambda: store.executorList(False).size() - store.executorList(True).size() == 2, "Spark knows of both")
with joinsight.measure(spark) as measured:
    query.collect()
said.append([measured.executions[0].row.incomplete, stages(measured)])
Path(out).write_text(json.dumps(said))
spark.stop()
