"""Jobs and metrics after an execution's end; prints what Spark's UI counts. Settings as KEY=VALUE."""

import json
import sys
import time

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("late").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
context = spark.sparkContext
bus = context._jsc.sc().listenerBus()

context.setJobDescription("rows one by one")
rows = spark.range(0, 12, 1, 12).toLocalIterator()
for _row in rows:
    context.setJobDescription("between")
    for _ in range(20):
        spark.range(1).collect()

context.setJobDescription("driver metric")
spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
slow = "(SELECT id AS key FROM range(0, 4, 1, 1) WHERE reflect('java.lang.Thread', 'sleep', 3000L) = 'null')"
empty = "(SELECT id AS key FROM range(9) WHERE id < 0)"
query = spark.sql(f"SELECT * FROM {slow} s JOIN {empty} f ON s.key = f.key")
query.collect()  # over as soon as AQE knows that a side is empty, while the other one's stage runs on
bus.waitUntilEmpty(600_000)
(running,) = context.statusTracker().getActiveJobsIds()
executions = spark._jsparkSession.sharedState().statusStore().executionsList().iterator()
while executions.hasNext():
    last = executions.next()
metric = query._jdf.queryExecution().executedPlan().initialPlan().metrics().apply("numOutputRows")
metric.set(41)
metrics = context._jvm.org.apache.spark.api.python.PythonUtils.toSeq([metric])
context._jvm.org.apache.spark.sql.execution.metric.SQLMetrics.postDriverMetricUpdates(
    context._jsc.sc(), str(last.executionId()), metrics
)
while context.statusTracker().getActiveJobsIds():
    time.sleep(0.1)
bus.waitUntilEmpty(600_000)

jobs = {}
executions = spark._jsparkSession.sharedState().statusStore().executionsList().iterator()
while executions.hasNext():
    each = executions.next()
    jobs[each.executionId()] = sorted(int(id) for id in each.jobs().keySet().mkString(",").split(",") if id)
print(json.dumps({"jobs": jobs, "metric": metric.id(), "execution": last.executionId()}))
spark.stop()
