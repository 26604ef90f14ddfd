"""`joinsight demo` on real parts: Spark, collector, embedded PostgreSQL, report."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import ran
from tests.versions import NEWEST

SECTIONS = ("Queries", "Plan", "History of a query", "Shuffles", "Broadcasts", "Joins", "Findings", "More")


@pytest.mark.spark
@pytest.mark.matrix
def test_the_report_has_all_sections_and_a_finding(
    tmp_path: Path, spark_environment: Callable[[str], dict[str, str]]
) -> None:
    """It has all sections, what users get as findings, and a query whose plan changed in its last run."""
    command = [sys.executable, "-m", "joinsight.cli", "demo", "--data", tmp_path / "data", "--port", "0"]
    done = ran(*command, env=spark_environment(NEWEST))
    report = done.stdout
    found = re.findall(r"^─+ (.*?)(?:, .*)? ─+$", report, re.MULTILINE)
    assert list(dict.fromkeys(found)) == list(SECTIONS)
    kinds = set(re.findall(r"^(?:critical|warning|info)  ([a-z-]+)", report, re.MULTILINE))
    assert "broadcast-failed" in kinds, kinds
    nights = report.partition("History of a query")[2].partition("Shuffles, largest")[0]
    assert nights.count(" ok ") == 6
    assert "Another plan: " in nights
