"""A job of two queries: job.py [sleep | wait | held FILE]. spark-submit sets the rest.

``sleep``: the second runs until it is killed. ``held``: a query between them has shuffled rows, then makes the file
``FILE.runs`` and waits for FILE. ``wait``: it starts when there is a file ``go``, then makes the file
``done``, and the job ends when there is a file ``end``.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf


def wait(name: str) -> None:
    while "wait" in sys.argv and not Path(name).exists():
        time.sleep(0.1)


spark = SparkSession.builder.getOrCreate()
orders = spark.range(100_000).selectExpr("id", "id % 10 AS customer")
customers = spark.range(10).selectExpr("id AS customer", "'name' AS name")
orders.join(customers.hint("merge"), "customer").groupBy("name").count().collect()
wait("go")
if "held" in sys.argv:
    file = Path(sys.argv[-1])

    def hold(number: int) -> int:
        file.with_suffix(".runs").touch()
        while not file.exists():
            time.sleep(0.1)
        return number

    spark.range(100).repartition(2).select(udf(hold)("id")).collect()
if "sleep" in sys.argv:
    spark.range(1).select(udf(lambda _: time.sleep(3600))("id")).collect()
orders.groupBy("customer").count().collect()
if "wait" in sys.argv:
    Path("done").touch()
wait("end")
spark.stop()
