"""Pages as one file: what is in them, how large they become, and that a browser requests nothing."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from tests.pages.plans import HOSTILE, hostile, large
from tests.pages.stored import skewed, stored
from tests.pages.test_comparison import side

from joinsight.pages.execution import operators_of
from joinsight.pages.one_file import MAX_BYTES, comparison_file, execution_file

CHROMIUM = shutil.which("chromium") or ""


def links(text: str) -> set[str]:
    """Where the links of a file lead."""
    return {target for target in re.findall(r'\s(?:href|action|src)="([^"]*)"', text) if target[:5] != "data:"}


def test_links_lead_into_the_file_only() -> None:
    """Whatever texts are in it; each operator has its panel."""
    for plan, run in (skewed(), stored(hostile())):
        text = execution_file(plan, run)
        targets = links(text)
        assert targets and all(target[1:] in re.findall(r'\bid="([^"]*)"', text) for target in targets), targets
        assert text.count('<div class="panel"') == operators_of(plan.version(None))
        assert not re.search("<form|Save as|Shuffles</a>", text) and HOSTILE not in text
    text = comparison_file(side("A", large(30)), side("B", large(30)))
    assert links(text) == {"#main"}


@pytest.mark.matrix
def test_a_file_stays_below_its_size() -> None:
    """Operators that cost least lose their metrics first, then the plan its drawing; the file says so."""
    plan, run = stored(large(1_000))
    text = execution_file(plan, run)
    assert len(text.encode()) < MAX_BYTES and '<svg class="plan"' in text
    assert re.search(r'class="note">The metrics of \d+ operators that cost least are left out.', text)
    plan, run = stored(large())
    text = execution_file(plan, run)
    assert len(text.encode()) < MAX_BYTES and '<svg class="plan"' not in text
    assert "The drawing of the plan is left out. The metrics of" in text


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (CI installs it)")
def test_a_file_makes_no_request(tmp_path: Path) -> None:
    """In a real browser, from the disk: the verdict is there, and an operator of the plan opens its panel."""
    plan, run = skewed()
    running = replace(plan, execution={**plan.execution, "state": "running"})  # whose page would load itself again
    for name, each in (("ended", plan), ("running", running)):
        (tmp_path / f"{name}.html").write_text(execution_file(each, run))
    requests: list[str] = []
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: troubles.append(message.text))
        for name in ("running", "ended"):
            page.goto((tmp_path / f"{name}.html").as_uri())
        panel, verdict = page.locator("#panel-11"), page.get_by_role("region", name="Verdict")
        assert verdict.is_visible() and not panel.is_visible()
        verdict.get_by_role("link", name="SortMergeJoin (8)").click()
        assert page.locator("#panel-8").is_visible()
        page.locator("#n11").click()
        assert panel.is_visible() and "Exchange" in panel.inner_text()
        panel.get_by_role("link", name="Close").click()
        assert not panel.is_visible() and page.url.endswith("#n11")
        browser.close()
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == troubles == []
    assert sum(url.startswith("file:") for url in requests) == 2
