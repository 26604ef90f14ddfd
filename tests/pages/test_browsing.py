"""The pages about many executions in a real browser: home, list, a query through time, comparisons."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import Engine
from tests.findings.recorded import SMALL
from tests.pages import history
from tests.pages.plans import HOSTILE
from tests.pages.test_browser import CHROMIUM, CONTRASTS, TOKEN, Watched, browser

from joinsight.demo.runner import collector
from joinsight.findings import FindingsEngine
from joinsight.pages.environment import compare_address, query_address
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_queries
from joinsight.store.writer import Writer

__all__ = ["browser"]

ALL_CONTRASTS = CONTRASTS.replace(
    "if (at.matches('a.node'))",
    "if (at.matches('.flag')) return getComputedStyle(at.querySelector('circle')).fill; if (at.matches('a.node'))",
)
assert ALL_CONTRASTS != CONTRASTS

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (CI installs it)")


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    """A collector with a query that became slower, the same with hostile texts, and recorded runs."""
    now = int(time.time() * 1000)
    Writer(engine, FindingsEngine(SMALL)).write([*history.runs(now), *history.runs(now, HOSTILE)])
    with collector(engine, 0, [f"read:{TOKEN}"]) as (found, _):
        yield found


@pytest.fixture(scope="module")
def pages(url: str, engine: Engine) -> dict[str, str]:
    """The addresses of the pages."""
    with engine.connect() as connection:
        runs = {job: read_queries(connection, Filters(job=job, limit=100), "recent") for job in (history.JOB, HOSTILE)}
    plain, hostile = runs[history.JOB], runs[HOSTILE]
    return {
        "home": "/",
        "list": "/?state=failed",
        "search": "/?search=sales+sortmerge",
        "empty": "/?search=nothing",
        "query": query_address(plain[0]),
        "hostile query": query_address(hostile[0]),
        "comparison": compare_address(plain[-1], plain[0]),
        "hostile comparison": compare_address(hostile[history.RUNS - 1 - history.FAILED], hostile[0]),
    }


def names(page: Page) -> set[tuple[str, str]]:
    """The roles and names that assistive technology gets."""
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    return {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")}


def test_the_home_page_leads_on(browser: Browser, url: str) -> None:
    """It says what became worse and failed; from a job to its executions, sorted and searched, all in the address."""
    with Watched(browser, url) as page:
        page.goto("/")
        worse = page.locator("section:has(#worse)").inner_text()
        assert "Duration 2." in worse and "plan changed" in worse and "Sales by region" in worse
        assert "No space left: <script>" in page.locator("section:has(#failed)").inner_text()
        page.locator("table.jobs a", has_text=history.JOB).click()
        assert page.locator("h1").inner_text() == history.JOB
        assert page.locator("table.list tbody tr").count() == history.RUNS
        page.get_by_role("columnheader", name="Time").get_by_role("link").click()
        assert page.get_by_role("columnheader", name="Time").get_attribute("aria-sort") == "descending"
        page.get_by_role("searchbox", name="Search").fill("sortmerge")
        page.keyboard.press("Enter")
        page.wait_for_url("**search=sortmerge**")
        assert page.locator("table.list tbody tr").count() == history.RUNS - history.SLOWER_FROM
        assert page.get_by_role("columnheader", name="Time").get_attribute("aria-sort") == "descending"
        page.get_by_role("link", name="Clear").click()
        assert page.locator("h1").inner_text() == "The last 7 days"


@pytest.mark.matrix
def test_a_query_leads_to_a_comparison(browser: Browser, url: str, pages: dict[str, str]) -> None:
    """From what became worse to its runs, two of which are chosen with the keyboard and compared; and back."""
    with Watched(browser, url) as page:
        page.goto("/")
        page.locator("section:has(#worse) a", has_text="Sales by region").click()
        assert "It became worse" in page.locator(".regressed").inner_text()
        assert page.locator("svg.history .panel").count() == 4
        assert page.locator("svg.history .panel").first.locator("circle.run").count() == history.RUNS
        assert page.locator("svg.history g.flag text").all_text_contents() == ["S", "V", "P"]
        page.locator("input[name=b]:checked").focus()
        page.keyboard.press("ArrowDown")
        assert page.locator("input[name=b]").nth(1).is_checked()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/compare[?]"))
        assert "BroadcastHashJoin → SortMergeJoin" in page.locator("tr.changed").all_inner_texts()[-1]
        assert page.locator("tr.added").count() == 4 and page.locator("tr.removed").count() == 1
        page.get_by_role("link", name="history").click()
        assert page.locator("h1").inner_text() == "Sales by region"
        page.locator("table.runs a").first.click()
        assert page.locator("svg.plan").count() == 1


@pytest.mark.matrix
def test_pages_name_their_parts(browser: Browser, url: str, pages: dict[str, str]) -> None:
    """Landmarks, headings, tables, charts and fields have names for assistive technology."""
    expected: dict[str, set[tuple[str, str]]] = {
        "home": {
            ("search", "Executions"),
            ("searchbox", "Search"),
            ("combobox", "Job"),
            ("combobox", "State"),
            ("heading", "Regressions"),
            ("region", "Jobs"),
            ("region", "List of executions"),
            ("table", "Executions, newest first"),
        },
        "empty": {("search", "Executions")},
        "query": {
            ("navigation", "Where this is"),
            ("region", "History"),
            ("region", "Runs"),
            ("table", "Runs of the query, the newest first; choose two to compare"),
            ("button", "Compare A with B"),
            ("columnheader", "Duration"),
        },
        "comparison": {
            ("table", "Operators of both plans, matched, from the root down"),
            ("columnheader", "What changed"),
            ("region", "Settings that differ"),
        },
    }
    with Watched(browser, url) as page:
        for name, where in pages.items():
            page.goto(where)
            found = names(page)
            assert {("banner", ""), ("main", "")} <= found, name
            assert expected.get(name, set()) <= found, name
            for role in ("region", "link", "textbox", "combobox", "image", "table", "navigation", "radio", "button"):
                assert (role, "") not in found, (name, role)


@pytest.mark.matrix
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_can_be_read(browser: Browser, url: str, pages: dict[str, str], scheme: Any) -> None:
    """Each text stands out from what is behind it by 4.5 to 1."""
    with Watched(browser, url, color_scheme=scheme) as page:
        for name, where in pages.items():
            page.goto(where)
            assert page.evaluate(ALL_CONTRASTS) == [], name


@pytest.mark.matrix
def test_pages_print_on_white_without_forms(browser: Browser, url: str, pages: dict[str, str]) -> None:
    """Print is on white, fits the paper's width, and has no forms."""
    with Watched(browser, url, color_scheme="dark", viewport={"width": 720, "height": 1000}) as page:
        page.emulate_media(media="print")
        for name, where in pages.items():
            page.goto(where)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", name
            assert page.evaluate("document.documentElement.scrollWidth") <= 720, name
            assert not page.locator("form.filters, button").first.is_visible(), name


def test_hostile_texts_stay_texts(browser: Browser, url: str, pages: dict[str, str]) -> None:
    """Markup and quotes in titles, jobs and errors are shown as they are, also in charts and addresses."""
    with Watched(browser, url) as page:
        for name, where in pages.items():
            page.goto(where)
            page.wait_for_timeout(50)
            made = page.locator("script, img, [onload], [onerror], iframe, object, embed, style ~ style").count()
            assert made == 0, name
        page.goto("/")
        assert HOSTILE[:40] in page.locator("body").inner_text()
        page.locator("table.jobs a", has_text=HOSTILE[:30]).click()
        assert page.locator("h1").inner_text() == HOSTILE
