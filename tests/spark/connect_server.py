"""A job with a Spark Connect server: prints its port, and runs until its standard input ends."""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[4]").appName("server")
builder = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:]))
spark = (
    builder.config("spark.ui.enabled", "false")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", "0")
    .getOrCreate()
)
service = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$")
print("port", service.getField("MODULE$").get(None).localPort(), flush=True)
sys.stdin.read()
spark.stop()
