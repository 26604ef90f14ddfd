"""Where the time of an execution went: segments have no gap, name their cause, and follow what waits for what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.documents import STARTED_AT_MS, execution, planned
from tests.growth import steps

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution, Job, Nested, Stage
from joinsight.timing.critical_path import CAUSES, Broadcast, CriticalPath, critical_path, known_until


def at(ms: int) -> int:
    return STARTED_AT_MS + ms


def job(number: int, start: int, end: int, *stages: int, state: Any = "succeeded") -> Job:
    return Job(number, at(start), list(stages), state, at(end))


def ran(number: int, start: int, end: int, *parents: int, rdd: int | None = None, **more: Any) -> Stage:
    """A stage that ran; its tasks were launched at once, and finished as it ended."""
    times = {"first_launch_at_ms": start, "last_finish_at_ms": end, "tail_at_ms": None, **more}
    known = {name: at(times.pop(name)) for name in list(times) if name.endswith("_ms") and times[name] is not None}
    rest = {name: value for name, value in times.items() if value is not None}
    settled = {"attempt": 0, "name": "s", "tasks": 4, "state": "succeeded", **rest}
    return Stage(
        id=number,
        submitted_at_ms=at(start),
        completed_at_ms=at(end),
        parents=list(parents),
        rdd=number if rdd is None else rdd,
        **{**settled, **known},
    )


def skipped(number: int, rdd: int, *parents: int) -> Stage:
    return Stage(id=number, attempt=0, name="s", tasks=4, state="skipped", parents=list(parents), rdd=rdd)


def path(jobs: Sequence[Job], stages: Sequence[Stage], end: int = 1_000, **more: Any) -> CriticalPath:
    arguments = {name: more.pop(name) for name in ("broadcasts", "commit_ms", "is_adaptive", "nodes") if name in more}
    e = execution(jobs=list(jobs), stages=list(stages), ended_at_ms=at(end), **more)
    found = critical_path(e, **arguments)
    check(e, found)
    return found


def check(e: Execution, found: CriticalPath) -> None:
    """The segments are the time from start to end, without a gap or an overlap."""
    times = [0]
    for segment in found.segments:
        assert segment.cause in CAUSES
        assert segment.start_ms == times[-1] < segment.end_ms
        times.append(segment.end_ms)
    assert times[-1] == max(0, (known_until(e) or 0) - e.started_at_ms)


def brief(found: CriticalPath) -> str:
    """``prepare 10, running 1 90``: cause, stage and length."""
    return ", ".join(
        " ".join(str(part) for part in (s.cause, s.stage_id, s.end_ms - s.start_ms) if part is not None)
        for s in found.segments
    )


def test_a_stage_waits_runs_and_has_a_tail() -> None:
    """It waits for slots, runs, and has a tail; then the driver takes its results, and returns them."""
    stage = ran(1, 110, 900, first_launch_at_ms=300, tail_at_ms=600, last_finish_at_ms=890)
    found = path([job(0, 100, 900, 1)], [stage])
    expected = "prepare 100, driver 10, waiting 1 190, running 1 300, tail 1 290, driver 1 10, finish 100"
    assert brief(found) == expected


def so_far(jobs: Sequence[Job], stages: Sequence[Stage], **more: Any) -> str:
    """The path of an execution that runs, at a report after a second."""
    e = execution(jobs=jobs, stages=stages, state="running", reported_at_ms=at(1_000), **more)
    found = critical_path(e)
    check(e, found)
    assert found.slack_ms == {}
    return brief(found)


def test_a_path_goes_on_while_its_stages_run() -> None:
    """The job with tasks is on the path, not the one without; of its stages, the one that runs. Between jobs and before
    the first one, the driver works."""

    def runs(number: int, start: int, *parents: int, launched: int | None = None) -> Stage:
        oldest = None if launched is None else at(launched)
        stage = ran(number, start, start, *parents, state="running", first_launch_at_ms=None, last_finish_at_ms=None)
        return replace(stage, completed_at_ms=None, oldest_launch_at_ms=oldest)

    first, later = Job(0, at(100), [1, 2, 3]), Job(1, at(300), [4])
    stages = [ran(1, 100, 500), runs(2, 600, 1, launched=700), runs(4, 300)]
    assert so_far([first, later], stages) == "prepare 100, running 1 400, driver 100, waiting 2 100, running 2 300"
    assert so_far([job(0, 100, 500, 1)], [ran(1, 100, 500)]) == "prepare 100, running 1 400, replan 500"
    assert so_far([], []) == "prepare 1000"
    assert so_far([], [], nested=[Nested(9, at(400))]) == "prepare 400, nested 600"
    lost = execution(state="running", ended_at_ms=None, jobs=[first], stages=stages)
    assert critical_path(lost).segments == ()


def test_stages_wait_for_their_last_parent() -> None:
    """The parent that ended later is on the path; the other one has slack."""
    stages = [ran(1, 0, 200), ran(2, 0, 500), ran(3, 500, 1_000, 1, 2)]
    found = path([job(0, 0, 1_000, 1, 2, 3)], stages)
    assert brief(found) == "running 2 500, running 3 500"
    assert found.slack_ms == {(1, 0): 300, (2, 0): 0, (3, 0): 0}


def test_adaptive_jobs_wait_for_the_shuffles_that_they_read() -> None:
    """A job lists the stage whose shuffle it reads as skipped; that another job ended later does not matter to it."""
    jobs = [job(0, 0, 300, 1), job(1, 0, 490, 2), job(2, 500, 600, 3, 4), job(3, 600, 1_000, 5, 6, 7)]
    stages = [
        *(ran(1, 0, 300), ran(2, 0, 490), skipped(3, 1), ran(4, 500, 600, 3)),
        *(skipped(5, 2), skipped(6, 4, 3), ran(7, 600, 1_000, 5, 6)),
    ]
    found = path(jobs, stages)
    assert brief(found) == "running 1 300, replan 200, running 4 100, running 7 400"
    assert found.slack_ms[2, 0] == 110
    assert found.waits_for == {1: [], 2: [], 4: [1], 7: [2, 4]}


def test_broadcast_that_a_job_waits_for() -> None:
    """The driver's part is the broadcast's, its tasks keep their causes, and both name its node."""
    jobs = [job(0, 10, 200, 1), job(1, 550, 1_000, 2)]
    broadcast = Broadcast(7, frozenset({1}), collect_ms=195, driver_ms=300)
    found = path(jobs, [ran(1, 20, 200), ran(2, 550, 1_000)], broadcasts=[broadcast])
    assert brief(found) == "prepare 10, broadcast 10, running 1 180, broadcast 300, replan 50, running 2 450"
    assert [segment.node_id for segment in found.segments] == [None, 7, 7, 7, None, None]
    assert (found.waits_for, found.broadcast_ms) == ({1: [], 2: [1]}, {1: 300})


def test_a_broadcast_that_nobody_waited_for_is_not_on_the_path() -> None:
    """It was ready before the shuffle that the same job reads: only the shuffle is on the path."""
    jobs = [job(0, 0, 100, 1), job(1, 0, 600, 2), job(2, 600, 1_000, 3, 4)]
    stages = [ran(1, 0, 100), ran(2, 0, 600), skipped(3, 2), ran(4, 600, 1_000, 3)]
    found = path(jobs, stages, broadcasts=[Broadcast(7, frozenset({1}), 100, 300)])
    assert brief(found) == "running 2 600, running 4 400"
    assert found.slack_ms[1, 0] == 200


def test_jobs_without_adaptive_execution() -> None:
    """What is between them is the driver's, as nothing is planned again."""
    found = path([job(0, 0, 300, 1), job(1, 500, 1_000, 2)], [ran(1, 0, 300), ran(2, 500, 1_000)], is_adaptive=False)
    assert brief(found) == "running 1 300, driver 200, running 2 500"


