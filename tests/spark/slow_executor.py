"""A query on two executors, one of which is slow, for `test_slow_executor`: what was measured, and what Spark says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import joinsight

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.exactness import oracle
from tests.exactness.compare import in_ms
from tests.waiting import until

from joinsight.tables import as_columns

TASKS = 8

out, folder, *settings = sys.argv[1:]
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.executorEnv.SPARK_EXECUTOR_ATTRIBUTE_NODE", "worker-7")
spark = builder.config(map=dict(pair.split("=", 1) for pair in settings)).getOrCreate()
slow, done = Path(folder, "slow"), Path(folder, "done")
done.mkdir()


def parent(process: int) -> int:
    return int(Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[1])


def work(task: int) -> int:
    """A task on the executor that comes first waits for all tasks of the other one."""
    executor = str(parent(os.getppid()))
    try:
        with slow.open("x") as new:
            new.write(executor)
    except FileExistsError:
        while not (first := slow.read_text()):
            time.sleep(0.02)
        if first != executor:
            (done / str(task)).touch()
            return task
    while len([*done.iterdir()]) < TASKS - 1:
        time.sleep(0.02)
    return task


store = spark.sparkContext._jsc.sc().statusStore()
until(lambda: store.executorList(True).size() == 3, "the driver and two executors")
with joinsight.measure(spark) as measured:
    spark.range(0, TASKS, 1, TASKS).select(f.udf(work, "int")("id")).write.format("noop").mode("append").save()
rows = [in_ms(as_columns(stage)) for execution in measured.executions for stage in execution.stages]
Path(out).write_text(json.dumps({"ours": rows, "spark": oracle.dump(spark)}))
spark.stop()
