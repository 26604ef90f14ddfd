"""The text of an execution's page, for everything that documents allow, in every version, at every node."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from markupsafe import escape
from tests.documents import STARTED_AT_MS, execution, planned, request
from tests.findings.recorded import SMALL, recordings
from tests.pages.stored import skewed, stored
from tests.test_fuzz import executions
from tests.timing.test_cost import MERGED, ended, ran

from joinsight.analysis.comparison import compare
from joinsight.base.errors import ConfigurationError, NotFound
from joinsight.base.units import bytes_text, duration_text
from joinsight.contract.decode import decode_request
from joinsight.contract.document import Execution, Nested
from joinsight.pages.drawing import draw
from joinsight.pages.execution import drawing_file, execution_page
from joinsight.pages.failure import failure
from joinsight.pages.notebook import notebook
from joinsight.pages.one_file import execution_file
from joinsight.pages.panel import panels_of
from joinsight.pages.view import FIT, ViewOptions
from joinsight.present.findings import at_stake
from joinsight.present.tree import skewed_nodes
from joinsight.terminal.console import text_console
from joinsight.terminal.execution import print_findings_of

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.ndjson"))


def running() -> Execution:
    """A run as it was reported before its last stage began."""
    e = recordings()["skewed"]
    stages = [stage for stage in e.stages if stage.id <= 78]
    stages[-1] = msgspec.structs.replace(stages[-1], state="running", completed_at_ms=None, succeeded_tasks=6)
    return msgspec.structs.replace(e, state="running", ended_at_ms=None, stages=stages)


def shown(page: str) -> str:
    """The text of a page that a reader sees."""
    main = page[page.index("<main") : page.index("</main>")]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def every_page(execution: Execution) -> list[str]:
    """The pages of each plan version, with the metrics of each node in turn; each drawing is also a file."""
    plan, run = stored(execution, SMALL)
    found = [execution_page(plan, run, ViewOptions(zoom=FIT, search="a", stage=0))]
    for version in plan.versions:
        number, nodes = version["version"], version["nodes"]
        ElementTree.fromstring(drawing_file(plan, ViewOptions(version=number)))
        found.append(
            execution_page(plan, run, ViewOptions(version=number, node=number % len(nodes) if nodes else None))
        )
    return found


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_odd_documents_have_pages(file: Path) -> None:
    """Each document in tests/corpus, which once broke something, has its pages."""
    for _, document in decode_request(gzip.compress(file.read_bytes())).documents:
        if isinstance(document, Execution):
            assert all("</html>" in page for page in every_page(document))


@settings(suppress_health_check=list(HealthCheck), max_examples=40)
@given(executions())
def test_generated_documents_have_pages(document: dict[str, Any]) -> None:
    """Generated documents that conform to the schema, with consistent plans, have pages."""
    for _, made in decode_request(request(document)).documents:
        assert isinstance(made, Execution)
        every_page(made)


def test_a_node_shows_what_was_measured() -> None:
    """A node's metrics have units, their distribution over tasks and where the largest was; those of 0 are named."""
    plan, run = stored(recordings()["skewed"])
    node = next(node for node in plan.versions[-1]["nodes"] if node["id"] == 11)
    [panel] = panels_of(plan, plan.versions[-1], [node], {node["id"]: [75, 78]})
    by_name = {metric.name: metric for metric in panel.metrics}
    written = by_name["shuffle bytes written"]
    assert (written.total, written.spread) == ("3.9 MiB", ["496.0 KiB", "496.0 KiB", "496.5 KiB", "496.5 KiB"])
    assert (written.stage, written.task) == ((75, 0), 272)
    assert by_name["records read"].spread == ["0", "17,630", "137,450", "137,450"]
    assert (by_name["number of partitions"].total, by_name["number of partitions"].spread) == ("16", [])  # the driver's
    assert "remote merged blocks fetched" in panel.zero
    page = execution_page(plan, run, ViewOptions(node=11))
    assert '<td class="num largest">496.5 KiB</td>' in page and "Measured as 0: remote merged blocks fetched, " in page
    assert "Nothing was measured here." in execution_page(plan, run, ViewOptions(version=0, node=0))


