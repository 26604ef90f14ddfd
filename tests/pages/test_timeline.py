"""The stages of an execution: which operators they ran, and their bars on the axis of time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from tests.documents import STARTED_AT_MS, execution
from tests.findings.recorded import recordings
from tests.pages.stored import stored

from joinsight.contract.document import Execution, Job, Spread, Stage
from joinsight.pages.execution import execution_page
from joinsight.pages.timeline import MAX_STAGES, Axis, Timeline, timeline

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def timeline_of(e: Execution) -> Timeline:
    """The timeline of an execution."""
    plan, run = stored(e)
    return timeline(plan, run.stage, plan.breakdown.stages.of_nodes)


def stage(number: int, start: int | None, end: int | None, **changes: object) -> Stage:
    """A stage of ten tasks; times are in milliseconds since the start of the execution."""
    submitted, completed = (None if ms is None else STARTED_AT_MS + ms for ms in (start, end))
    values: dict[str, object] = {"attempt": 0, "name": "at test", "tasks": 10, "state": "succeeded"}
    values |= {"submitted_at_ms": submitted, "completed_at_ms": completed, "succeeded_tasks": 10}
    return Stage(number, **{**values, **changes})  # type: ignore[arg-type]


def test_operators_are_in_the_stages_that_ran_them() -> None:
    """A stage ran what is between exchanges; an exchange is in the stages that wrote it and in those that read it."""
    plan, _ = stored(recordings()["skewed"])
    names = {node["id"]: node["name"] for node in plan.versions[-1]["nodes"] if not node["is_cluster"]}
    of = {f"{names[i].split()[0]} {i}": stages for i, stages in plan.breakdown.stages.of_nodes.items() if i in names}
    assert of["Scan 15"] == of["Filter 13"] == [75] and of["Scan 22"] == [74]
    assert of["Exchange 11"] == [75, 78] and of["Exchange 18"] == [74, 78] and of["Exchange 4"] == [78, 82]
    assert of["SortMergeJoin 8"] == of["Project 7"] == of["HashAggregate 6"] == [78]
    assert of["HashAggregate 2"] == [82]
    assert not any(name.startswith(("AdaptiveSparkPlan", "AQEShuffleRead")) for name in of), "they have no box"


@pytest.mark.parametrize("name", recordings())
def test_each_stage_that_ran_has_operators(name: str) -> None:
    """In real plans each stage with tasks that finished is found at an operator, and no skipped one is."""
    e = recordings()[name]
    found = {stage for stages in stored(e)[0].breakdown.stages.of_nodes.values() for stage in stages}
    assert found <= {stage.id for stage in e.stages if stage.state != "skipped"}
    if e.state == "succeeded" and not name.startswith(("cache", "replanned-empty")):  # a cached plan ran apart
        assert found == {stage.id for stage in e.stages if stage.state == "succeeded"}


def test_bars_are_where_the_stages_were() -> None:
    """Bars are in percent of the execution's time; jobs with several stages span them; skipped stages are counted."""
    stages = [
        stage(1, 0, 250),
        stage(2, 250, 500, run_time=Spread(1, 10, 20, 35, 7)),
        stage(3, 500, 1_000, attempt=1, failed_tasks=2),
        stage(4, None, None, state="skipped"),
    ]
    jobs = [Job(8, STARTED_AT_MS, [1, 2]), Job(9, STARTED_AT_MS, [3, 4])]
    shown = timeline_of(execution(stages=stages, jobs=jobs))
    first, second = shown.jobs
    assert (first.id, first.x, first.width, first.duration_ms, first.is_shown) == (8, 0, 50, 500, True)
    assert [(bar.name, bar.x, bar.width, bar.duration_ms) for bar in first.bars] == [
        ("1", 0, 25, 250),
        ("2", 25, 25, 250),
    ]
    assert (first.bars[0].skew, first.bars[1].skew) == (None, 3.5)
    [retry] = second.bars
    assert (second.is_shown, retry.name, retry.id, retry.when) == (False, "3.1", "s3-1", "from 500 ms to 1.0 s")
    assert (shown.skipped, shown.left_out, shown.tasks_done, shown.tasks) == (1, 0, 30, 30)
    page = execution_page(*stored(execution(stages=stages, jobs=jobs)))
    assert ">retry<" in page and "10, 2 failed" in page and "1 stage was skipped: its shuffle already existed." in page


def test_a_running_stage_is_as_far_as_its_tasks() -> None:
    """A running stage's bar ends at the last known moment, its tasks that are done fill it; a waiting one has none."""
    e = execution(
        state="running",
        stages=[
            stage(1, 0, 400, state="failed", succeeded_tasks=4),
            stage(2, 500, None, state="running", succeeded_tasks=5),
            stage(3, None, None, state="pending", succeeded_tasks=0),
        ],
    )
    plan, run = stored(e)
    plan.execution["updated_at"] = START + timedelta(seconds=1)
    shown = timeline(plan, run.stage, {})
    bars = {bar.name: bar for job in shown.jobs for bar in job.bars}
    assert (bars["2"].x, bars["2"].width, bars["2"].done, bars["2"].when) == (50, 50, 25, "since 500 ms")
    assert not bars["3"].has_started and bars["3"].when == "not started"
    assert (shown.tasks_done, shown.tasks) == (9, 24)  # no more tasks of the failed attempt will run


