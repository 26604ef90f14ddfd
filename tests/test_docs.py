"""The documentation is complete and current."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.commands import leaves
from tests.exactness import results
from tests.versions import NEWEST, SUPPORTED

from joinsight.base import manual
from joinsight.base.generated import written_into
from joinsight.findings import HEURISTICS, link
from joinsight.findings import causes as causes_of_the_verdict
from joinsight.findings.page import thresholds, wall_time
from joinsight.plan import engines_page
from joinsight.plan.decisions import table as decisions
from joinsight.serve.metrics_page import page as metrics_page
from joinsight.tables.dictionary import dictionary
from joinsight.timing.cost_kinds import table as cost_kinds
from joinsight.timing.critical_path import table as causes

ROOT = Path(__file__).parents[1]
PAGES = sorted({ROOT / "README.md", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})


def test_the_data_dictionary_is_current() -> None:
    """docs/data-dictionary.md is what `make docs` writes."""
    assert (ROOT / "docs/data-dictionary.md").read_text() == dictionary()


def test_the_metrics_are_current() -> None:
    """docs/metrics.md is what `make docs` writes."""
    assert (ROOT / "docs/metrics.md").read_text() == metrics_page()


@pytest.mark.parametrize(
    ("page", "name", "table"),
    [
        ("findings.md", "wall time", wall_time),
        ("findings.md", "thresholds", thresholds),
        ("aqe.md", "kinds", decisions),
        ("critical-path.md", "causes", causes),
        ("cost.md", "kinds", cost_kinds),
        ("exactness.md", "results", results.table),
        ("exactness.md", "allowed", results.allowed_table),
        *(
            ("engines.md", table.__name__, table)
            for table in (engines_page.names, engines_page.metrics, engines_page.unknown)
        ),
    ],
)
def test_a_generated_table_is_current(page: str, name: str, table: Callable[[], Iterator[str]]) -> None:
    """The page has the table that `make docs` writes."""
    text = (ROOT / "docs" / page).read_text()
    assert written_into(text, name, table()) == text


def test_every_finding_has_its_section() -> None:
    """The link of each finding leads to its section, with severity, reason, check and remedy, mostly an example."""
    sections = re.split(r"^## ", (ROOT / "docs/findings.md").read_text(), flags=re.MULTILINE)
    by_title = {section.partition("\n")[0]: section for section in sections}
    for heuristic in HEURISTICS:
        section = by_title[heuristic.id]
        assert manual.read(link(heuristic.id).removeprefix("joinsight docs ")) == f"## {section}"
        for part in ("Severity: ", "**Why it matters.**", "**In Spark's UI.**", "**What to do.**"):
            assert part in section, (heuristic.id, part)
        assert f"  {heuristic.id}\n" in section or heuristic.waits_for == causes_of_the_verdict.EXPLAINED


def test_every_command_is_shown_to_users() -> None:
    """The README or a page of the docs shows each command."""
    text = "".join(page.read_text() for page in PAGES)
    for path in leaves():
        assert f"joinsight {' '.join(path)}" in text, path


def test_every_setting_of_the_listener_is_documented() -> None:
    """docs/configuration.md lists each key that the listener reads."""
    listener = "".join(path.read_text() for path in (ROOT / "listener/src").rglob("*.java"))
    keys = set(re.findall(r'(?:PREFIX \+ "|"spark\.joinsight\.)([A-Za-z]+)', listener))
    page = (ROOT / "docs/configuration.md").read_text()
    assert keys >= {"url", "tokenFile", "jobName", "progressInterval", "shutdownTimeout", "enabled", "tag"}
    for key in keys:
        assert f"`spark.joinsight.{key}" in page, key


def test_the_supported_versions_of_spark_are_named() -> None:
    """The README says from which to which, pip installs none but these, and the newest for developers."""
    oldest, newest = (".".join(version.split(".")[:2]) for version in (SUPPORTED[0], NEWEST))
    assert f"Spark {oldest} to {newest}" in (ROOT / "README.md").read_text()
    (extra,) = re.findall(r'^spark = \["(pyspark[^"]*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    pins = re.findall(r"\"pyspark==(.*); python_version >= '3.11'\"", (ROOT / "pyproject.toml").read_text())
    assert pins == [NEWEST, NEWEST]
    major, minor = map(int, newest.split("."))
    assert extra == f"pyspark>={oldest},<{major}.{minor + 1}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
