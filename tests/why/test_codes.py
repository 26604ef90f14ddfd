"""Each cause that docs/why.md lists is found, where it is what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from msgspec import structs
from tests.documents import read_back
from tests.why import changed
from tests.why.test_why import CHANGED, document

from joinsight.contract.document import Execution, Spread
from joinsight.why import CODES, NOT_EXPLAINED, Why, explain

JOIN = 63
"""The stage that joins: 8 tasks, 2.7 s of 6.4 s on two slots, 4.6 s of run time."""
MADE: Mapping[str, tuple[str, Callable[[Execution], Execution]]] = {
    "memory": ("base2", lambda e: changed.longer_stage(e, JOIN, 4_000, run_time_ms=8_000, gc_time_ms=8_000)),
    "fetch": ("base2", lambda e: changed.longer_stage(e, JOIN, 4_000, run_time_ms=8_000, shuffle_fetch_wait_ms=8_000)),
    "skew": ("base2", lambda e: changed.longer_tail(e, JOIN, 4_400)),
    "partitions": ("base2", lambda e: changed.one_task(e, JOIN)),
    "retry": ("base2", lambda e: changed.repeated(e, JOIN, 4_000)),
    "driver": ("base2", lambda e: changed.later(e, changed.stage_of(e, JOIN).completed_at_ms or 0, 4_000)),
    "commit": ("base2", lambda e: changed.longer_commit(e, 4_000)),
    "broadcast": ("bcast1", lambda e: changed.longer_broadcast(e, 4_000)),
    "nested": ("base2", lambda e: changed.started_another(e, 4_000)),
}
"""By code, what is changed in which run. The other codes are those of test_why.py."""


def why(code: str) -> Why:
    name, change = MADE[code]
    e = document(name)
    return explain(*(read_back(each, slots=2) for each in (e, change(e))))


def test_all_codes_are_here() -> None:
    assert {*CODES} == {*MADE, *CHANGED.values(), "contention", NOT_EXPLAINED}


@pytest.mark.parametrize("code", MADE)
def test_what_changed_is_the_first_cause(code: str) -> None:
    found = why(code)
    assert found.causes[0].code == code, found
    assert found.causes[0].evidence
    assert sum(cause.wall_ms for cause in found.causes) == found.difference_ms


@pytest.mark.parametrize("code", [code for code in MADE if code not in ("skew", "partitions")])
def test_it_has_what_was_added(code: str) -> None:
    """To a tenth; 4 s each."""
    assert why(code).causes[0].wall_ms == pytest.approx(4_000, rel=0.1)


@pytest.mark.parametrize(("cpu_times", "wait_times"), [(2, 2.0), (3, 1.6)])
def test_more_cpu_on_a_busy_host_waits_longer_for_it(cpu_times: int, wait_times: float) -> None:
    """More CPU time and at most as many times the wait is no busier host: what was computed is the cause."""
    e = document("hog0")
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    cpu = stage.cpu_time_ns // 1_000_000
    waited = stage.run_time_ms - cpu
    assert cpu < waited / 2, "its host was not busy"
    more_cpu = (cpu_times - 1) * cpu
    more = more_cpu + round((wait_times - 1) * waited)
    slower = changed.longer_stage(e, stage.id, more // 2, run_time_ms=more, cpu_time_ns=more_cpu * 1_000_000)
    found = explain(*(read_back(each, slots=2) for each in (e, slower)))
    assert found.causes[0].code == "cpu_per_row"
    assert found.causes[0].wall_ms == pytest.approx(found.difference_ms, rel=0.15)
    assert sum(cause.wall_ms for cause in found.causes) == found.difference_ms


def test_less_memory_is_what_collects_more_garbage() -> None:
    """The setting is a witness, and small amounts count with it: 1.2 s of 6.4 s are no scatter then."""
    e = document("base2")
    slower = changed.longer_stage(e, JOIN, 1_200, run_time_ms=2_400, gc_time_ms=2_400)
    a, b = (read_back(each, slots=2) for each in (e, slower))
    assert explain(a, b).is_normal
    a, b = (replace(each, settings={"spark.driver.memory": size}) for each, size in ((a, "2g"), (b, "512m")))
    first = explain(a, b).causes[0]
    assert first.code == "memory"
    assert "spark.driver.memory is 512m, 2g before" in first.evidence


def test_what_began_to_spill_waits_for_disks_because_of_memory() -> None:
    e = document("base2")
    slower = changed.longer_stage(e, JOIN, 4_000, run_time_ms=8_000, memory_spilled_bytes=40 << 20)
    a, b = (read_back(each, slots=2) for each in (e, slower))
    found = explain(*(replace(each, settings={"spark.driver.memory": size}) for each, size in ((a, "2g"), (b, "512m"))))
    assert found.causes[0].code == "memory" and found.causes[0].wall_ms == pytest.approx(4_000, rel=0.1)
    assert "stage 63 spilled 40.0 MiB, 0 B before" in found.causes[0].evidence


def test_many_more_tasks_for_as_many_rows_are_the_cause_of_what_these_take() -> None:
    e = document("base2")
    stage = changed.stage_of(e, JOIN)
    slower = changed.longer_stage(e, JOIN, 4_000, run_time_ms=8_000, cpu_time_ns=4_000_000_000)
    slower = changed.with_stage(slower, structs.replace(changed.stage_of(slower, JOIN), tasks=400, succeeded_tasks=400))
    assert stage.tasks == 8
    found = explain(*(read_back(each, slots=2) for each in (e, slower)))
    assert [cause.code for cause in found.causes] == ["partitions"]
    assert found.causes[0].evidence[0].endswith("had 400 tasks, 8 before")


def test_half_the_slots_are_the_cause_also_of_fewer_tasks() -> None:
    """3.8 s of 6.4 s would be scatter between two runs on busy hosts that did the same work on as many slots."""
    e = document("base2")
    a, b = read_back(e), read_back(changed.on_one_slot(e))
    found = explain(replace(a, slots=2), replace(b, slots=1))
    assert [cause.code for cause in found.causes] == ["slots"]
    assert found.causes[0].evidence[0].endswith("of 1 slots, 1.7 of 2 before")


def test_a_driver_that_stopped_while_tasks_ran_is_no_lack_of_slots() -> None:
    """Slots were idle since the driver started no further tasks: the scheduler's delay tells."""
    e = document("base2")
    e = changed.with_stage(e, structs.replace(changed.stage_of(e, JOIN), scheduler_delay_ms=300))
    slower = changed.longer_stage(e, JOIN, 4_000, scheduler_delay_ms=8_000)
    first = explain(*(read_back(each, slots=2) for each in (e, slower))).causes[0]
    assert first.code == "driver" and first.wall_ms == pytest.approx(4_000, rel=0.1)
    assert "for the driver's scheduler" in first.evidence[0]


