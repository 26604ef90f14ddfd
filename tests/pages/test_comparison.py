"""Two runs, or two plans of one, next to each other: operators matched, and what changed in words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from msgspec import structs
from tests.documents import execution, planned, request
from tests.findings.recorded import SMALL, recordings
from tests.pages import history
from tests.pages.plans import hostile, large
from tests.pages.stored import stored
from tests.test_fuzz import executions

from joinsight.analysis.comparison import compare
from joinsight.contract.decode import decode_request
from joinsight.contract.document import Execution
from joinsight.pages.comparison import Line, Side, compare_page, lines

RUNS = history.runs(history.NOW_MS)
APPLICATION: dict[str, Any] = {"configuration": {}, "spark_version": "4.3.0"}


def side(letter: str, e: Execution, version: int | None = None) -> Side:
    """An execution in the form of the store."""
    plan, run = stored(e, SMALL)
    return Side(letter, plan, replace(run, application=APPLICATION), plan.version(version))


def compared(a: Side, b: Side) -> list[Line]:
    """The lines of both plans."""
    return lines(a, b, compare(a.run, b.run))


def named(found: list[Line]) -> list[tuple[str, str, str]]:
    """Each line's kind and operators."""
    return [(each.kind, each.a.node.name if each.a else "", each.b.node.name if each.b else "") for each in found]


def test_operators_are_matched_across_strategies() -> None:
    """A join keeps its place whichever way it runs, and so do its scans; what only one plan needs stands alone."""
    found = compared(side("A", RUNS[0]), side("B", RUNS[-1]))
    assert named(found) == [
        ("both", "HashAggregate", "HashAggregate"),
        ("both", "Exchange", "Exchange"),
        ("changed", "BroadcastHashJoin", "SortMergeJoin"),
        ("added", "", "Sort"),
        ("added", "", "Exchange"),
        ("both", "Scan parquet shop.sales", "Scan parquet shop.sales"),
        ("removed", "BroadcastExchange", ""),
        ("added", "", "Sort"),
        ("added", "", "Exchange"),
        ("both", "Scan parquet shop.stores", "Scan parquet shop.stores"),
    ]
    words = {change.title: (change.before, change.after) for change in found[2].changes}
    assert words["strategy"] == ("BroadcastHashJoin", "SortMergeJoin")
    assert words["spilled, in memory"] == ("–", "76.3 MiB")


def test_what_is_equal_is_equal() -> None:
    """Two runs with one plan and the same numbers have the same operators, none of them changed."""
    for name, e in recordings().items():
        assert {line.kind for line in compared(side("A", e), side("B", e))} <= {"both"}, name


def test_plans_of_aqe_are_compared() -> None:
    """Two plans of one run: AQE's new strategy is a change, and the page has no totals of runs."""
    e = recordings()["replanned-late"]
    found = compared(side("A", e, 0), side("B", e))
    assert any(
        (change.before, change.after) == ("SortMergeJoin", "BroadcastHashJoin")
        for line in found
        for change in line.changes
    )
    page = compare_page(side("A", e, 0), side("B", e))
    assert ">Totals<" not in page and "two plans compared" in page
    assert re.search(r'name="a_version"><option value="0" selected>0</option>', page)


def test_a_large_plan_is_matched() -> None:
    """1,500 operators with themselves, and with a plan that lacks some of them."""
    a, b = side("A", large()), side("B", large(1_200))
    assert {line.kind for line in compared(a, a)} == {"both"}
    found = compared(a, b)
    assert sum(line.a is not None for line in found) >= 1_363
    assert {line.kind for line in found} >= {"both", "removed"}


def test_the_page_says_what_differs() -> None:
    """Another plan, settings, numbers with factors, and why a run failed or may be partial."""
    page = compare_page(side("A", RUNS[0]), side("B", RUNS[-1]))
    for said in ("Another plan: ", "<bdi>spark.sql.shuffle.partitions</bdi>", "only in B", "(worse)"):
        assert said in page, said
    failed = compare_page(side("A", RUNS[0]), side("B", RUNS[history.FAILED]))
    assert "No space left: &lt;script&gt;" in failed
    running = structs.replace(RUNS[0], state="running", ended_at_ms=None)
    assert "still runs" in compare_page(side("A", RUNS[-1]), side("B", running)) and "still runs" not in failed
    empty = compare_page(side("A", execution(plans=[])), side("B", execution(plans=[], execution_id=2)))
    assert "Neither has a plan." in empty


def command(letter: str, *started: Side) -> Side:
    """A run of a command that started these."""
    its = side(letter, planned("Execute MergeIntoCommand", execution_id=90 + ord(letter)))
    nested, runs = [each.stored for each in started], [each.run for each in started]
    return replace(its, stored=replace(its.stored, nested=nested), run=replace(its.run, started=runs))


def test_what_a_command_started_is_compared() -> None:
    """Plans of the same part side by side, if they differ; a part of one run alone; a part that differs little."""
    fast, slow, other = side("A", RUNS[0]), side("B", RUNS[-1]), side("B", recordings()["skewed"])
    page = compare_page(command("A", fast), command("B", slow, other))
    assert page.count('<table class="beside-each-other"') == 2
    part = page[page.index('id="part-1"') : page.index('id="part-2"')]
    assert "SortMergeJoin" in part and "only in B" in part
    assert re.search(r"Execution \d+: skewed", page[page.index('id="part-2"') :])
    again = compare_page(command("A", fast), command("B", side("B", RUNS[0])))
    assert "are compared" not in again
    assert "differs little" in again and again.count('<table class="beside-each-other"') == 1
    assert "Executions that they started" not in compare_page(fast, slow)
    many = command("A", fast)
    many.run.execution["nested"] = 57
    page = compare_page(many, command("B", slow))
    assert "Of the 57 executions that A started, the longest, 1, are compared." in page


def test_hostile_texts_are_escaped() -> None:
    """Markup in operators, settings and errors stays text."""
    page = compare_page(side("A", hostile(), 0), side("B", hostile()))
    assert "<script" not in page and "<img" not in page


@settings(suppress_health_check=list(HealthCheck), max_examples=30)
@given(executions(), executions())
def test_generated_documents_are_compared(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Any two documents that conform to the schema have a page, in which each operator stands once or is reused."""
    both = [made for document in (one, other) for _, made in decode_request(request(document)).documents]
    sides = [side(letter, made) for letter, made in zip("AB", both, strict=True) if isinstance(made, Execution)]
    a, b = sides
    assert "</html>" in compare_page(a, b)
    for each, shown in ((a, [line.a for line in compared(a, b)]), (b, [line.b for line in compared(a, b)])):
        nodes = [node["id"] for node in (each.version or {"nodes": []})["nodes"] if not node["is_cluster"]]
        drawn = [operator.node.id for operator in shown if operator is not None and not operator.reuses]
        assert len(drawn) == len(set(drawn)) and set(drawn) <= set(nodes)