def test_the_page_says_what_became_of_it() -> None:
    """Its error and what may be missing."""
    plan, run = stored(execution(state="failed", plans=[], incomplete=["its start was not seen"]))
    page = execution_page(plan, run)
    for said in ("its start was not seen", "Spark gave no plan", "It ran no stage."):
        assert said in page, said
    plan, run = stored(recordings()["broadcast-timeout"])
    page = execution_page(plan, run)
    assert "Could not execute broadcast in 1 secs." in page
    assert "The query failed: its broadcast was not ready after 1 s" in page


@pytest.mark.parametrize("is_sampled", [True, False])
def test_what_it_waited_for(is_sampled: bool) -> None:
    """The longest waits, with links to operators; each operator's share; a join's costs with what only it needed."""
    samples = {"operator__SortMergeJoin": 30, "operator__Filter": 20, "other": 50} if is_sampled else {}
    drawing = MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false")
    plan, run = stored(ended(drawing, ran(7, 200, 900, 1_000, **samples)))
    page = execution_page(plan, run, ViewOptions(node=1))
    text = shown(page)
    waits = text[text.index("Where the wall time went") :]
    assert "share of the wall time" in text
    if is_sampled:
        assert "no operator: starting up, compiling code 350 ms, 35 % SortMergeJoin (1) 210 ms, 21 % planning" in waits
        assert "Cost: 210 ms of wall time, 21 %; 300 ms of task time" in text and "21 % wall" in text
        assert "With its sorts, shuffles, broadcasts: 210 ms to 350 ms of wall time, at most 35 %; 300 ms to" in text
        assert "h53.8" in page[page.index('<path class="share"') :]  # 21 % of 256
        assert re.search(r'node=1#n1">SortMergeJoin \(1\)</a> <span>210 ms', page)
    else:
        assert "stage 7: HashAggregate, SortMergeJoin, 2 Sort 658 ms, 66 % planning" in waits
        assert "Cost: " not in text
        assert "With its sorts, shuffles, broadcasts: 42 ms to 700 ms of wall time, at most 70 %; 60 ms to" in text
        assert "The join itself: part of 658 ms of wall time, 66 %; 940 ms of task time (stage 7)" in text
        assert "stage 7: 658 ms, 66 % wall" in text, "on the frame"
    assert text.count("210 ms to 350 ms" if is_sampled else "42 ms to 700 ms") == 2  # also in the table of joins
    assert "joinsight cost local-1767225600000/0 lists all." in text


def test_only_the_final_plan_has_costs() -> None:
    """An earlier plan's nodes have other numbers; what the execution waited for is still listed."""
    e = ended(
        MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false"), ran(7, 200, 900, 1_000, operator__SortMergeJoin=1)
    )
    early = msgspec.structs.replace(e.plans[0], at_ms=e.started_at_ms)
    plan, run = stored(msgspec.structs.replace(e, plans=[early, *e.plans]))
    for version, count in ((0, 0), (1, 1)):
        text = shown(execution_page(plan, run, ViewOptions(version=version, node=1)))
        assert text.count("With its sorts, shuffles, broadcasts") == count
        assert text.count("% wall") == count
        assert "Where the wall time went" in text


def test_nothing_is_final_while_it_runs() -> None:
    """A running execution says when its numbers are from and how far it is, refreshes, and calls no plan final."""
    plan, run = stored(running())
    page = execution_page(plan, run)
    text = shown(page)
    assert "Running. Updated " in text and "24 of 34 tasks of the stages known so far." in text
    assert "No findings so far: 4 checks. " in text and "Elapsed" in text and "Duration" not in text
    assert "Where the task time goes" in text and "Where the wall time went" not in text and "% wall" not in text
    assert "4 latest" in text and "final" not in text.replace("isFinalPlan=", "")
    assert 'data-refresh="10"' in page and '<meta http-equiv="refresh" content="10">' in page
    stopped = execution_page(plan, run, ViewOptions(refreshes=False))
    assert "data-refresh=" not in stopped and "http-equiv" not in stopped
    early = execution_page(*stored(execution(state="running", plans=[])))
    assert "Spark has not reported a plan yet." in early and "No stage has started." in early


