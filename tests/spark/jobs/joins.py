"""Joins that only Spark 4.3 has; settings as KEY=VALUE."""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("joins").config("spark.ui.enabled", "false")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[1:])).getOrCreate()
spark.range(40).selectExpr("id % 3 AS k", "id * 2 AS t", "id AS v").createOrReplaceTempView("trades")
spark.range(30).selectExpr("id % 3 AS k", "id * 3 + 10 AS t", "id AS w").createOrReplaceTempView("quotes")


def query(name, sql):
    spark.sparkContext.setJobDescription(name)
    return spark.sql(sql).collect()


ASOF = "trades {} JOIN quotes MATCH_CONDITION (trades.t >= quotes.t)"
query("as of", "SELECT * FROM " + ASOF.format("ASOF") + " ON trades.k = quotes.k")
query("left", "SELECT * FROM " + ASOF.format("LEFT ASOF") + " ON trades.k = quotes.k AND trades.v + 5 > quotes.w")
query("all", "SELECT * FROM " + ASOF.format("ASOF"))
spark.sparkContext.setJobDescription("nearest")
trades, quotes = spark.table("trades"), spark.table("quotes")
trades._joinAsOf(quotes, trades.t, quotes.t, on="k", how="left", direction="nearest").collect()
query("possible", "SELECT * FROM trades JOIN quotes USING (k)")
query("merge", "SELECT /*+ MERGE(quotes) */ * FROM trades JOIN quotes USING (k)")
spark.conf.set("spark.sql.maxBroadcastTableSize", "100b")
query("too large", "SELECT * FROM trades JOIN quotes USING (k)")
spark.stop()
