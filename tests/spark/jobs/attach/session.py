"""What the scripts of this folder share."""

import os
import warnings

from pyspark.sql import SparkSession

import joinsight

URL = os.environ["URL"]


def builder(name):
    """The builder of a small Spark."""
    made = SparkSession.builder.master("local[1]").appName(name).config("spark.ui.enabled", "false")
    return made.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")


def work(spark):
    """Run a query with a join."""
    print("result", spark.sql("SELECT * FROM range(100) a JOIN range(10) b ON a.id = b.id").count())


def run(made):
    """A whole application."""
    spark = made.getOrCreate()
    work(spark)
    spark.stop()


def said(action):
    """The warnings of Joinsight."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(each.message) for each in caught if each.category is joinsight.JoinsightWarning]