def test_a_lost_execution_has_the_last_known_plan() -> None:
    """What is known of a lost execution is called the last known, and the page does not refresh."""
    page = execution_page(*stored(msgspec.structs.replace(running(), state="lost")))
    text = shown(page)
    assert "These are the last numbers known." in text and "4 last known" in text
    assert "No findings at the last report." in text
    assert "data-refresh=" not in page and "http-equiv" not in page and "final" not in text.replace("isFinalPlan=", "")


def test_findings_come_with_open_advice() -> None:
    """In their order; findings with the same advice show it once, each links."""
    plan, run = skewed()
    [row] = plan.findings
    mild = {**row, "severity": "info", "finding": "mild", "title": "Mild", "impact_ms": 10**9}
    cheap = {**row, "node_id": 18, "title": "Cheap", "impact_ms": 0, "impact_bytes": 0}
    plan.findings[:] = [row, cheap, mild]
    page = execution_page(plan, run)
    listed = page[page.index('<section class="findings"') : page.index("Where the wall time went")]
    titles = [row["title"], "Cheap", "Mild"]
    assert sorted(titles, key=lambda title: listed.index(str(escape(title)))) == titles
    assert "<details" not in listed and listed.count(str(escape(row["advice"]))) == 2  # another kind has its own
    assert re.findall(r"#n(\d+)", listed) == ["11", "18", "11"]


@pytest.mark.parametrize(
    ("wall_ms", "is_partial", "expected"),
    [
        (280, False, "280 ms at stake, 28 % of the time"),
        (700, True, "at least 700 ms at stake, 70 % of the time"),
        (0, False, "nothing at stake: the query did not wait for it"),
        (0, True, ""),
        (None, False, ""),
    ],
)
def test_findings_come_with_what_is_at_stake(wall_ms: int | None, is_partial: bool, expected: str) -> None:
    """On the page, in the terminal and in notebooks: how long the query waited for it, if that is known."""
    plan, run = skewed()
    plan.findings[0] |= {"wall_ms": wall_ms, "wall_is_partial": is_partial}
    plan.execution["duration_ms"] = 1_000
    assert at_stake(plan.findings[0], 1_000) == expected
    text = io.StringIO()
    print_findings_of(text_console(text), plan)
    for where in (shown(execution_page(plan, run)), text.getvalue(), notebook([plan])):
        assert expected in where and ("at stake" in where) == bool(expected)


def test_an_error_is_whole_and_its_trace_apart() -> None:
    """The message stays whole, the innermost cause is shown, frames are folded; what has no frames is all message."""
    text = "Job aborted:\n  twice\n\tat a.B.c(B.java:1)\nCaused by: Out: of\nspace\n\tat d.E\n\t... 3 more\n"
    parts = failure(text)
    assert (parts.message, parts.cause) == ("Job aborted:\n  twice", "Out: of\nspace")
    assert parts.trace.startswith("\tat a.B") and parts.trace.endswith("3 more\n")
    assert failure("\tat a.B.c(B.java:1)").message == "\tat a.B.c(B.java:1)"
    assert failure("A\n\tat a.B\nCaused by: B\n\tat b.C\nCaused by: C\n\t... 1 more").cause == "C"
    assert failure("Job aborted: Out of space\n\tat a.B\nCaused by: Out of space\n\tat b.C").cause == ""
    assert failure("Look at this").message == "Look at this"
    page = execution_page(*stored(execution(state="failed", error=text)))
    assert (
        page.index("Job aborted:") < page.index("Caused by") < page.index("<summary>Stack trace") < page.index("at a.B")
    )


def test_an_error_is_shown_once() -> None:
    """The verdict says it in a line, and the whole is folded below, if it has more; the whole is shown where the
    verdict is about something else."""
    long = "java.lang.IllegalStateException: out of luck\nand of time\n\tat a.B.c(B.java:1)\n"
    page = execution_page(*stored(execution(state="failed", error=long)))
    verdict, whole = page.index("IllegalStateException: out of luck"), page.index("<summary>The whole error</summary>")
    assert verdict < whole < page.index("and of time") and '<details class="note failed">' in page
    page = execution_page(*stored(execution(state="failed", error="java.lang.IllegalStateException: out of luck.\n")))
    assert page.count("out of luck") == 1 and "The whole error" not in page
    page = execution_page(*stored(execution(state="cancelled", error="Job 3 cancelled part of cancelled job group g")))
    assert page.count("part of cancelled job group") == 1 and '<details class="note failed" open>' in page


