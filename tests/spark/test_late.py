"""Jobs that Spark runs after a query's end, and driver metrics, belong to the query."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventlog.recorded import log_at, read
from tests.spark.sink import Sink
from tests.versions import NEWEST, SCALA_2_12

from joinsight.attach import LISTENER, listener_jar
from joinsight.document import Execution

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

# Rows are fetched by a job for each partition; between two of them lie twenty executions
SCRIPT = """
import json, sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").appName("late").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
context = spark.sparkContext
bus = context._jsc.sc().listenerBus()

context.setJobDescription("rows one by one")
rows = spark.range(0, 12, 1, 12).toLocalIterator()
for row in rows:
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
"""


@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_what_comes_after_the_end(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """Every job is counted that Spark's UI counts, live and from the log; so are driver metrics while jobs run."""
    logs = tmp_path / "logs"
    logs.mkdir()
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    conf = {
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": sink.url,
        "spark.joinsight.progressInterval": "1h",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
    }
    command = [sys.executable, str(script), *(f"{key}={value}" for key, value in conf.items())]
    done = subprocess.run(command, env=spark_environment(version), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    jobs = {int(execution): ids for execution, ids in truth["jobs"].items()}
    documents = [d for d in sink.taken() if d["kind"] == "execution"]
    live = {d["execution_id"]: d for d in documents}
    assert {id: sorted(job["id"] for job in d["jobs"]) for id, d in live.items()} == jobs
    (late,) = [d for d in live.values() if d["description"] == "rows one by one"]
    assert len(late["jobs"]) >= 12
    assert {job["state"] for job in late["jobs"]} == {"succeeded"}
    assert {stage["state"] for stage in late["stages"]} == {"succeeded"}
    assert sum(d["description"] == "rows one by one" for d in documents) <= 3, "late jobs are reported together"
    (values,) = [a for a in live[truth["execution"]]["accumulators"] if a["id"] == truth["metric"]]
    assert values["sum"] == 41
    log = log_at(logs)
    logged = {d.execution_id: d for d in read(log)[0] if isinstance(d, Execution)}
    assert {id: sorted(job.id for job in d.jobs) for id, d in logged.items()} == jobs
