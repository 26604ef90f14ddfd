"""What an execution cost by kind of work: each line of the breakdown is of one kind."""

from __future__ import annotations

import pytest
from tests.documents import planned
from tests.timing.test_cost import BROADCAST, MERGED, ended, ran

from joinsight.analysis.rows import execution_rows
from joinsight.plan.graph import Node
from joinsight.timing.cost import CostBreakdown, Item
from joinsight.timing.cost_kinds import KINDS, WITH_TASKS, by_kind
from joinsight.timing.critical_path import CAUSES

NODES = {
    i: Node(i, name, "", [])
    for i, name in enumerate(
        [
            *("SortMergeJoin", "Exchange", "BroadcastExchange", "Scan parquet t", "InMemoryTableScan", "Sort"),
            *("HashAggregate", "BatchEvalPython", "MapInArrow", "Project", "CometSortMergeJoin", "AQEShuffleRead"),
        ]
    )
}


def kind(item: Item) -> str:
    """The kind of an item, alone in a breakdown."""
    [found] = by_kind(NODES, CostBreakdown([item], [], {}))
    assert found[1:] == (5, 7)
    return found.kind


def of(kind: str, name: str = "", node_id: int | None = None, operators: tuple[int, ...] = ()) -> Item:
    return Item(kind, name, node_id, None, operators, 5, 7, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        *(
            (of("operator", node_id=node_id), expected)
            for node_id, expected in enumerate(
                [
                    *("join", "shuffle", "broadcast", "scan", "scan", "sort", "aggregate"),
                    *("python", "python", "other", "join", "shuffle"),
                ]
            )
        ),
        (of("shared", operators=(3,)), "scan"),
        (of("shared", operators=(3, 4)), "scan"),
        (of("shared", operators=(3, 9)), "shared"),
        (of("shared"), "shared"),
        (of("activity", "file_write"), "write"),
        (of("activity", "cache_build"), "other"),
        (of("activity", "collect"), "other"),
        (of("activity", "other"), "other"),
        (of("rest", "waiting"), "waiting"),
        (of("rest", "broadcast"), "broadcast"),
        (of("rest", "commit"), "write"),
        (of("rest", "nested"), "nested"),
        *((of("rest", cause), "driver") for cause in ("prepare", "replan", "driver", "finish")),
        *((of("rest", cause), "other") for cause in ("running", "tail", "retry")),
    ],
)
def test_each_line_has_its_kind(item: Item, expected: str) -> None:
    """By its operator, activity or cause; several operators of one kind are of that kind."""
    assert kind(item) == expected
    assert expected in KINDS


def test_every_cause_has_a_case() -> None:
    """A new cause of a segment needs a decision on its kind."""
    assert {kind(of("rest", cause)) for cause in CAUSES} == {
        "waiting",
        "broadcast",
        "write",
        "nested",
        "driver",
        "other",
    }


def test_rows_of_an_execution_follow_the_order_of_kinds() -> None:
    """Its rows, in the order of `KINDS`; what tasks did not do has no time of tasks."""
    samples = {"operator__SortMergeJoin": 30, "operator__Filter": 20, "other": 50}
    rows = execution_rows(ended(MERGED, ran(7, 200, 900, 1_000, **samples)))
    assert [(row.kind, row.wall_ms, row.task_ms) for row in rows.cost] == [
        ("join", 210, 300),
        ("shared", 140, 200),
        ("other", 350, 500),
        ("driver", 300, None),
    ]
    assert {row.kind for row in rows.cost if row.task_ms} <= set(WITH_TASKS)


def test_a_running_execution_has_no_wall_time_yet() -> None:
    """Until it ends, what it waited for is unknown, not 0."""
    e = planned(BROADCAST, stages=[ran(7, 0, 900, 1_000, operator__Filter=20)], state="running", ended_at_ms=None)
    assert {row.wall_ms for row in execution_rows(e).cost} == {None}