@pytest.mark.parametrize(
    ("parameters", "remedy"),
    [
        ({"node": "-1"}, "Write 0 or more."),
        ({"zoom": "99"}, "Write fit, 25, 50, 75, 100, 150, 200."),
        ({"open": "1,x"}, "Write up to 500 ids, or all."),
        ({"open": ",".join(["1"] * 501)}, "Write up to 500 ids, or all."),
        ({"search": "a" * 201}, "Write up to 200 characters."),
        ({"refresh": "never"}, "Write one of on, off."),
    ],
)
def test_parameters_are_checked(parameters: dict[str, str], remedy: str) -> None:
    """An invalid parameter is an error that says what is valid."""
    with pytest.raises(ConfigurationError, match=re.escape(remedy)):
        ViewOptions.of(parameters)


def test_a_view_keeps_its_parameters() -> None:
    """The parameters of a view give the same view; those of the default view are none."""
    view = ViewOptions(version=2, node=3, stage=4, zoom=FIT, opened=frozenset({5, 6}), search="a b", refreshes=False)
    assert ViewOptions.of({name: str(value) for name, value in view.parameters().items()}) == view
    assert ViewOptions.of({"open": "all"}).parameters()["open"] == "all"
    assert not any(value is not None for value in ViewOptions.of({}).parameters().values())


def test_aqe_is_told_in_words() -> None:
    """All decisions on the page of the final plan, those of a version above its plan."""
    plan, run = stored(recordings()["replanned-late"])
    assert "became BroadcastHashJoin" in execution_page(plan, run)
    pages = [execution_page(plan, run, ViewOptions(version=version["version"])) for version in plan.versions]
    assert [page.count("became BroadcastHashJoin") for page in pages].count(2) == 1


def test_a_number_is_the_same_wherever_it_is() -> None:
    """A broadcast's time is one in its box, the table, the finding and `joinsight diff`; bytes are named apart."""
    plan, run = stored(recordings()["broadcast-slow"], SMALL)
    [broadcast] = run.broadcast
    took = duration_text(sum(broadcast[name] for name in ("collect_ms", "build_ms", "broadcast_ms")))
    [box] = [box for box in draw(plan, plan.versions[-1]).boxes if box.node.kind == "broadcast"]
    assert box.node.time == took
    page = execution_page(plan, run)
    [row] = re.findall(r"<h2 id=\"broadcasts\">.*?<tbody[^>]*>(.*?)</tbody>", page, re.DOTALL)
    assert f'class="num">{took}</td>' in row
    [finding] = [each for each in plan.findings if each["finding"] == "broadcast-not-worth-it"]
    assert duration_text(finding["evidence"]["driver_ms"]) == took
    same = replace(run, application={"configuration": {}})
    [change] = [each for each in compare(same, same).pairs["broadcast"][0].changes if each.measure.name == "driver_ms"]
    assert duration_text(change.after) == took
    size = sum(row["total"] for row in plan.metrics if row["name"] == "size of files read")
    assert f"<dt>Files read</dt><dd>{bytes_text(size)}</dd>" in page
    assert "<dt>Read by tasks</dt>" in page and "<dt>Read</dt>" not in page
    [files] = {box.figures for box in draw(plan, plan.versions[-1]).boxes if box.node.id == 12}
    assert re.search(r" · [\d.]+ MiB of files$", files), files


def test_a_skew_is_red_where_it_is_a_finding() -> None:
    """A skew is red only with a finding, by the thresholds of the collector that computed the findings."""
    found, run = skewed()
    [node] = skewed_nodes(found.findings)
    assert 'class="num large"' in execution_page(found, run)
    assert [box.node.id for box in draw(found, found.versions[-1]).boxes if box.node.is_skewed] == [node]
    plain, run = stored(recordings()["skewed"])
    page = execution_page(plain, run)
    assert "7.8×" in page and 'large"' not in page.split("</style>")[1]
    assert re.search(r"No findings in \d+ checks. The nearest is [\w ]+, \d+ % of 596 ms\.", page)


