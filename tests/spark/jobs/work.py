"""Queries whose tasks do mostly one kind of work: URL."""

import sys

from pyspark.sql import SparkSession

URL = sys.argv[1]
ROWS = 2_000
conf = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.extraListeners": "io.joinsight.JoinsightListener",
    "spark.joinsight.url": URL,
    "spark.joinsight.sampleInterval": "20ms",
    "spark.sql.shuffle.partitions": "2",
}
builder = SparkSession.builder.appName("work")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.udf.register("slow", lambda x: sum(range(20_000)) + x, "long")

# Each step of the expression tries every place again
backtracking = "concat(repeat('ab', 60 + id % 2), '.') RLIKE '^.*a.*b.*c'"
fields = ", ".join(f'"f{number}": {{"a": [1, 2, 3], "b": "text"}}' for number in range(100))
json = f"from_json(concat('{{{fields}, \"id\": ', id, '}}'), 'id LONG, f7 STRUCT<a: ARRAY<INT>, b: STRING>')"
amount = "CAST(id AS DECIMAL(38, 18)) / CAST(id % 97 + 1 AS DECIMAL(38, 18))"
queries = {
    "regex": f"SELECT id % 10, count(*) FROM range(0, {ROWS}, 1, 2) WHERE NOT {backtracking} GROUP BY 1",
    "json": f"SELECT sum(row.id), max(row.f7.b) FROM (SELECT {json} AS row FROM range(0, {20 * ROWS}, 1, 2))",
    "decimal": f"SELECT id % 10, sum({amount}), avg({amount}) FROM range(0, {500 * ROWS}, 1, 2) GROUP BY 1",
    "python": f"SELECT sum(slow(id)) FROM range(0, {2 * ROWS}, 1, 2)",
}
for name, sql in queries.items():
    spark.sparkContext.setJobDescription(name)
    spark.sql(sql).collect()
spark.stop()
