"""A few queries that touch the branches in which Spark's versions differ; a script, run with a PySpark of any version.

``python workload.py --logs FOLDER [--conf KEY=VALUE]...``
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    options = {
        "spark.master": "local[2,2]",
        "spark.app.name": "a recorded log",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": arguments.logs.resolve().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.joinsight.jobName": "recorded",
        "spark.joinsight.tag.team": "tests",
    }
    options.update(pair.split("=", 1) for pair in arguments.conf)
    spark = SparkSession.builder.config(map=options).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        run(spark, folder)
    spark.stop()


def run(spark: SparkSession, folder: str) -> None:
    """All queries; what fails is meant to."""
    numbers = spark.range(0, 2000, 1, 3)
    sales = numbers.select("id", (f.col("id") % 10).alias("store"), (f.col("id") % 7).alias("amount"))
    sales.write.partitionBy("store").parquet(f"{folder}/sales")
    spark.range(10).select(f.col("id").alias("store"), (f.col("id") % 3).alias("region")).write.parquet(
        f"{folder}/stores"
    )
    sales, stores = spark.read.parquet(f"{folder}/sales"), spark.read.parquet(f"{folder}/stores")
    sales.createOrReplaceTempView("sales")
    stores.createOrReplaceTempView("stores")
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        joined(sales, stores, "broadcast")
        joined(sales, stores, "merge")
        joined(sales, stores, "shuffle_hash")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    # Dynamic partition pruning, a scalar subquery, a join with nothing
    spark.sql("SELECT sum(amount) FROM sales JOIN stores USING (store) WHERE region = 1").collect()
    spark.sql("SELECT count(*) FROM sales WHERE amount > (SELECT avg(amount) FROM sales)").collect()
    spark.sql("SELECT count(*) FROM sales a JOIN (SELECT * FROM stores WHERE store > 99) b USING (store)").collect()
    cached = stores.groupBy("region").count().cache()
    cached.collect()
    cached.join(stores, "region").collect()
    with contextlib.suppress(Exception):
        spark.sql("SELECT raise_error('on purpose') FROM sales LIMIT 1").collect()
    with contextlib.suppress(Exception):
        spark.sql("SELECT * FROM nowhere").collect()
    spark.sparkContext.setJobGroup("a group", "described")
    sales.orderBy("amount").limit(3).collect()
    for row in sales.repartition(2).toLocalIterator():
        assert row is not None


def joined(sales: DataFrame, stores: DataFrame, strategy: str) -> None:
    sales.join(stores.hint(strategy), "store").groupBy("region").agg(f.sum("amount")).collect()


if __name__ == "__main__":
    main()
