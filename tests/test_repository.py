"""The files for GitHub and PyPI, as far as tests without them can tell."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.processes import ran
from tools.release_notes import notes

import joinsight
from joinsight.base import manual

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
SCHEMAS = {
    **dict.fromkeys(WORKFLOWS, "github-workflows"),
    **{path: "github-issue-forms" for path in GITHUB.glob("ISSUE_TEMPLATE/*.yml") if path.stem != "config"},
    GITHUB / "ISSUE_TEMPLATE/config.yml": "github-issue-config",
    GITHUB / "dependabot.yml": "dependabot",
}


def read(path: Path) -> Any:
    """A YAML file."""
    return YAML(typ="safe", pure=True).load(path)


def run(*command: str | Path, **environment: str) -> str:
    """What a command prints, which must succeed."""
    done = ran(*command, cwd=ROOT, env={**os.environ, **environment})
    return done.stdout


@pytest.mark.parametrize(("path", "schema"), SCHEMAS.items(), ids=lambda each: getattr(each, "name", each))
def test_it_follows_its_schema(path: Path, schema: str) -> None:
    """The file conforms to the schema that GitHub publishes."""
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path)


def test_the_workflow_in_the_docs_conforms(tmp_path: Path) -> None:
    """The example for `joinsight gate` conforms too."""
    path = tmp_path / "plans.yml"
    path.write_text((ROOT / "docs/gate.md").read_text().partition("```yaml\n")[2].partition("```")[0])
    test_it_follows_its_schema(path, "github-workflows")
    [job] = read(path)["jobs"].values()
    assert any("joinsight gate" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_no_more_than_it_must(path: Path) -> None:
    """Workflows are read-only unless a job requests more; actions have versions, and jobs a timeout."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+|pypa/gh-action-pypi-publish@release/v1", step["uses"])
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert "${{" not in step.get("run", ""), "what others write could become a command"


def test_ci_runs_what_there_is() -> None:
    """CI covers each Python version of the package, and uses only existing make targets."""
    text = "".join(path.read_text() for path in WORKFLOWS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    named = set(re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text()))
    assert named == set(re.findall(r'"(3\.\d+)"', (GITHUB / "workflows/ci.yml").read_text()))


def test_the_site_has_every_page() -> None:
    """Each page of docs/, and each page that tools/site.py adds, is in the navigation once."""
    nav = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    added = re.findall(r'"([A-Z]+)\.md"', (ROOT / "tools/site.py").read_text())
    pages = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    assert sorted(nav) == sorted([*pages, *(f"{name.lower()}.md".replace("readme", "index") for name in added)])


CHANGELOG = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- New.\n\n### More\n\n## 0.1.0 (2026-11-01)\n\n- First.\n"


def test_the_notes_of_a_release_are_its_section() -> None:
    assert notes("v0.2.0", CHANGELOG, "0.2.0") == "- New.\n\n### More\n"
    assert notes("v0.1.0", CHANGELOG, "0.1.0") == "- First.\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "version", "reason"),
    [
        ("v0.2.1", CHANGELOG, "0.2.0", "tag v0.2.0"),
        ("0.2.0", CHANGELOG, "0.2.0", "tag v0.2.0"),
        ("v0.2", CHANGELOG, "0.2", "no section"),
        ("v0.3.0", CHANGELOG, "0.3.0", "no section"),
        ("v0.2.0", CHANGELOG.replace("(2026-12-01)", "(unreleased)"), "0.2.0", "no section"),
        ("v0.2.0", "## 0.2.0", "0.2.0", "no section"),
        ("v0.2.0", "\n## 0.2.0 (2026-12-01)\n\n## 0.1.0", "0.2.0", "empty"),
    ],
)
def test_a_release_that_does_not_fit_is_stopped(tag: str, changelog: str, version: str, reason: str) -> None:
    """Another version, no section, an unreleased or empty one."""
    with pytest.raises(SystemExit, match=reason):
        notes(tag, changelog, version)


def test_this_version_could_be_released() -> None:
    assert run(sys.executable, "tools/release_notes.py", f"v{joinsight.__version__}")


def test_a_wheel_brings_its_documentation(tmp_path: Path) -> None:
    """`joinsight docs` has the same pages; the jar and the migrations are there too, and links for PyPI."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    installed = {"PYTHONPATH": str(tmp_path / "installed")}
    [metadata] = tmp_path.glob("installed/*.dist-info/METADATA")
    assert re.findall(r"\]\((?!https?://)[^)]*", metadata.read_text()) == [], "PyPI knows no relative links"
    printed = run(sys.executable, "-c", "from joinsight.base import manual; print(*manual.pages())", **installed)
    assert printed.split() == list(manual.pages())
    for name in ("runbook", "findings"):
        assert run(sys.executable, "-m", "joinsight.cli", "docs", name, **installed) == manual.read(name)
    jar = run(sys.executable, "-m", "joinsight.cli", "listener-jar", **installed).strip()
    assert jar.startswith(str(tmp_path)) and Path(jar).exists()
    assert (tmp_path / "installed/joinsight/migrations/env.py").exists()