def test_slack_ends_with_the_next_job_that_could_have_waited() -> None:
    """What nothing reads may take until the next job starts that could have waited for it."""
    spans = {1: (0, 100), 2: (0, 60), 3: (100, 300), 4: (100, 250), 5: (300, 1_000)}
    jobs = [job(number, *span, number) for number, span in spans.items()]
    found = path(jobs, [ran(number, *span) for number, span in spans.items()])
    assert brief(found) == "running 1 100, running 3 200, running 5 700"
    assert found.slack_ms == {(1, 0): 0, (2, 0): 40, (3, 0): 0, (4, 0): 50, (5, 0): 0}


def test_slack_of_a_shuffle_that_several_jobs_read() -> None:
    """It is that of the one which could wait the least."""
    jobs = [
        *(job(0, 0, 100, 1), job(1, 0, 500, 2), job(2, 200, 450, 3, 4)),
        *(job(3, 300, 490, 5, 6), job(4, 500, 1_000, 7, 8, 9)),
    ]
    stages = [
        *(ran(1, 0, 100), ran(2, 0, 500), skipped(3, 1), ran(4, 200, 450, 3)),
        *(skipped(5, 1), ran(6, 300, 490, 5), skipped(7, 1), skipped(8, 2), ran(9, 500, 1_000, 7, 8)),
    ]
    found = path(jobs, stages)
    assert brief(found) == "running 2 500, running 9 500"
    assert found.slack_ms == {(1, 0): 10, (2, 0): 0, (4, 0): 50, (6, 0): 10, (9, 0): 0}


