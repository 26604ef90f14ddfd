"""The ways through the pages: lists, streams, jobs, documentation, what is not there, and what the home page folds."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine
from tests.documents import application, execution, planned
from tests.findings.recorded import SMALL, UNLIMITED, recordings
from tests.pages.plans import HOSTILE
from tests.serve.test_pages import HOUR, get, talk

from joinsight.base import manual
from joinsight.contract.document import Execution, Job, Stage
from joinsight.findings import FindingsEngine
from joinsight.pages.environment import NAVIGATION
from joinsight.queries.browse import matching
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_queries
from joinsight.serve.app import make_app
from joinsight.store.writer import Writer

BATCH = "id = 1d6ef7a2-b4a0-4d3c-8d5e-9d3c7c1cf8a1<br/>runId = 2d6ef7a2-b4a0-4d3c-8d5e-9d3c7c1cf8a1<br/>batch = {}"
NOW = int(time.time() * 1000)
SLOW_MS, EVERY_MS = 9_500, 10_000
BETWEEN = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(NOW / 1000 - 1.5 * 3600))
"""After the skewed query, and before the stream."""
STREAMED = "Project | [k#1]\n  Scan | [k#1]"


def batch(number: int, drawing: str = "") -> Execution:
    """A micro-batch with this plan, by default with one that is another from the sixth on."""
    at = NOW - HOUR + number * EVERY_MS
    end = at + SLOW_MS
    changed = f"Sort | [k#1]\n  {STREAMED.replace(chr(10), chr(10) + '  ')}"
    drawing = drawing or (STREAMED if number < 6 else changed)
    description = f"arrivals<br/>{BATCH.format(number)}"
    run: dict[str, Any] = {"application_id": "app-stream", "job_name": "arriving", "description": description}
    jobs = [Job(number, at, [number], "succeeded", end)]
    stages = [Stage(number, 0, "s", 1, "succeeded", 1, submitted_at_ms=at, completed_at_ms=end, input_rows=950)]
    return planned(drawing, **run, execution_id=number, started_at_ms=at, ended_at_ms=end, jobs=jobs, stages=stages)


JOINED = (
    "SortMergeJoin | [k#1], [k#2], Inner\n  Exchange | hashpartitioning(k#1, 8)\n    Scan a | [k#1]\n"
    "  Exchange | hashpartitioning(k#2, 8)\n    Scan b | [k#2]"
)


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> None:
    """A stream, a query with findings, and one in which all texts are hostile."""
    skewed = msgspec.structs.replace(
        recordings()["skewed"], started_at_ms=NOW - 2 * HOUR, ended_at_ms=NOW - 2 * HOUR + 60_000, job_name="shop/sales"
    )
    hostile = execution(
        application_id="app-h",
        job_name=HOSTILE,
        description=HOSTILE,
        started_at_ms=NOW - HOUR,
        tags={"team": HOSTILE},
        user_tags=["nightly", HOSTILE],
    )
    ran_as = application(application_id="app-stream", job_name="arriving", user="ad/eve")
    batches = [batch(number) for number in range(8)]
    Writer(engine, FindingsEngine(SMALL, UNLIMITED)).write([ran_as, *batches, skewed, hostile])


@pytest.mark.parametrize("path", [path for path, _ in NAVIGATION])
def test_each_page_of_the_navigation_is_there(engine: Engine, path: str) -> None:
    """Each links to all others and to the documentation, and shows no text as HTML."""
    answer = get(engine, path)
    assert answer.status_code == 200
    for other, name in NAVIGATION:
        assert f'<a href="{other}">{name}</a>' in answer.text
    assert "<script>alert" not in answer.text and "<img src=x" not in answer.text and "<svg/onload" not in answer.text


def test_lists_of_operators_lead_to_them(engine: Engine) -> None:
    """An operator is a link to its node, its job and its key are links; filters and orders are in the address."""
    joins = get(engine, "/joins?job=shop%2Fsales&sort=cost").text
    assert re.search(r'<a href="/executions/[^"]*node=\d+">', joins) and 'href="/?job=shop%2Fsales"' in joins
    assert 'aria-sort="descending"' in joins and re.search(r'href="\?operator=[0-9a-f]{16}"', joins)
    assert "No matching joins." in get(engine, "/joins?job=none").text
    assert get(engine, "/joins?sort=none").status_code == 400
    assert "skewed" in get(engine, "/findings?job=shop%2Fsales").text
    assert re.search(r"No matching findings: \d+ checks of", get(engine, "/findings?job=arriving").text)


def test_a_stream_is_a_row_with_its_pace(engine: Engine) -> None:
    """How long micro-batches take of the time from one to the next, and since when the plan is another."""
    page = get(engine, "/streams").text
    [row] = re.findall(r'<tr role="row"><td.*?</tr>', page, re.DOTALL)
    assert "10.0 s</bdi>" in row and "9.5 s</bdi>" in row and "95 %</bdi>" in row
    assert 'data-label="Rows/s in" class="num"><bdi>95<' in row and 'processed" class="num"><bdi>100<' in row
    assert "plan changed at batch 6" in row and re.search(r'data-label="Batches"[^>]*><bdi>8<', row)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", {"/queries": 2, "/jobs": 3, "/streams": 1}),
        ("?job=arriving", {"/queries": 1, "/jobs": 1, "/streams": 1}),
        ("?tag=nightly", {"/queries": 0, "/jobs": 1, "/streams": 0}),
        ("?application=app-stream&since=BETWEEN", {"/queries": 1, "/jobs": 1, "/streams": 1}),
        ("?user=ad/eve", {"/queries": 1, "/jobs": 1, "/streams": 1}),
        ("?user=nobody", {"/queries": 0, "/jobs": 0, "/streams": 0}),
        ("?until=BETWEEN", {"/queries": 1, "/jobs": 1, "/streams": 0}),
    ],
)
def test_filters_of_lists_stay_in_the_form(engine: Engine, given: str, found: dict[str, int]) -> None:
    """They are those of the list of executions, and stay in the form; what they leave out is not there."""
    given = given.replace("BETWEEN", BETWEEN)
    shown = {path: get(engine, path + given) for path in found}
    assert {path: answer.text.count('role="row"><td') for path, answer in shown.items()} == found
    for name, _, value in (pair.partition("=") for pair in given[1:].split("&") if pair):
        assert all(f'name="{name}" value="{value}"' in answer.text for answer in shown.values())
    if given == "?user=nobody":
        assert "No matching queries ran in the last 7 days." in shown["/queries"].text


def test_regressions_of_a_tag_are_those_whose_last_run_has_it(engine: Engine) -> None:
    """Rows without an execution match no filter, and all rows match none."""
    with engine.connect() as connection:
        rows = read_queries(connection, Filters(limit=99), "recent")
        rows.append({**rows[0], "execution_id": None})
        assert len(matching(connection, rows, Filters())) == len(rows) > 3
        assert [row["application_id"] for row in matching(connection, rows, Filters(tag="nightly"))] == ["app-h"]
        assert matching(connection, rows[-1:], Filters(job=rows[0]["job_name"])) == []
    assert "No matching regressions." in get(engine, "/regressions?tag=nightly").text


@pytest.mark.parametrize("path", ["/queries", "/jobs", "/streams", "/regressions"])
def test_an_invalid_filter_is_refused(engine: Engine, path: str) -> None:
    answer = get(engine, f"{path}?since=yesterday")
    assert answer.status_code == 400 and "since" in answer.text


def test_micro_batches_are_one_row_elsewhere(engine: Engine) -> None:
    """They bury nothing: with the number of the first and the last one; each is there if all are asked for."""
    page = get(engine, "/executions").text
    assert page.count('role="row">\n<td') == 3
    assert '<a href="/streams">8 micro-batches</a> (0 to 7), the last: ' in page
    assert get(engine, "/executions?show=all").text.count('role="row">\n<td') == 10
    assert get(engine, "/?job=arriving&limit=50").text.count("micro-batches</a>") == 1


@pytest.mark.parametrize(("name", "sort", "which"), [("shuffles", "size", "largest"), ("joins", "recent", "last")])
def test_operators_of_micro_batches_are_one_row(empty: Engine, name: str, sort: str, which: str) -> None:
    """One for each operator of the stream, the first in the order of the page, with a link to each."""
    batches = [batch(number, JOINED) for number in range(8)]
    other = planned(JOINED, application_id="app-x", started_at_ms=NOW, ended_at_ms=NOW + 9_000)
    Writer(empty).write([*batches, other])
    page = get(empty, f"/{name}?sort={sort}").text
    assert page.count('role="row"><td') == (4 if name == "shuffles" else 2)
    folded = rf'<a href="(\?[^"]*)">8 micro-batches</a> \(0 to 7\), the {which}: <a href="/executions/app-stream/7?'
    each = unescape(re.findall(folded, page)[0])
    assert get(empty, f"/{name}{each}").text.count('role="row"><td') == 8
    failed = [msgspec.structs.replace(batches[3], state="failed", error="no", sequence=2)]
    Writer(empty).write(failed)
    page = get(empty, f"/{name}?sort={sort}").text
    assert (
        page.count("7 micro-batches</a>") == page.count("/executions/app-stream/3") == (2 if name == "shuffles" else 1)
    )


def test_executions_of_one_micro_batch_are_one_row_elsewhere(empty: Engine) -> None:
    """A function of the user, or a table format, runs several; they are not several micro-batches."""
    several = [msgspec.structs.replace(batch(3), execution_id=i, root_execution_id=1) for i in (5, 6, 7)]
    Writer(empty).write(several)
    assert '<a href="/streams">1 micro-batch</a> (3), the last: ' in get(empty, "/executions").text
    Writer(empty).write([batch(4)])
    assert '<a href="/streams">2 micro-batches</a> (3 to 4), the last: ' in get(empty, "/executions").text


def test_pages_next_to_each_other_with_folded_rows(empty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following the links shows each execution once, in both directions."""
    monkeypatch.setattr("joinsight.pages.listing.LIMITS", (2, 50))
    runs = [planned("Scan", application_id=f"app-{i}", started_at_ms=NOW - HOUR + 1_000 + i * 25_000) for i in range(5)]
    Writer(empty).write([*(batch(number) for number in range(8)), *runs])
    shown, path, seen = [], "/executions?limit=2", []
    while path:
        page = get(empty, path).text
        shown.append(page)
        seen += re.findall(r'title="(app-\d)/', page)
        path = next((each.replace("&amp;", "&") for each in re.findall(r'href="([^"]*)" rel="next"', page)), "")
    assert seen == [f"app-{i}" for i in range(4, -1, -1)]
    batches = [int(number) for page in shown for number in re.findall(r"(\d+) micro-batches", page)]
    single = sum(page.count("arrivals: ") for page in shown) - len(batches)
    assert sum(batches) + single == 8
    back = next(each.replace("&amp;", "&") for each in re.findall(r'href="([^"]*)" rel="prev"', shown[-1]))
    assert re.findall(r'title="(app-\d)/', get(empty, back).text)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/", "The last 7 days"),
        ("/executions", "Executions"),
        ("/?job=arriving", "arriving"),
        ("/?application=app-stream", "app-stream"),
        ("/?state=failed", "Executions"),
        ("/jobs", "Jobs"),
        ("/nope", "Not found"),
    ],
)
def test_the_title_of_a_page_begins_with_what_it_is_of(engine: Engine, path: str, title: str) -> None:
    page = get(engine, path, accept="text/html").text
    assert '<details class="more" open>' not in page
    assert f"<title>{title} – Joinsight</title>" in page and title in unescape(page.split("<h1>")[1].split("</h1>")[0])


