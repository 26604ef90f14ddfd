"""Cost breakdown: wall and task time are divided completely, a join is charged with what it alone made necessary."""

from __future__ import annotations

import io
import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.documents import STARTED_AT_MS, planned
from tests.test_fuzz import CORPUS, RELAXED, executions
from tests.timing.test_critical_path import broadcasts, jobs, nested, stages

from joinsight.analysis.rows import Plans, execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.base.errors import DocumentError
from joinsight.cli.cost import print_breakdown
from joinsight.contract.decode import decode_document
from joinsight.contract.document import ENDED, MAX_LONG, Execution, Job, Stage
from joinsight.plan.metrics import PlanMetrics
from joinsight.present.cost import Labels
from joinsight.tables import BroadcastRow, JoinRow, ShuffleRow
from joinsight.terminal.console import text_console
from joinsight.terminal.execution import print_execution
from joinsight.timing.cost import CostBreakdown, JoinCost, cost_breakdown
from joinsight.timing.critical_path import Segment, critical_path
from joinsight.timing.task_time import METHODS, PARTS, Spent, divide

# Stage 1 writes the left shuffle, 2 the right one, 7 joins; all are on the path
MERGED = """
HashAggregate | (keys=[k#1]) | number of output rows=1
  SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5
    Sort | [k#1 ASC], false, 0 | sort time=20
      AQEShuffleRead | coalesced
        Exchange | hashpartitioning(k#1, 4), {left}, [plan_id=1] | fetch wait time=10
          Filter | (k#1 > 1)
    Sort | [k#2 ASC], {sorted}, 0 | sort time=30
      Exchange | hashpartitioning(k#2, 4), ENSURE_REQUIREMENTS, [plan_id=2]
        Filter | (k#2 > 2)
"""
SENT = """
BroadcastExchange | HashedRelationBroadcastMode(List(k#2)), [plan_id=2] | time to build=200, time to broadcast=50
  AQEShuffleRead | local
    Exchange | hashpartitioning(k#2, 4), ENSURE_REQUIREMENTS, [plan_id=3] | records read=5, fetch wait time=10
      Range
""".strip()


def below(text: str, levels: int = 1) -> str:
    """A drawing as the input of something."""
    return textwrap.indent(text, "  " * levels)


BROADCAST = f"""
Union
  BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight | number of output rows=5
    Filter | (k#1 > 1)
{below(SENT, 2)}
"""


def at(ms: int) -> int:
    return STARTED_AT_MS + ms


def ran(number: int, start: int, end: int, run_time_ms: int, **samples: int) -> Stage:
    """A stage that ran from start to end without a break."""
    return Stage(
        number,
        0,
        "s",
        4,
        "succeeded",
        run_time_ms=run_time_ms,
        samples={name.replace("__", " "): count for name, count in samples.items()},
        submitted_at_ms=at(start),
        first_launch_at_ms=at(start),
        last_finish_at_ms=at(end),
        completed_at_ms=at(end),
    )


def ended(drawing: str, *its_stages: Stage, **changes: Any) -> Execution:
    """An execution whose stages ran one after another, and which took a second with the driver."""
    end = max(stage.completed_at_ms or 0 for stage in its_stages)
    its_jobs = [
        Job(i, s.submitted_at_ms or 0, [s.id], "succeeded", s.completed_at_ms) for i, s in enumerate(its_stages)
    ]
    standard = {"stages": list(its_stages), "jobs": its_jobs, "ended_at_ms": max(end, at(1_000))}
    return planned(drawing, **{**standard, **changes})


def made(drawing: str, *its_stages: Stage) -> tuple[StoredPlan, CostBreakdown]:
    """The cost breakdown of such an execution."""
    return check(ended(drawing, *its_stages))


