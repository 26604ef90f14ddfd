"""A session with the plugin, and the rows of its queries as a collector would store them; classes of bench/java."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pyspark
from pyspark.sql import SparkSession
from tests.spark.sink import Sink
from tests.waiting import until

from joinsight.analysis.rows import Rows, execution_rows
from joinsight.contract.decode import decode_document
from joinsight.contract.document import ENDED, Execution
from joinsight.driver.attach import listener_jar


def session(sink: Sink, settings: Mapping[str, str], class_path: str = "") -> SparkSession:
    """A session whose documents the sink takes; `class_path` is needed besides the jar."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("bench")
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraClassPath": os.pathsep.join(filter(None, [str(listener_jar()), class_path])),
        "spark.plugins": "io.joinsight.JoinsightPlugin",
        "spark.joinsight.url": sink.url,
        "spark.joinsight.spool": "none",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "2",
    }
    return builder.config(map={**defaults, **settings}).getOrCreate()


def compiled(name: str, classes: Path) -> str:
    """Compile a class of bench/java; returns the folder of its classes."""
    class_path = os.pathsep.join([str(Path(pyspark.__file__).parent / "jars" / "*"), str(listener_jar())])
    source = Path(__file__).parent / "java" / f"{name}.java"
    command = ["javac", "-proc:none", "-nowarn", "-cp", class_path, "-d", str(classes), str(source)]
    subprocess.run(command, check=True)
    return str(classes)


def run(spark: SparkSession, sink: Sink, query: Callable[[], object]) -> Rows:
    """Run a query; returns its rows, with all samples."""
    return execution_rows(executed(spark, sink, query))


def executed(spark: SparkSession, sink: Sink, query: Callable[[], object]) -> Execution:
    """Run a query; returns its last document."""
    name = f"run {time.monotonic_ns()}"
    spark.sparkContext.setJobDescription(name)
    query()
    (execution,) = _last_documents(sink, lambda e: e.description == name, 1)
    return execution


def measured(sink: Sink, which: Callable[[Execution], bool], count: int) -> list[Rows]:
    """Wait for the last documents of so many executions; returns their rows, by execution id."""
    return list(map(execution_rows, _last_documents(sink, which, count)))


def _last_documents(sink: Sink, which: Callable[[Execution], bool], count: int) -> list[Execution]:
    found: dict[int, Execution] = {}

    def arrived() -> bool:
        for each in sink.taken():
            document = decode_document(msgspec.json.encode(each))
            if isinstance(document, Execution) and document.state in ENDED and which(document):
                known = found.get(document.execution_id)
                if known is None or document.sequence > known.sequence:
                    found[document.execution_id] = document
        return len(found) >= count

    until(arrived, "the documents of a run")
    sink.requests.clear()
    return [found[number] for number in sorted(found)]
