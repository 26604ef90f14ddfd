"""Cached tables: their scans are told apart by what fills them, and what was measured there says who filled them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.documents import planned, read_back
from tests.timing.test_cost import ran

from joinsight.analysis.rows import Plans, execution_rows
from joinsight.analysis.stored import stored_plan
from joinsight.contract.document import Execution, Job
from joinsight.pages.panel import panels_of
from joinsight.plan.caches import Cache, caches
from joinsight.plan.metrics import PlanMetrics
from joinsight.present.caches import line
from joinsight.present.tree import plan_tree
from joinsight.tables import CacheRow

FILTERED = """\
{scan}
  Filter | (id#1 > 2) | number of output rows={filled}
    Range | (0, 9) | number of output rows={filled}"""
JOINED = """
BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=9
{left}
{right}"""
SCAN = "InMemoryTableScan | [k#1] | number of output rows={rows}"


def scan(filled: str = "?", rows: str = "5", level: int = 0, name: str = "") -> str:
    """A cached table, with the plan that fills it."""
    text = SCAN.format(rows=rows) if not name else f"Scan In-memory table {name} | [k#1] | number of output rows={rows}"
    return "\n".join("  " * level + each for each in FILTERED.format(scan=text, filled=filled).splitlines())


def used(drawing: str) -> Sequence[Cache]:
    """The cached tables of a plan."""
    e = planned(drawing)
    return list(caches(PlanMetrics(Plans(e).graph, {each.id: each for each in e.accumulators})))


def test_a_cached_table_is_filled_where_its_plan_was_measured() -> None:
    """Else it was read only. It is called after what fills it, whatever reads it."""
    [read] = used(scan())
    [filled] = used(scan("3+4"))
    assert (read.cache_id, read.scans, read.filled_in) == (200, (0,), frozenset())
    assert filled == Cache(200, (0,), frozenset({7}))


def test_what_cannot_be_told_is_left_out() -> None:
    """A plan that measures nothing has no id; that of one which AQE may still replace changes."""
    assert used("InMemoryTableScan | [k#1] | number of output rows=5\n  LocalTableScan | [k#1]") == []
    adaptive = (
        "InMemoryTableScan | [k#1]\n  AdaptiveSparkPlan | isFinalPlan={}\n    Range | (0, 9) | number of output rows=5"
    )
    assert used(adaptive.format("false")) == []
    assert len(used(adaptive.format("true"))) == 1


@pytest.mark.parametrize(
    ("inner_filled", "inner_rows", "filled", "are_filled"),
    [("?", "?", "?", [False]), ("?", "5", "6", [True, False]), ("4", "?", "?", [False, True])],
)
def test_of_a_cached_table_in_another_the_inner_counts_if_it_is_used(
    inner_filled: str, inner_rows: str, filled: str, are_filled: list[bool]
) -> None:
    """That is, if the outer one is filled from it, or if it is filled itself, for something else."""
    inner = scan(inner_filled, rows=inner_rows, level=2)
    outer = f"InMemoryTableScan | [k#1] | number of output rows=9\n  Sort | [k#1] | spill size={filled}\n{inner}"
    assert [bool(each.filled_in) for each in used(outer)] == are_filled


CACHED_JOIN = """
SortMergeJoin | [k#1], [k#9], Inner | number of output rows=3
  InMemoryTableScan | [k#1] | number of output rows=5+6
    AdaptiveSparkPlan | isFinalPlan={final}
      BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows={measured}
        Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written={measured}, records read={measured}
          Range | (0, 9) | number of output rows={measured}
        BroadcastExchange | HashedRelationBroadcastMode(List(k#2),false), [plan_id=2] | data size={sent}
          Range | (0, 9) | number of output rows={measured}
  Exchange | hashpartitioning(k#9, 8), [plan_id=3] | shuffle bytes written=40
    Range | (0, 9) | number of output rows=9
"""


@pytest.mark.parametrize("state", ["succeeded", "failed"])
@pytest.mark.parametrize("measured", ["0+0", "?"])
def test_operators_that_filled_a_cached_table_in_another_execution_have_no_rows_here(state: str, measured: str) -> None:
    """They are neither joins of 0 rows, nor broadcasts that failed; nor do pages show their zeros."""
    e = replace(planned(CACHED_JOIN.format(final="true", measured=measured, sent="?")), state=state)
    rows = execution_rows(e)
    assert [(row.node_id, row.strategy) for row in rows.joins] == [(0, "SortMergeJoin")]
    assert [row.node_id for row in rows.shuffle] == [8]
    assert not rows.broadcast
    stored = stored_plan(rows)
    version = stored.versions[-1]
    tree = plan_tree(stored, version)
    assert {i: node.rows for i, node in tree.nodes.items() if node.rows is not None} == {0: 3, 1: 11, 9: 9}
    panels = list(panels_of(stored, version, version["nodes"], {}))
    assert [panel.id for panel in panels if panel.metrics or panel.zero] == [0, 1, 8, 9]


@pytest.mark.parametrize(("final", "measured", "sent"), [("true", "4", "?"), ("true", "?", "7"), ("false", "0", "?")])
def test_operators_that_fill_a_cached_table_here_have_rows(final: str, measured: str, sent: str) -> None:
    """Some of it was measured, or AQE has not finished its plan."""
    rows = execution_rows(planned(CACHED_JOIN.format(final=final, measured=measured, sent=sent)))
    assert [row.node_id for row in rows.joins] == [0, 3]
    assert [row.node_id for row in rows.shuffle] == [4, 8]
    assert [row.node_id for row in rows.broadcast] == [6]


def test_operators_below_two_cached_tables_ran_where_one_of_them_was_filled() -> None:
    """An exchange that both show is drawn once."""
    exchange = "Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written={}"
    drawing = """
    Union
      InMemoryTableScan | [k#1] | number of output rows=5
        Sort | [k#1] | sort time={}
          {}
      InMemoryTableScan | [k#1] | number of output rows=5
        Filter | (k#1 > 1)
          ReusedExchange
            {}
    """
    written = exchange.format("?")
    assert not execution_rows(planned(drawing.format("?", written, written))).shuffle
    assert execution_rows(planned(drawing.format("5", written, written))).shuffle


def ended(drawing: str) -> Execution:
    """An execution whose stage 7 ran for 700 of 1,000 ms, 900 ms in tasks."""
    stage = ran(7, 200, 900, 900)
    e = planned(
        drawing, stages=[stage], jobs=[Job(0, stage.submitted_at_ms or 0, [7], "succeeded", stage.completed_at_ms)]
    )
    return replace(e, ended_at_ms=e.started_at_ms + 1_000)


def rows(drawing: str) -> Sequence[CacheRow]:
    """Their rows."""
    return execution_rows(ended(drawing)).cache


def test_filling_costs_what_its_stages_cost() -> None:
    """Wall time and task time of the stages in which something was filled; none where it was there."""
    [filled] = rows(scan("3+4", name="named"))
    assert (filled.node_id, filled.scans, filled.table_name, filled.rows_read) == (0, 1, "named", 5)
    assert (filled.fill_stages, filled.fill_wall_ms, filled.fill_task_ms) == ([7], 700, 900)
    [read] = rows(scan())
    assert (read.table_name, read.fill_stages, read.fill_wall_ms, read.fill_task_ms) == (None, None, None, None)


def test_its_use_is_a_sentence() -> None:
    """Who filled it, at what cost, and who else reads it."""
    [row] = read_back(ended(scan("3+4", name="named"))).caches
    cost = "filling took 700 ms, 900 ms of task time"
    assert line(row) == f"0: cached table named, filled here; {cost}; read by no other execution"
    assert line(row | {"reads": 2}).endswith("; read by 2 other executions")
    reader = row | {"execution_id": 99, "fill_stages": None, "filled_by": [5, 6], "table_name": None, "reads": 2}
    assert line(reader) == f"0: cached table, filled by #5, #6; {cost}; read by 1 other execution"
    assert line(reader | {"filled_by": []}) == "0: cached table, no stored execution is known to have filled it"
    many = line(reader | {"filled_by": list(range(9)), "execution_id": 3, "fill_stages": [7]})
    assert "filled here and by #0, #1, #2, #4, ...; " in many
