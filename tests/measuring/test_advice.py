"""What `try_advice` tries first, and why it refuses a variant whose run was stopped."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.verdict.test_verdict import document

from joinsight.analysis.stored import stored_plan
from joinsight.contract.document import StageTotals
from joinsight.measuring.advice import Stopped, _calm_ms, _Candidate, _Trials
from joinsight.measuring.measurement import measured_execution
from joinsight.measuring.proposals import TASKS, Number, Proposal, proposals
from joinsight.verdict.mechanisms import causes
from joinsight.verdict.view import View


@pytest.mark.parametrize(
    ("left_s", "reason"),
    [
        (1000.0, "Stopped after 30 s: slower than the query as it is."),
        (-1.0, "The budget of 60 s is too small to decide."),
    ],
)
def test_a_run_that_was_stopped(left_s: float, reason: str) -> None:
    """By the end of the budget, or because it took three times as long as the query: only that is slower."""
    trials: Any = object.__new__(_Trials)
    trials._deadline, trials._longest_s, trials._budget_s, trials._refused = time.monotonic() + left_s, 30.0, 60, []
    with trials._refusing(Proposal("variant", "code", TASKS), True):
        raise Stopped("stopped")
    [decided] = trials._refused
    assert decided.reason == reason


def test_what_takes_most_of_the_time_is_tried_first() -> None:
    """Tasks that are too small took 95 of 127 s; AQE, which is off, would help the whole query."""
    found = [each.variant for each in proposals(measured_execution(document("tiny-stages")))]
    assert found == ["2 shuffle partitions", "adaptive query execution"]


@pytest.mark.parametrize(
    ("name", "tried", "described"),
    [
        ("bucketed", ["without buckets"], []),
        ("sort1", ["without repartition(1)"], []),
        ("repartitioned", ["without repartition(10)"], []),
        ("json", ["input splits of 49.9 MiB"], []),
        ("gz", [], ["one task read a file that cannot be split"]),
        ("window", [], ["the window over shop: one of 2 tasks ran for 12.9 s"]),
        ("gc", [], ["garbage collection took 31 %"]),
        ("small-files", [], ["the scan of in read 800 files"]),
        ("files", [], ["it wrote 1,200 files", "1,200 tasks ran for 46 ms each"]),
        ("one-key", ["broadcast the left side", "AQE splits skewed partitions"], ["the join on k made 36.2 M rows"]),
        ("udf", [], ["Python code (BatchEvalPython)"]),
        ("evicted-cache", [], ["filling big39 took 8.3 s"]),
        ("sleeping-row", [], ["one of 6 tasks ran for 9.6 s"]),
        ("tiny", [], ["3,000 tasks ran for 8 ms each"]),
    ],
)
def test_each_large_cause_has_a_variant_or_why_there_is_none(name: str, tried: list[str], described: list[str]) -> None:
    execution = measured_execution(document(name))
    found = proposals(execution)
    of_both: list[list[str]] = [[], []]
    for each in found:
        of_both[each.number is None].append(each.variant)
        assert (each.number is None) == each.described.startswith("Not tried")
    for texts, expected in zip(of_both, (tried, described), strict=True):
        assert len(texts) == len(expected)
        assert all(any(each in text for text in texts) for each in expected), texts
    view = View(stored_plan(execution.rows))
    nodes = {node for each in found for node in each.nodes}
    large = [each for each in causes(view) if each.wall_ms >= 0.1 * view.wall_ms and not each.only_says_where]
    assert all(nodes.intersection(each.nodes) for each in large)


def test_the_time_without_waiting_for_processors() -> None:
    """Tasks worked a quarter of the time; with Python, what they waited for may have been its work."""
    totals = StageTotals(run_time_ms=8000, cpu_time_ns=1_500_000_000, gc_time_ms=400, shuffle_fetch_wait_ms=100)
    stages = [SimpleNamespace(totals=totals), SimpleNamespace(totals=None)]
    row = SimpleNamespace(execution_id=1, root_execution_id=1, duration_ms=5000)
    for name, expected in (("SortMergeJoin", 1250), ("BatchEvalPython", 5000)):
        rows = SimpleNamespace(execution=row, plan_node=[SimpleNamespace(name=name)], stage=stages)
        run: Any = SimpleNamespace(executions=[SimpleNamespace(rows=rows)])
        assert _calm_ms(run) == expected


class _FakeTrials(_Trials):
    """Runs take these milliseconds, by name, in turns."""

    def __init__(self, **walls: list[int]) -> None:
        self.walls = {"baseline": [1000], **walls}
        self.ran: list[str] = []
        self._context = self._java_session = self._plan = None
        self._deadline, self._budget_s, self._operator_key = time.monotonic() + 3600, 3600, None
        self._accepted, self._refused, self._baseline, self._runs = [], [], [], 0

    def _frame(self, settings: Any, proposal: Any) -> Any:
        return "baseline"

    def _limited(self, run: Any) -> Any:
        return None

    def _timed(self, frame: Any) -> Any:
        its = self.walls[frame]
        number = self.ran.count(frame)
        self.ran.append(frame)
        row = SimpleNamespace(execution_id=1, root_execution_id=1, duration_ms=its[number % len(its)])
        return SimpleNamespace(
            executions=[SimpleNamespace(rows=SimpleNamespace(execution=row, plan_node=[], stage=[]))]
        )

    def _proposals(self, execution: Any) -> list[Proposal]:
        number = Number("tasks", lambda run: float(run.executions[0].rows.execution.duration_ms or 0), str)
        return [Proposal(each, "code", number) for each in self.walls if each != "baseline"]

    def _candidate(self, proposal: Proposal, baseline: Any, expected: Any) -> _Candidate | None:
        return _Candidate(proposal, proposal.variant)


def test_variants_that_save_little_do_not_take_the_time_of_the_next_ones() -> None:
    """Each gets three pairs; then those continue that the pairs speak for most."""
    trials = _FakeTrials(little=[980, 900], more=[950, 620], much=[200])
    trials._run()
    order = [each for each in trials.ran if each != "baseline"]
    assert order[:8] == ["little"] * 3 + ["more"] * 3 + ["much"] * 2, "much is certain after two pairs"
    assert order[8] == "more", "there is more evidence for it than for little"
    assert trials._accepted[0].proposal.variant == "much"
    assert len(trials._accepted) + len(trials._refused) == 3


def test_the_first_run_in_a_new_jvm_says_nothing_of_scatter() -> None:
    """It makes the proposals, and takes three times as long."""
    trials = _FakeTrials(baseline=[3000, 1000, 1010, 990, 1005, 995], half=[490, 510])
    trials._run()
    assert trials.ran.count("half") == 2 and [each.proposal.variant for each in trials._accepted] == ["half"]
