"""The drawing of a plan: every node once, reused exchanges, rows on edges, time, skew and findings."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.documents import execution, planned, replanned
from tests.findings.recorded import SMALL, recordings
from tests.pages.plans import HOSTILE, hostile, large
from tests.pages.stored import skewed, stored

from joinsight.base.errors import NotFound
from joinsight.contract.document import Execution
from joinsight.findings.finding import WHOLE_EXECUTION
from joinsight.pages import execution as page
from joinsight.pages.boxes import Box, short_number
from joinsight.pages.drawing import Drawing, draw
from joinsight.pages.execution import drawing_file
from joinsight.pages.plan_map import MAP_WIDTH, plan_map
from joinsight.pages.svg_file import file_name
from joinsight.pages.view import ViewOptions


def drawing_of(execution: Execution) -> Drawing:
    """The drawing of its final plan."""
    plan, _ = stored(execution, SMALL)
    shown = plan.version(None)
    assert shown is not None
    return draw(plan, shown)


def box(drawing: Drawing, name: str) -> Box:
    """The first one of this name."""
    return next(box for box in drawing.boxes if box.name == name)


@pytest.mark.parametrize("name", recordings())
def test_every_node_is_drawn_once(name: str) -> None:
    """In each plan that an execution had, without AQE's frames; codegen clusters lie behind their operators."""
    plan, _ = stored(recordings()[name])
    for version in plan.versions:
        drawing = draw(plan, version)
        frames = [node["id"] for node in version["nodes"] if node["name"] in ("AdaptiveSparkPlan", "AQEShuffleRead")]
        operators = [node["id"] for node in version["nodes"] if not node["is_cluster"] and node["id"] not in frames]
        assert sorted(box.node.id for box in drawing.boxes if not box.reuses) == operators
        assert len(drawing.edges) == len(version["edges"]) - len(frames)
        assert {b.id for b in drawing.boxes if not b.reuses} == {f"n{i}" for i in operators}
        clustered = {node["id"] for node in version["nodes"] if node["cluster"] is not None}
        codegen = [frame for frame in drawing.frames if not frame.is_stage]
        assert {b.node.id for frame in codegen for b in frame.boxes} == clustered


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
    """Shares are of the wall time, and the skewed shuffle has its finding in the final version only."""
    plan, _ = skewed()
    drawing = draw(plan, plan.versions[-1])
    shares = [box.node.share for box in drawing.boxes]
    assert shares == [box.node.wall_share for box in drawing.boxes] and 0 < sum(shares) < 1
    [marked] = [box for box in drawing.boxes if box.node.findings]
    assert (marked.name, marked.node.severity, marked.node.is_skewed, marked.node.skew) == (
        "Exchange",
        "warning",
        True,
        "7.8×",
    )
    assert (marked.text, marked.wall) == ("by customer_id", "2 % wall")
    assert "tasks read 17,630 rows in the median and 137,450 at most" in marked.title
    assert not any(box.node.findings for box in draw(plan, plan.versions[0]).boxes)


@pytest.mark.parametrize(("rows", "shown"), [(53_640_335, "53.6M rows · 544.2 MiB"), (4_500, "4,500 rows · 544.2 MiB")])
def test_rows_of_a_shuffle_leave_room_for_its_skew(rows: int, shown: str) -> None:
    """The skew is on the same line: many rows are then shown in short."""
    drawing = drawing_of(
        planned(f"""
            Range | (0, 9)
              Exchange | hashpartitioning(k#1, 2), [plan_id=1] | shuffle bytes written=570650000, \
shuffle records written={rows}, records read=30+40+120
            """)
    )
    assert box(drawing, "Exchange").figures == shown


def test_a_shuffle_that_only_some_tasks_of_its_stage_read_has_the_skew_of_these() -> None:
    """The tasks of the other branch count as 0 rows, so that the median would be one of theirs."""
    drawing = drawing_of(
        planned("""
            Union
              Exchange | hashpartitioning(k#1, 4), REPARTITION_BY_NUM | records read=30+40+40+120+0+0+0+0+0+0
              Range | (0, 9)
            """)
    )
    shown = box(drawing, "Exchange")
    assert (shown.node.skew, shown.spread) == ("3.0×", (40 / 120, 1.0))
    assert "tasks read 40 rows in the median and 120 at most" in shown.title


