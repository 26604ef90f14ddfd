"""Faults injected into the listener do not change the job's result, exit code and end."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.java import compile_java
from tests.spark_process import JOBS
from tests.versions import NEWEST

from joinsight.driver.attach import LISTENER, listener_jar

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

CALLBACKS = {
    "start": "SparkListenerSQLExecutionStart",
    "adaptiveUpdate": "SparkListenerSQLAdaptiveExecutionUpdate",
    "metricUpdates": "SparkListenerSQLAdaptiveSQLMetricUpdates",
    "driverUpdates": "SparkListenerDriverAccumUpdates",
    "end": "SparkListenerSQLExecutionEnd",
    "jobStart": "SparkListenerJobStart",
    "jobEnd": "SparkListenerJobEnd",
    "stageSubmitted": "SparkListenerStageSubmitted",
    "stageCompleted": "SparkListenerStageCompleted",
    "taskStart": "SparkListenerTaskStart",
    "taskEnd": "SparkListenerTaskEnd",
    "heartbeat": "SparkListenerExecutorMetricsUpdate",
}


def events(statement: str) -> str:
    """A replacement for the class that handles Spark's events: each of its methods runs `statement`."""
    methods = "".join(f"public void {name}({kind} event) {{ {statement} }}\n" for name, kind in CALLBACKS.items())
    return f"""package io.joinsight.capture;
        import org.apache.spark.scheduler.*;
        import org.apache.spark.sql.execution.ui.*;
        public final class SparkEvents {{
            public SparkEvents(Executions executions) {{}}
            {methods}
        }}"""


INJECTED = {
    "an exception in each callback": (
        events('throw new IllegalStateException("injected");'),
        "Joinsight pauses for an hour",
    ),
    "out of memory in each callback": (
        events('throw new OutOfMemoryError("injected");'),
        "Joinsight pauses for an hour",
    ),
    "a method that is missing": (
        "package io.joinsight.capture; final class PlanTable {"
        " PlanTable(java.util.List<LiveExecution.Plan> plans) {} }",
        "could not write the document of execution",
    ),
    "a class that is missing": (
        "package io.joinsight.capture; final class LongMatrix {"
        ' static { if (true) throw new NoClassDefFoundError("injected"); } }',
        "Joinsight could not process an event",
    ),
    "a constructor that fails": (
        "package io.joinsight.delivery; public final class SnapshotQueue {"
        ' public SnapshotQueue(long limit) { throw new NoSuchMethodError("injected"); } }',
        "Joinsight is off, the job runs without it: it could not start",
    ),
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, spark_environment: Callable[[str], dict[str, str]]) -> Run:
    """Runs the script, with `first` before the listener's jar on the class path."""

    def run_script(url: str, first: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        conf = {
            "spark.driver.extraClassPath": f"{first}:{listener_jar()}" if first else str(listener_jar()),
            "spark.extraListeners": LISTENER,
            "spark.executor.heartbeatInterval": "300ms",
            "spark.joinsight.url": url,
            "spark.joinsight.spool": str(tmp_path / "spool"),
            "spark.joinsight.progressInterval": "200ms",
            **{f"spark.joinsight.{key}": value for key, value in settings.items()},
        }
        command = [sys.executable, str(JOBS / "harmless.py"), *(f"{key}={value}" for key, value in conf.items())]
        return subprocess.run(command, env=spark_environment(NEWEST), capture_output=True, text=True, check=False)

    return run_script


def unharmed(done: subprocess.CompletedProcess[str]) -> float:
    """Check that the job is unchanged; returns the seconds that its end took."""
    assert done.returncode == 0, done.stderr
    *lines, stopped = done.stdout.splitlines()
    assert lines == ["results 50 50 50", "failed as it should"]
    return float(stopped.removeprefix("stopped after "))


@pytest.mark.parametrize("fault", INJECTED)
def test_a_part_that_fails_is_reported_in_a_few_lines(run: Run, tmp_path: Path, fault: str) -> None:
    """If a part of the listener fails unexpectedly, the driver's log says so in a few lines at most."""
    source, said = INJECTED[fault]
    name = re.findall(r"final class (\w+)", source)[0]
    path = tmp_path / f"{name}.java"
    path.write_text(source)
    classes = tmp_path / "injected"
    compile_java(path, classes)
    done = run("http://127.0.0.1:9", first=classes)
    unharmed(done)
    assert said in done.stderr
    lines = re.findall(r"^\d\d/.*Joinsight.*", done.stderr, re.MULTILINE)
    assert len(lines) <= 5, lines


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in taken:
            each.close()


def test_a_silent_collector_holds_up_the_end_until_the_deadline(run: Run, silent: str, tmp_path: Path) -> None:
    """The application's end waits only until the deadline, and documents that are left are spooled."""
    took = unharmed(run(silent, shutdownTimeout="3s", requestTimeout="10m"))
    assert took < 300  # on any machine sooner than the collector
    spooled = [path.name.split("-")[0] for path in (tmp_path / "spool").rglob("*.ndjson.gz")]
    assert "final" in spooled
