"""Joinsight: what every join and shuffle of a Spark SQL query really cost."""

__version__ = "0.1.0"
