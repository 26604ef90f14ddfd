"""The Spark of our own commands: local, on a cluster by --master, or what spark-submit has set up."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

from joinsight.errors import JoinsightError

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # days are days of UTC, wherever it runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark does not know what its tasks will read of PostgreSQL, takes it for tiny, and broadcasts all of it
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)


@contextmanager
def session(name: str, master: str | None, *, shows_progress: bool = True) -> Iterator[SparkSession]:
    """A session with what we rely on; where no master is set anywhere, Spark runs on this machine, on all cores.

    `shows_progress`: Spark draws on a terminal how far its stages are, for commands that say nothing of it themselves.
    What is wrong with a path or a table, or what a task has failed of, is raised as `JoinsightError`.
    """
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.ui.showConsoleProgress", str(shows_progress).lower())
    spark = builder.getOrCreate()
    _use_this_python(spark)
    try:
        yield spark
    except AnalysisException as error:
        raise JoinsightError(f"Spark says: {str(error).strip().splitlines()[0]}") from None
    except PythonException as error:
        raise JoinsightError(f"A task of Spark has failed: {task_reason(str(error))}") from None
    finally:
        spark.stop()


def _use_this_python(spark: SparkSession) -> None:
    """Spark takes ``python3`` for its tasks if nobody says otherwise, which may be one without our packages."""
    context = spark.sparkContext
    is_set = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not is_set and context.master.startswith("local"):
        context.pythonExec = sys.executable


def task_reason(text: str) -> str:
    """What a task failed of: the last line of a worker's traceback."""
    found = _PYTHON_ERROR.findall(text.rstrip())
    reason = found[-1] if found else text.strip().splitlines()[-1]
    if "No module named" in reason:
        reason += (
            ". The Python of the executors needs joinsight[spark]: PYSPARK_PYTHON says which one it is (docs/lake.md)"
        )
    return re.sub(r"^joinsight\.errors\.\w+: ", "", reason)
