"""The pages in a real browser: layout, links, keyboard, both themes, print, phones and hostile texts."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, Request, sync_playwright
from sqlalchemy import Engine, select
from tests.findings.planted import PLANTED
from tests.findings.recorded import SMALL, recordings
from tests.pages.plans import HOSTILE, hostile, large

from joinsight.contract.decode import decode_request
from joinsight.demo.runner import collector
from joinsight.findings import FindingsEngine
from joinsight.pages.environment import address
from joinsight.store.writer import Writer
from joinsight.tables import execution
from joinsight.tables.views import plan_version

CHROMIUM = shutil.which("chromium") or ""
CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.ndjson"))
TOKEN = "a-token-for-this-test"
SKEWED = recordings()["skewed"]

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (CI installs it)")

OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('a.node > rect.box')].map(box => box.getBBox())
  const found = []
  boxes.forEach((a, i) => boxes.forEach((b, j) => {
    if (i < j && a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)
      found.push([i, j])
  }))
  return found
}"""

# Of each visible text the contrast with what is behind it, as WCAG computes it
CONTRASTS = """() => {
  const shine = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4 }
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).map(Number)
    return .2126 * shine(r) + .7152 * shine(g) + .0722 * shine(b)
  }
  const behind = e => {
    for (let at = e; at; at = at.parentElement) {
      if (at.matches('a.node')) return getComputedStyle(at.querySelector('rect.box')).fill
      const c = getComputedStyle(at).backgroundColor
      if (c != 'rgba(0, 0, 0, 0)') return c
    }
  }
  const poor = new Set()
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())
    if (!own || !e.getClientRects().length || e.closest('title, desc, .skip')) continue
    const style = getComputedStyle(e)
    const [a, b] = [light(e instanceof SVGElement ? style.fill : style.color), light(behind(e))]
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
    if (ratio < 4.5) poor.add(`${e.tagName}.${e.className.baseVal ?? e.className} ${ratio.toFixed(1)}`)
  }
  return [...poor]
}"""


# What a screen reader would have no name for, and ids that are not unique
NAMELESS = """() => {
  const named = e => e.ariaLabel || e.textContent.trim() || e.title || e.labels?.length ||
    e.getAttribute('aria-labelledby')?.split(' ').every(id => document.getElementById(id))
  const kinds = 'a, button, input:not([type=hidden]), [role=region], [role=img], nav, section'
  const all = [...document.querySelectorAll(kinds)]
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id)
  return [...all.filter(e => !named(e)).map(e => e.outerHTML), ...ids.filter((id, i) => ids.indexOf(id) != i)]
}"""


@pytest.fixture(scope="module")
def addresses(engine: Engine) -> dict[tuple[str, int], str]:
    """The address of each execution's page, by application and id."""
    lines = b"".join(file.read_bytes() for file in CORPUS)
    odd = [document for _, document in decode_request(gzip.compress(lines)).documents]
    Writer(engine, FindingsEngine(SMALL, PLANTED)).write([*recordings().values(), *odd, large(), hostile()])
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(select(execution)).mappings()]
    return {(row["application_id"], row["execution_id"]): address(row) for row in rows}