def check(execution: Execution) -> tuple[StoredPlan, CostBreakdown]:
    """The breakdown of a stored execution, which adds up, and which the rows of its operators agree with."""
    rows = execution_rows(execution)
    stored = stored_plan(rows)
    found = stored.breakdown
    e = stored.execution
    so_far = max(0, (execution.reported_at_ms or 0) - execution.started_at_ms) if e["state"] == "running" else 0
    assert sum(item.wall_ms for item in found.items) == ((e["state"] in ENDED and e["duration_ms"]) or so_far)
    assert sum(item.task_time_ms for item in found.items) == sum(row["task_time_ms"] for row in stored.task_times)
    assert min(sum(item.task_time_ms for item in found.items), MAX_LONG) == (e["task_time_ms"] or 0)
    assert len({(item.kind, item.name, item.node_id, item.stage_id) for item in found.items}) == len(found.items)
    labels = Labels(stored)
    for item in found.items:
        assert item.wall_ms >= 0 and item.task_time_ms >= 0 and labels.item(item)
    if rows.cost:
        assert sum(row.wall_ms or 0 for row in rows.cost) == sum(item.wall_ms for item in found.items)
        if all((row.task_ms or 0) < MAX_LONG for row in rows.cost):
            assert sum(row.task_ms or 0 for row in rows.cost) == sum(item.task_time_ms for item in found.items)
    assert rows.cost or rows.execution.is_outer or not any(item.wall_ms or item.task_time_ms for item in found.items)
    assert [row.wall_ms is None for row in rows.cost] == [not stored.segments for _ in rows.cost]
    charged = found.charged()
    of_operators: list[ShuffleRow | BroadcastRow | JoinRow] = [*rows.shuffle, *rows.broadcast, *rows.joins]
    for row in of_operators:
        its = charged.get(row.node_id)
        wall_ms = its.wall_ms if its and stored.segments else None
        task_ms = its.task_time_ms if its else None
        assert (row.cost_wall_ms, row.cost_task_ms) == (wall_ms, None if task_ms is None else min(task_ms, MAX_LONG))
    for join in rows.joins:
        assert join.cost_is_partial == cast("JoinCost", charged[join.node_id]).is_partial
    return stored, found


def lines(stored: StoredPlan, found: CostBreakdown) -> list[tuple[str, int, int]]:
    """Label, wall time and task time of each item."""
    labels = Labels(stored)
    return [(labels.item(item), item.wall_ms, item.task_time_ms) for item in found.items]


def sampled(drawing: str) -> tuple[StoredPlan, CostBreakdown]:
    return made(drawing, ran(7, 200, 900, 1_000, operator__SortMergeJoin=30, operator__Filter=20, other=50))


