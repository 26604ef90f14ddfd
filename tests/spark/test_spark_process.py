"""The warm processes in which other tests run their scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark_process import SparkRun
from tests.versions import NEWEST

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SCRIPT = """
import os, sys
from pyspark import SparkContext
log4j = SparkContext._jvm.org.apache.logging.log4j
log4j.LogManager.getLogger("job").warn("logged")
log4j.core.config.Configurator.setRootLevel(log4j.Level.OFF)
print("said", *sys.argv[1:])
if sys.argv[1] == "end":
    os._exit(3)
sys.exit(int(sys.argv[1]))
"""


def test_a_process_that_ends_is_replaced(spark_run: SparkRun, tmp_path: Path) -> None:
    """Each script has its own output, log level and exit code; one that ends the process fails alone."""
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    for code in (0, 5):
        done = spark_run(NEWEST, script, str(code))
        assert (done.returncode, done.stdout) == (code, f"said {code}\n")
        assert done.stderr.count("logged") == 1
    with pytest.raises(RuntimeError, match="the process of Spark has ended"):
        spark_run(NEWEST, script, "end")
    assert spark_run(NEWEST, script, "0").returncode == 0
