"""Tests of this folder once more, on an older Spark, with executors that are processes of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import ran
from tests.versions import SCALA_2_12

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize(
    "files", [["test_history.py"], pytest.param(["test_export.py", "test_rollup.py"], marks=pytest.mark.nightly)]
)
def test_on_another_spark(files: list[str], spark_environment: Callable[[str], dict[str, str]]) -> None:
    """Two executors that share nothing with the driver but the machine."""
    environment = spark_environment(SCALA_2_12)
    paths = [environment["PYTHONPATH"], str(ROOT / "collector"), str(ROOT)]
    environment |= {"PYTHONPATH": ":".join(paths), "JOINSIGHT_TEST_SPARK_MASTER": "local-cluster[2,1,1024]"}
    tests = [str(Path(__file__).with_name(name)) for name in files]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "spark and not matrix", *tests]
    ran(*command, env=environment, cwd=ROOT)
