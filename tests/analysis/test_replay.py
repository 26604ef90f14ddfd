"""Replays of real executions: TPC-H, recorded by bench.replay, and the runs of tests/why."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.documents import longest, read_back

from joinsight.analysis.replay import Recording
from joinsight.contract.document import Execution

HERE = Path(__file__).parent
RUNS = sorted([*(HERE / "replay").glob("*.gz"), *(HERE.parent / "why" / "documents").glob("*.gz")])


def recording(e: Execution) -> Recording:
    stored = read_back(e)
    return Recording(stored.execution, stored.stages, 2)


def run(name: str) -> Execution:
    return longest(HERE / "replay" / f"{name}.ndjson.gz")


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name.partition(".")[0])
def test_a_replay_takes_as_long_as_the_execution(path: Path) -> None:
    """Also where other queries held slots, or the driver launched 400 tasks in each."""
    its = recording(longest(path))
    assert its.replay.wall_ms() == pytest.approx(its.wall_ms, rel=0.10)


def test_many_tasks_that_wait_for_their_launch_take_longer() -> None:
    """The order of 400 tasks on two slots does not explain 15 % more than they need; that of 8 tasks may."""
    e = longest(HERE.parent / "why" / "documents" / "base2.ndjson.gz")
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    work = 2 * ((stage.last_finish_at_ms or 0) - (stage.first_launch_at_ms or 0)) * 100 // 115
    times = dict.fromkeys(("deserialize_time_ms", "result_serialization_time_ms", "scheduler_delay_ms"), 0)
    assert stage.run_time is not None
    off = {}
    for count in (8, 400):
        even = replace(stage.run_time, **dict.fromkeys(("min", "median", "p95", "max"), work // count))
        tasks = {"tasks": count, "succeeded_tasks": count, "run_time_ms": work - 3 * count, "run_time": even}
        many = replace(stage, **tasks, **times)
        its = recording(replace(e, stages=[many if each.id == stage.id else each for each in e.stages]))
        off[count] = abs(its.replay.wall_ms() / its.wall_ms - 1)
    assert off[400] < 0.01 < off[8]


def test_stages_wait_for_what_they_read() -> None:
    """By stage id, under AQE, where each stage is a job of its own, and without."""
    for name, expected in EXPECTED.items():
        its = recording(run(name))
        ids = [each.row["stage_id"] for each in its.stages]
        assert {ids[i]: [ids[j] for j in waits] for i, waits in enumerate(its.waits_for)} == expected


EXPECTED: dict[str, dict[int, list[int]]] = {
    "tpch10-slots4": {
        153: [],
        154: [],
        155: [],
        156: [],
        158: [154],
        160: [155, 158],
        164: [153, 156, 160],
        169: [164],
    },
    "tpch9-slots2-without-aqe": {
        **{78: [], 79: [], 80: [], 81: [78, 79, 80], 82: [78, 79, 80], 83: [78, 79, 80]},
        **{84: [81, 82], 85: [83, 84], 86: [85], 92: [86], 93: [92]},
    },
}
"""The second one broadcasts the rows of stages 78 to 80 before its job, and samples ranges to sort."""


def test_rows_that_do_not_tell_who_waits_for_whom() -> None:
    """As those of release 0.1: their parents, or what was ready last, are waited for."""
    stored = read_back(run("tpch10-slots4"))
    rows = [{**row, "waits_for": None, "broadcast_ms": None} for row in stored.stages]
    its = Recording(stored.execution, rows, None)
    assert its.replay.wall_ms() == pytest.approx(its.wall_ms, rel=0.15)


def test_a_repeated_attempt_runs_again() -> None:
    """It waits for the one that failed, and what reads it waits for the last."""
    e = run("tpch18-slots4-without-aqe")
    first = max(e.stages, key=lambda stage: stage.completed_at_ms or 0)
    again = replace(
        first,
        attempt=1,
        submitted_at_ms=first.completed_at_ms,
        first_launch_at_ms=first.completed_at_ms,
        last_finish_at_ms=(first.last_finish_at_ms or 0) + 900,
        completed_at_ms=(first.completed_at_ms or 0) + 900,
    )
    its = recording(replace(e, stages=[*e.stages, again], ended_at_ms=(e.ended_at_ms or 0) + 900))
    assert its.waits_for[-1][-1] == len(its.stages) - 2
    assert its.stages[-1].row["stage_attempt"] == 1


def test_an_execution_without_stages_takes_its_time() -> None:
    its = recording(replace(run("tpch10-slots4"), stages=[]))
    assert its.replay.wall_ms() == its.wall_ms