def test_tags_and_jobs_of_an_execution_are_links(engine: Engine) -> None:
    page = get(engine, "/executions/app-h/0").text
    assert '<a href="/?tag=nightly"><bdi>nightly</bdi></a>' in page and 'href="/?job=%3Cscript%3E' in page
    assert "<script>alert" not in page


def test_jobs_have_a_cost_at_a_price(engine: Engine) -> None:
    """Core-hours are the run time of tasks; team and user are those of the last execution."""
    page = get(engine, "/jobs").text
    assert "Core-hours" in page and "Cost" not in page
    assert '<a href="/jobs?user=ad%2Feve"><bdi>ad/eve</bdi></a>' in page
    priced = talk(make_app(engine, core_hour_price=2.5), lambda client: client.get("/jobs")).text
    assert "Cost: at 2.5 for an hour of a core." in priced and 'data-label="Cost"' in priced


@pytest.mark.parametrize("name", list(manual.pages()))
def test_pages_of_the_documentation_have_links_that_lead_somewhere(engine: Engine, name: str) -> None:
    """Each is rendered, and its links lead to pages that exist and to their sections."""
    answer = get(engine, f"/docs/{name}")
    assert answer.status_code == 200 and "<h1" in answer.text
    for target, _, anchor in re.findall(r'href="/docs/([\w-]+)(#([\w-]+))?"', answer.text):
        assert target in manual.pages()
        if anchor:
            assert manual.read(f"{target}#{anchor}")
    assert "<img" not in answer.text


