"""Native engines and table formats: what is stored equals Spark's own numbers, as without them.

Comet runs TPC-H; Delta Lake, Iceberg and Hudi run `formats_workload`. ``recorded/`` has the log of a short run of each,
with Spark's replay (`record_engines`); all else runs at night. Tests are skipped where the jars cannot be fetched.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.eventlog.recorded import as_stored, log_at, read
from tests.exactness import formats_workload, tasklog
from tests.exactness.compare import UNEQUAL, Comparer
from tests.exactness.jars import COMET_OPTIONS, NotFetchedError, jars_of, options
from tests.exactness.recorder import Recorder
from tests.exactness.test_exactness import REPLAY, RUN, compare_all, read_store, recorder, tpch_folder
from tests.spark_process import SparkRun

from joinsight.contract.document import Execution
from joinsight.driver.attach import LISTENER, listener_jar

__all__ = ["recorder", "tpch_folder"]  # fixtures

FORMATS = [
    *(("delta", version) for version in ("4.1.4", "4.0.5", "3.5.9")),
    *(("iceberg", version) for version in ("4.1.4", "3.5.9")),
    ("hudi", "3.5.9"),
]
RECORDED = Path(__file__).with_name("recorded")


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.iterdir()))
def test_recorded_numbers_of_engines_are_sparks(name: str, tmp_path: Path) -> None:
    """What is read from the log of an engine or a format is what Spark's replay shows; both were recorded."""
    path = tmp_path / "local-1"
    path.write_bytes(gzip.decompress((RECORDED / name / "log.gz").read_bytes()))
    truth = json.loads(gzip.decompress((RECORDED / name / "replay.json.gz").read_bytes()))
    found, outcome = read(log_at(path))
    assert outcome.problems == []
    ended_at = truth["said"]["application"]["attempts"][0]["endTime"]
    with path.open("rb") as lines:
        logged = tasklog.read(lines)
    result = Comparer(truth["said"], truth["plan_versions"], logged, ended_at, is_live=False).compare(as_stored(found))
    assert not result.differences, result.words()
    assert result.counts["values"] > 50


@pytest.mark.spark
@pytest.mark.nightly
def test_numbers_of_comet_are_sparks(
    engine: Engine,
    recorder: Recorder,
    spark_run: SparkRun,
    tpch_folder: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Executions, jobs, stages, plan versions, nodes, edges and metrics are the same in both stores."""
    arguments = ["--workload", "tpch", "--aqe", "on", "off", "--folder", str(tpch_folder), *options(COMET_OPTIONS)]
    jars = fetched("comet", "4.1.4")
    for summary in check(engine, recorder, spark_run, "4.1.4", jars, arguments, tmp_path, is_async=True):
        record_property("summary", f"Spark 4.1.4, comet: {summary}")
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
    jars = fetched(name, version)
    for summary in check(engine, recorder, spark_run, version, jars, arguments, tmp_path, is_async=False):
        record_property("summary", f"Spark {version}, {name}: {summary}")


def fetched(name: str, version: str) -> list[Path]:
    """The jars of an engine or a format for a version of Spark; skips the test where Maven's client cannot get them."""
    try:
        return jars_of(name, version)
    except NotFetchedError as error:
        pytest.skip(str(error))


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
    compared = compare_all(truth, replayed, live, is_async=is_async)
    for where, result in compared.items():
        assert not result.differences, f"{where}: {result.words()}"
        assert result.compared - result.equal == sum(result.allowed[rule] for rule in UNEQUAL)
    return [f"{where}: {result.summary()}" for where, result in compared.items()]
