"""Task time is sampled without a setting of its own, wherever that is safe, and once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import BOTH_SCALA, NEWEST, OLDER_AT_NIGHT, SCALA_2_12, SUPPORTED

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution, Stage
from joinsight.driver.attach import LISTENER, PLUGIN, listener_jar

pytestmark = pytest.mark.spark
TASKS, ROWS, SLEEP = 2, 20, 400
INTERVAL = 20
BY_LISTENER = {"spark.extraListeners": LISTENER}
BY_PLUGIN = {"spark.plugins": PLUGIN}


def run(
    sink: Sink, spark_run: SparkRun, version: str, how: str, more: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the script in local mode, or with the master among the settings."""
    conf = {
        "spark.master": f"local[{TASKS}]",
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.joinsight.url": sink.url,
        "spark.joinsight.sampleInterval": f"{INTERVAL}ms",
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.adaptive.enabled": "false",
        **more,
    }
    options = (f"{key}={value}" for key, value in conf.items())
    done = spark_run(version, JOBS / "samples.py", how, str(TASKS), str(ROWS), str(SLEEP), *options)
    assert "Joinsight stops" not in done.stderr
    return done


def stages(documents: Iterable[Any]) -> dict[str, list[Stage]]:
    """The stages that ran, of each query's last document, by the query's description."""
    last: dict[int, Execution] = {}
    for each in documents:
        document = decode_document(msgspec.json.encode(each))
        if isinstance(document, Execution) and document.state != "running":
            last[document.execution_id] = document
    ran = {e.description: [stage for stage in e.stages if stage.state == "succeeded"] for e in last.values()}
    return {name: sorted(each, key=lambda stage: stage.id) for name, each in ran.items()}


def within(group: str, stage: Stage) -> int:
    """Samples of a group, with whatever code asked for it."""
    return sum(count for key, count in stage.samples.items() if key.startswith(group))


def is_most(group: str, stage: Stage, share: float) -> bool:
    """Whether a group has samples, and more than this share of the stage's; their number depends on the machine."""
    its = within(group, stage)
    return its > 0 and its > share * sum(stage.samples.values())


def check(found: dict[str, list[Stage]], share: float = 0.5) -> None:
    """The samples of a sleeping operator are those of its stage, and none is counted twice."""
    assert found.keys() == {"below", "above", "code"}
    sleeping, counting = found["below"]
    assert is_most("operator Filter", sleeping, share), sleeping.samples
    assert sum(sleeping.samples.values()) <= 1.3 * sleeping.run_time_ms / INTERVAL
    assert within("operator Filter", counting) == 0
    _, above = found["above"]
    assert is_most("operator HashAggregate", above, share), above.samples  # which returns the projection too
    hashing, _ = found["code"]
    assert within("code 1 ", hashing) > 0, hashing.samples


def check_one_listener(documents: Iterable[Any]) -> None:
    """They are of one listener, with samples."""
    documents = list(documents)
    assert len({document["listener"]["id"] for document in documents}) == 1
    check(stages(documents))