def test_a_finding_about_the_whole_execution_is_at_no_box() -> None:
    """A finding about the whole execution is at no box, not even at a reused exchange, whose number is below 0, too."""
    plan, _ = skewed()
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
        ("Scan parquet", "default.sales [store_id]"),
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
    assert drawing.operators == 1_363, "1,500 but 137 AQEShuffleReads"
    assert min(box.x for box in drawing.boxes) == drawing.boxes[0].x


def test_numbers_are_short_on_edges() -> None:
    numbers = (0, 999, 1_000, 1_540, 24_700_000, 3_000_000_000, 7_100_000_000_000)
    assert [short_number(n) for n in numbers] == ["0", "999", "1k", "1.5k", "24.7M", "3G", "7.1T"]


CHAIN = """
    Project | [a#1]
      Exchange | hashpartitioning(a#1, 8), [plan_id=3] | shuffle records written=5
        Project | [a#1]
          Filter | isnotnull(a#1) | number of output rows=5
            ColumnarToRow
              Scan parquet db.sales | [a#1] | number of output rows=70
"""


def folded(view: ViewOptions, drawing: str = CHAIN) -> list[str]:
    """The names of the boxes in a view."""
    plan, _ = stored(planned(drawing))
    return [box.name for box in draw(plan, plan.versions[-1], view).boxes]


def test_chains_are_one_line() -> None:
    """Two or more operators in a row that say little are one line; the edges keep the rows above and below it."""
    plan, _ = stored(planned(CHAIN))
    drawing = draw(plan, plan.versions[-1], ViewOptions())
    [chain] = [box for box in drawing.boxes if box.folded]
    assert (chain.id, chain.name, chain.figures) == ("n2", "Project · Filter · ColumnarToRow", "3")
    assert "Project (2)\nFilter (3)\nColumnarToRow (4)" in chain.title
    assert (drawing.folded, drawing.operators, len(drawing.boxes), len(drawing.edges)) == (3, 6, 4, 3)
    assert sorted(edge.label for edge in drawing.edges) == ["5 rows", "5 rows", "70 rows"]


@pytest.mark.parametrize(
    "view",
    [
        ViewOptions(opens_all=True),
        ViewOptions(opened=frozenset({2})),
        ViewOptions(node=3),
        ViewOptions(search="ISNOTNULL(a)"),
        ViewOptions(search="3"),
    ],
)
def test_chains_open_together_or_one_by_one(view: ViewOptions) -> None:
    """All chains open at once, one by its topmost operator, and those with an operator that is selected or found."""
    assert "Filter" in folded(view)


def test_what_costs_is_not_folded() -> None:
    """An operator with a share of the time, a finding or several inputs is never folded, nor is a chain of one."""
    assert folded(ViewOptions(), "Filter | a\n  Project | b\n    Scan") == ["Filter · Project", "Scan"]
    assert (
        folded(ViewOptions(), "Filter | a\n  Union\n    Project | b\n      Scan\n    Scan | 2").count(
            "Filter · Project"
        )
        == 0
    )
    plan, _ = stored(planned("Filter | a\n  Project | b\n    Scan"))
    plan.findings.append({"node_id": 1, "severity": "info", "finding": "x", "title": "x"})
    assert not any(box.folded for box in draw(plan, plan.versions[-1], ViewOptions()).boxes)


def test_a_chain_ends_with_its_codegen_stage() -> None:
    """Operators of two codegen stages are two chains, each in the background of its stage."""
    plan, _ = stored(
        planned("""
            WholeStageCodegen (2)
              Project | [a#1]
                Filter | isnotnull(a#1)
                  InputAdapter
                    WholeStageCodegen (1)
                      Project | [a#1]
                        Filter | isnotnull(a#1)
                          InputAdapter
                            Scan parquet db.sales
        """)
    )
    drawing = draw(plan, plan.versions[-1], ViewOptions())
    assert [box.name for box in drawing.boxes if box.folded] == ["Project · Filter"] * 2
    assert [len(frame.boxes) for frame in drawing.frames] == [1, 1]


