"""Queries whose tasks do mostly one kind of work: URL. Each runs again with more rows until it takes a second."""

import sys
import time

from pyspark.sql import SparkSession

URL = sys.argv[1]
ROWS = 2_000
SECONDS = 1
"""However fast the machine is, there are samples enough in that time."""
conf = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.extraListeners": "io.joinsight.JoinsightListener",
    "spark.joinsight.url": URL,
    "spark.joinsight.sampleInterval": "20ms",
    "spark.sql.shuffle.partitions": "2",
}
spark = SparkSession.builder.appName("work").config(map=conf).getOrCreate()
spark.udf.register("slow", lambda x: sum(range(20_000)) + x, "long")

# Each step of the expression tries every place again
backtracking = "concat(repeat('ab', 60 + id % 2), '.') RLIKE '^.*a.*b.*c'"
fields = ", ".join(f'"f{number}": {{"a": [1, 2, 3], "b": "text"}}' for number in range(100))
json = f"from_json(concat('{{{fields}, \"id\": ', id, '}}'), 'id LONG, f7 STRUCT<a: ARRAY<INT>, b: STRING>')"
amount = "CAST(id AS DECIMAL(38, 18)) / CAST(id % 97 + 1 AS DECIMAL(38, 18))"
queries = {
    "regex": (1, f"SELECT id % 10, count(*) FROM range(0, $rows, 1, 2) WHERE NOT {backtracking} GROUP BY 1"),
    "json": (20, f"SELECT sum(row.id), max(row.f7.b) FROM (SELECT {json} AS row FROM range(0, $rows, 1, 2))"),
    "decimal": (500, f"SELECT id % 10, sum({amount}), avg({amount}) FROM range(0, $rows, 1, 2) GROUP BY 1"),
    "python": (2, "SELECT sum(slow(id)) FROM range(0, $rows, 1, 2)"),
}
for name, (factor, sql) in queries.items():
    spark.sparkContext.setJobDescription(name)
    rows, took = factor * ROWS, 0.0
    spark.sql(sql.replace("$rows", "2")).collect()
    while took < SECONDS:
        started = time.monotonic()
        spark.sql(sql.replace("$rows", str(rows))).collect()
        took = time.monotonic() - started
        rows *= 2
spark.stop()