def test_only_attempts_that_ended_have_slack() -> None:
    unfinished = replace(ran(1, 0, 0, attempt=1), state="failed", completed_at_ms=None, first_launch_at_ms=None)
    found = path([job(0, 0, 300, 1), job(1, 0, 1_000, 2)], [ran(1, 0, 300), unfinished, ran(2, 0, 1_000)])
    assert found.slack_ms == {(1, 0): 700, (2, 0): 0}


def test_a_job_ends_with_its_last_stage() -> None:
    """That Spark says so later costs nobody time."""
    found = path([job(0, 0, 350, 1), job(1, 500, 1_000, 2)], [ran(1, 0, 300), ran(2, 500, 1_000)])
    assert brief(found) == "running 1 300, replan 200, running 2 500"


def test_a_job_may_wait_for_a_stage_of_another() -> None:
    """A job that waits for a stage which another one has started goes back to the start of that one."""
    jobs = [job(0, 10, 700, 1, 2), job(1, 300, 1_000, 1, 3)]
    found = path(jobs, [ran(1, 20, 400), ran(2, 400, 700, 1), ran(3, 400, 1_000, 1)])
    assert brief(found) == "prepare 10, driver 10, running 1 380, running 3 600"


def test_a_repeated_attempt_has_a_cause_of_its_own() -> None:
    stages = [
        *(ran(1, 0, 200), ran(1, 400, 500, attempt=1)),
        *(ran(2, 200, 390, 1, state="failed", failure="fetch"), ran(2, 500, 1_000, 1, attempt=1)),
    ]
    found = path([job(0, 0, 1_000, 1, 2)], stages)
    assert brief(found) == "running 1 200, running 2 190, driver 10, retry 1 100, retry 2 500"


def test_a_nested_execution_is_a_segment() -> None:
    """What the execution started is a segment with its id; the driver has what is left, as of a user's function."""
    nested = [Nested(5, at(100), at(400)), Nested(6, at(600), at(900)), Nested(7, at(950))]
    found = path([], [], nested=nested)
    assert brief(found) == "prepare 100, nested 300, driver 200, nested 300, finish 100"
    assert [segment.nested_execution_id for segment in found.segments] == [None, 5, None, 6, None]


