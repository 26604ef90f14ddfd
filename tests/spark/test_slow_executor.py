"""An executor that is slow for its work is found, live and from the event log, by the numbers that Spark has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventlog.recorded import as_stored, log_at, read
from tests.exactness.expected import slots, stage_row
from tests.spark.logged_job import run
from tests.versions import NEWEST, SCALA_2_12

pytestmark = [pytest.mark.spark, pytest.mark.matrix]  # in the normal run, by WorkByExecutorTest


@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_a_slow_executor_is_found(
    version: str, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """One of two on the same host: its only task took longer than all seven of the other one together."""
    said, logs = run("slow_executor.py", spark_environment(version), tmp_path)
    (ours,) = said["ours"]
    (theirs,) = said["spark"]["stages"].values()
    expected = {**stage_row(theirs, ours["job_ids"], []), "slots": slots(theirs, said["spark"]["executors"])}
    expected["slowest_host"] = "worker-7"  # the attribute NODE of its executors, not the address
    assert {name: ours[name] for name in expected} == expected
    (logged,) = (row for each in as_stored(read(log_at(logs))[0])["executions"].values() for row in each["stages"])
    assert {name: logged[name] for name in expected} == expected
    assert (ours["executors"], ours["hosts"], ours["slots"], ours["width"]) == (2, 1, 2, 2)
    assert (ours["slowest_tasks"], ours["slowest_host"]) == (1, "worker-7")
    assert ours["slowest_executor"] in ("0", "1")
    assert ours["run_time_ms_max"] == ours["slowest_run_time_ms"] >= ours["slowest_excess_ms"] > 0
