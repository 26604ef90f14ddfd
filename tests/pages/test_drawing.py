"""The drawing of a plan: every node once, reused exchanges, rows on edges, time, skew and findings."""

from __future__ import annotations

import pytest
from tests.documents import planned, replanned
from tests.findings.recorded import SMALL, recordings
from tests.pages.plans import large
from tests.pages.stored import stored

from joinsight.document import Execution
from joinsight.findings.finding import WHOLE_EXECUTION
from joinsight.pages.boxes import Box
from joinsight.pages.drawing import Drawing, draw, short_number


def drawing_of(execution: Execution, version: int | None = None) -> Drawing:
    """Of one of its plans."""
    plan, _ = stored(execution, SMALL)
    shown = plan.version(version)
    assert shown is not None
    return draw(plan, shown)


def box(drawing: Drawing, name: str) -> Box:
    """The first one of this name."""
    return next(box for box in drawing.boxes if box.name == name)


@pytest.mark.parametrize("name", recordings())
def test_every_node_is_drawn_once(name: str) -> None:
    """In each plan that an execution had; codegen clusters lie behind their operators."""
    plan, _ = stored(recordings()[name])
    for version in plan.versions:
        drawing = draw(plan, version)
        operators = [node["id"] for node in version["nodes"] if not node["is_cluster"]]
        assert sorted(box.node.id for box in drawing.boxes if not box.reuses) == operators
        assert len(drawing.edges) == len(version["edges"])
        assert {b.id for b in drawing.boxes if not b.reuses} == {f"n{i}" for i in operators}
        clustered = {node["id"] for node in version["nodes"] if node["cluster"] is not None}
        assert {b.node.id for stage in drawing.stages for b in stage.boxes} == clustered


def test_a_reused_exchange_is_drawn_once_and_named_where_it_is_used_again() -> None:
    """The second consumer of an exchange has a small box that links to it, with the rows that it reads."""
    drawing = drawing_of(
        planned("""
            SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5
              Sort | [k#1]
                Exchange | hashpartitioning(k#1, 8), [plan_id=3] | shuffle records written=70
                  Scan parquet db.sales
              Sort | [k#2]
                ReusedExchange | [k#2], [plan_id=9]
                  Exchange | hashpartitioning(k#1, 8), [plan_id=3] | shuffle records written=70
                    Scan parquet db.sales
        """)
    )
    [reuse] = [box for box in drawing.boxes if box.reuses]
    original = box(drawing, "Exchange")
    assert (reuse.node.id, reuse.id) == (original.node.id, "u1")
    assert [edge.label for edge in drawing.edges].count("70 rows") == 4  # both exchanges, and the sorts above them


def test_rows_go_up_through_operators_that_do_not_count_them() -> None:
    """Project, sort and union pass rows on; operators that may change their number show none; more rows, wider edge."""
    drawing = drawing_of(
        planned("""
            CollectLimit | 3
              Project | [a#1]
                Union
                  Project | [a#1]
                    Scan parquet db.a | [a#1] | number of output rows=1500000
                  Generate | explode(b#2)
                    Range | (0, 3) | number of output rows=3
        """)
    )
    assert [edge.label for edge in drawing.edges] == ["", "", "1.5M rows", "", "1.5M rows", "3 rows"]
    widths = [edge.width for edge in drawing.edges]
    assert widths[2] == max(widths) > widths[5] >= widths[0] == min(widths)


def test_time_skew_and_findings_are_at_their_nodes() -> None:
    """The shares of time add up to 1, and the skewed shuffle has its finding in the final version only."""
    skewed = drawing_of(recordings()["skewed"])
    assert sum(box.node.time_share for box in skewed.boxes) == pytest.approx(1)
    assert [b.node.id for b in skewed.expensive][:2] == [6, 15]
    [marked] = [box for box in skewed.boxes if box.node.findings]
    assert (marked.name, marked.node.severity, marked.node.is_skewed, marked.node.skew) == (
        "Exchange",
        "warning",
        True,
        "7.8×",
    )
    assert marked.text == "by customer_id · 16 partitions"
    assert "tasks read 17,630 rows in the median and 137,450 at most" in marked.title
    assert not any(box.node.findings for box in drawing_of(recordings()["skewed"], 0).boxes)


def test_a_finding_about_the_whole_execution_is_at_no_box() -> None:
    """A finding about the whole execution is at no box, not even at a reused exchange, whose number is below 0, too."""
    plan, _ = stored(recordings()["skewed"], SMALL)
    plan.findings.append({**plan.findings[0], "node_id": WHOLE_EXECUTION})
    version = plan.versions[-1]
    version["edges"] = [*version["edges"], version["edges"][-1]]
    drawing = draw(plan, version)
    assert [box.id for box in drawing.boxes if box.reuses] == ["u1"]
    assert not any(box.node.findings for box in drawing.boxes if box.reuses)


def test_texts_are_short() -> None:
    """A join says type and keys, a broadcast what for, a scan its table; what is too long is cut."""
    drawing = drawing_of(
        planned("""
            BroadcastHashJoin | [store_id#1, day#3], [id#9, day#4], LeftOuter, BuildRight, false
              Scan parquet spark_catalog.default.sales | [store_id#1] Batched: true | scan time=5
              BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=3]
        """)
    )
    assert [(box.name, box.text) for box in drawing.boxes] == [
        ("BroadcastHashJoin", "LeftOuter on store_id = id, day"),
        ("Scan parquet", "default.sales [store_id] Batched: t…"),
        ("BroadcastExchange", "for a hash join"),
    ]


def test_plans_that_nobody_expects() -> None:
    """No node, a node without a name, a single one: each is drawn."""
    assert drawing_of(planned("")).boxes == []
    assert [box.name for box in drawing_of(planned("Scan")).boxes] == ["Scan"]
    assert [box.name for box in drawing_of(replanned("A\n  B", "C")).boxes] == ["C"]


def test_a_wide_plan_begins_on_the_left() -> None:
    """The root of a wide plan is on the left, where readers start."""
    drawing = drawing_of(large())
    assert len(drawing.boxes) == 1_500
    assert min(box.x for box in drawing.boxes) == drawing.boxes[0].x


def test_numbers_are_short_on_edges() -> None:
    """Numbers on edges have about three digits at most."""
    numbers = (0, 999, 1_000, 1_540, 24_700_000, 3_000_000_000, 7_100_000_000_000)
    assert [short_number(n) for n in numbers] == ["0", "999", "1k", "1.5k", "24.7M", "3G", "7.1T"]