def test_the_documentation_is_listed_by_title(engine: Engine) -> None:
    """Titles are shown without the marks of Markdown."""
    titles = re.findall(r'<li><a href="/docs/[\w-]+">(.*?)</a>', get(engine, "/docs").text)
    assert len(titles) == len(manual.pages()) and titles == sorted(titles, key=str.lower)
    assert "Comparing branches: joinsight gate" in titles
    assert "<title>Comparing branches: joinsight gate – " in get(engine, "/docs/gate").text


def test_what_is_not_there_is_a_page_for_browsers(engine: Engine) -> None:
    """Others get the line that they got before."""
    page = get(engine, "/no<b>pe", Accept="text/html,*/*")
    assert page.status_code == 404 and "There is no page /no&lt;b&gt;pe." in page.text and "/streams" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    plain = get(engine, "/nope", Accept="*/*")
    assert (plain.status_code, plain.text) == (404, "Not Found")
    assert get(engine, "/docs/nope").status_code == 404
    assert get(engine, "/v1/documents", Accept="*/*").status_code == 405


def test_after_a_backfill_home_shows_the_days_that_there_are(empty: Engine) -> None:
    """Where nothing ran in the last days, it shows those up to the newest execution, and says so."""
    old = NOW - 60 * 24 * HOUR
    Writer(empty).write(
        [planned("Scan", job_name="old job", started_at_ms=old, ended_at_ms=old + 2_000, state="failed", error="x")]
    )
    home = get(empty, "/").text
    assert "<h1>The 7 days up to 2" in home and "Nothing ran since." in home
    assert '<h2 id="failed">Failures</h2>\n<ul' in home
    for path in ("/queries", "/jobs"):
        assert "old job" in get(empty, path).text
