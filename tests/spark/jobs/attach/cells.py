"""Cells of a notebook that are run again, changed, and run after the context was stopped; three names."""

import sys

from pyspark.sql import SparkSession
from session import URL, builder, said, work

import joinsight


def cell(made, tags):
    print("warnings", *said(lambda: joinsight.attach(made, url=URL, tags=tags)))
    return made


*names, from_the_start = sys.argv[1:]
for name in names:
    spark = builder(name).getOrCreate()
    for team in "sales", "sales", "finance":
        cell(SparkSession.builder, {"team": team, "cell": name})
        work(spark)
    spark.stop()
cell(builder(from_the_start), {"team": "finance"})
spark = cell(builder(from_the_start), {"team": "finance"}).getOrCreate()
cell(SparkSession.builder, {"team": "finance"})
work(spark)
cell(SparkSession.builder, {"team": "sales"})
work(spark)
spark.stop()
