"""Makes docs/images/execution.png, the picture of a page in the README: python -m tests.pages.picture."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from playwright.sync_api import sync_playwright
from tests.findings.recorded import SMALL, UNLIMITED, recordings

from joinsight.analysis.rows import execution_rows
from joinsight.demo.runner import collector
from joinsight.findings import FindingsEngine
from joinsight.pages.environment import address
from joinsight.store.database import connect, upgrade
from joinsight.store.embedded import embedded_postgres
from joinsight.store.writer import Writer
from joinsight.tables import as_columns

FILE = Path(__file__).parents[2] / "docs" / "images" / "execution.png"
WIDTH, HEIGHT = 1180, 1690


def main() -> None:
    """Draw a recorded run under realistic names."""
    shown = msgspec.structs.replace(
        recordings()["skewed"], description="Sales by customer segment", job_name="nightly-sales"
    )
    token = "picture"
    with tempfile.TemporaryDirectory() as folder, embedded_postgres(Path(folder)) as url, connect(url) as engine:
        upgrade(engine)
        Writer(engine, FindingsEngine(SMALL, UNLIMITED)).write([shown])
        with collector(engine, 0, [f"read:{token}"]) as (served, _), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(
                base_url=served,
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="light",
                extra_http_headers={"Authorization": f"Bearer {token}"},
            )
            page.goto(address(as_columns(execution_rows(shown).execution)))
            FILE.parent.mkdir(exist_ok=True)
            page.screenshot(path=FILE)
            browser.close()


if __name__ == "__main__":
    main()
