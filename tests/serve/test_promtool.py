"""Prometheus' own tool has nothing to say against our metrics and our configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.documents import planned

from joinsight.rows import execution_rows
from joinsight.serve.metrics import Metrics

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (CI installs it)")


def test_metrics_follow_the_conventions() -> None:
    """`promtool check metrics` passes on a page on which every metric has a value."""
    metrics = Metrics()
    metrics.requests.labels(200).inc()
    drawing = """
        BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=3
          Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900, records read=1+2+9
          BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=9, time to collect=1, time to build=1
    """
    metrics.finished(execution_rows(planned(drawing)))
    page = metrics.page()
    assert b'joinsight_joins_total{strategy="BroadcastHashJoin"} 1.0' in page
    assert b"_created" not in page
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stderr + done.stdout) == (0, b"")


def test_the_scrape_configuration_is_valid() -> None:
    """`promtool check config` accepts the file in dashboards/."""
    file = DASHBOARDS / "prometheus" / "prometheus.yml"
    done = subprocess.run(["promtool", "check", "config", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
