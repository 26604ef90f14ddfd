"""Queries with and without SQL texts and descriptions; settings as KEY=VALUE."""

import contextlib
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

builder = SparkSession.builder.master("local[2]").appName("titles").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
folder = tempfile.mkdtemp()
(
    spark.range(40)
    .selectExpr("id AS order_id", "id % 7 AS customer_id", "id * 2.0D AS amount", "id AS secret")
    .write.parquet(f"{folder}/orders")
)
(
    spark.range(7)
    .selectExpr("id AS customer_id", "IF(id < 3, 'gold', 'other') AS segment")
    .write.parquet(f"{folder}/customers")
)
orders, customers = spark.read.parquet(f"{folder}/orders"), spark.read.parquet(f"{folder}/customers")
orders.createOrReplaceTempView("o")
customers.createOrReplaceTempView("c")
big = orders.where("amount > 10")
big.join(customers, "customer_id").groupBy("segment").count().show()
big.join(customers, "customer_id").groupBy("segment").count().write.parquet(f"{folder}/reports/daily")
orders.select("order_id").union(orders.select("customer_id")).distinct().collect()
cached = orders.groupBy("customer_id").agg(f.sum("amount")).cache()
cached.count()
cached.unpersist(True)
spark.sql("SELECT segment, max(amount) /* the most */ FROM o\nJOIN c USING (customer_id) GROUP BY segment").show()
part = spark.sql("SELECT order_id, amount FROM o WHERE amount > (SELECT avg(amount) FROM o)")
part.collect()
part.groupBy().max("amount").collect()
spark.sql("SELECT * FROM o WHERE 'password=topsecret' <> string(amount)").collect()
spark.sql("SELECT amount FROM o WHERE customer_id = :id", args={"id": 3}).collect()
spark.sql("SELECT segment, customer_id FROM c").write.saveAsTable("by_segment")
spark.sql("CREATE TABLE kept USING parquet OPTIONS (password 'hunter2') AS SELECT segment FROM c")
spark.sql(f"SELECT customer_id, '{'x' * 70_000}' AS pad FROM o").collect()
with contextlib.suppress(Exception):
    spark.sql("SELECT raise_error(segment) AS broken FROM c").collect()
spark.sparkContext.setJobDescription("Named by hand")
spark.sql("SELECT count(*) FROM o").collect()
spark.stop()
