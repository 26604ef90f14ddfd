"""Differences between executions of which another stage became the longest: by replays, not by segments."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs
from tests.documents import read_back
from tests.why.changed import later, stage_of, with_stage
from tests.why.test_why import document

from joinsight.contract.document import Execution, Spread
from joinsight.why import explain
from joinsight.why.places import RunPlaces, matched
from joinsight.why.switched import can_replay, has_switched, shapley, values

SMALL, LARGE = 59, 60
"""The stages that read the two sides of the join, of 20,000 and 600,000 rows: 69 ms and 2.1 s, at the same time."""
TIMES = 78
"""How many times as large the small one becomes: its tasks take 1.4 s longer than those of the large one."""
LONGER_MS = 1_400


def run() -> Execution:
    """The execution on four slots, so that the stages do not wait for each other."""
    e = document("base2")
    return structs.replace(e, stages=[structs.replace(stage, slots=4) for stage in e.stages])


def grown() -> Execution:
    """The small side became large, and all after the large one is later."""
    last = stage_of(run(), LARGE).completed_at_ms or 0
    e = later(run(), last, LONGER_MS)
    stage = stage_of(e, SMALL)
    its = stage.run_time
    assert its is not None
    run_time = Spread(its.min * TIMES, its.median * TIMES, its.p95 * TIMES, its.max * TIMES, its.max_task)
    totals = {name: getattr(stage, name) * TIMES for name in ("run_time_ms", "cpu_time_ns", "input_rows")}
    finish = last + LONGER_MS
    ends = {"last_finish_at_ms": finish - 1, "completed_at_ms": finish, "tail_at_ms": finish - 10}
    jobs = [structs.replace(job, ended_at_ms=finish) if SMALL in job.stages else job for job in e.jobs]
    e = with_stage(e, structs.replace(stage, run_time=run_time, **totals, **ends))
    return structs.replace(e, jobs=jobs)


def test_a_side_that_became_the_longest_explains_what_it_took_longer() -> None:
    """Not all of its time: the execution would have waited for the other side otherwise."""
    why = explain(read_back(run()), read_back(grown()))
    assert why.difference_ms == LONGER_MS
    first = why.causes[0]
    assert first.code == "data"
    assert first.wall_ms == pytest.approx(LONGER_MS, rel=0.1)
    assert first.place["stage"] == SMALL
    assert sum(cause.wall_ms for cause in why.causes) == why.difference_ms
    assert sum(cause.task_ms for cause in why.causes) == why.task_difference_ms
    assert "handled 1,560,000 rows, 20,000 before" in why.text


def test_the_opposite_has_the_opposite_amounts() -> None:
    there, back = explain(read_back(run()), read_back(grown())), explain(read_back(grown()), read_back(run()))
    assert {cause.code: cause.wall_ms for cause in there.causes} == pytest.approx(
        {cause.code: -cause.wall_ms for cause in back.causes}, abs=2
    )


def test_only_a_switched_path_is_replayed() -> None:
    for other, expected in ((grown(), True), (run(), False), (document("tiny0"), False)):
        a, b = RunPlaces(read_back(run())), RunPlaces(read_back(other))
        assert has_switched(list(matched(a, b)), a.stored.execution["duration_ms"]) is expected


def test_parts_add_up_to_the_difference_of_the_replays() -> None:
    a, b = RunPlaces(read_back(run())), RunPlaces(read_back(grown()))
    parts = values(a, b, list(matched(a, b)))
    assert sum(parts.values()) == pytest.approx(LONGER_MS, rel=0.05)


def test_what_cannot_be_scheduled_again_is_not_used() -> None:
    e = run()
    assert can_replay(read_back(e).recording)
    again = structs.replace(e.stages[0], attempt=1)
    assert not can_replay(read_back(structs.replace(e, stages=[*e.stages, again])).recording)
    assert not can_replay(read_back(structs.replace(e, stages=[])).recording)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_shapley_values(n: int) -> None:
    """Independent parts are their own, what two make together is shared by halves, and all add up."""
    players = [frozenset({name}) for name in "abcde"[:n]]
    own: Mapping[str, float] = {"a": 5, "b": 3, "c": 0, "d": -2, "e": 1}

    def value(groups: frozenset[str]) -> float:
        return sum(own[each] for each in groups) + 10 * ({"a", "b"} <= groups)

    found = {"".join(player): each for player, each in shapley(players, value).items()}
    shared = {"a": 5.0, "b": 5.0} if n > 1 else {}
    assert found == pytest.approx({name: own[name] + shared.get(name, 0) for name in "abcde"[:n]})
    assert sum(found.values()) == pytest.approx(value(frozenset("abcde"[:n])))