@pytest.fixture(scope="module")
def url(engine: Engine, addresses: object) -> Iterator[str]:
    """A collector with a token."""
    with collector(engine, 0, [f"read:{TOKEN}"]) as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; Playwright is told to leave the sandbox alone, which needs rights that CI's user may lack."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Watched:
    """A page that records requests to other hosts, console messages, errors and dialogs, which must not occur."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        shown = {"Authorization": f"Bearer {TOKEN}"}
        self.context = browser.new_context(base_url=url, extra_http_headers=shown, **options)
        self.page: Page = self.context.new_page()
        self.url = url
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _on_request(self, asked: Request) -> None:
        if not asked.url.startswith((self.url, "data:")):
            self.troubles.append(asked.url)

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.context.close()
        assert error is not None or self.troubles == []


def of(addresses: dict[tuple[str, int], str], name: str) -> str:
    """The page of a recording."""
    return addresses[recordings()[name].application_id, recordings()[name].execution_id]


def test_every_page_is_drawn(engine: Engine, browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """Pages of real plans and odd documents show each node of the final plan once, without overlaps or errors."""
    with engine.connect() as connection:
        final = select(plan_version).where(plan_version.c.is_final)
        plans = {(row.application_id, row.execution_id): row.nodes for row in connection.execute(final)}
    seen: set[str] = set()
    with Watched(browser, url) as page:
        for key, where in sorted(addresses.items()):
            if key[0] in seen or not key[0].startswith(("corpus", "app")):  # the recordings are much alike
                continue
            seen.add(key[0])
            response = page.goto(f"{where}&open=all", wait_until="commit")
            assert response is not None and response.status == 200, key
            page.wait_for_load_state()
            final_plan = plans.get(key, ())
            operators = [
                node["id"]
                for node in final_plan
                if not node["is_cluster"]
                and not (node["name"] in ("AdaptiveSparkPlan", "AQEShuffleRead") and len(final_plan) > 2)
            ]
            drawn = page.eval_on_selector_all("a.node:not(.reuse)", "all => all.map(each => +each.id.slice(1))")
            assert sorted(drawn) == sorted(operators), key
            assert page.evaluate(OVERLAPS) == [], key


@pytest.mark.matrix
def test_a_plan_of_1500_nodes_can_be_read(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """All nodes are drawn, the root is visible at once, and the page itself does not scroll sideways."""
    with Watched(browser, url, viewport={"width": 1280, "height": 800}) as page:
        page.goto(addresses["app-large", 0])
        assert page.locator("a.node").count() == 1_363
        page.goto(addresses["app-large", 0] + "#plan")
        root = page.locator("#n1 rect.box").bounding_box()
        assert root is not None and 0 <= root["x"] < 900 and 0 <= root["y"] < 700
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280

        here = page.locator(".map .here")
        before = here.bounding_box()
        assert before is not None
        page.locator(".map a").last.click()
        target = page.locator("a.node:target .box").bounding_box()
        assert target is not None and 0 <= target["x"] < 900 and 0 <= target["y"] < 800
        page.wait_for_function(
            "x => document.querySelector('.map .here').getBoundingClientRect().x > x + 100", arg=before["x"]
        )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_comes_first_and_the_plan_opens_at_its_operators(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str], width: int
) -> None:
    """Below the title, readable without scrolling, also on a phone; its operators are marked and linked."""
    with Watched(browser, url, viewport={"width": width, "height": 800}) as page:
        page.goto(of(addresses, "skewed"))
        verdict = page.get_by_role("region", name="Verdict")
        shown, title = verdict.bounding_box(), page.locator("h1").bounding_box()
        facts = page.locator("p.facts").bounding_box()
        assert shown is not None and title is not None and facts is not None
        assert title["y"] < shown["y"] < facts["y"] and shown["y"] + shown["height"] < 800
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        first = verdict.get_by_role("link").first
        number = re.search(r"\((\d+)\)", first.inner_text())
        assert number is not None
        box = page.locator(f"#n{number[1]}")
        assert "judged" in (box.get_attribute("class") or "")
        drawing, place = page.locator(".drawing").bounding_box(), box.locator("rect.box").bounding_box()
        assert drawing is not None and place is not None
        assert drawing["x"] <= place["x"] and place["x"] + place["width"] <= drawing["x"] + drawing["width"]
        first.click()
        assert f"node={number[1]}" in page.url and page.get_by_role("region", name=re.compile("node")).is_visible()


@pytest.mark.matrix
def test_a_drawing_is_moved_and_zoomed_by_hand(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str]
) -> None:
    """A drag moves it and is no click; Ctrl and the wheel, and two fingers, zoom it around where they are."""
    with Watched(browser, url, viewport={"width": 1280, "height": 800}, has_touch=True) as page:
        page.goto(addresses["app-large", 0] + "#plan")
        drawing, plan = page.locator(".drawing"), page.locator("svg.plan")
        frame = drawing.bounding_box()
        assert frame is not None
        x, y = frame["x"] + 300, max(frame["y"], 0) + 250
        before, where = drawing.evaluate("e => [e.scrollLeft, e.scrollTop]"), page.url
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 120, y - 60, steps=4)
        page.mouse.up()
        assert drawing.evaluate("e => [e.scrollLeft, e.scrollTop]") == [before[0] + 120, before[1] + 60]
        assert page.url == where
        width = plan.evaluate("e => e.getBoundingClientRect().width")
        page.keyboard.down("Control")
        page.mouse.wheel(0, 300)
        page.keyboard.up("Control")
        page.wait_for_function(
            "w => document.querySelector('svg.plan').getBoundingClientRect().width < w / 2", arg=width
        )
        smaller = plan.evaluate("e => e.getBoundingClientRect().width")
        touch = page.context.new_cdp_session(page)
        for kind, apart in (("touchStart", 50), ("touchMove", 80), ("touchMove", 150)):
            points = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_function(
            "w => document.querySelector('svg.plan').getBoundingClientRect().width > 2 * w", arg=smaller
        )


def test_a_plan_of_300_operators_can_be_read_whole(engine: Engine, browser: Browser, url: str) -> None:
    """Fitted to the width, operators are below each other, and their texts no smaller than 8 pixels."""
    whole = msgspec.structs.replace(large(300), application_id="app-300")
    Writer(engine, FindingsEngine()).write([whole])
    with Watched(browser, url, viewport={"width": 1280, "height": 800}) as page:
        page.goto("/executions/app-300/0?zoom=fit&open=all#plan")
        heights = page.eval_on_selector_all("a.node .name", "all => all.map(e => e.getBoundingClientRect().height)")
        assert len(heights) > 250 and min(heights) >= 8
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.matrix
def test_versions_nodes_and_findings_are_linked(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str]
) -> None:
    """A click on a version shows that plan; on a finding its node, marked and in view; on a node all its metrics."""
    with Watched(browser, url, viewport={"width": 1280, "height": 800}) as page:
        page.goto(of(addresses, "skewed"))
        shown = page.locator("nav.versions [aria-current]")
        assert shown.inner_text().split() == ["4", "final"]
        nodes = page.locator("a.node").count()
        page.locator("nav.versions a").first.click()
        assert shown.inner_text().split()[0] == "0"
        assert page.locator("a.node").count() <= nodes
        page.get_by_role("link", name="The final plan").click()

        page.locator(".findings article a").click()
        assert page.locator(".operator h2").inner_text().startswith("Exchange node 11")
        assert "records read" in page.locator(".operator table").first.inner_text()
        assert page.locator("a.node.selected").get_attribute("id") == "n11"
        box = page.locator("#n11 rect.box").bounding_box()
        assert box is not None and 0 < box["y"] < 800
        page.get_by_role("link", name="Close").click()
        assert page.locator(".operator").count() == 0

        page.goto(of(addresses, "shuffle-reused"))
        reuse = page.locator("a.node.reuse").first
        target = reuse.get_attribute("href") or ""
        reuse.click()
        assert page.evaluate("document.querySelector(':target').id") == target.removeprefix("#")


def follow(link: Locator) -> None:
    """Click on a link, and wait until its page is loaded."""
    with link.page.expect_navigation():
        link.click()


@pytest.mark.matrix
def test_stages_and_operators_are_linked(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """A click on a stage marks its operators in the plan; one on an operator opens it; one on its stage leads back."""
    with Watched(browser, url, viewport={"width": 1280, "height": 800}) as page:
        page.goto(of(addresses, "skewed"))
        follow(page.locator(".timeline").get_by_role("link", name="75", exact=True))
        marked = page.eval_on_selector_all("a.node.stage", "all => all.map(each => each.id)")
        assert sorted(marked) == ["n11", "n13", "n14", "n15"]
        assert page.locator("#s75-0.selected").count() == 1
        follow(page.locator("#s75-0 .operators a").first)
        assert page.locator(".operator h2").inner_text().startswith("Exchange node 11")
        follow(page.locator(".operator").get_by_role("link", name="78", exact=True))
        assert page.locator("#s78-0:target").count() == 1
        assert page.get_by_role("img", name=re.compile(r"^from \d+ ms to \d+ ms$")).count() == 4


@pytest.mark.matrix
def test_the_plan_is_folded_searched_and_zoomed_without_a_script(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str]
) -> None:
    """Chains open on a click and fold again, a search marks what it finds and opens it, links set the size."""
    with Watched(browser, url, viewport={"width": 1280, "height": 800}, java_script_enabled=False) as page:
        page.goto(of(addresses, "skewed"))
        nodes = page.locator("a.node").count()
        follow(page.locator("a.node.fold").first)
        assert page.locator("a.node").count() == nodes + 1 and page.locator("a.node.fold").count() == 0
        page.goto(of(addresses, "skewed"))
        follow(page.get_by_role("link", name=re.compile(r"Show all \d+ operators")))
        assert page.locator("a.node").count() == nodes + 1
        follow(page.get_by_role("link", name="Fold chains"))
        assert page.locator("a.node").count() == nodes

        page.get_by_label("Search the plan").fill("columnartorow")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert "2 operators match “columnartorow”" in page.locator("[role=status]").inner_text()
        assert page.locator("a.node.match").count() == 2
        follow(page.locator("[role=status]").get_by_role("link", name="ColumnarToRow (14)"))
        assert page.locator(".operator h2").inner_text().startswith("ColumnarToRow")
        assert page.get_by_label("Search the plan").input_value() == "columnartorow"
        follow(page.get_by_role("link", name="Clear"))
        page.get_by_label("Search the plan").fill("<nothing>")
        follow(page.get_by_role("button", name="Search"))
        assert "No operator matches “<nothing>”." in page.locator("[role=status]").inner_text()

        width = page.locator("svg.plan").bounding_box()
        follow(page.get_by_role("link", name="Larger"))
        larger = page.locator("svg.plan").bounding_box()
        assert width is not None and larger is not None and larger["width"] == pytest.approx(1.5 * width["width"])
        follow(page.get_by_role("link", name="Fit the width"))
        fitted = page.locator("svg.plan").bounding_box()
        assert fitted is not None and fitted["width"] < 1_000


@pytest.mark.matrix
def test_a_link_to_an_operator_is_copied(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """The script copies the link, which opens the page with this operator."""
    with Watched(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(of(addresses, "skewed") + "&node=11")
        page.get_by_role("link", name="Link to this operator").click()
        page.get_by_role("link", name="Link copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        page.goto("/")  # the address that is shown now differs from the link in its fragment alone
        page.goto(copied)
        assert page.locator("a.node.selected:target").get_attribute("id") == "n11"


@pytest.mark.matrix
def test_the_drawing_is_saved_as_a_file(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    """The file is the drawing as it is shown; a browser opens it without the collector and requests nothing."""
    with Watched(browser, url) as page:
        page.goto(of(addresses, "skewed"))
        shown = page.locator("a.node").count()
        with page.expect_download() as started:
            page.get_by_role("link", name="Save as SVG").click()
        saved = tmp_path / started.value.suggested_filename
        started.value.save_as(saved)
        assert saved.name.startswith("plan-local-") and saved.suffix == ".svg"
    opened = browser.new_page()
    requests: list[str] = []
    opened.on("request", lambda asked: requests.append(asked.url))
    opened.goto(saved.as_uri())
    assert opened.locator("g.node").count() == shown and opened.locator("a, script").count() == 0
    assert opened.evaluate("getComputedStyle(document.querySelector('.join .box')).fill") == "rgb(239, 232, 251)"
    assert requests == [saved.as_uri()]
    opened.close()


@pytest.mark.matrix
def test_a_running_execution_is_followed_until_it_ends(
    engine: Engine, browser: Browser, url: str, addresses: dict[tuple[str, int], str]
) -> None:
    """The page loads its new state in place, keeps what is open and where the reader is, and stops at the end."""
    ended = msgspec.structs.replace(SKEWED, application_id="app-followed", sequence=3)
    first = msgspec.structs.replace(ended, sequence=1, state="running", ended_at_ms=None, plans=SKEWED.plans[:1])
    second = msgspec.structs.replace(ended, sequence=2, state="running", ended_at_ms=None)
    writer = Writer(engine, FindingsEngine(SMALL, PLANTED))
    writer.write([first])
    where = f"/executions/app-followed/{SKEWED.execution_id}"
    with Watched(browser, url, viewport={"width": 1280, "height": 500}) as page:
        page.clock.install()
        loaded: list[str] = []
        page.on("request", lambda asked: loaded.append(asked.url))
        page.goto(where)
        page.locator("details summary").first.click()
        page.evaluate("scrollTo(0, 300)")
        writer.write([second])
        page.clock.run_for(11_000)
        page.locator("nav.versions [aria-current]", has_text="4").wait_for()
        assert page.locator("nav.versions [aria-current]").inner_text().split() == ["4", "latest"]
        assert page.evaluate("scrollY") == 300
        writer.write([ended])
        page.clock.run_for(11_000)
        page.locator(".state.succeeded").wait_for()
        assert page.locator("nav.versions [aria-current]").inner_text().split() == ["4", "final"]
        assert page.locator(".findings article").count() == 1
        assert page.evaluate("scrollY") == 300
        assert len(loaded) == 3
        page.clock.run_for(60_000)
        page.wait_for_timeout(200)
        assert len(loaded) == 3
    writer.write([msgspec.structs.replace(first, application_id="app-alone")])
    with Watched(browser, url, java_script_enabled=False) as page:
        page.goto(where.replace("followed", "alone"))
        assert page.locator("meta[http-equiv=refresh]").get_attribute("content") == "10"
        follow(page.get_by_role("link", name="Stop"))
        assert page.locator("meta[http-equiv=refresh]").count() == 0


@pytest.mark.matrix
def test_everything_has_a_name_and_a_heading(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """A screen reader has a name for each link, button, field, region and table, headings in order, and no id twice."""
    with Watched(browser, url) as page:
        for where in (of(addresses, "skewed") + "&node=11&stage=75", addresses["app-large", 0]):
            page.goto(where)
            assert page.evaluate(NAMELESS) == [], where
            levels = page.eval_on_selector_all("h1, h2, h3", "all => all.map(each => +each.tagName[1])")
            assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels)), levels


def test_the_keyboard_is_enough(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """Tab goes to the content, the versions and the nodes, visibly; Enter opens."""
    with Watched(browser, url) as page:
        page.goto(of(addresses, "skewed"))
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.locator("#n11").focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "n11"
        focused = "getComputedStyle(document.querySelector('#n11 .box')).strokeWidth"
        assert page.evaluate(focused) == "3px"
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("node=11"))


@pytest.mark.matrix
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_can_be_read(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str], scheme: Any
) -> None:
    """Each text stands out from what is behind it by 4.5 to 1, and the themes are two."""
    with Watched(browser, url, color_scheme=scheme) as page:
        skewed = of(addresses, "skewed")
        shown = (f"{skewed}&node=11", f"{skewed}&stage=75&search=scan", of(addresses, "broadcast-timeout"), "/")
        for where in (*shown, addresses["app-large", 0]):
            page.goto(where)
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(255, 255, 255)") == (scheme == "light")
            assert page.evaluate(CONTRASTS) == [], where


def test_a_page_prints_on_white_within_the_paper(
    browser: Browser, url: str, addresses: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    """Print is on white, fits the paper's width, shows folded texts but no stack trace, and has no forms."""
    with Watched(browser, url, color_scheme="dark", viewport={"width": 720, "height": 1000}) as page:
        page.emulate_media(media="print")
        page.goto(of(addresses, "skewed"))
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 720
        plan = page.locator("svg.plan").bounding_box()
        assert plan is not None and plan["width"] <= 720 and plan["height"] <= 1000
        assert page.pdf(format="A4").count(b"/Type /Page\n") <= 3
        page.goto(addresses["app-hostile", 66])
        assert page.locator("details.texts pre").first.is_visible() and not page.locator("details.trace").is_visible()
        page.goto("/")
        assert not page.locator("form").is_visible()


