"""The history in Spark: tables as DataFrames, exported as Parquet, and rolled up by day.

PySpark is imported by functions only, because any job's driver may ``import joinsight``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from joinsight.errors import JoinsightError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTIONS = 16
"""Maximum concurrent connections to PostgreSQL for each table that is read or written."""


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


def check_packages() -> None:
    """Raise `JoinsightError` if PySpark, or a package that it needs to exchange data with Python, is missing."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise JoinsightError(
            f"Spark cannot read the history: {error.name} is not installed. Run: pip install 'joinsight[spark]'"
        ) from None
