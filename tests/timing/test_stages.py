"""Which operators ran in which stages, where plans have subqueries, or shuffles that several read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from tests.documents import planned

from joinsight.analysis.rows import Plans
from joinsight.plan.metrics import PlanMetrics
from joinsight.timing.stages import Stages

SUBQUERY = """
Filter | (k#1 > Subquery subquery#3) | number of output rows=5
  Subquery | Subquery subquery#3
    HashAggregate | (keys=[], functions=[max(k#2)]) | number of output rows=1
      Exchange | SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1] | shuffle records written=3, records read=4
        Range
  LocalTableScan
"""
REUSED = """
Union
  BroadcastExchange
    AQEShuffleRead
      Exchange | hashpartitioning(k#2, 4), REPARTITION_BY_COL, [plan_id=1] | shuffle records written=3, records read=6
        Range
  ReusedExchange
    Exchange | hashpartitioning(k#2, 4), REPARTITION_BY_COL, [plan_id=1] | shuffle records written=3, records read=6
      Range
"""


def stages_of(drawing: str, stages: Mapping[int, Sequence[int]]) -> tuple[Stages, dict[str, int]]:
    """The stages of a plan, where accumulators of these sums were measured; the last node of each name."""
    e = planned(drawing)
    measured = [
        replace(a, stages=list(its), max_stage=max(its)) for a in e.accumulators for its in [stages[a.sum or 0]]
    ]
    plan = PlanMetrics(Plans(e).graph, {a.id: a for a in measured})
    return Stages(plan), {node.name: node.id for node in plan.graph.nodes}


def test_a_subquery_ran_in_stages_of_its_own() -> None:
    """Its last stage did not run the operators that use its result."""
    stages, of = stages_of(SUBQUERY, {5: [2], 1: [1], 3: [0], 4: [1]})
    assert {stage: set(nodes) for stage, nodes in stages.ran.items()} == {
        0: {of["Range"], of["Exchange"]},
        1: {of["HashAggregate"]},
        2: {of["Filter"], of["LocalTableScan"]},
    }


def test_a_broadcast_was_made_in_a_stage_that_read_what_is_below() -> None:
    """Where nothing else was measured, these are all readers of a shuffle that several read."""
    stages, of = stages_of(REUSED, {3: [0], 6: [1, 2]})
    assert stages.making(of["BroadcastExchange"]) == {1, 2}
    assert stages.of_nodes[of["Exchange"]] == [0, 1, 2]
