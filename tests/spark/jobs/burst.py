"""Two stages of 400 tasks, so many that Spark drops events between their start and their end.

Each start is heard, and so is the end, because the last task ends when the queue is empty. Needs `Slow.java`.
"""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("burst").config("spark.ui.enabled", "false")
spark = (
    builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:]))
    .config("spark.scheduler.listenerbus.eventqueue.shared.capacity", 10)
    .getOrCreate()
)
bus = spark.sparkContext._jsc.sc().listenerBus()
for _ in range(2):
    bus.waitUntilEmpty(600_000)
    spark.range(0, 400, 1, 400).selectExpr("sum(id) s").selectExpr("s", "reflect('Slow', 'drained')").collect()
bus.waitUntilEmpty(600_000)
spark.stop()
