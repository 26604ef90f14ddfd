"""Tasks that sleep in one operator: TASKS ROWS SLEEP_MS KEY=VALUE...

The sleep is interpreted, as `reflect` has no code; it is as long on any machine.
"""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.appName("samples").config("spark.ui.enabled", "false")
tasks, rows, sleep_ms = map(int, sys.argv[1:4])
for pair in sys.argv[4:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
sleep = f"reflect('java.lang.Thread', 'sleep', {sleep_ms}L + 0 * id)"


def query(name, sql):
    spark.sparkContext.setJobDescription(name)
    spark.sql(sql).collect()


query("below", f"SELECT count(*) FROM range(0, {tasks * rows}, 1, {tasks}) WHERE {sleep} IS NOT NULL")
query("above", f"SELECT id, {sleep} FROM (SELECT id % 1000 AS id FROM range({tasks * rows}) GROUP BY 1)")
query("code", "SELECT sum(crc32(sha2(string(id), 512))) FROM range(0, 1000000, 1, 2)")
spark.sparkContext.setJobDescription("rdd")
spark.sparkContext.parallelize([1], 1).map(lambda x: __import__("time").sleep(1)).collect()
spark.stop()