def test_commit_of_a_write() -> None:
    """It follows the job, and is no longer than there is time."""
    jobs, stages = [job(0, 0, 600, 1)], [ran(1, 0, 600)]
    assert brief(path(jobs, stages, commit_ms=300)) == "running 1 600, commit 300, finish 100"
    assert brief(path(jobs, stages, commit_ms=900)) == "running 1 600, commit 400"


def test_a_failed_execution_waited_for_the_job_that_failed() -> None:
    """It waited for the job that failed, even if that is reported after its end."""
    stages = [ran(1, 0, 1_200, state="failed", last_finish_at_ms=None)]
    found = path([job(0, 0, 1_200, 1, state="failed")], stages, state="failed", error="broken")
    assert brief(found) == "running 1 1000"


def test_stage_that_never_got_a_slot() -> None:
    """All of its time is waiting."""
    stages = [Stage(id=1, attempt=0, name="s", tasks=4, state="failed", submitted_at_ms=at(0))]
    found = path([job(0, 0, 1_000, 1, state="failed")], stages, state="failed", error="cancelled")
    assert brief(found) == "waiting 1 1000"


def test_jobs_after_the_end_do_not_count() -> None:
    """A query ends before a job that AQE no longer needs, and before jobs that come later."""
    jobs = [job(0, 0, 1_500, 1), job(1, 0, 900, 2), job(2, 2_000, 3_000, 3)]
    found = path(jobs, [ran(1, 0, 1_500), ran(2, 0, 900), ran(3, 2_000, 3_000)])
    assert brief(found) == "running 2 900, finish 100"
    assert found.slack_ms == {(2, 0): 0}


def test_no_path_before_the_end() -> None:
    """What runs, or is lost, has no segments."""
    for state in ("running", "lost"):
        e = execution(state=state, ended_at_ms=None, jobs=[job(0, 0, 900, 1)], stages=[ran(1, 0, 900)])
        assert critical_path(e) == CriticalPath((), {})


def test_a_segment_names_its_shuffle_or_broadcast() -> None:
    """A segment names the shuffle that its stage writes; the broadcast is found by the stages of what is below it."""
    e = planned(
        """
        AdaptiveSparkPlan
          BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight
            Exchange | hashpartitioning(k#1, 8) | shuffle bytes written=100, records read=5
              Filter | | number of output rows=4
            BroadcastExchange | | time to collect=100, time to build=200, time to broadcast=50
              Project
                Filter | | number of output rows=3
        """,
        jobs=[job(0, 0, 400, 1), job(1, 0, 500, 2), job(2, 800, 1_000, 3, 4)],
        stages=[ran(1, 0, 400), ran(2, 0, 500), skipped(3, 1), ran(4, 800, 1_000, 3)],
    )
    measured_in = {100: [1], 5: [4], 4: [1], 3: [2]}  # by the sum
    stages = [(a, measured_in.get(a.sum or 0, [])) for a in e.accumulators]
    accumulators = [replace(a, stages=its, max_stage=max(its, default=None)) for a, its in stages]
    # The time to collect is the driver's
    accumulators = [replace(a, stages=[], max_stage=None) if a.type == "timing" else a for a in accumulators]
    e = replace(e, accumulators=accumulators)
    rows = execution_rows(e)
    shuffle, broadcast = rows.shuffle[0].node_id, rows.broadcast[0].node_id
    assert [(s.cause, s.end_ms - s.start_ms, s.node_id) for s in rows.segment] == [
        ("running", 500, broadcast),
        ("broadcast", 250, broadcast),
        ("replan", 50, None),
        ("running", 200, None),
    ]
    assert {(s.stage_id, s.slack_ms) for s in rows.stage} == {(1, 350), (2, 0), (3, None), (4, 0)}
    assert shuffle != broadcast


# Hostile documents

