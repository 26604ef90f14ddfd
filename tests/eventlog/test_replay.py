"""Every value read from an event log equals what Spark's own replay of it shows, and so does every plan graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventlog.recorded import VERSIONS, as_stored, read, recorded
from tests.exactness.test_exactness import compare

from joinsight.document import Application, Execution


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_log_gives_what_sparks_replay_shows(
    version: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """For every execution, node and metric the string derived from our numbers is that of the History Server."""
    log, truth = recorded(version, tmp_path)
    found, outcome = read(log)
    assert outcome.problems == []
    differences, values, nodes = compare(truth, as_stored(found))
    compared = f"compared {values} values, {nodes} nodes of {len(truth)} executions"
    record_property("summary", f"replay of Spark {version}: {compared}")
    assert not differences, "\n".join(differences[:40]) + f"\n({len(differences)} differences)"
    assert values > 200
    *executions, application = found
    assert isinstance(application, Application)
    assert application.state == "ended"
    assert application.job_name == "recorded"
    assert application.tags == {"team": "tests"}
    assert application.configuration["spark.sql.shuffle.partitions"] == "4"
    assert application.listener.spark_version == version
    for execution in executions:
        assert isinstance(execution, Execution)
        assert execution.origin == "event_log"
        assert execution.incomplete in ([], ["its start was not seen"]), execution.description


@pytest.mark.parametrize("version", VERSIONS)
def test_reading_again_gives_the_same_documents(version: str, tmp_path: Path) -> None:
    """Documents of a log are a function of its bytes, numbers and ids included."""
    log, _ = recorded(version, tmp_path)
    assert read(log)[0] == read(log)[0]
