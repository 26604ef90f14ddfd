"""The text of an execution's page, for everything that documents allow, in every version, at every node."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.documents import execution, planned, request
from tests.findings.recorded import SMALL, recordings
from tests.pages.stored import stored
from tests.test_fuzz import executions

from joinsight.compare import compare
from joinsight.decode import decode_request
from joinsight.display import bytes_text, duration_text
from joinsight.document import Execution
from joinsight.errors import NotFound
from joinsight.pages.drawing import draw
from joinsight.pages.execution import execution_page
from joinsight.present.tree import skewed_nodes

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.ndjson"))


def every_page(execution: Execution) -> list[str]:
    """Of each version of the plan, with the metrics of the nodes in turn."""
    plan, run = stored(execution, SMALL)
    found = [execution_page(plan, run, fit=True)]
    for version in plan.versions:
        number, nodes = version["version"], version["nodes"]
        found.append(execution_page(plan, run, version=number, node=number % len(nodes) if nodes else None))
    return found


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_odd_documents_have_pages(file: Path) -> None:
    """Each document in tests/corpus, which once broke something, has its pages."""
    for _, document in decode_request(gzip.compress(file.read_bytes())).documents:
        if isinstance(document, Execution):
            assert all("</html>" in page for page in every_page(document))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(executions())
def test_generated_documents_have_pages(document: dict[str, Any]) -> None:
    """Generated documents that conform to the schema, with consistent plans, have pages."""
    for _, made in decode_request(request(document)).documents:
        assert isinstance(made, Execution)
        every_page(made)


def test_a_node_shows_what_was_measured() -> None:
    """A node shows its metrics in Spark's words, with the distribution over tasks; metrics that were 0 are named."""
    plan, run = stored(recordings()["skewed"])
    page = execution_page(plan, run, node=11)
    assert "<dt>shuffle records written</dt><dd>400,000</dd>" in page
    assert "3.9 MiB (496.0 KiB, 496.0 KiB, 496.5 KiB (stage 75.0: task 272))" in page
    assert "Measured as 0: remote merged blocks fetched, " in page
    assert "Nothing was measured here." in execution_page(plan, run, version=0, node=0)


def test_the_page_says_what_became_of_it() -> None:
    """Its error, what may be missing, and that it runs; without a plan there is none."""
    plan, run = stored(execution(state="running", plans=[], incomplete=["its start was not seen"]))
    page = execution_page(plan, run)
    for said in ("It runs: these are its numbers at", "its start was not seen", "Spark gave no plan"):
        assert said in page, said
    plan, run = stored(recordings()["broadcast-timeout"])
    page = execution_page(plan, run)
    assert "Could not execute broadcast in 1 secs." in page
    assert "The query failed: its broadcast was not ready after 1 s" in page


def test_aqe_is_told_in_words() -> None:
    """All decisions on the page of the final plan, those of a version above its plan."""
    plan, run = stored(recordings()["replanned-late"])
    assert "became BroadcastHashJoin" in execution_page(plan, run)
    pages = [execution_page(plan, run, version=version["version"]) for version in plan.versions]
    assert [page.count("became BroadcastHashJoin") for page in pages].count(2) == 1


def test_a_number_is_the_same_wherever_it_is() -> None:
    """A broadcast's time is one in its box, the table, the finding and `joinsight diff`; bytes are named apart."""
    plan, run = stored(recordings()["broadcast-slow"], SMALL)
    [broadcast] = run.broadcast
    took = duration_text(sum(broadcast[name] for name in ("collect_ms", "build_ms", "broadcast_ms")))
    [box] = [box for box in draw(plan, plan.versions[-1]).boxes if box.node.kind == "broadcast"]
    assert box.node.time == took
    page = execution_page(plan, run)
    [row] = re.findall(r"<h2 id=\"broadcasts\">.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert f'<td class="num">{took}</td>' in row
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
    found, run = stored(recordings()["skewed"], SMALL)
    [node] = skewed_nodes(found.findings)
    assert 'class="num large"' in execution_page(found, run)
    assert [box.node.id for box in draw(found, found.versions[-1]).boxes if box.node.is_skewed] == [node]
    plain, run = stored(recordings()["skewed"], SMALL.overridden(["skew_ratio=8"]))
    page = execution_page(plain, run)
    assert "7.8×" in page and "large" not in page.split("</style>")[1]
    assert "Nothing was found that needs your attention." in page


def test_what_is_not_there_is_said() -> None:
    """An unknown version or node is an error, which lists the versions; without a plan the page says so."""
    plan, run = stored(planned("Scan"))
    with pytest.raises(NotFound, match="No plan version 3; the versions are 0 to 0"):
        execution_page(plan, run, version=3)
    with pytest.raises(NotFound, match="Plan 0 has no node 3"):
        execution_page(plan, run, node=3)
    empty, run = stored(execution(plans=[]))
    assert "Spark gave no plan" in execution_page(empty, run, node=3)
