"""Live documents and those from the same run's event log have the same application, attempt and user."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from tests.eventlog.recorded import read
from tests.java import compile_java
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import SUPPORTED

from joinsight.backfill.listing import Local, find
from joinsight.driver.attach import LISTENER, listener_jar

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.mark.parametrize("version", SUPPORTED)
def test_live_documents_and_the_log_have_the_same_key(
    sink: Sink, spark_run: SparkRun, tmp_path: Path, version: str
) -> None:
    """At an ordinary start, in each attempt of an application, and attached to a running one; with its user."""
    classes = tmp_path / "classes"
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.spark.scheduler.ExternalClusterManager").write_text("Attempt\n")
    compile_java(JOBS / "Attempt.java", classes)
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = {
        "spark.driver.extraClassPath": f"{classes}{os.pathsep}{listener_jar()}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    options = (f"{key}={value}" for key, value in conf.items())
    done = spark_run.alone(version, JOBS / "attempts.py", sink.url, LISTENER, *options)
    live = {d["application_name"]: d for d in sink.taken() if d["kind"] == "application" and d["state"] == "ended"}
    assert {name: d["attempt_id"] for name, d in live.items()} == {
        "plain": "",
        "first": "1",
        "second": "2",
        "late": "3",
    }, done.stderr
    assert {d["user"] for d in live.values()} == {pwd.getpwuid(os.getuid()).pw_name}
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
