"""Runs queries until a file is there, and at least a number; says how many: name, number, file, KEY=VALUE."""

import pathlib
import sys
import time

from pyspark.sql import SparkSession

name, least, until = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
builder = SparkSession.builder.master("local[2]").appName(name).config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[4:])).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 2)
queries = 0
while queries < least or not until.exists():
    spark.sql(f"SELECT * FROM range({queries + 1}) JOIN range(100000) USING (id)").collect()
    queries += 1
    print(f"queries {queries}", flush=True)
    time.sleep(0.1)
spark.stop()
print(f"done {queries}", flush=True)
