"""Tasks that end after their execution, as those do that are killed with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.eventlog.recorded import SQL, read_events

from joinsight.contract.document import Execution

PLAN = {"nodeName": "Range", "simpleString": "Range", "children": [], "metadata": {}, "metrics": []}


def stage(number: int) -> dict[str, Any]:
    return {"Stage ID": number, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": 1, "Submission Time": 3}


def killed(number: int) -> dict[str, Any]:
    """The end of the only task of a stage, which ran for 70 ms."""
    task = {"Task ID": number, "Index": 0, "Finish Time": 9, "Killed": True, "Accumulables": []}
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Task Info": task,
        "Task Metrics": {"Executor Run Time": 70},
    }


CANCELLED: tuple[Mapping[str, Any], ...] = (
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "local-1", "Timestamp": 1, "User": "u"},
    {"Event": f"{SQL}Start", "executionId": 0, "description": "d", "details": "", "sparkPlanInfo": PLAN, "time": 2},
    {
        "Event": "SparkListenerJobStart",
        "Job ID": 0,
        "Submission Time": 3,
        "Stage Infos": [stage(0), stage(1)],
        "Properties": {"spark.sql.execution.id": "0"},
    },
    *({"Event": "SparkListenerStageSubmitted", "Stage Info": stage(number)} for number in (0, 1)),
    {"Event": "SparkListenerJobEnd", "Job ID": 0, "Completion Time": 8, "Job Result": {"Result": "JobFailed"}},
    {"Event": f"{SQL}End", "executionId": 0, "time": 8, "errorMessage": "cancelled"},
    killed(0),
    killed(1),
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 10},
)


def test_killed_tasks_count_though_their_execution_has_ended(tmp_path: Path) -> None:
    """The execution is reported again, under another number, with the cost of these tasks; its end stays."""
    found = read_events(tmp_path, CANCELLED)
    reported = [document for document in found if isinstance(document, Execution)]
    assert len({document.sequence for document in reported}) == len(reported)
    before, after = reported[0], reported[-1]
    assert [stage.killed_tasks for stage in before.stages] == [0, 0]
    assert [stage.killed_tasks for stage in after.stages] == [1, 1]
    assert [stage.run_time_ms for stage in after.stages] == [70, 70]
    assert (after.state, after.ended_at_ms) == (before.state, before.ended_at_ms) == ("failed", 8)
