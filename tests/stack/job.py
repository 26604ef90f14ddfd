"""A job of two queries that sends to a collector: job.py URL TOKEN_FILE NAME."""

import sys

from pyspark.sql import SparkSession

import joinsight

url, token_file, name = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").appName(name).config("spark.ui.enabled", "false")
builder = builder.config("spark.joinsight.tokenFile", token_file).config("spark.joinsight.spool", "none")
builder = builder.config("spark.joinsight.shutdownTimeout", "30s").config("spark.sql.shuffle.partitions", "2")
spark = joinsight.attach(builder, url=url).getOrCreate()
orders = spark.range(1000).selectExpr("id", "id % 10 AS customer")
customers = spark.range(10).selectExpr("id AS customer", "'name' AS name")
orders.join(customers, "customer").groupBy("name").count().collect()
orders.groupBy("customer").count().collect()
spark.stop()