@pytest.mark.parametrize("name", recordings())
def test_folding_loses_nothing(name: str) -> None:
    """Each operator of a real plan is in one box, and each box but the roots has an edge to its parent; a cached table
    that was there is one box, which opens.
    """
    plan, _ = stored(recordings()[name])
    for version in plan.versions:
        whole, drawing = draw(plan, version), draw(plan, version, ViewOptions())
        operators = [node.id for box in drawing.boxes if not box.reuses for node in box.folded or [box.node]]
        if name == "cache-read":
            [scan] = [box for box in drawing.boxes if box.holds]
            assert scan.text.startswith("cached") and set(operators) < {box.node.id for box in whole.boxes}
            opened = draw(plan, version, ViewOptions(opened=frozenset({scan.node.id})))
            assert drawing.operators == opened.operators == whole.operators
            continue
        assert sorted(operators) == sorted(box.node.id for box in whole.boxes if not box.reuses)
        assert len(drawing.boxes) - len(drawing.edges) == len(whole.boxes) - len(whole.edges)
        assert not any(box.node.findings for box in drawing.boxes if box.folded)


def test_a_search_marks_operators() -> None:
    """A search finds operators by name, text or number, whatever the case."""
    plan, _ = stored(planned(CHAIN))
    for text, ids in (("proj", [0, 2]), ("DB.Sales", [5]), ("1", [1]), ("hash", [1]), ("nothing", [])):
        drawing = draw(plan, plan.versions[-1], ViewOptions(search=text))
        assert sorted(box.node.id for box in drawing.matches) == ids, text


def test_only_large_plans_have_a_map() -> None:
    """A map covers the whole drawing, links to a box in each region, and stays small however large the plan is."""
    assert plan_map(drawing_of(recordings()["skewed"])) is None
    drawing = drawing_of(large(2_000))
    shown = plan_map(drawing)
    assert shown is not None
    assert {"join", "shuffle", "broadcast", ""} <= set(shown.dots)
    assert sum(map(len, shown.dots.values())) < 200_000 and len(shown.regions) <= 200
    assert sum(region.others + 1 for region in shown.regions) == len(drawing.boxes)
    assert all(region.x + region.width <= MAP_WIDTH + 1 for region in shown.regions)
    assert {region.box.id for region in shown.regions} <= {box.id for box in drawing.boxes}


def test_a_file_is_safe_xml() -> None:
    """A drawing as a file is well-formed whatever its texts are, and has no links, scripts or addresses."""
    plan, _ = stored(hostile())
    text = drawing_file(plan)
    tree = ElementTree.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert names <= {"svg", "title", "desc", "style", "g", "rect", "text", "path", "circle"}
    attributes = {name for element in tree.iter() for name in element.attrib}
    assert not any(name.startswith("on") or name.endswith(("href", "style")) for name in attributes)
    assert HOSTILE[:40] in "".join(tree.itertext())
    assert "var(" not in text and "url(" not in text and "@import" not in text
    odd = planned("Scan", description="a\x01b\ufffe", application_id="app/\x02 odd")
    assert ElementTree.fromstring(drawing_file(stored(odd)[0])) is not None
    assert file_name("app/2/12") == "plan-app-2-12.svg" and file_name('a"\r\n/1') == "plan-a-1.svg"
    with pytest.raises(NotFound, match="no plan that can be drawn"):
        drawing_file(stored(execution(plans=[]))[0])


def test_a_plan_can_be_too_large_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a plan with more operators than the limit says so, and shows all else."""
    monkeypatch.setattr(page, "MAX_DRAWN", 3)
    plan, run = stored(planned(CHAIN))
    shown = page.execution_page(plan, run, ViewOptions(node=1))
    assert "This plan has 6 operators, too many to draw." in shown and 'id="operator"' in shown
