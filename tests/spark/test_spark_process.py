"""The warm processes in which other tests run their scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark_process import SparkRun
from tests.versions import NEWEST

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SCRIPT = Path(__file__).parent / "jobs" / "ends.py"


def test_a_process_that_ends_is_replaced(spark_run: SparkRun) -> None:
    """Each script has its own output, log level and exit code; one that ends the process fails alone."""
    for code in (0, 5):
        done = spark_run(NEWEST, SCRIPT, str(code), code=code)
        assert done.stdout == f"said {code}\n"
        assert done.stderr.count("logged") == 1
    with pytest.raises(RuntimeError, match="the process of Spark has ended"):
        spark_run(NEWEST, SCRIPT, "end")
    spark_run(NEWEST, SCRIPT, "0")
