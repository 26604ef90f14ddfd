"""The tests of this folder once more, on an older Spark, with executors that are processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.versions import SCALA_2_12

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.matrix
def test_on_another_spark(spark_environment: Callable[[str], dict[str, str]]) -> None:
    """Two executors that share nothing with the driver but the machine."""
    environment = spark_environment(SCALA_2_12)
    paths = [environment["PYTHONPATH"], str(ROOT / "collector"), str(ROOT)]
    environment |= {"PYTHONPATH": ":".join(paths), "JOINSIGHT_TEST_SPARK_MASTER": "local-cluster[2,1,1024]"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "spark and not matrix", str(Path(__file__).parent)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
