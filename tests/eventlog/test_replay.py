"""What is read from an event log equals what Spark's own replay of it shows: values, graphs, plan versions, stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventlog.recorded import VERSIONS, as_stored, lines, read, recorded
from tests.exactness import tasklog
from tests.exactness.compare import Comparer

from joinsight.backfill.jvm import Reader
from joinsight.contract.document import Application, Execution


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_log_gives_what_sparks_replay_shows(
    version: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every execution, job, stage, plan version, node, edge and metric is that of the History Server."""
    log, truth = recorded(version, tmp_path)
    found, outcome = read(log)
    assert outcome.problems == []
    said = truth["said"]
    ended_at = said["application"]["attempts"][0]["endTime"]
    stored = as_stored(found)
    comparer = Comparer(said, truth["plan_versions"], tasklog.read(lines(log)), ended_at, is_live=False)
    result = comparer.compare(stored)
    record_property("summary", f"replay of Spark {version}: {result.summary()}")
    assert not result.differences, result.words()
    assert result.counts["values"] > 200
    *executions, application = found
    assert isinstance(application, Application)
    assert application.job_name == "recorded"
    assert application.tags == {"team": "tests"}
    assert application.configuration["spark.sql.shuffle.partitions"] == "4"
    for execution in executions:
        assert isinstance(execution, Execution)
        assert execution.origin == "event_log"


@pytest.mark.parametrize("version", VERSIONS)
def test_reading_again_gives_the_same_documents(version: str, tmp_path: Path) -> None:
    """Documents of a log are a function of its bytes, numbers and ids included."""
    log, _ = recorded(version, tmp_path)
    assert read(log)[0] == read(log)[0]


@pytest.mark.matrix
@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_the_jars_of_each_spark_read_the_logs_of_all(
    version: str, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer ones, too: the same lines, byte by byte."""
    logs = [recorded(each, tmp_path)[0].request() for each in VERSIONS]
    with Reader() as reader:
        expected = list(reader.read(logs))
    monkeypatch.setenv("SPARK_HOME", f"{spark_environment(version)['PYTHONPATH']}/pyspark")
    with Reader() as reader:
        assert list(reader.read(logs)) == expected