def test_an_operator_has_its_share_of_the_wait() -> None:
    """The stage's 700 ms, by what its tasks were at: 30 %, and 50 % of no operator; the rest is the driver's."""
    stored, found = sampled(MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false"))
    assert lines(stored, found) == [
        ("no operator: starting up, compiling code", 350, 500),
        ("SortMergeJoin [k], [k], Inner", 210, 300),
        ("planning: the driver, before anything ran", 200, 0),
        ("stage 7: HashAggregate, SortMergeJoin, 2 Sort", 140, 200),  # one of two filters
        ("returning results: the driver, after the last job", 100, 0),
    ]
    assert [item.task_time_error_ms is not None for item in found.items] == [True, True, False, True, False]


def test_without_samples_the_rest_of_a_stage_is_one_line() -> None:
    """What Spark measures belongs to the operator; the rest of the stage is one line, which the join is in."""
    stored, found = made(MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false"), ran(7, 200, 900, 1_000))
    assert lines(stored, found) == [
        ("stage 7: HashAggregate, SortMergeJoin, 2 Sort", 658, 940),
        ("planning: the driver, before anything ran", 200, 0),
        ("returning results: the driver, after the last job", 100, 0),
        ("Sort [k ASC], false, 0", 21, 30),
        ("Sort [k ASC], false, 0", 14, 20),
        ("Exchange hashpartitioning(k, 4)", 7, 10),
    ]
    (join,) = found.joins
    assert (join.wall_ms, join.task_time_ms) == (42, 60)
    assert [item.stage_id for item in join.shared] == [7]


@pytest.mark.parametrize(
    ("left", "is_sorted", "needed", "others"),
    [
        ("ENSURE_REQUIREMENTS", "false", [2, 6, 4, 7], []),
        ("REPARTITION_BY_COL", "false", [2, 6, 7], [4]),  # the query asked for it
        ("ENSURE_REQUIREMENTS", "true", [2, 4], []),  # the query's own order, with its shuffle
    ],
)
def test_a_join_costs_its_sorts_and_shuffles(left: str, is_sorted: str, needed: list[int], others: list[int]) -> None:
    """Its sorts, and the shuffles that Spark added below them."""
    _, found = sampled(MERGED.format(left=left, sorted=is_sorted))
    (join,) = found.joins
    assert (join.node_id, list(join.needed), list(join.not_its_own)) == (1, needed, others)


AGAIN = f"ReusedExchange\n{below(SENT)}"


@pytest.mark.parametrize(
    ("other", "needed", "others"),
    [
        ("Range", [3, 5], []),
        (f"BroadcastHashJoin | [k#9], [k#2], Inner, BuildRight\n  Range\n{below(AGAIN)}", [], [3]),
        (f"Filter | (p#1)\n  SubqueryBroadcast | p\n    AdaptiveSparkPlan\n{below(AGAIN, 3)}", [3, 5], []),  # pruning
    ],
)
def test_a_broadcast_belongs_to_the_join_that_reads_it_alone(other: str, needed: list[int], others: list[int]) -> None:
    """It is the join's, with the shuffle that AQE broadcasts; if two joins read it, it belongs to neither."""
    _, found = made(BROADCAST + below(other), ran(7, 200, 900, 1_000))
    join = next(join for join in found.joins if join.node_id == 1)
    assert (list(join.needed), list(join.not_its_own)) == (needed, others)


MADE = f"BroadcastQueryStage | 0\n{below(SENT)}"


def test_pruning_may_come_first() -> None:
    """Then Spark's graph has the broadcast below what reuses it."""
    scan = f"Scan | [p#1]\n  SubqueryBroadcast | p\n    AdaptiveSparkPlan\n{below(AGAIN, 3)}"
    joined = f"BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight\n{below(scan)}\n{below(MADE)}"
    _, found = made(joined, ran(7, 200, 900, 1_000))
    (join,) = found.joins
    assert (list(join.needed), list(join.not_its_own)) == ([5, 7], [])


@pytest.mark.parametrize("is_left_first", [True, False])
def test_both_sides_may_read_one_shuffle(is_left_first: bool) -> None:
    """A join with itself is the only reader of a shuffle that both sides use."""
    shuffle = "Exchange | hashpartitioning(k#1, 4), ENSURE_REQUIREMENTS, [plan_id=1] | fetch wait time=1\n  Range"
    stages = (f"{node}\n{below(shuffle)}" for node in ("ShuffleQueryStage | 0", "ReusedExchange"))
    sides = [f"Sort | [k#1 ASC], false, 0\n{below(each)}" for each in stages]
    drawing = "\n".join(["SortMergeJoin | [k#1], [k#1], Inner", *map(below, sides if is_left_first else sides[::-1])])
    stored, found = made(drawing, ran(7, 0, 900, 1_000))
    (join,) = found.joins
    assert [Labels(stored).name(i) for i in join.needed] == ["Sort", "Sort", "Exchange"]
    assert not join.not_its_own


@pytest.mark.parametrize(("join", "needed"), [("SortMergeJoin(skew=true)", [2, 5]), ("ShuffledHashJoin", [5])])
def test_operators_between_a_join_and_its_shuffle_are_the_joins(join: str, needed: list[int]) -> None:
    """AQE may put filters and projections above a shuffle that a join needs; a hashed side need not be sorted."""
    drawing = f"""
    {join} | [k#1], [k#2], Inner
      Range
      Sort | [k#2 ASC], false, 0
        Project | [k#2]
          Filter | (k#2 > 1)
            Exchange | hashpartitioning(k#2, 4), ENSURE_REQUIREMENTS, [plan_id=2]
              HashAggregate | (keys=[k#2, v#3])
                Exchange | hashpartitioning(k#2, v#3, 9), ENSURE_REQUIREMENTS, [plan_id=1]
    """
    _, found = made(drawing, ran(7, 0, 900, 1_000))
    assert list(found.joins[0].needed) == needed


CODE = """
Exchange | hashpartitioning(k#1, 4), ENSURE_REQUIREMENTS, [plan_id=1] | shuffle bytes written=5
  WholeStageCodegen (1) | | duration=1
    Project | [(k#1 + 1) AS k#1]
      Filter | (k#1 > {value})
        Range
"""


@pytest.mark.parametrize(
    ("drawing", "label"),
    [
        (CODE, "stage 7: Project, Filter, Range"),
        (CODE.replace("shuffle bytes", "no bytes"), "stage 7: Project, Filter, Range"),  # by the codegen stage
        (CODE.replace("duration=1", ""), "stage 7: Project, Filter, Range"),  # by what the shuffle wrote
        (CODE.replace("shuffle bytes", "no bytes").replace("duration=1", ""), "stage 7: operators unknown"),
        (CODE.format(value="Subquery scalar-subquery#1") + "        Subquery | scalar-subquery#1\n          Limit", ""),
    ],
)
def test_a_stage_has_the_operators_between_two_shuffles(drawing: str, label: str) -> None:
    """Those between two shuffles that measured something in it; a subquery runs in stages of its own."""
    stored, found = made(drawing, ran(7, 0, 1_000, 100))
    assert lines(stored, found) == [(label or "stage 7: Project, Filter, Range", 1_000, 100)]


def test_a_line_has_few_names() -> None:
    """A stage may have run hundreds of operators."""
    chain = "\n".join(f"{'  ' * level}Step{level % 9}" for level in range(20))
    stored, found = made(f"{chain} | | number of output rows=5", ran(7, 0, 1_000, 100))
    steps = ", ".join(f"{3 if step < 2 else 2} Step{step}" for step in range(8))
    assert lines(stored, found) == [(f"stage 7: {steps}, 1 more", 1_000, 100)]


def test_a_line_of_several_operators_has_their_place() -> None:
    stage = ran(7, 0, 1_000, 100, **{"code 1 processNext": 3, "code 1 range_nextBatch_0": 1})
    stored, found = made(CODE, stage)
    assert lines(stored, found) == [("WholeStageCodegen (1): Project, Filter, Range", 750, 75), ("Range", 250, 25)]


def test_each_attempt_is_divided_by_its_own_tasks() -> None:
    """The wait for each attempt is divided by what its own tasks were at, from the first to the last of them."""
    first = replace(ran(7, 0, 600, 100, other=1), tail_at_ms=at(400))
    again = replace(ran(7, 600, 1_000, 300, shuffle_write=1), attempt=1)
    stored, found = made(CODE, first, again)
    assert lines(stored, found) == [
        ("no operator: starting up, compiling code", 600, 100),
        ("Exchange hashpartitioning(k, 4)", 400, 300),
    ]


def test_a_task_time_of_nothing() -> None:
    """Where no task time tells how to divide a wait, it is the stage's."""
    plan = PlanMetrics(Plans(planned("Range")).graph, {})
    nothing = Spent(7, 0, "code", 0, 0, 0, 0, "sampled")
    items = cost_breakdown(plan, [Segment("running", 0, 10, 7, 0)], [nothing]).items
    assert [(item.kind, item.wall_ms) for item in items] == [("shared", 10), ("operator", 0)]


def test_a_broadcast_is_the_drivers_work_and_its_rows() -> None:
    """The time to build and send it, and that of tasks that encode its rows."""
    shuffled = ran(7, 100, 500, 1_000, collect=10, shuffle_read=30)
    joined = ran(8, 800, 1_000, 100, operator__BroadcastHashJoin=1)
    stored, found = made(BROADCAST, shuffled, joined)
    assert lines(stored, found) == [
        ("BroadcastExchange", 100 + 250, 250),
        ("Exchange hashpartitioning(k, 4)", 300, 750),
        ("stage 8: operators unknown", 200, 100),  # nothing tells that it is the join's
        ("planning: the driver, before anything ran", 100, 0),
        ("driver: the driver, between stages", 50, 0),
    ]
    (join,) = found.joins
    assert (join.wall_ms, join.task_time_ms) == (650, 1_000)


def test_a_join_that_no_sample_saw_costs_at_least_its_broadcast_and_an_unknown_task_time() -> None:
    """It may have taken time between two samples: what is known is neither all nor 0."""
    drawing = """
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight
      Filter | (k#1 > 1)
      BroadcastExchange | HashedRelationBroadcastMode(List(k#2)) | time to build=200, time to broadcast=50
        Range | (0, 9) | number of output rows=9
    """
    e = ended(drawing, ran(7, 100, 500, 1_000, other=10), ran(8, 800, 1_000, 100, other=1))
    stored, found = check(e)
    (join,) = found.joins
    assert (join.is_seen, join.is_partial, join.shared) == (False, True, ())
    assert (join.wall_ms, join.task_time_ms) == (250, None)
    text = io.StringIO()
    print_breakdown(text_console(text), stored)
    assert re.search(r"at least 250 ms .*\bBroadcastHashJoin", text.getvalue())
    assert "the join itself: not measured" in text.getvalue()


def test_the_time_of_python_workers_is_their_operators() -> None:
    """Where stages are not sampled, at most what is left of the stage by what Spark measured of other operators."""
    drawing = """
    HashAggregate | (keys=[r#3]) | time in aggregation build=39000
      BatchEvalPython | [f(id#1)], [pythonUDF0#2] | time to run Python workers=30000+{more}, number of output rows=9
        Scan parquet db.sales | [id#1] | scan time=2000+3000
    """
    for more, ms in (("2000", 32_000), ("9000", 35_000)):
        stored, found = made(drawing.format(more=more), ran(7, 100, 500, 40_000))
        assert found.operators()[1].task_time_ms == ms
        text = io.StringIO()
        print_execution(text_console(text), stored)
        assert re.search(rf"BatchEvalPython .* 9 +{ms / 1000} s", text.getvalue())
        assert not re.search(r"HashAggregate.*39", text.getvalue()), "its time includes that of Python"


@pytest.mark.parametrize("other", ["BatchEvalPython | [g(id#1)]", "Generate | explode(b#2)", "Window | [sum(k#1)]"])
def test_python_workers_beside_other_work_are_not_told_apart(other: str) -> None:
    """They also wait for rows of the operators below, and for those above to take their own."""
    below = f"""
    BatchEvalPython | [f(id#1)], [pythonUDF0#2] | time to run Python workers=30000
      {other}
        Range | (0, 9) | number of output rows=9
    """
    above = f"""
    {other}
      BatchEvalPython | [f(id#1)], [pythonUDF0#2] | time to run Python workers=30000
        Range | (0, 9) | number of output rows=9
    """
    for drawing in (below, above):
        stored, found = made(drawing, ran(7, 100, 500, 40_000))
        assert not found.operators()
        text = io.StringIO()
        print_breakdown(text_console(text), stored)
        assert "Python workers ran for 30.0 s (node" in text.getvalue()


def test_samples_of_python_workers_are_of_operators_that_run_python() -> None:
    """One of two, where it is not known of which; the only one, even if no metric names an operator of the stage."""
    drawing = """
    HashAggregate | (keys=[r#3]) | number of output rows=9
      BatchEvalPython | [f(g(id#1))] | number of output rows=9
        BatchEvalPython | [g(id#1)] | number of output rows=9
          Range | (0, 9) | number of output rows=9
    """
    samples = {"python": 3, "other": 1}
    _, found = made(drawing, ran(7, 100, 500, 40_000, **samples))
    assert [(item.kind, item.name, item.operators) for item in found.items if item.task_time_ms == 30_000] == [
        ("shared", "python", (1, 2))
    ]
    unknown = "HashAggregate | (keys=[r#3])\n  BatchEvalPython | [f(id#1)]\n    Range | (0, 9)"
    _, found = made(unknown, ran(7, 100, 500, 40_000, **samples))
    assert found.operators()[1].task_time_ms == 30_000
    _, found = made("HashAggregate | (keys=[r#3])\n  Scan ExistingRDD | [id#1]", ran(7, 100, 500, 40_000, **samples))
    assert ("activity", "python", 30_000) in [(item.kind, item.name, item.task_time_ms) for item in found.items]


def test_joins_of_which_nothing_is_known_come_last() -> None:
    """Their cost is unknown, not 0; the others are in order of their cost, wherever they stand in the plan."""
    drawing = """
    BroadcastNestedLoopJoin | BuildRight, Inner
      SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5
        ShuffledHashJoin | [k#1], [k#3], Inner, BuildRight | number of output rows=6
          Range
          Range
        Range
      Range
    """
    samples = {"operator__SortMergeJoin": 20, "operator__ShuffledHashJoin": 30, "other": 50}
    _, found = made(drawing, ran(7, 200, 900, 1_000, **samples))
    assert [(join.wall_ms, join.task_time_ms) for join in found.joins] == [(210, 300), (140, 200), (None, None)]


def test_what_runs_has_task_time_only() -> None:
    stage = ran(7, 200, 900, 1_000, other=1)
    stored, found = check(planned(BROADCAST, stages=[stage], state="running"))
    assert lines(stored, found) == [("no operator: starting up, compiling code", 0, 1_000)]


def test_rounded_shares_add_up() -> None:
    """Shares are rounded so that they add up; equal ones differ by one at most."""
    assert divide(100, {"a": 1, "b": 1, "c": 1}) == {"a": 34, "b": 33, "c": 33}
    assert divide(1, {"a": 1, "b": 2}) == {"a": 0, "b": 1}
    assert divide(0, {"a": 0, "b": 2}) == {"a": 0, "b": 0}


@given(st.integers(0, 2**63), st.lists(st.integers(0, 2**63), min_size=1).filter(any))
def test_any_numbers_are_divided(whole: int, weights: list[int]) -> None:
    """They add up, and none is off by one or more."""
    parts = divide(whole, dict(enumerate(weights)))
    assert sum(parts.values()) == whole
    for i, weight in enumerate(weights):
        assert abs(parts[i] * sum(weights) - whole * weight) < sum(weights)


spent = st.builds(
    Spent,
    st.integers(0, 6),
    st.integers(0, 2),
    st.sampled_from(PARTS),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(0, 9),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
    st.sampled_from(METHODS),
)


@given(
    st.lists(jobs, max_size=6), st.lists(stages, max_size=10), st.lists(nested, max_size=3),
    st.lists(broadcasts, max_size=3), st.lists(spent, max_size=12), st.sampled_from([MERGED, BROADCAST, "Range"]),
)  # fmt: skip
def test_any_path_and_any_task_time_add_up(
    its_jobs: list[Job], its_stages: list[Stage], its_nested: Any, its_broadcasts: Any, its_spent: Any, drawing: str
) -> None:
    """Both sums stay, whatever stages and nodes the parts name."""
    e = planned(drawing, jobs=its_jobs, stages=its_stages, nested=its_nested)
    path = critical_path(e, its_broadcasts)
    plan = PlanMetrics(Plans(e).graph, {a.id: a for a in e.accumulators})
    items = cost_breakdown(plan, path.segments, its_spent).items
    assert sum(item.wall_ms for item in items) == 1_000
    assert sum(item.task_time_ms for item in items) == sum(each.task_time_ms for each in its_spent)


@RELAXED
@given(executions())
def test_costs_of_any_document_add_up(document: dict[str, Any]) -> None:
    """Sums and labels of all documents."""
    try:
        e = decode_document(json.dumps(document).encode())
    except DocumentError:
        return
    assert isinstance(e, Execution)
    check(e)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_costs_of_the_corpus_add_up(file: Any) -> None:
    """What Spark and others sent adds up, too."""
    documents: Sequence[Any] = [decode_document(line) for line in file.read_bytes().splitlines()]
    for document in documents:
        if isinstance(document, Execution):
            check(document)
