"""The history in Spark: tables as DataFrames, as Parquet, and rolled up by day.

Only what is called imports PySpark: ``import joinsight`` must stay light, in the driver of any job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from joinsight.errors import JoinsightError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTIONS = 16
"""To PostgreSQL, at the same time, for each table that is read or written."""


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
    """A table or view of the store as a DataFrame, read by Spark's tasks when an action asks for it.

    `since` and `until` (excluded) are about `started_at`, in UTC where they have no zone; only the months between are
    read. `columns` are read and no others. `url` is the database, as `JOINSIGHT_DATABASE_URL`, which is the standard;
    without either the embedded database is used, which then runs until this program ends. The DataFrame has at most
    `connections` partitions, each of which reads through one connection.

    Types: ``timestamptz`` is timestamp, ``jsonb`` and multiranges are string, arrays are arrays. The Python of the
    executors needs joinsight, too. Raises `ConfigurationError` for a name that is not there, `DatabaseError` when no
    server answers, `JoinsightError` where PyArrow or pandas are missing. Each task reads what is committed when it
    begins.
    """
    check_packages()
    from joinsight.lake.read import read

    return read(spark, table, since, until, columns, url, connections)


def check_packages() -> None:
    """Raises `JoinsightError` where packages are missing that PySpark needs to exchange data with Python."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise JoinsightError(
            f"Spark cannot read the history: there is no {error.name} here. Run: pip install 'joinsight[spark]'"
        ) from None
