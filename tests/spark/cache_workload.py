"""Cached tables for `test_caches.py`; the descriptions of the executions say which one they fill or read.

Needs PySpark and nothing else of Joinsight: it runs in a process of its own, under any Spark version::

    python cache_workload.py FOLDER [KEY=VALUE ...]
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(folder: str, *settings: str) -> None:
    """Run all, each under its description."""
    builder = SparkSession.builder.master("local[2]").appName("caches")
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder}
    spark = builder.config(map={**conf, **dict(each.split("=", 1) for each in settings)}).getOrCreate()
    run = spark.sparkContext.setJobDescription

    plain = spark.range(0, 4_000, 1, 4).selectExpr("id", "id % 7 AS k").filter("k < 5").cache()
    run("plain: fill a part")
    plain.take(1)
    (stored,) = spark.sparkContext._jsc.sc().getRDDStorageInfo()  # under AQE, Spark 3.5 fills all of it
    run("plain: fill the rest" if stored.numCachedPartitions() < 4 else "plain: read the rest")
    plain.count()
    run("plain: read")
    plain.count()
    run("plain: read twice")
    plain.alias("a").join(plain.alias("b"), "id").count()

    grouped = spark.range(0, 4_000, 1, 2).selectExpr("id % 100 AS k", "id").groupBy("k").agg(f.sum("id").alias("t"))
    grouped.cache()
    run("grouped: fill")
    grouped.count()
    run("grouped: read by an equal plan")
    again = spark.range(0, 4_000, 1, 2).selectExpr("id % 100 AS k", "id").groupBy("k").agg(f.sum("id").alias("t"))
    again.filter("t > 5").groupBy("t").count().collect()

    nested = grouped.join(plain, "k").cache()
    run("nested: fill, plain: read, grouped: read")
    nested.count()
    run("nested: read")
    nested.count()

    plain.unpersist(True)
    run("nothing")
    spark.range(0, 4_000, 1, 4).selectExpr("id", "id % 7 AS k").filter("k < 5").count()
    plain.cache()
    run("again: fill")
    plain.count()
    run("again: read")
    plain.count()

    run("named: fill")
    spark.sql("CACHE TABLE named AS SELECT id, id % 3 AS k FROM range(0, 1000)")
    run("named: read")
    spark.sql("SELECT k, count(*) FROM named GROUP BY k").collect()
    spark.range(0, 1_000).createOrReplaceTempView("lazy")
    spark.sql("CACHE LAZY TABLE lazy")
    run("lazy: fill")
    spark.sql("SELECT count(*) FROM lazy").collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