def test_hostile_texts_stay_texts(browser: Browser, url: str, addresses: dict[tuple[str, int], str]) -> None:
    """Markup, quotes and template code in descriptions, jobs, errors, names and plans are shown as they are."""
    with Watched(browser, url) as page:
        where = addresses["app-hostile", 66]
        shown = [where, f"{where}&version=0", f"{where}&node=2&open=all", f"{where}&search={HOSTILE}"]
        for each in (*shown, "/?application=app-hostile", f"/?job={HOSTILE}"):
            page.goto(each)
            page.wait_for_timeout(50)
            assert page.locator("script").count() <= 1  # our own, which the policy allows by its hash
            made = page.locator("img, [onload], [onerror], iframe, object, embed, style ~ style").count()
            assert made == 0, each
            assert HOSTILE in page.locator("body").inner_text(), each
        page.goto(f"{where}&node=2")
        assert page.title().startswith(HOSTILE[:40])
        assert HOSTILE in page.locator(".operator .simple").inner_text()


def test_a_browser_asks_for_the_token(browser: Browser, url: str) -> None:
    """A browser's user enters any name and the token as password; without it no page is shown."""
    for password, status in (("wrong", 401), (TOKEN, 200)):
        context = browser.new_context(base_url=url, http_credentials={"username": "anyone", "password": password})
        page = context.new_page()
        response = page.goto("/")
        assert response is not None and response.status == status
        if status == 401:
            assert "token as the password" in page.locator("main").inner_text()
            assert SKEWED.application_id not in page.content()
        else:
            page.locator("td.query a").first.click()
            assert page.locator("svg.plan").count() == 1
        context.close()