moments = st.none() | st.integers(-2_000, 3_000).map(at)
ids = st.integers(0, 6)
few_ids = st.lists(ids, max_size=4)
stages = st.builds(
    Stage,
    id=ids,
    attempt=st.integers(0, 2),
    name=st.just("s"),
    tasks=ids,
    state=st.sampled_from(["pending", "running", "succeeded", "failed", "skipped"]),
    submitted_at_ms=moments,
    completed_at_ms=moments,
    parents=few_ids,
    rdd=st.none() | ids,
    first_launch_at_ms=moments,
    last_finish_at_ms=moments,
    tail_at_ms=moments,
)
jobs = st.builds(
    Job,
    id=ids,
    submitted_at_ms=st.integers(-2_000, 3_000).map(at),
    stages=few_ids,
    state=st.sampled_from(["running", "succeeded", "failed"]),
    ended_at_ms=moments,
)
nested = st.builds(Nested, id=ids, started_at_ms=st.integers(-2_000, 3_000).map(at), ended_at_ms=moments)
durations = st.integers(0, 3_000)
broadcasts = st.builds(
    Broadcast, node_id=ids, stages=st.frozensets(ids), collect_ms=durations, driver_ms=st.integers(0, 2**63 - 1)
)


@settings(suppress_health_check=list(HealthCheck), max_examples=300)
@given(
    st.lists(jobs, max_size=6), st.lists(stages, max_size=10), st.lists(nested, max_size=3),
    st.lists(broadcasts, max_size=3), st.sampled_from(["succeeded", "failed", "running"]),
    st.integers(-500, 2_000), durations,
)  # fmt: skip
def test_any_document_has_whole_segments(
    its_jobs: list[Job],
    its_stages: list[Stage],
    its_nested: list[Nested],
    its_broadcasts: list[Broadcast],
    state: Any,
    end: int,
    commit_ms: int,
) -> None:
    """Times that are missing, that run backwards or overlap, and cycles: the segments have no gap, and slack is no less
    than 0."""
    time = "reported_at_ms" if state == "running" else "ended_at_ms"
    e = execution(jobs=its_jobs, stages=its_stages, nested=its_nested, state=state, **{time: at(end)})
    found = critical_path(e, its_broadcasts, commit_ms=commit_ms)
    check(e, found)
    assert all(slack >= 0 for slack in found.slack_ms.values())


def chain(number: int) -> Execution:
    """Stages one after another in one job."""
    its_stages = [ran(i, i, i + 1, *range(max(0, i - 1), i)) for i in range(number)]
    return execution(jobs=[job(0, 0, number, *range(number))], stages=its_stages, ended_at_ms=at(number))


def many_jobs(number: int) -> Execution:
    """Each job reads the shuffle of the one before."""
    its_jobs = [job(i, i, i + 1, *((2 * i - 1, 2 * i) if i else (0,))) for i in range(number)]
    its_stages = [ran(0, 0, 1)]
    for i in range(1, number):
        its_stages += [skipped(2 * i - 1, 2 * i - 2), ran(2 * i, i, i + 1, 2 * i - 1)]
    return execution(jobs=its_jobs, stages=its_stages, ended_at_ms=at(number))


def many_attempts(number: int) -> Execution:
    """All attempts of one stage, in jobs that all have this stage."""
    its_jobs = [job(i, i, i + 1, 0) for i in range(number)]
    its_stages = [ran(0, i, i + 1, 0, attempt=i) for i in range(number)]
    return execution(jobs=its_jobs, stages=its_stages, ended_at_ms=at(number))


def many_nested(number: int) -> Execution:
    return execution(nested=[Nested(i, at(i), at(i + 1)) for i in range(number)], ended_at_ms=at(number))


MANY = [chain, many_jobs, many_attempts, many_nested]


@pytest.mark.parametrize("make", MANY)
def test_thousands_of_stages_take_linear_time(make: Callable[[int], Execution]) -> None:
    """Thousands of stages in a row, jobs, attempts or nested executions."""
    e = make(5_000)
    check(e, critical_path(e))


@pytest.mark.parametrize("make", MANY)
def test_work_grows_linearly(make: Callable[[int], Execution]) -> None:
    small, large = make(200), make(400)
    assert steps(lambda: critical_path(large)) < 2.5 * steps(lambda: critical_path(small))
