"""A user's exceptions, in Python and in the JVM, are the same as without the listener."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.sink import Sink
from tests.versions import NEWEST, SUPPORTED

from joinsight.attach import LISTENER, listener_jar

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

# Queries that fail in analysis, in a command, in planning and in a task; then as the user sees it, and as the JVM does
# once all listeners are done with it
SCRIPT = """
import sys, traceback
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").appName("traces").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
spark.conf.set("spark.sql.crossJoin.enabled", "false")
queries = (
    "SELECT nosuch FROM range(3)",
    "SELECT /*+ BROADCAST(b) */ a.nosuch FROM range(3) a JOIN range(4) b USING (id)",
    "SELECT * FROM nowhere",
    "INSERT INTO nowhere VALUES (1)",
    "CREATE TABLE t USING parquet AS SELECT nosuch FROM range(3)",
    "SELECT * FROM range(3) a, range(4) b WHERE a.id > 1",
    "SELECT /*+ BROADCAST(b) */ raise_error('on purpose') FROM range(3) a JOIN range(4) b USING (id)",
)
jvm, bus = spark._jvm, spark.sparkContext._jsc.sc().listenerBus()
for query in 2 * queries:
    print("==", query)
    try:
        spark.sql(query).collect()
    except Exception as error:
        bus.waitUntilEmpty(600_000)
        traceback.print_exc(file=sys.stdout)
        java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while java is not None:
            print(jvm.org.apache.spark.util.Utils.exceptionString(java))
            java = java.getCause()
spark.stop()
"""

CONNECT = """
import sys, traceback
from pyspark.sql import SparkSession
builder = SparkSession.builder.remote("local[1]")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
spark.conf.set("spark.sql.connect.serverStacktrace.enabled", "true")
for query in 2 * ("SELECT nosuch FROM range(3)", "SELECT raise_error('on purpose') FROM range(3)"):
    print("==", query)
    try:
        spark.sql(query).collect()
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        print(error.getStackTrace() if hasattr(error, "getStackTrace") else "")
spark.stop()
"""

# What differs between two runs of the same job: threads, ports, objects, plans, tasks, times
CHANGES = [
    (re.compile(r"\b(o|x|plan_id=|TID |rdd_|id=)\d+"), r"\1N"),
    (re.compile(r"#\d+L?"), "#N"),
    (re.compile(r"\(TID \d+\)"), "(TID N)"),
    (re.compile(r"(@|Lambda[$/]|/0x)[0-9a-f$/x]+"), r"\1N"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+"), "UUID"),
    (re.compile(r"(Native|Generated|Direct)(MethodAccessor\w*|MethodHandleAccessor)\S*"), "Accessor"),
    # Py4J calls a method or its bridge, in the order in which this run of Java happens to list the two
    (re.compile(r"^(\s*at [\w.$]+)\(.*\)\n(?:\1\(.*\)\n)+", re.MULTILINE), r"\1(N)\n"),
    (re.compile(r"\.\.\. \d+ more"), "... N more"),
]


def said(
    script: str, environment: dict[str, str], folder: Path, **conf: str
) -> tuple[str, subprocess.CompletedProcess[str]]:
    """What the script prints, less what differs between two runs."""
    path = folder / "job.py"
    path.write_text(script)
    command = [sys.executable, str(path), f"spark.driver.extraClassPath={listener_jar()}"]
    command += [f"{key}={value}" for key, value in conf.items()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for pattern, replacement in CHANGES:
        text = pattern.sub(replacement, text)
    return text, done


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_users_exception_is_untouched(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """Python's text and the JVM's trace are the same, word for word, of failed analyses, plans, commands and tasks."""
    environment = spark_environment(version)
    without, _ = said(SCRIPT, environment, tmp_path)
    attached, done = said(
        SCRIPT, environment, tmp_path, **{"spark.extraListeners": LISTENER, "spark.joinsight.url": sink.url}
    )
    assert without.count("== ") == 14
    assert without.count("Traceback") >= 14
    assert "at org.apache.spark" in without
    assert attached == without
    assert "at io.joinsight" not in attached + done.stderr
    failed = [d for d in sink.taken() if d["kind"] == "execution" and d["state"] == "failed"]
    assert failed, "the listener saw them"


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpcio")
def test_an_exception_of_spark_connect_is_untouched(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """The error of a Connect client, including the server's trace, is the same."""
    environment = spark_environment(NEWEST)
    without, _ = said(CONNECT, environment, tmp_path)
    attached, _ = said(
        CONNECT, environment, tmp_path, **{"spark.extraListeners": LISTENER, "spark.joinsight.url": sink.url}
    )
    assert without.count("Traceback") >= 4
    assert attached == without
    assert [d for d in sink.taken() if d["kind"] == "execution" and d["state"] == "failed"]
