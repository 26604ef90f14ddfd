"""What all uses of the store in Spark need: the packages, of Python and of Java, and how many connections they open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from joinsight.base.errors import JoinsightError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

CONNECTIONS = 16
"""Maximum concurrent connections to PostgreSQL for each table that is read or written."""
_CLASS_AT_END = re.compile(r"([\w$]+(?:\.[\w$]+)+)(?: not found)?$")
_IN_PACKAGE = {
    "org.apache.hadoop.fs.s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "org.apache.hadoop.fs.azurebfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "com.google.cloud.hadoop.fs.gcs": "com.google.cloud.bigdataoss:gcs-connector",
    "software.amazon.awssdk": "software.amazon.awssdk:bundle",
    "software.amazon.s3.analyticsaccelerator": "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
}
"""The package of Maven that has the classes of a file system; `hadoop` is the version of Spark's own Hadoop."""


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


def reason_of(error: Py4JJavaError, jvm: Any) -> str:
    """The first line of Java's message; for a class that is missing, the package that has it."""
    exception = error.java_exception
    text = str(exception.getMessage() or exception.toString()).strip().splitlines()[0]
    return missing_package(text, str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())) or text


def missing_package(text: str, hadoop: str) -> str | None:
    """What to add for a class that is missing by Java's message, which may be its name alone; None for others.

    `hadoop`: the version of Spark's own Hadoop.
    """
    found = _CLASS_AT_END.search(text.replace("/", "."))
    for classes, package in _IN_PACKAGE.items():
        if found and found[1].startswith(f"{classes}."):
            needed = package.format(hadoop=hadoop)
            return (
                f"Spark lacks {found[1]}, which is in {needed}: add that to spark.jars.packages in spark-defaults.conf"
                " (docs/backfill.md)"
            )
    return None
