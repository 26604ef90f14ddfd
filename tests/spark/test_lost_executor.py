"""An executor is killed: what Spark runs again is counted as in Spark, and nothing is called incomplete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventlog.recorded import log_at, read
from tests.spark.logged_job import run
from tests.versions import NEWEST

from joinsight.contract.document import Execution

pytestmark = [pytest.mark.spark, pytest.mark.matrix]  # in the normal run, by ExecutionsTest


def test_tasks_that_run_again_are_counted_as_in_spark(
    spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """Live and from the event log: an output that is lost is a failed task, and a stage has the tasks that it ran."""
    said, logs = run("lost_executor.py", spark_environment(NEWEST), tmp_path)
    counts = [[stage["spark"] for stage in stages] for _, stages in said]
    assert counts == [[[4, 4, 3], [2, 2, 0]], [[1, 1, 0], [2, 2, 0]]], "what Spark runs again"
    assert [[stage["ours"] for stage in stages] for _, stages in said] == counts
    assert [incomplete for incomplete, _ in said] == [None, None]
    logged = [document for document in read(log_at(logs))[0] if isinstance(document, Execution)]
    assert [document.incomplete for document in logged] == [[], []]
    assert counts == [
        [[stage.tasks, stage.succeeded_tasks, stage.failed_tasks] for stage in d.stages if stage.state != "skipped"]
        for d in logged
    ]
