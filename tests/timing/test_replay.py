"""An execution scheduled again: who gets the slots, who waits for whom, and how many tasks' times are made of a few."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from joinsight.timing.replay import ORDERS, Replay, ReplayStage, TaskModel, makespan, ordered, task_times


def stage(number: int, *tasks: float, waits_for: Sequence[int] = (), delay: float = 0, **more: float) -> ReplayStage:
    return ReplayStage(number, tuple(waits_for), delay, tasks, **more)  # type: ignore[arg-type]


def wall(slots: int, *stages: ReplayStage, finish: float = 0) -> float:
    return Replay(stages, slots, finish).wall_ms()


@pytest.mark.parametrize(("slots", "ms"), [(1, 60), (2, 40), (3, 30), (9, 30)])
def test_tasks_take_the_slots_in_their_order(slots: int, ms: float) -> None:
    assert wall(slots, stage(1, 10, 20, 30)) == ms
    assert makespan([10, 20, 30], slots) == ms


def test_delays_add_up_along_the_path() -> None:
    """The driver before the first stage, a broadcast after it, planning before the next, and the end."""
    stages = [stage(1, 100, delay=10, ready_ms=30), stage(2, 50, delay=5), stage(3, 40, waits_for=(1, 2), delay=20)]
    assert wall(2, *stages, finish=7) == 10 + 100 + 30 + 20 + 40 + 7


def test_the_first_job_gets_the_slots() -> None:
    """Stages that are runnable at once have their tasks launched as by FIFO; a later job gets what is left."""
    spans = Replay([stage(1, 10, 10, job=2), stage(2, 30, 30, 30, job=1)], 2, 0).spans()
    assert [(spans[i].start_ms, spans[i].end_ms) for i in (2, 1)] == [(0, 60), (30, 50)]


def test_a_stage_may_not_have_all_slots() -> None:
    """Others get those."""
    stages = [stage(1, 10, 10, 10, most_slots=1), stage(2, 15, 15)]
    spans = Replay(stages, 2, 0).spans()
    assert [spans[i].end_ms for i in (1, 2)] == [30, 30]


def test_the_reader_starts_when_the_last_result_can_be_used() -> None:
    """Also if another stage finished later, whose result needs no time."""
    stages = [stage(1, 10, ready_ms=100), stage(2, 50), stage(3, 1, waits_for=(1, 2))]
    assert Replay(stages, 2, 0).spans()[3].start_ms == 110


def test_stages_without_tasks_and_circles() -> None:
    """A stage may have no tasks; those that wait for each other never run, and the others do."""
    assert wall(2, stage(1, delay=5, ready_ms=3), stage(2, 7, waits_for=(1,))) == 15
    assert wall(2, stage(1, 9, waits_for=(2,)), stage(2, 9, waits_for=(1,)), stage(3, 4)) == 4
    assert wall(2) == 0


POINTS = [(0.0, 10.0), (0.25, 20.0), (0.5, 30.0), (0.75, 40.0), (0.95, 100.0), (1.0, 500.0)]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 400, 401, 5_000, 200_000])
@pytest.mark.parametrize("mean", [31.0, 40.0, 55.0])
def test_times_have_the_quantiles_and_the_mean(count: int, mean: float) -> None:
    times = task_times(count, POINTS, mean, 4)
    assert len(times) == min(count, 400)
    assert all(time >= 10 for time in times)
    if count >= 400:
        assert sum(times) == pytest.approx(mean * count, rel=0.03)
        assert max(times[-100:]) == 500
    if count <= 400:
        assert times == sorted(times)
        assert min(times) >= 10 and max(times) <= 500


def test_times_of_which_only_the_mean_is_known() -> None:
    assert task_times(3, (), 20, 2) == [20, 20, 20]
    assert task_times(0, (), 20, 2) == []


@pytest.mark.parametrize("count", [*range(20), 400])
def test_orders_have_the_same_tasks(count: int) -> None:
    tasks = [float(i) for i in range(count)]
    assert all(sorted(ordered(tasks, order)) == tasks for order in range(ORDERS))


def test_orders_differ_by_when_the_longest_starts() -> None:
    times = [makespan(ordered([10.0] * 12 + [100.0], order), 4) for order in range(ORDERS)]
    assert (min(times), max(times), times[1], times[3]) == (100, 130, 100, 130)


def test_tasks_hold_their_slots_longer_than_they_run() -> None:
    """A task runs for 10 ms to 30 ms, and each holds its slot for 5 ms more, a half of the slots being others'."""
    model = TaskModel(3, 20, [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)], held_ms=5, stretch=2)
    assert sorted(model.tasks(2)) == [30, 50, 70]
    assert TaskModel(2, 20, held_ms=5).tasks(2) == (25, 25)
