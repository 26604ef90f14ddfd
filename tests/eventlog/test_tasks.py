"""Ends of tasks: what no Spark writes does not spread to the tasks next to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.eventlog.recorded import SQL, read_events

from joinsight.contract.document import Execution, Slowest, Spread

METRICS = [{"name": f"metric {number}", "accumulatorId": number, "metricType": "sum"} for number in (7, 8)]
PLAN = {"nodeName": "Range", "simpleString": "Range", "children": [], "metadata": {}, "metrics": METRICS}


def test_times_of_tasks_are_those_of_sparks_ui(tmp_path: Path) -> None:
    """Their durations are run time, deserialization, serialization, getting the result, and the scheduler's delay."""
    times = {"Executor Run Time": 40, "Executor Deserialize Time": 5, "Result Serialization Time": 2}
    cpu = {"Executor CPU Time": 31_999_999}
    launched = {"Launch Time": 1_000, "Finish Time": 1_070}
    (stage,) = execution_of(
        tmp_path,
        ([], times | cpu, launched),
        ([], times, launched | {"Getting Result Time": 1_060}),
        ([], times | {"Executor Run Time": 90}, launched),  # longer than it lasted, by another clock
        ([], None, launched),
    ).stages
    assert (stage.task_duration_ms, stage.getting_result_time_ms, stage.scheduler_delay_ms) == (210, 10, 23 + 13)
    assert stage.result_serialization_time_ms == 6
    assert stage.cpu_time == Spread(0, 0, 31, 31, 100)
    assert stage.run_time == Spread(40, 40, 90, 90, 102, 40, 90)


def test_an_executor_without_a_name_is_unknown_and_times_below_zero_are_zero(tmp_path: Path) -> None:
    """No Spark writes either; the document is valid nevertheless."""

    def task(executor: object, host: object, run_time: int) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
        return [], {"Executor Run Time": run_time}, {"Executor ID": executor, "Host": host}

    slow = [task("1", "a", 5), task("1", "a", 5), task("1", "a", -100)]
    (stage,) = execution_of(tmp_path, *slow, *(task("2é", "b", -1_000) for _ in range(3))).stages
    assert (stage.executors, stage.hosts, stage.run_time_ms) == (2, 2, 0)
    assert stage.slowest == Slowest("a", 3, 0, 0, 5, 0, 15, "1")
    for executor, host in (("", "a"), (None, "a"), ("3", ""), ("3", None), (1, ["a"])):
        (stage,) = execution_of(tmp_path, *slow, task(executor, host, 5)).stages
        assert (stage.executors, stage.hosts, stage.slowest) == (None, None, None)


def execution_of(folder: Path, *tasks: Sequence[Any]) -> Execution:
    """An execution of these tasks, each with its updates of the accumulators 7 and 8, metrics, and more about it."""
    stage = {"Stage ID": 0, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": len(tasks)}
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": f"{SQL}Start", "executionId": 0, "time": 2, "sparkPlanInfo": PLAN},
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": 3, "Stage Infos": [stage]}
        | {"Properties": {"spark.sql.execution.id": "0"}},
    ]
    for index, (updates, metrics, *more) in enumerate(tasks):
        accumulables = [{"ID": 7 + i, "Update": update, "Metadata": "sql"} for i, update in enumerate(updates)]
        task = {"Task ID": 100 + index, "Index": index, "Finish Time": 5, "Accumulables": accumulables}
        task |= more[0] if more else {}
        events.append({"Event": "SparkListenerTaskEnd", "Stage ID": 0, "Task Info": task, "Task Metrics": metrics})
    events.append({"Event": f"{SQL}End", "executionId": 0, "time": 8})
    (document,) = read_events(folder, events)
    assert isinstance(document, Execution)
    return document


def test_a_task_with_an_update_that_is_no_number_counts_without_its_updates(tmp_path: Path) -> None:
    """Those of the other tasks are kept, each in its accumulator."""
    found = execution_of(tmp_path, (["1", "10"], None), (["2", "twenty"], None), (["3", "9223372036854775807"], None))
    assert {each.id: (each.sum, each.max, each.max_task) for each in found.accumulators} == {
        7: (4, 3, 102),
        8: (10 + (1 << 63) - 1 - (1 << 64), (1 << 63) - 1, 102),  # as Java adds
    }
    assert found.stages[0].succeeded_tasks == 3


def test_an_update_is_a_number_or_a_string(tmp_path: Path) -> None:
    """Below zero, too; a number beyond Java's long is invalid."""
    found = execution_of(
        tmp_path, ([5, "-3"], None), ([6, "-9223372036854775808"], None), (["9223372036854775808"], None)
    )
    assert {each.id: each.sum for each in found.accumulators} == {7: 11, 8: (1 << 63) - 3}


def test_sizes_below_zero_are_zero_and_numbers_stay_with_their_tasks(tmp_path: Path) -> None:
    """Totals add up what was written; a task without metrics is not among those of which the times are known."""
    metrics = {"Executor Run Time": -3, "Peak Execution Memory": 9}, {"Executor Run Time": 40}
    (stage,) = execution_of(tmp_path, ([], metrics[0]), ([], None), ([], metrics[1])).stages
    assert (stage.run_time_ms, stage.peak_memory_bytes) == (37, 9)
    assert stage.run_time
    assert (stage.run_time.min, stage.run_time.max, stage.run_time.max_task) == (0, 40, 102)
