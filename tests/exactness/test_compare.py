"""The comparison of the exactness tests detects every change in stored rows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.eventlog.recorded import as_stored, lines, read, recorded
from tests.exactness import tasklog
from tests.exactness.compare import Comparer
from tests.exactness.expected import WITHOUT_COUNTERPART
from tests.versions import NEWEST

Stored = dict[str, Any]
NUMBERS = ("count", "total", "min", "median", "p95", "max")
METRIC = (*NUMBERS, "name", "type", "node_id", "accumulator_id", "max_stage_id", "max_stage_attempt", "max_task_id")
EXECUTION_ID = "spark.sql.execution.id"
NODE = ("node_id", "name", "simple", "cluster_id", "is_cluster")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stored, Callable[[Stored], list[str]]]:
    """The rows from a recorded log, and the comparer with Spark's replay."""
    log, truth = recorded(NEWEST, tmp_path_factory.mktemp("log"))
    said, logged = truth["said"], tasklog.read(lines(log))
    ended_at = said["application"]["attempts"][0]["endTime"]

    def compare(changed: Stored) -> list[str]:
        return Comparer(said, truth["plan_versions"], logged, ended_at, is_live=False).compare(changed).differences

    return as_stored(read(log)[0]), compare


@pytest.mark.matrix
def test_every_change_of_a_value_is_noticed(stored: tuple[Stored, Callable[[Stored], list[str]]]) -> None:
    """A change is detected in any column of application, execution, stage, metric, node, edge, plan version or job."""
    whole, compare = stored
    assert compare(whole) == []
    replanned = [(n, e) for n, e in whole["executions"].items() if e["stages"] and len(e["versions"]) > 2]
    number, execution, metric = next(
        (n, e, position)
        for n, e in replanned
        for position, row in enumerate(e["metrics"])
        if row["max_task_id"] and row["max"] > row["median"]
    )
    stage = next(i for i, row in enumerate(execution["stages"]) if row["shuffle_read_rows_max"])
    places: list[tuple[list[Any], Any]] = [(["application"], c) for c in compared("application", whole["application"])]
    of = ["executions", number]
    places += [([*of, "row"], column) for column in compared("execution", execution["row"])]
    places += [([*of, "stages", stage], column) for column in compared("stage", execution["stages"][stage])]
    places += [([*of, "metrics", metric], column) for column in METRIC]
    places += [([*of, "nodes", 1], column) for column in NODE]
    places += [([*of, "edges", 0], column) for column in ("child_id", "parent_id")]
    places += [([*of, "versions", 1], "is_final"), ([*of, "versions", 1, "edges", 0], 0)]
    places += [([*of, "versions", 1, "nodes", 1], column) for column in execution["versions"][1]["nodes"][1]]
    places += [([*of, "jobs", 0], column) for column in ("id", "stages", "state", "submitted_at_ms", "ended_at_ms")]
    assert len(places) > 110
    for path, column in places:
        place: Any = whole
        for key in path:
            place = place[key]
        right = place[column]
        place[column] = other(right)
        assert compare(whole), (path, column)
        place[column] = right
    assert compare(whole) == []


@pytest.mark.parametrize("part", ["metrics", "nodes", "edges", "versions", "stages", "jobs"])
def test_what_one_side_lacks_is_noticed(part: str, stored: tuple[Stored, Callable[[Stored], list[str]]]) -> None:
    """A missing or extra execution, or part of one, is a difference."""
    whole, compare = stored
    number = next(n for n, e in whole["executions"].items() if all(e.values()))
    less = copy.deepcopy(whole)
    less["executions"][number][part].pop()
    assert compare(less)
    del less["executions"][number]
    assert compare(less)
    more = copy.deepcopy(whole)
    its_part = more["executions"][number][part]
    its_part.append({**its_part[-1], **{key: 999 for key in its_part[-1] if key.endswith("id")}})
    assert compare(more)


@pytest.mark.parametrize("table", WITHOUT_COUNTERPART)
def test_a_new_column_is_noticed(table: str, stored: tuple[Stored, Callable[[Stored], list[str]]]) -> None:
    """A new column must be compared, or listed with the reason why it cannot be."""
    whole, compare = stored
    changed = copy.deepcopy(whole)
    execution = next(e for e in changed["executions"].values() if e["stages"])
    rows = {"application": changed["application"], "execution": execution["row"], "stage": execution["stages"][0]}
    rows[table]["new_column"] = 1
    with pytest.raises(AssertionError, match="new_column"):
        compare(changed)


def test_two_totals_that_are_swapped_are_noticed(stored: tuple[Stored, Callable[[Stored], list[str]]]) -> None:
    """Two of the nineteen totals in the wrong order are a difference."""
    whole, compare = stored
    swapped = copy.deepcopy(whole)
    for execution in swapped["executions"].values():
        for row in execution["stages"]:
            row["gc_time_ms"], row["deserialize_time_ms"] = row["deserialize_time_ms"], row["gc_time_ms"]
    assert compare(swapped)


@pytest.mark.parametrize("outlived", [False, True])
def test_a_task_may_outlive_its_stage(outlived: bool) -> None:
    """A listener may receive its end before or after that of the execution."""
    stage = {"Stage ID": 1, "Stage Attempt ID": 0, "Number of Tasks": 2, "Parent IDs": []}
    task = {"Task ID": 7, "Index": 0, "Failed": False, "Killed": False, "Accumulables": []}
    ends = [
        {"Event": "SparkListenerTaskEnd", **stage, "Task Info": task},
        {"Event": "SparkListenerStageCompleted", "Stage Info": stage},
    ]
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Properties": {EXECUTION_ID: "3"}, "Stage Infos": [stage]},
        *(reversed(ends) if outlived else ends),
    ]
    logged = tasklog.read(json.dumps(event).encode() for event in events)[3]
    assert logged.outlived == outlived
    assert logged.late_tasks == ({7} if outlived else set())


def compared(table: str, row: dict[str, Any]) -> list[str]:
    return [column for column in row if column not in WITHOUT_COUNTERPART[table]]


def other(value: Any) -> Any:
    """A different value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value, 999]
    return {**value, "x": "x"} if isinstance(value, dict) else 1
