"""Whatever differs between two executions, the causes add up to the difference, both ways, and are known codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.documents import read_back
from tests.why import changed
from tests.why.test_why import DOCUMENTS, document

from joinsight.contract.document import Execution
from joinsight.why import CODES, NOT_EXPLAINED, explain

NAMES = sorted(path.name.partition(".")[0] for path in DOCUMENTS.glob("*.ndjson.gz"))
COUNTERS = ("run_time_ms", "cpu_time_ns", "gc_time_ms", "shuffle_fetch_wait_ms", "shuffle_read_rows", "input_rows")
Change = Callable[[Execution], Execution]


@st.composite
def stages_longer(draw: st.DrawFn) -> Change:
    """A stage takes longer, with any counters."""
    place, by_ms = draw(st.integers(0, 20)), draw(st.integers(1, 20_000))
    counters = draw(st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 30_000)))

    def change(e: Execution) -> Execution:
        known = [stage.id for stage in e.stages if stage.run_time and stage.tail_at_ms and stage.attempt == 0]
        return changed.longer_stage(e, known[place % len(known)], by_ms, **counters) if known else e

    return change


CHANGES: st.SearchStrategy[Change] = st.one_of(
    stages_longer(),
    st.integers(1, 9_000).map(lambda ms: lambda e: changed.longer_commit(e, ms)),
    st.integers(1, 9_000).map(lambda ms: lambda e: changed.later(e, e.started_at_ms, ms)),
    st.integers(1, 9_000).map(lambda ms: lambda e: changed.repeated(e, e.stages[0].id, ms) if e.stages else e),
    st.just(lambda e: structs.replace(e, incomplete=["3 of 4 task ends of stage 1 were not seen"])),
    st.just(lambda e: structs.replace(e, state="failed", error="it broke")),
    st.just(lambda e: structs.replace(e, stages=[])),
    st.just(lambda e: structs.replace(e, stages=[], jobs=[])),
    st.just(lambda e: structs.replace(e, stages=[structs.replace(each, run_time=None) for each in e.stages])),
)


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.lists(CHANGES, max_size=3))
@settings(max_examples=40, deadline=None)
def test_causes_of_any_pair_add_up(one: str, other: str, changes: list[Change]) -> None:
    first, last = document(one), document(other)
    for change in changes:
        last = change(last)
    a, b = read_back(first, slots=2), read_back(last, slots=2)
    for why, took_ms in ((explain(a, b), 1), (explain(b, a), -1)):
        assert why.difference_ms == took_ms * (b.execution["duration_ms"] - a.execution["duration_ms"])
        assert sum(cause.wall_ms for cause in why.causes) == why.difference_ms
        assert sum(cause.task_ms for cause in why.causes) == why.task_difference_ms
        assert {cause.code for cause in why.causes} <= set(CODES)
        if last.incomplete:
            assert {cause.code for cause in why.causes} <= {NOT_EXPLAINED}
    assert not explain(b, b).causes


@pytest.mark.parametrize("name", NAMES)
def test_no_execution_has_a_cause_to_differ_from_itself(name: str) -> None:
    its = read_back(document(name), slots=2)
    why = explain(its, its)
    assert (why.difference_ms, why.task_difference_ms, why.is_normal, list(why.causes)) == (0, 0, True, [])
