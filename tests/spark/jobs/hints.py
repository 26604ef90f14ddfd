"""Joins with hints, also in a subquery and a cached plan; settings as KEY=VALUE."""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("hints").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()


def query(name, sql):
    spark.sparkContext.setJobDescription(name)
    return spark.sql(sql).collect()


for adaptive in ("true", "false"):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    query("none", "SELECT count(*) FROM range(10) a JOIN range(20) b USING (id)")
    query("left", "SELECT /*+ BROADCAST(a) */ count(*) FROM range(10) a JOIN range(20) b USING (id)")
    query("right", "SELECT /*+ MERGE(b) */ count(*) FROM range(10) a JOIN range(20) b USING (id)")
    inner = "SELECT /*+ SHUFFLE_HASH(a, b) */ count(*) FROM range(4) a JOIN range(5) b USING (id)"
    query("subquery", f"SELECT * FROM range(9) WHERE id > ({inner})")
spark.sql("CACHE LAZY TABLE cached AS SELECT /*+ SHUFFLE_REPLICATE_NL(a) */ a.id FROM range(3) a JOIN range(5) b")
query("cached", "SELECT count(*) FROM cached")
spark.stop()
