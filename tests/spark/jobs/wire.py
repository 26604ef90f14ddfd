"""A slow query, ten short ones, one with odd characters, one that fails; settings as KEY=VALUE."""

import contextlib
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

builder = SparkSession.builder.master("local[2]").appName("wire").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
spark.sparkContext.setJobDescription("slow \N{GRINNING FACE}")
slow = F.udf(lambda n: __import__("time").sleep(0.4) or n, "long")
spark.range(10, numPartitions=10).select(slow("id").alias("id")).groupBy("id").count().collect()
spark.sparkContext.setJobDescription(None)
for n in range(10):
    spark.sql(f"SELECT count(*) FROM range({n}) JOIN range(5) USING (id)").collect()
# Spark's parser makes a NUL and half a surrogate pair of these escapes
spark.sql(r"SELECT concat(id, '\u0000 \ud83d odd') FROM range(3)").write.format("noop").mode("overwrite").save()
with contextlib.suppress(Exception):
    spark.sql("SELECT raise_error('broken on purpose')").collect()
spark.stop()
