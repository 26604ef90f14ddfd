"""Tasks that sleep in one operator: HOW TASKS ROWS SLEEP_MS KEY=VALUE...

HOW is `settings`, which attach the listener by themselves; `attach`, before the session starts; `late`, to a running
context; or `measure`, which prints the documents. The sleep is interpreted, as `reflect` has no code; it is as long on
any machine.
"""

import sys

from pyspark.sql import SparkSession

import joinsight

how = sys.argv[1]
tasks, rows, sleep_ms = map(int, sys.argv[2:5])
builder = SparkSession.builder.appName("samples").config("spark.ui.enabled", "false")
conf = dict(pair.split("=", 1) for pair in sys.argv[5:])
builder = builder.config(map=conf)
if how == "attach":
    joinsight.attach(builder, url=conf["spark.joinsight.url"], call_sites=False)
spark = builder.getOrCreate()
if how == "late":
    spark.sparkContext.setLogLevel("INFO")
    joinsight.attach(SparkSession.builder, url=conf["spark.joinsight.url"], call_sites=False)
    spark.sparkContext.setLogLevel("WARN")
sleep = f"reflect('java.lang.Thread', 'sleep', {sleep_ms}L + 0 * id)"


def query(name, sql):
    spark.sparkContext.setJobDescription(name)
    spark.sql(sql).collect()


def queries():
    query("below", f"SELECT count(*) FROM range(0, {tasks * rows}, 1, {tasks}) WHERE {sleep} IS NOT NULL")
    query("above", f"SELECT id, {sleep} FROM (SELECT id % 1000 AS id FROM range({tasks * rows}) GROUP BY 1)")
    query("code", "SELECT sum(crc32(sha2(string(id), 512))) FROM range(0, 1000000, 1, 2)")
    spark.sparkContext.setJobDescription("rdd")
    spark.sparkContext.parallelize([1], 1).map(lambda x: __import__("time").sleep(1)).collect()


if how == "measure":
    print(joinsight.measure(queries).documents().decode())
else:
    queries()
spark.stop()
