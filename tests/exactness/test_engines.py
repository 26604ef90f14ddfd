"""Native engines and table formats: what is stored equals Spark's own numbers, as without them.

Comet runs TPC-H; Delta Lake, Iceberg and Hudi run `formats_workload`. Maven's client fetches their jars, which are kept
in ``.venvs`` between runs. Tests are skipped where it is missing, or cannot reach its repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.class_archive import FOLDER
from tests.eventlog.recorded import as_stored, log_at, read
from tests.exactness import formats_workload, tasklog
from tests.exactness.compare import UNEQUAL, Comparer
from tests.exactness.recorder import Recorder
from tests.exactness.test_exactness import REPLAY, RUN, compare_both, read_store, recorder, tpch_folder
from tests.spark_process import SparkRun

from joinsight.contract.document import Execution
from joinsight.driver.attach import LISTENER, listener_jar

__all__ = ["recorder", "tpch_folder"]  # fixtures

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
COMET = "org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0"
FORMATS = {
    ("delta", "4.1.4"): ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    ("iceberg", "4.1.4"): ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    ("iceberg", "3.5.9"): ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",),
    ("hudi", "3.5.9"): ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2",),
}
"""By format and version of Spark: the jars."""


def jar(artifact: str) -> Path:
    """A jar by its Maven coordinates, fetched once."""
    _, name, version = artifact.split(":")
    path = FOLDER / f"{name}-{version}.jar"
    if path.exists():
        return path
    if shutil.which("mvn") is None:
        pytest.skip(f"{path.name} is not here, and neither is Maven's client")
    FOLDER.mkdir(exist_ok=True)
    folder = FOLDER / f"{name}-{version}.part"
    command = ["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{path.name} is not here, and Maven could not fetch it: {done.stdout[-300:]}")
    (folder / path.name).rename(path)
    folder.rmdir()
    return path


@pytest.mark.spark
@pytest.mark.nightly
def test_numbers_of_comet_are_sparks(
    engine: Engine, recorder: Recorder, spark_run: SparkRun, tpch_folder: Path, tmp_path: Path
) -> None:
    """Executions, jobs, stages, plan versions, nodes, edges and metrics are the same in both stores."""
    conf = {
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.comet.enabled": "true",
        "spark.comet.shuffle.enabled": "true",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "2g",
    }
    arguments = ["--workload", "tpch", "--aqe", "on", "--folder", str(tpch_folder)]
    check(engine, recorder, spark_run, "4.1.4", [jar(COMET)], [*arguments, *options(conf)], tmp_path, is_async=True)
    names = {node.name for each in recorder.documents if isinstance(each, Execution) for node in each.nodes}
    assert {"CometHashAggregate", "CometExchange", "CometBroadcastHashJoin"} <= names


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize(("name", "version"), FORMATS)
def test_numbers_of_table_formats_are_sparks(
    name: str,
    version: str,
    engine: Engine,
    recorder: Recorder,
    spark_run: SparkRun,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """So they are of merges, updates, deletes, compaction and time travel, live and from event logs."""
    conf = {
        **formats_workload.format_options(name, str(tmp_path / "lake")),
        "spark.appStateStore.asyncTracking.enable": "false",
    }
    arguments = ["--workload", name, "--aqe", "on", "off", "--folder", str(tmp_path), *options(conf)]
    jars = [jar(each) for each in FORMATS[name, version]]
    for summary in check(engine, recorder, spark_run, version, jars, arguments, tmp_path, is_async=False):
        record_property("summary", f"Spark {version}, {name}: {summary}")


def options(conf: dict[str, str]) -> Iterable[str]:
    for key, value in conf.items():
        yield from ("--conf", f"{key}={value}")


def check(
    engine: Engine,
    recorder: Recorder,
    spark_run: SparkRun,
    version: str,
    jars: Sequence[Path],
    arguments: list[str],
    folder: Path,
    *,
    is_async: bool,
) -> list[str]:
    """Run a workload with these jars and compare what is stored, and what its log has, with Spark's; the summaries."""
    conf = {
        "spark.driver.extraClassPath": ":".join(map(str, [listener_jar(), *jars])),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": recorder.url,
        "spark.joinsight.sampleInterval": "0",
    }
    out = folder / "live.json"
    spark_run.alone(version, RUN, *arguments, *options(conf), "--out", str(out))
    truth = json.loads(out.read_text())
    class_path = ":".join(map(str, jars))  # with Iceberg's classes, Spark can tell its metrics
    replayed_at = folder / "replayed.json"
    spark_run.alone(version, REPLAY, truth["log"], "--jars", class_path, "--out", str(replayed_at))
    (replayed,) = json.loads(replayed_at.read_text())
    live = read_store(engine, truth["live"]["application"]["id"], recorder.documents)
    log = Path(truth["log"])
    with log.open("rb") as lines:
        logged = tasklog.read(lines)
    found, outcome = read(log_at(log))
    assert outcome.problems == []
    plans = replayed["plan_versions"]
    ended_at = replayed["said"]["application"]["attempts"][0]["endTime"]
    on_live = Comparer(truth["live"], plans, logged, ended_at, is_live=True, is_async=is_async)
    of_log = as_stored(found)
    compared = {
        "live": on_live.compare(live),
        "log": Comparer(replayed["said"], plans, logged, ended_at, is_live=False).compare(of_log),
        "live and log": compare_both(live, of_log, on_live.partial),
    }
    for where, result in compared.items():
        assert not result.differences, f"{where}: {result.words()}"
        assert result.compared - result.equal == sum(result.allowed[rule] for rule in UNEQUAL)
    return [f"{where}: {result.summary()}" for where, result in compared.items()]
