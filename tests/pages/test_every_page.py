"""All pages on a phone, and as axe-core judges them, an npm package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from sqlalchemy import Engine
from tests.findings.recorded import SMALL, recordings
from tests.pages.plans import hostile, large
from tests.pages.test_browser import CHROMIUM, Watched, browser
from tests.pages.test_browsing import pages, url

from joinsight.findings import FindingsEngine
from joinsight.pages.environment import NAVIGATION, address
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_queries
from joinsight.store.writer import Writer

__all__ = ["browser", "pages", "url"]

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (CI installs it)")
AXE = "axe-core@4.14.1"
PHONE = {"width": 360, "height": 740}
# Visible elements that reach beyond the screen; drawings scroll within a frame of their own
TOO_WIDE = """() => [...document.querySelectorAll('body *')].filter(e =>
  e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1
  && !e.closest('.drawing, svg, .skip, .docs pre, .docs table, .scroll:has(svg.history)'))
  .map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def addresses(engine: Engine, url: str, pages: dict[str, str]) -> list[str]:
    """All pages that link to each other, and pages of executions."""
    Writer(engine, FindingsEngine(SMALL)).write([recordings()["skewed"], large(), hostile()])
    with engine.connect() as connection:
        named = [recordings()["skewed"].application_id, "app-large", "app-hostile"]
        rows = [row for row in read_queries(connection, Filters(limit=200), "recent") if row["application_id"] in named]
    shown = [address(row, node=1) for row in rows]
    return [*pages.values(), *(path for path, _ in NAVIGATION), "/docs/findings", *map(address, rows), *shown]


@pytest.mark.matrix
def test_nothing_is_wider_than_a_phone(browser: Browser, url: str, addresses: list[str]) -> None:
    """Tables are cards there; only drawings scroll sideways, in their own frames."""
    assert len(addresses) > len(NAVIGATION) + 10
    with Watched(browser, url, viewport=PHONE) as page:
        for where in addresses:
            page.goto(where)
            assert page.evaluate(TOO_WIDE) == [], where
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], where


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.parametrize("width", [PHONE["width"], 1280])
def test_axe_finds_nothing(browser: Browser, url: str, addresses: list[str], tmp_path: Path, width: int) -> None:
    """No page breaks a rule of accessibility, not even a moderate one."""
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tmp_path), AXE]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install axe-core: {done.stderr[-300:]}")
    axe = (tmp_path / "node_modules/axe-core/axe.min.js").read_text()
    with Watched(browser, url, viewport={**PHONE, "width": width}, bypass_csp=True) as page:
        for where in addresses:
            page.goto(where)
            page.evaluate(axe)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            assert [(each["id"], each["impact"], each["nodes"][0]["html"][:300]) for each in found] == [], where
