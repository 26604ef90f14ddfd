"""Queries that fail in Spark Connect; settings as KEY=VALUE."""

import sys
import traceback

from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[1]")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
spark.conf.set("spark.sql.connect.serverStacktrace.enabled", "true")
for query in 2 * ("SELECT nosuch FROM range(3)", "SELECT raise_error('on purpose') FROM range(3)"):
    print("==", query)
    try:
        spark.sql(query).collect()
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        print(error.getStackTrace() if hasattr(error, "getStackTrace") else "")
spark.stop()
