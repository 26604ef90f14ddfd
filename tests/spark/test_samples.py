"""The plugin: executors sample what their tasks do, and the driver reports it with their stages."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import NEWEST, SCALA_2_12, SUPPORTED

from joinsight.attach import LISTENER, listener_jar
from joinsight.decode import decode_document
from joinsight.document import Execution

pytestmark = pytest.mark.spark
PLUGIN = "io.joinsight.JoinsightPlugin"
TASKS, ROWS, SLEEP = 2, 20, 100


def run(sink: Sink, spark_run: SparkRun, version: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the script with the plugin."""
    conf = {
        "spark.master": f"local[{TASKS}]",
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.plugins": PLUGIN,
        "spark.joinsight.url": sink.url,
        "spark.joinsight.sampleInterval": "20ms",
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.adaptive.enabled": "false",
        **more,
    }
    options = (f"{key}={value}" for key, value in conf.items())
    return spark_run(version, JOBS / "samples.py", str(TASKS), str(ROWS), str(SLEEP), *options)


def samples(documents: list[dict[str, Any]]) -> dict[str, list[Counter[str]]]:
    """The samples of each stage that ran in each query's last document, by the query's description."""
    last: dict[int, Execution] = {}
    for each in documents:
        document = decode_document(msgspec.json.encode(each))
        if isinstance(document, Execution) and document.state != "running":
            last[document.execution_id] = document
    stages = {e.description: sorted(e.stages, key=lambda stage: stage.id) for e in last.values()}
    return {name: [Counter(s.samples) for s in each if s.state == "succeeded"] for name, each in stages.items()}


@pytest.mark.matrix
@pytest.mark.parametrize("version", (SCALA_2_12, NEWEST))
def test_samples_of_tasks(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """Stages have samples of the code that their tasks were in; the listener is attached once."""
    done = run(sink, spark_run, version)
    assert done.returncode == 0, done.stderr
    assert "Joinsight stops" not in done.stderr
    taken = sink.taken()
    assert len({document["listener"]["id"] for document in taken}) == 1
    check(samples(taken))


def within(group: str, stage: Counter[str]) -> int:
    """Samples of a group, with whatever code asked for it."""
    return sum(count for key, count in stage.items() if key.startswith(group))


def check(found: dict[str, list[Counter[str]]]) -> None:
    """The samples of a sleeping operator are those of its stage."""
    assert found.keys() == {"below", "above", "code"}
    least = TASKS * ROWS  # a look at each row at least, where nothing disturbs five
    sleeping, counting = found["below"]
    assert within("operator Filter", sleeping) >= least, sleeping
    assert within("operator Filter", counting) == 0
    _, above = found["above"]
    assert within("operator HashAggregate", above) >= least, above  # which returns the projection too
    hashing, _ = found["code"]
    assert within("code 1 ", hashing) > 0, hashing


@pytest.mark.matrix
def test_with_the_listener(sink: Sink, spark_run: SparkRun) -> None:
    """The plugin beside `spark.extraListeners`: one listener, which has the samples."""
    done = run(sink, spark_run, NEWEST, **{"spark.extraListeners": LISTENER})
    assert done.returncode == 0, done.stderr
    taken = sink.taken()
    assert len({document["listener"]["id"] for document in taken}) == 1
    check(samples(taken))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({"spark.joinsight.sampleInterval": "0"}, ""),
        ({"spark.joinsight.sampleInterval": "1ms"}, "sampleInterval=1ms is too short; it must be 0 or 10ms"),
        ({"spark.joinsight.enabled": "false"}, ""),
    ],
)
def test_sampling_can_be_switched_off(
    sink: Sink,
    spark_run: SparkRun,
    settings: dict[str, str],
    logged: str,
) -> None:
    """Sampling can be switched off; an invalid interval switches Joinsight off with one message."""
    done = run(sink, spark_run, NEWEST, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("oinsight is off") == bool(logged)
    assert logged in done.stderr
    assert not any(stage for stages in samples(sink.taken()).values() for stage in stages)


@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
def test_samples_of_executors(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """Two executors in JVMs of their own send their samples to the driver; they get the jar from it."""
    settings = {
        "spark.master": f"local-cluster[{TASKS},1,1024]",
        "spark.executor.memory": "512m",
        "spark.jars": str(listener_jar()),
    }
    done = run(sink, spark_run, version, **settings)
    assert done.returncode == 0, done.stderr
    check(samples(sink.taken()))