def test_tasks_that_failed_are_the_cause_of_what_their_next_attempts_take() -> None:
    e = document("base2")
    slower = changed.longer_stage(e, JOIN, 4_000, run_time_ms=5_000, cpu_time_ns=4_000_000_000)
    slower = changed.with_stage(slower, structs.replace(changed.stage_of(slower, JOIN), failed_tasks=2))
    first = explain(*(read_back(each, slots=2) for each in (e, slower))).causes[0]
    assert first.code == "retry" and first.wall_ms == pytest.approx(4_000, rel=0.1)
    assert first.evidence == ["failed tasks of stage 63: 2, before 0"]


def test_a_hot_key_is_skew_also_where_aqe_made_fewer_tasks_for_it() -> None:
    """The largest of 4 tasks has 90 % of the rows, where 8 tasks had an eighth each."""
    e = document("base2")
    stage = changed.stage_of(e, JOIN)
    rows = stage.shuffle_read_rows
    e = changed.with_stage(e, structs.replace(stage, shuffle_read_records=_spread(rows // 8)))
    slower = changed.longer_tail(e, JOIN, 4_400)
    hot = structs.replace(
        changed.stage_of(slower, JOIN), tasks=4, succeeded_tasks=4, shuffle_read_records=_spread(rows * 9 // 10)
    )
    first, last = (read_back(each, slots=2) for each in (e, changed.with_stage(slower, hot)))
    assert explain(first, last).causes[0].code == "skew"


def _spread(most: int) -> Spread:
    return Spread(min=0, median=most, p95=most, max=most, max_task=0)
