"""TPC-H with Comet on Spark 4.1: what is stored equals Spark's own numbers, as without an engine.

The jar is kept in ``.venvs`` between runs. The test is skipped where Maven Central cannot be reached.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.class_archive import FOLDER
from tests.exactness import tasklog
from tests.exactness.compare import Comparer
from tests.exactness.recorder import Recorder
from tests.exactness.test_exactness import REPLAY, RUN, read_store, recorder, run, tpch_folder
from tests.spark_process import SparkRun

from joinsight.contract.document import Execution
from joinsight.driver.attach import LISTENER, listener_jar

__all__ = ["recorder", "tpch_folder"]  # fixtures

SPARK = "4.1.4"
NAME = "comet-spark-spark4.1_2.13-1.2.0.jar"
ADDRESS = f"https://repo1.maven.org/maven2/org/apache/datafusion/comet-spark-spark4.1_2.13/1.2.0/{NAME}"
BYTES = 98_985_596


def comet_jar() -> Path:
    """The jar of Comet, fetched once."""
    jar = FOLDER / NAME
    if not jar.exists() or jar.stat().st_size != BYTES:
        FOLDER.mkdir(exist_ok=True)
        part = jar.with_suffix(".part")
        try:
            urllib.request.urlretrieve(ADDRESS, part)
        except urllib.error.URLError as error:
            pytest.skip(f"Comet's jar is not here, and Maven Central cannot be reached: {error.reason}")
        assert part.stat().st_size == BYTES
        part.rename(jar)
    return jar


@pytest.mark.spark
@pytest.mark.nightly
def test_numbers_of_comet_are_sparks(
    engine: Engine, recorder: Recorder, spark_run: SparkRun, tpch_folder: Path, tmp_path: Path
) -> None:
    """Executions, jobs, stages, plan versions, nodes, edges and metrics are the same in both stores."""
    conf = {
        "spark.driver.extraClassPath": f"{listener_jar()}:{comet_jar()}",
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": recorder.url,
        "spark.joinsight.sampleInterval": "0",
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.comet.enabled": "true",
        "spark.comet.shuffle.enabled": "true",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "2g",
    }
    out = tmp_path / "live.json"
    arguments = ["--workload", "tpch", "--aqe", "on", "--folder", str(tpch_folder)]
    for key, value in conf.items():
        arguments += ["--conf", f"{key}={value}"]
    done = spark_run.alone(SPARK, RUN, *arguments, "--out", str(out))
    assert done.returncode == 0, done.stderr[-6000:]
    truth = json.loads(out.read_text())
    (replayed,) = run(spark_run, SPARK, REPLAY, truth["log"], "--out", str(tmp_path / "replayed.json"))
    live = read_store(engine, truth["live"]["application"]["id"], recorder.documents)
    with Path(truth["log"]).open("rb") as lines:
        logged = tasklog.read(lines)
    ended_at = replayed["said"]["application"]["attempts"][0]["endTime"]
    comparer = Comparer(truth["live"], replayed["plan_versions"], logged, ended_at, is_live=True, is_async=True)
    result = comparer.compare(live)
    assert not result.differences, result.words()
    names = {node.name for each in recorder.documents if isinstance(each, Execution) for node in each.nodes}
    assert {"CometHashAggregate", "CometExchange", "CometBroadcastHashJoin"} <= names