def test_what_is_not_there_is_said() -> None:
    """An unknown version or node is an error, which lists the versions; without a plan the page says so."""
    plan, run = stored(planned("Scan"))
    with pytest.raises(NotFound, match="No plan version 3; the versions are 0 to 0"):
        execution_page(plan, run, ViewOptions(version=3))
    with pytest.raises(NotFound, match="Plan 0 has no node 3"):
        execution_page(plan, run, ViewOptions(node=3))
    empty, run = stored(execution(plans=[]))
    assert "Spark gave no plan" in execution_page(empty, run, ViewOptions(node=3))


def test_what_aqe_changed_is_linked() -> None:
    """Each plan is compared with the one before and the first one; the first with the last."""
    plan, run = stored(recordings()["replanned-late"])
    assert len(plan.versions) > 2
    last = len(plan.versions) - 1
    found = [
        re.findall(
            '/compare[^"]*a_version=(\\d+)&amp;b_version=(\\d+)', execution_page(plan, run, ViewOptions(version=number))
        )
        for number in (0, 1, last)
    ]
    assert found == [[("0", str(last))], [("0", "1")], [(str(last - 1), str(last)), ("0", str(last))]]
    one, its_run = stored(execution())
    assert "a_version" not in execution_page(one, its_run)


@pytest.mark.parametrize("description", ["count at /jobs/sales.py:42", "Sales by region"])
def test_the_page_names_the_line(description: str) -> None:
    """The user's code is named next to the other facts; the whole call site is folded, and no paragraph of its own."""
    page = execution_page(
        *stored(execution(description=description, call_site="count at /jobs/sales.py:42\nmain at a:1"))
    )
    facts = page[page.index('<p class="facts">') : page.index("</dl>")]
    assert "called from sales.py:42" in shown(f"<main{facts}</main>")
    assert "<p><bdi>count at" not in page
    assert "<summary>Description and call site" in page


def test_the_page_names_the_user_of_a_server() -> None:
    """With links to their executions and the session's; Spark Connect's request is folded as a call site is."""
    request = 'Spark Connect - session_id: "s-1"\nuser_context {\n  user_id: "ana & co"...'
    page = execution_page(*stored(execution(description=request, user="ana & co", session_id="s-1")))
    facts = page[page.index('<p class="facts">') : page.index("</dl>")]
    assert "by ana &amp; co" in shown(f"<main{facts}</main>")
    assert 'href="/?user=ana+%26+co"' in facts and 'href="/?session=s-1"' in facts
    assert "<p><bdi>Spark Connect" not in page


def test_the_executions_that_a_command_started() -> None:
    """Each is a link with its share of the command's time, and what it spent is on the command's list."""
    inner, _ = stored(recordings()["skewed"], SMALL)
    inner.execution["execution_id"] = 5
    nested = [Nested(5, STARTED_AT_MS + 500, STARTED_AT_MS + 9_500)]
    plan, run = stored(planned("Execute MergeIntoCommand", nested=nested, ended_at_ms=STARTED_AT_MS + 10_000), SMALL)
    page = execution_page(replace(plan, nested=[inner]), run, ViewOptions())
    text = shown(page)
    assert f"/executions/{inner.execution['application_id']}/5?" in page
    assert re.search(r"Executions that it started 5: skewed [\d.]+ m?s, 90 %", text), text
    assert "execution 5: " in text.partition("Executions that it started")[0]
    part = page[page.index('<h3 class="part">') :]
    assert re.search(r"Execution 5: skewed [\d.]+ m?s, 90 % of the wall time", shown(f"<main>{part}</main>"))
    shares = [float(share) for share in re.findall(r'class="wall"[^>]*>([\d.]+) % wall<', part)]
    assert shares and max(shares) <= 90 and 'id="e5-n' in part and 'id="n' not in part
    assert not re.search(r'id="e5-n[^>]*href', execution_file(replace(plan, nested=[inner]), run))