@pytest.mark.parametrize("version", BOTH_SCALA)
def test_the_listener_samples_in_local_mode(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """One setting attaches it, and it samples its own JVM, which runs the tasks."""
    run(sink, spark_run, version, "settings", BY_LISTENER)
    check_one_listener(sink.taken())


@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("how", ["attach", "late"])
def test_attach_samples_in_local_mode(sink: Sink, spark_run: SparkRun, version: str, how: str) -> None:
    """Before the session starts, and on a running context, whose log says so."""
    done = run(sink, spark_run, version, how, {})
    check_one_listener(sink.taken())
    line = f"Joinsight samples task time: every {INTERVAL} ms, in the driver's JVM, which runs the tasks"
    assert done.stderr.count(line) == (how == "late")


@pytest.mark.matrix
@pytest.mark.parametrize("settings", [{}, BY_LISTENER, BY_PLUGIN])
def test_measurements_have_samples(sink: Sink, spark_run: SparkRun, settings: dict[str, str]) -> None:
    """Also beside a listener, which has its own."""
    done = run(sink, spark_run, NEWEST, "measure", settings)
    check(stages(map(msgspec.json.decode, done.stdout.splitlines()[:3])))
    if settings:
        check_one_listener(sink.taken())


@pytest.mark.matrix
@pytest.mark.parametrize("version", (SCALA_2_12, NEWEST))
@pytest.mark.parametrize("settings", [BY_PLUGIN, BY_PLUGIN | BY_LISTENER])
def test_the_plugin_samples_once(sink: Sink, spark_run: SparkRun, version: str, settings: dict[str, str]) -> None:
    """Alone and beside `spark.extraListeners`: one listener, which has the samples."""
    run(sink, spark_run, version, "settings", settings)
    check_one_listener(sink.taken())


@pytest.mark.matrix
@pytest.mark.parametrize("attached", [BY_LISTENER, BY_PLUGIN])
@pytest.mark.parametrize(
    ("settings", "logged"),
    [
        ({"spark.joinsight.sampleInterval": "0"}, ""),
        ({"spark.joinsight.sampleInterval": "1ms"}, "sampleInterval=1ms is too short; it must be 0 or 10ms"),
        ({"spark.joinsight.enabled": "false"}, ""),
    ],
)
def test_sampling_can_be_switched_off(
    sink: Sink, spark_run: SparkRun, attached: dict[str, str], settings: dict[str, str], logged: str
) -> None:
    """Sampling can be switched off; an invalid interval switches Joinsight off with one message."""
    done = run(sink, spark_run, NEWEST, "settings", attached | settings)
    assert done.stderr.count("oinsight is off") == bool(logged)
    assert logged in done.stderr
    assert not any(stage.samples for each in stages(sink.taken()).values() for stage in each)


CLUSTER = {"spark.master": f"local-cluster[{TASKS},1,1024]", "spark.executor.memory": "512m"}
JARS = {"spark.jars": str(listener_jar())}
CLASS_PATH = {"spark.executor.extraClassPath": f"/nowhere:{listener_jar()}"}


@pytest.mark.matrix
@pytest.mark.parametrize("version", OLDER_AT_NIGHT)
@pytest.mark.parametrize(
    ("how", "settings"),
    [
        pytest.param("settings", BY_PLUGIN | JARS, marks=pytest.mark.nightly, id="plugin"),
        pytest.param("attach", JARS, id="jars"),
        pytest.param("attach", CLASS_PATH, marks=pytest.mark.nightly, id="class path"),
        pytest.param("attach", {}, id="attach alone"),
    ],
)
def test_executors_send_samples_to_the_driver(
    sink: Sink, spark_run: SparkRun, version: str, how: str, settings: dict[str, str]
) -> None:
    """Two executors in JVMs of their own send their samples to the driver; they get the jar from it."""
    run(sink, spark_run, version, how, CLUSTER | settings)
    check(stages(sink.taken()), share=0)  # new JVMs look rarely until their first looks are paid for


@pytest.mark.matrix
@pytest.mark.parametrize("version", (OLDER_AT_NIGHT[0], NEWEST))
@pytest.mark.parametrize(("how", "settings"), [("settings", BY_LISTENER), ("late", {})])
def test_executors_without_the_jar(
    sink: Sink, spark_run: SparkRun, version: str, how: str, settings: dict[str, str]
) -> None:
    """With the jar on the driver's class path alone, executors could not load the plugin: the job runs without samples,
    and the log says why."""
    done = run(sink, spark_run, version, how, CLUSTER | settings)
    found = stages(sink.taken())
    assert found.keys() == {"below", "above", "code"}
    assert not any(stage.samples for each in found.values() for stage in each)
    if how == "late":
        why = f"Joinsight does not sample task time because spark.plugins does not name {PLUGIN}"
        assert done.stderr.count(why) == 1
