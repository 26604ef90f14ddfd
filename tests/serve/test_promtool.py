"""Prometheus' own tool accepts our metrics and configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.processes import ran
from tests.serve.test_metrics import filled

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (CI installs it)")


def test_metrics_follow_the_conventions() -> None:
    """`promtool check metrics` passes on a page on which every metric has a value."""
    page = filled().page()
    assert b"_created" not in page
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stderr + done.stdout) == (0, b"")


def test_the_scrape_configuration_is_valid() -> None:
    """`promtool check config` accepts the file in dashboards/."""
    file = DASHBOARDS / "prometheus" / "prometheus.yml"
    ran("promtool", "check", "config", file)
