"""Joinsight: what every join and shuffle of a Spark SQL query costs.

``joinsight.attach(SparkSession.builder, url=...)`` attaches the listener, ``joinsight.history(spark, table)`` reads the
stored history; everything else is the command ``joinsight``.
"""

from joinsight.attach import JoinsightWarning, attach, listener_jar
from joinsight.spark import history

__all__ = ["JoinsightWarning", "__version__", "attach", "history", "listener_jar"]

__version__ = "0.1.0"
