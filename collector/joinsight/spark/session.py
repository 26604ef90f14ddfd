"""The Spark session of commands: local, on a cluster by --master, or as set up by spark-submit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

from joinsight.base.errors import JoinsightError
from joinsight.spark.packages import reason_of

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # days are days of UTC, wherever it runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark cannot estimate what its tasks read from PostgreSQL, assumes it tiny, and would broadcast it
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)


@contextmanager
def session(name: str, master: str | None, *, shows_progress: bool = True) -> Iterator[SparkSession]:
    """A session with the required settings; without a master setting, Spark runs on all cores of this machine.

    `shows_progress`: Spark shows the progress of its stages on a terminal, for commands without progress output. Errors
    about paths and tables, and the errors of failed tasks, are raised as `JoinsightError`.
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
        raise JoinsightError(f"Spark reports: {str(error).strip().splitlines()[0]}") from None
    except PythonException as error:
        raise JoinsightError(f"A Spark task failed: {task_reason(str(error))}") from None
    except Py4JJavaError as error:
        raise JoinsightError(reason_of(error, spark.sparkContext._jvm)) from error
    finally:
        spark.stop()


def _use_this_python(spark: SparkSession) -> None:
    """Use this Python for local tasks if none is set, because Spark's default ``python3`` may lack the packages."""
    context = spark.sparkContext
    is_set = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not is_set and context.master.startswith("local"):
        context.pythonExec = sys.executable


def task_reason(text: str) -> str:
    """The error of a failed task: the last line of a worker's traceback."""
    errors = _PYTHON_ERROR.findall(text.rstrip())
    reason = errors[-1] if errors else text.strip().splitlines()[-1]
    if "No module named" in reason:
        reason += ". The executors' Python (PYSPARK_PYTHON) needs joinsight[spark]: joinsight docs lake"
    return re.sub(r"^joinsight\.base\.errors\.\w+: ", "", reason)
