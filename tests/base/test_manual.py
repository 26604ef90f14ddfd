"""`joinsight docs`: the pages and sections of the documentation that is installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from joinsight.base import manual
from joinsight.base.errors import NotFound
from joinsight.cli import cli

ROOT = Path(__file__).parents[2]


def test_it_lists_the_pages() -> None:
    """It lists all of docs/ and the runbook, with titles."""
    shown = CliRunner().invoke(cli, ["docs"]).stdout.splitlines()
    assert [line.split()[0] for line in shown[1:]] == sorted(
        ["runbook", *(path.stem for path in ROOT.glob("docs/*.md"))]
    )
    assert any(re.fullmatch("sql +SQL", line) for line in shown)


def test_a_pipe_gets_markdown() -> None:
    """It prints a page, or a section with its subsections; comments in code blocks are not headings."""
    assert CliRunner().invoke(cli, ["docs", "runbook"]).stdout == (ROOT / "RUNBOOK.md").read_text()
    section = CliRunner().invoke(cli, ["docs", "install#with-docker-compose"]).stdout
    assert section.startswith("## With Docker Compose\n")
    assert "\n### " in section and "## With your own" not in section


def test_a_terminal_gets_it_set_and_the_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Markdown is rendered; the last line is the web address."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    cli(["docs", "runbook#joinsightskew"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "JoinsightSkew" in shown and "##" not in shown and "**Do.**" not in shown
    assert "https://joinsight.github.io/joinsight/runbook/#joinsightskew" in shown


@pytest.mark.parametrize(("target", "names"), [("finding", "findings, gate"), ("runbook#skew", "joinsightskew")])
def test_what_is_not_there_is_said(target: str, names: str) -> None:
    """The error lists the valid names."""
    with pytest.raises(NotFound, match=names):
        manual.read(target)


def test_what_the_program_names_is_there() -> None:
    """Each `joinsight docs PAGE` and each web address in messages, dashboards and alerts exists."""
    named = set()
    for path in (*ROOT.glob("collector/joinsight/**/*.py"), *ROOT.glob("dashboards/**/*.*")):
        if path.suffix in (".py", ".json", ".yml"):
            text = path.read_text()
            named |= set(re.findall(r"joinsight docs ([a-z-]+(?:#[\w-]+)?)", text))
            named |= {"".join(each) for each in re.findall(rf"{re.escape(manual.SITE)}([\w-]+)/(#[\w-]+)?", text)}
    assert len(named) > 20
    for target in named:
        assert manual.read(target)


@pytest.mark.parametrize("name", manual.pages())
def test_every_link_to_a_section_leads_to_it(name: str) -> None:
    """Links between pages use the anchors of GitHub, the site and the command."""
    text = re.sub(r"```.*?```", "", manual.read(name), flags=re.DOTALL)
    for page, anchor in re.findall(r"\]\((?:\.\./|docs/)?([\w-]*)(?:\.md)?#([^)]+)\)", text):
        if page.lower() in (*manual.pages(), ""):
            assert manual.read(f"{page.lower() or name}#{anchor}")
