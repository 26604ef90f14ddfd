"""Queries that fail in analysis, in a command, in planning and in a task; settings as KEY=VALUE.

Prints each failure as the user sees it, and as the JVM does once all listeners are done with it.
"""

import sys
import traceback

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").appName("traces").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
spark.conf.set("spark.sql.crossJoin.enabled", "false")
queries = (
    "SELECT nosuch FROM range(3)",
    "SELECT /*+ BROADCAST(b) */ a.nosuch FROM range(3) a JOIN range(4) b USING (id)",
    "SELECT * FROM nowhere",
    "INSERT INTO nowhere VALUES (1)",
    "CREATE TABLE t USING parquet AS SELECT nosuch FROM range(3)",
    "SELECT * FROM range(3) a, range(4) b WHERE a.id > 1",
    "SELECT /*+ BROADCAST(b) */ raise_error('on purpose') FROM range(3) a JOIN range(4) b USING (id)",
)
jvm, bus = spark._jvm, spark.sparkContext._jsc.sc().listenerBus()
for query in 2 * queries:
    print("==", query)
    try:
        spark.sql(query).collect()
    except Exception as error:
        bus.waitUntilEmpty(600_000)
        traceback.print_exc(file=sys.stdout)
        java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while java is not None:
            print(jvm.org.apache.spark.util.Utils.exceptionString(java))
            java = java.getCause()
spark.stop()
