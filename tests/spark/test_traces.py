"""A user's exceptions, in Python and in the JVM, are the same as without the listener."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import NEWEST, SUPPORTED

from joinsight.driver.attach import LISTENER, listener_jar

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

# What differs between two runs of the same job: threads, ports, objects, plans, tasks, times
CHANGES = [
    (re.compile(r"\b(o|x|plan_id=|TID |rdd_|id=)\d+"), r"\1N"),
    (re.compile(r"#\d+L?"), "#N"),
    (re.compile(r"\(TID \d+\)"), "(TID N)"),
    (re.compile(r"(@|Lambda[$/]|/0x)[0-9a-f$/x]+"), r"\1N"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+"), "UUID"),
    # How a method is called by reflection: Java compiles that when it has been called a few times
    (re.compile(r"^\s*at (java\.base/)?jdk\.internal\.reflect\..*\n", re.MULTILINE), ""),
    # Py4J calls a method or its bridge, in the order in which this run of Java happens to list the two
    (re.compile(r"^(\s*at [\w.$]+)\(.*\)\n(?:\1\(.*\)\n)+", re.MULTILINE), r"\1(N)\n"),
    (re.compile(r"\.\.\. \d+ more"), "... N more"),
]


def said(
    spark_run: SparkRun, version: str, script: str, folder: Path, **conf: str
) -> tuple[str, subprocess.CompletedProcess[str]]:
    """What the script prints, less what differs between two runs."""
    arguments = (f"{key}={value}" for key, value in conf.items())
    classes = f"spark.driver.extraClassPath={listener_jar()}"
    run = spark_run.alone if script.startswith("connect") else spark_run
    done = run(version, JOBS / script, classes, *arguments, cwd=folder)
    text = done.stdout
    for pattern, replacement in CHANGES:
        text = pattern.sub(replacement, text)
    return text, done


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_users_exception_is_untouched(sink: Sink, spark_run: SparkRun, tmp_path: Path, version: str) -> None:
    """Python's text and the JVM's trace are the same, word for word, of failed analyses, plans, commands and tasks."""
    without, _ = said(spark_run, version, "traces.py", tmp_path)
    listening = {"spark.extraListeners": LISTENER, "spark.joinsight.url": sink.url}
    attached, done = said(spark_run, version, "traces.py", tmp_path, **listening)
    assert without.count("== ") == 14
    assert without.count("Traceback") >= 14
    assert "at org.apache.spark" in without
    assert attached == without
    assert "at io.joinsight" not in attached + done.stderr
    failed = [d for d in sink.taken() if d["kind"] == "execution" and d["state"] == "failed"]
    assert failed, "the listener saw them"


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio")
def test_an_exception_of_spark_connect_is_untouched(sink: Sink, spark_run: SparkRun, tmp_path: Path) -> None:
    """The error of a Connect client, including the server's trace, is the same."""
    without, _ = said(spark_run, NEWEST, "connect_traces.py", tmp_path)
    listening = {"spark.extraListeners": LISTENER, "spark.joinsight.url": sink.url}
    attached, _ = said(spark_run, NEWEST, "connect_traces.py", tmp_path, **listening)
    assert without.count("Traceback") >= 4
    assert attached == without
    assert [d for d in sink.taken() if d["kind"] == "execution" and d["state"] == "failed"]