def test_the_skew_of_a_stage_is_not_shown_while_it_runs() -> None:
    """A task that runs has no run time yet: those of the others alone would hide the straggler."""
    times = {"run_time": Spread(9, 10, 10, 10, 10), "succeeded_tasks": 9}
    for state, end, skew in (("running", None, None), ("succeeded", 400, 1)):
        (job,) = timeline_of(execution(state="running", stages=[stage(1, 0, end, state=state, **times)])).jobs
        assert job.bars[0].skew == skew


def test_progress_leaves_out_stages_that_will_be_skipped() -> None:
    """Spark skips a pending stage whose parents need not run if it was not submitted when its job started, and those
    before a stage that has started."""
    stages = [
        *(stage(number, None, None, state="pending", succeeded_tasks=0) for number in (1, 2)),
        stage(3, None, None, state="pending", succeeded_tasks=0, parents=[2]),
        stage(4, 0, None, state="running", succeeded_tasks=5),
        stage(5, None, None, state="pending", succeeded_tasks=0, parents=[3, 4]),
        stage(6, 0, None, state="running", succeeded_tasks=0, parents=[1]),
        stage(7, None, None, state="pending", succeeded_tasks=0),
    ]
    jobs = [Job(8, STARTED_AT_MS, [1, 2, 3, 4, 5]), Job(9, STARTED_AT_MS, [1, 6]), Job(10, STARTED_AT_MS, [7])]
    shown = timeline_of(execution(state="running", stages=stages, jobs=jobs))
    assert sorted(bar.row["stage_id"] for job in shown.jobs for bar in job.bars) == [4, 5, 6, 7]
    assert (shown.skipped, shown.tasks_done, shown.tasks) == (3, 5, 40)


def test_the_critical_path_is_above_the_stages() -> None:
    """The segments of the path cover the axis, each at its time; their causes are listed, the largest share first."""
    plan, _ = stored(recordings()["skewed"])
    shown = timeline_of(recordings()["skewed"])
    assert sum(piece.width for piece in shown.path) == pytest.approx(100, abs=1)
    assert [piece.cause for piece in shown.path][:2] == ["prepare", "running"]
    bars = {bar.row["stage_id"]: bar for job in shown.jobs for bar in job.bars}
    running = [piece for piece in shown.path if piece.title.startswith("running, stage 78: ")]
    assert running[0].x + running[0].width == pytest.approx(bars[78].x + bars[78].width, abs=0.1)
    assert [each.cause for each in shown.spent][:2] == ["running", "prepare"]
    page = execution_page(*stored(recordings()["skewed"]))
    assert 'aria-label="Critical path"' in page and re.search(r"running \d+ %", page)
    plan.segments[:] = [{**plan.segments[0], "start_ms": 0, "end_ms": 0}]
    assert timeline(plan, [], {}).path == [] == timeline(plan, [], {}).spent


def test_a_failure_is_told_once() -> None:
    """A stage's failure is at the stage, unless the execution's error says the same."""
    failed = stage(1, 0, 400, state="failed", failure="Disk is full")
    page = execution_page(*stored(execution(state="failed", error="Aborted", stages=[failed])))
    assert page.count("<bdi>Disk is full</bdi>") == 1
    page = execution_page(*stored(execution(state="failed", error="Aborted: Disk is full\n\tat a.B", stages=[failed])))
    assert "<bdi>Disk is full</bdi>" not in page


@pytest.mark.parametrize(
    ("length", "ticks"),
    [
        (1, ["0", "1 ms"]),
        (596, ["0", "200 ms", "400 ms"]),
        (1_800, ["0", "0.5 s", "1 s", "1.5 s"]),
        (71_000, ["0", "15 s", "30 s", "45 s", "1 min"]),
        (90_000, ["0", "30 s", "1 min", "90 s"]),
        (5 * 3_600_000, ["0", "1 h", "2 h", "3 h", "4 h", "5 h"]),
        (400 * 86_400_000, ["0", "100 d", "200 d", "300 d", "400 d"]),
    ],
)
def test_ticks_are_round(length: int, ticks: list[str]) -> None:
    """At most five ticks after 0, at round times."""
    axis = Axis(START, START + timedelta(milliseconds=length))
    assert [tick.text for tick in axis.ticks] == ticks
    assert axis.ticks[0].anchor == "start" and all(0 <= tick.x <= 100 for tick in axis.ticks)


def test_times_that_cannot_be() -> None:
    """Stages before the start, after the end or in no time are drawn within the axis, wide enough to be seen."""
    odd = [stage(1, -5_000, -4_000), stage(2, 9_000, 10_000), stage(3, 700, 300), stage(4, 0, 10**6)]
    for e in (execution(stages=odd), execution(stages=odd, ended_at_ms=STARTED_AT_MS)):
        for job in timeline_of(e).jobs:
            assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= 100 for bar in job.bars)


def test_a_page_shows_the_longest_of_many_stages() -> None:
    """The number of stages on a page is limited; those left out are counted."""
    many = [stage(i, 0, 10 + i) for i in range(MAX_STAGES + 30)]
    e = msgspec.structs.replace(execution(), stages=many)
    shown = timeline_of(e)
    assert [bar.row["stage_id"] for job in shown.jobs for bar in job.bars] == list(range(30, MAX_STAGES + 30))
    assert shown.left_out == 30 and "30 shorter stages are not shown" in execution_page(*stored(e))
