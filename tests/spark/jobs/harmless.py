"""Calls every callback: AQE, subqueries, driver updates, sessions, threads, a failure; settings as KEY=VALUE."""

import sys
import threading
import time

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("harmless").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()


def work(session):
    session.conf.set("spark.sql.shuffle.partitions", 3)
    query = "SELECT a.id % 7 AS k, count(*) AS n FROM range(1000) a JOIN range(50) b USING (id) GROUP BY k"
    rows = session.sql(f"SELECT * FROM ({query}) WHERE n > (SELECT min(id) FROM range(3)) ORDER BY k").collect()
    results.append(sum(row.n for row in rows))


results = []
threads = [threading.Thread(target=work, args=(spark.newSession(),)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("results", *results, flush=True)
time.sleep(1)  # heartbeats, progress
try:
    spark.sql("SELECT raise_error('on purpose')").collect()
except Exception:
    print("failed as it should", flush=True)
began = time.monotonic()
spark.stop()
print("stopped after", time.monotonic() - began, flush=True)
