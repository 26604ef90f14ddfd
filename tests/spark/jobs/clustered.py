"""A query with slow tasks on a cluster; a name, a URL to attach to or nothing, KEY=VALUE."""

import sys

from pyspark.sql import SparkSession

import joinsight

name, url, *conf = sys.argv[1:]
builder = SparkSession.builder.appName(name)
builder = builder.config(map=dict(pair.split("=", 1) for pair in conf))
spark = (joinsight.attach(builder, url=url) if url else builder).getOrCreate()
sleep = "reflect('java.lang.Thread', 'sleep', 20L + 0 * a.id)"
spark.sql(f"SELECT {sleep} FROM range(0, 100, 1, 2) a JOIN range(10) b ON a.id % 10 = b.id").collect()
spark.stop()
