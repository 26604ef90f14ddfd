"""What all uses of the store in Spark need: the packages, and how many connections they open."""

from __future__ import annotations

from joinsight.base.errors import JoinsightError

CONNECTIONS = 16
"""Maximum concurrent connections to PostgreSQL for each table that is read or written."""


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
