"""The Spark of our own commands: local, on a cluster by --master, or what spark-submit has set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from joinsight.errors import JoinsightError

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # days are days of UTC, wherever it runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@contextmanager
def session(name: str, master: str | None) -> Iterator[SparkSession]:
    """A session with what we rely on; where no master is set anywhere, Spark runs on this machine, on all cores.

    What is wrong with a path or a table is raised as `JoinsightError`.
    """
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    except AnalysisException as error:
        raise JoinsightError(f"Spark says: {str(error).strip().splitlines()[0]}") from None
    finally:
        spark.stop()
