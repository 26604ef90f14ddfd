"""Implements `joinsight.history`.

PySpark is imported in the function only, because any job's driver may ``import joinsight``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from joinsight.spark.packages import CONNECTIONS, check_packages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def history(
    spark: SparkSession,
    table: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    columns: Sequence[str] | None = None,
    url: str | None = None,
    connections: int = CONNECTIONS,
) -> DataFrame:
    """A table or view of the store as a DataFrame, which Spark's tasks read during an action.

    `since` and `until` (excluded) limit `started_at`, in UTC if they have no zone; only the months between are
    read. Only `columns` are read. `url` is the database's (default: `JOINSIGHT_DATABASE_URL`);
    without either, the embedded database is used, which then runs until this program ends. The DataFrame has at most
    `connections` partitions, each of which reads through one connection.

    Types: ``timestamptz`` is timestamp, ``jsonb`` and multiranges are string, arrays are arrays. The Python of the
    executors needs joinsight, too. Raises `ConfigurationError` for an unknown table or column, `DatabaseError` when no
    server answers, `JoinsightError` if PyArrow or pandas is missing. Each task reads what is committed when it
    begins.
    """
    check_packages()
    from joinsight.spark.read import read

    return read(spark, table, since, until, columns, url, connections)
