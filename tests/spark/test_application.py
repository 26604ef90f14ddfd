"""Live documents and those from the same run's event log have the same application, attempt and user."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.eventlog.recorded import read
from tests.java import compile_java
from tests.spark.sink import Sink
from tests.versions import SUPPORTED

from joinsight.attach import LISTENER, listener_jar
from joinsight.backfill.listing import Local, find

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

# As YARN does for a driver in its cluster: the scheduler's backend, not a setting, knows the ids
ATTEMPT = """
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.local.LocalSchedulerBackend;
import scala.Option;

public final class Attempt implements ExternalClusterManager {
  @Override
  public boolean canCreate(String master) {
    return master.startsWith("local-attempt-");
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    return new TaskSchedulerImpl(context);
  }

  @Override
  public SchedulerBackend createSchedulerBackend(SparkContext context, String master, TaskScheduler scheduler) {
    return new LocalSchedulerBackend(context.getConf(), (TaskSchedulerImpl) scheduler, 1) {
      @Override
      public String applicationId() {
        return "application_1700000000000_0001";
      }

      @Override
      public Option<String> applicationAttemptId() {
        return Option.apply(master.substring("local-attempt-".length()));
      }
    };
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
"""

# The one that is attached to late comes first: the settings of the first context are those of the JVM
SCRIPT = """
import sys
import joinsight
from pyspark.sql import SparkSession
url, listener, *conf = sys.argv[1:]
def session(master, name, **more):
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (*(pair.split("=", 1) for pair in conf), *more.items()):
        builder = builder.config(key, value)
    return builder.getOrCreate()
listening = {"spark.extraListeners": listener, "spark.joinsight.url": url}
for name, master, more in (
    ("late", "local-attempt-3", {}),
    ("plain", "local[1]", listening),
    ("first", "local-attempt-1", listening),
    ("second", "local-attempt-2", listening),
):
    spark = session(master, name, **more)
    if name == "late":
        joinsight.attach(SparkSession.builder, url=url)
    spark.sql("SELECT count(*) FROM range(10) a JOIN range(10) b USING (id)").collect()
    spark.stop()
"""


@pytest.mark.parametrize("version", SUPPORTED)
def test_live_documents_and_the_log_have_the_same_key(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """At an ordinary start, in each attempt of an application, and attached to a running one; with its user."""
    source = tmp_path / "Attempt.java"
    source.write_text(ATTEMPT)
    classes = tmp_path / "classes"
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.spark.scheduler.ExternalClusterManager").write_text("Attempt\n")
    compile_java(source, classes)
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = {
        "spark.driver.extraClassPath": f"{classes}{os.pathsep}{listener_jar()}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), sink.url, LISTENER, *(f"{key}={value}" for key, value in conf.items())]
    done = subprocess.run(command, env=spark_environment(version), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    live = {d["application_name"]: d for d in sink.taken() if d["kind"] == "application" and d["state"] == "ended"}
    assert {name: d["attempt_id"] for name, d in live.items()} == {
        "plain": "",
        "first": "1",
        "second": "2",
        "late": "3",
    }, done.stderr
    assert {d["user"] for d in live.values()} == {getpass.getuser()}
    logged: dict[tuple[str, str, int | None], Any] = {}
    for log in find(Local(), [str(logs)]).logs.values():
        found, outcome = read(log)
        assert outcome.problems == []
        for document in found:
            logged[_key(document.application_id, document.attempt_id, getattr(document, "execution_id", None))] = (
                document
            )
    assert {_key(d["application_id"], d["attempt_id"], d.get("execution_id")) for d in sink.taken()} == set(logged)
    for sent in live.values():
        same: Any = logged[_key(sent["application_id"], sent["attempt_id"], None)]
        names = ("application_name", "user", "started_at_ms", "master")
        assert [sent[name] for name in names] == [getattr(same, name) for name in names]


def _key(application: str, attempt: str, execution: int | None) -> tuple[str, str, int | None]:
    return application, attempt, execution
