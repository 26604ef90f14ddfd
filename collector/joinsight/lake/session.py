"""The Spark of our own commands: local, on a cluster by --master, or what spark-submit has set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # days are days of UTC, wherever it runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


@contextmanager
def session(name: str, master: str | None) -> Iterator[SparkSession]:
    """A session with what we rely on; where no master is set anywhere, Spark runs in this process, on all cores."""
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
