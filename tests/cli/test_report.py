"""`joinsight report` on a real store."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.store.test_regressions import BEFORE, plant

from joinsight.cli import cli

NOW = datetime.now(timezone.utc) + timedelta(hours=1)


@pytest.fixture(scope="module")
def filled(engine: Engine) -> Engine:
    """A query that became slower, one that became faster, one that is as ever, and a hostile title."""
    plant(engine, "slower", [*BEFORE, *[150_000] * 7], end=NOW, task_time_ms=400_000)
    plant(engine, "faster", [*BEFORE, *[20_000] * 7], end=NOW, task_time_ms=100_000)
    plant(engine, "as ever", [*BEFORE, *[60_000] * 7], end=NOW, title="a | b <script>`_\n*", task_time_ms=500_000)
    return engine


def report(engine: Engine, *arguments: str) -> str:
    url = engine.url.render_as_string(hide_password=False)
    result = CliRunner().invoke(cli, ["report", *arguments], env={"JOINSIGHT_DATABASE_URL": url})
    assert result.exit_code == 0, result.output
    return result.stdout


def section(text: str, title: str) -> str:
    return re.split(r"^## ", text.partition(f"## {title}")[2], flags=re.MULTILINE)[0]


def test_it_says_what_became_slower_and_faster_and_what_costs_most(filled: Engine) -> None:
    text = report(filled)
    slower, faster = section(text, "What became slower"), section(text, "What became faster")
    assert "| slower | query of slower | duration | 1 min → 2 min 30 s | 2.5× |" in slower
    assert "same plan" in slower and "as ever" not in slower and "faster |" not in slower
    assert "| faster | query of faster | 1 min → 20.0 s | 3.0× | 7 | 4 min 40 s |" in faster and "slower" not in faster
    costly = [line.split(" | ")[0] for line in section(text, "What costs most").splitlines()[4:7]]
    assert costly == ["| as ever", "| slower", "| faster"]


def test_of_a_job_without_anything(filled: Engine) -> None:
    text = report(filled, "--job", "nothing")
    assert "No query became slower." in text and "No queries ran." in text


def test_texts_of_others_stay_texts(filled: Engine) -> None:
    """Neither a table of Markdown nor the HTML file is broken by a title."""
    rows = [line for line in report(filled).splitlines() if line.startswith("| as ever")]
    assert len(rows) == 1
    assert r"a \| b \<script\>\`\_ \*" in rows[0]
    html = report(filled, "--html")
    assert "<script" not in html and "&lt;script&gt;" in html
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.handle_endtag = lambda tag: tags.append(f"/{tag}")  # type: ignore[method-assign]
    parser.feed(html)
    for tag in ("table", "tr", "td", "th", "h2", "html"):
        assert tags.count(tag) == tags.count(f"/{tag}") > 0
