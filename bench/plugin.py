"""A session with the plugin, and the rows of its queries as a collector would store them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

import msgspec
from pyspark.sql import SparkSession
from tests.spark.sink import Sink
from tests.waiting import until

from joinsight.attach import listener_jar
from joinsight.decode import decode_document
from joinsight.document import ENDED, Execution
from joinsight.rows import Rows, execution_rows


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
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(spark: SparkSession, sink: Sink, query: Callable[[], object]) -> Rows:
    """Run a query; returns its rows, with all samples."""
    name = f"run {time.monotonic_ns()}"
    spark.sparkContext.setJobDescription(name)
    query()
    (rows,) = measured(sink, lambda e: e.description == name, 1)
    return rows


def measured(sink: Sink, which: Callable[[Execution], bool], count: int) -> list[Rows]:
    """Wait for the last documents of so many executions; returns their rows, by execution id."""
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
    return [execution_rows(found[number]) for number in sorted(found)]
