"""Queries with secrets and literals in every place: FOLDER KEY=VALUE..."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

builder = SparkSession.builder.master("local[2]")
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[2:])).getOrCreate()
sc, folder = spark.sparkContext, sys.argv[1]
people = folder + "/people"
# the secret is in the path and is a partition's value
(
    spark.range(200)
    .select(
        "id",
        (F.col("id") % 10).alias("k"),
        F.concat(F.lit("n"), "id").alias("name"),
        F.lit("ZqSpartition").alias("password"),
    )
    .write.partitionBy("password")
    .parquet(people)
)
spark.read.parquet(people).createOrReplaceTempView("people")

spark.conf.set("spark.runtime.secret", "ZqSruntime")
spark.conf.set("spark.sql.adaptive.custom.password", "ZqSallowed")
sc.setLocalProperty("my.password", "ZqSlocal")
sc.setLocalProperty("spark.my.token", "ZqSlocal2")
sc.setJobGroup("group token=ZqSgroup", "load with password=ZqSdescription")
if hasattr(sc, "addJobTag"):
    sc.addJobTag("token=ZqStag")
spark.sql("SELECT count(*) FROM people WHERE password = 'ZqSpartition'").collect()
spark.sql("SELECT k FROM people WHERE name <> 'https://u:ZqSurl@host/x' AND name <> 'Zqcard123'").collect()
spark.read.parquet(people + "/password=ZqSpartition").groupBy("k").count().collect()
spark.sql(f"CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '{people}', password 'ZqSoption')")
sc.setLocalProperty("callSite.short", "count at password=ZqScallsite")
spark.table("v").repartition(3).count()
sc.setLocalProperty("callSite.short", None)

spark._jvm.java.lang.System.setProperty("derby.stream.error.file", folder + "/derby.log")
url = "jdbc:derby:memory:db;create=true;user=u;password=ZqSjdbc"
options = {"driver": "org.apache.derby.jdbc.EmbeddedDriver", "user": "u", "password": "ZqSjdbc"}
spark.range(5).selectExpr("CAST(id AS int) AS n").write.jdbc(url, "t", properties=options)
spark.read.jdbc(url, '(SELECT "n", \'ZqLjdbc\' AS "s" FROM t) q', properties=options).filter("n < 424242").collect()

sc.setJobDescription("SELECT 'ZqLdescription, it''s', \"ZqLdouble\" -- ZqLcomment")
spark.conf.set("spark.sql.redaction.string.regex", r"Zqsession\w+")
# a first one under the session's pattern: AQE off and on, so that Spark draws subqueries and reuse both ways
for aqe in ("false", "true"):
    spark.conf.set("spark.sql.adaptive.enabled", aqe)
    for threshold in ("-1", "10MB"):
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
        spark.sql("""
            SELECT a.k, count(*), max(concat(a.name, 'ZqLmore (words), here')), 'Zqsession1'
            FROM people a JOIN people b ON a.k = b.k AND concat(a.name, 'ZqLcondition') < b.name
            WHERE a.name <> 'ZqLfilter AND Inner' AND a.name NOT IN ('ZqLin#1', 'ZqL]in', 'ZqL)in') AND b.id < 918273
              AND a.id > (SELECT min(id) FROM people WHERE name > 'ZqLsub1' OR id < 82371)
              AND a.id > (SELECT min(id) FROM people WHERE name > 'ZqLsub2' OR id < 82371)
              AND b.name LIKE 'n%' AND b.name NOT LIKE '%ZqLlike%' AND a.name > 'ZqLzero'
            GROUP BY a.k ORDER BY 1 LIMIT 82371""").collect()
        spark.sql("""
            SELECT /*+ SHUFFLE_HASH(b) */ * FROM (SELECT k, min(id) AS m FROM people WHERE name > 'ZqLone' GROUP BY k) a
            FULL JOIN (SELECT k, min(id) AS m FROM people WHERE name > 'ZqLtwo' GROUP BY k) b ON a.k = b.k + 918273
        """).collect()
        spark.table("people").select(
            "k",
            F.lit("ZqLunnamed"),
            F.lit("ZqLnamed").alias("c"),
            F.when(F.col("k") > 918273, "ZqLwhen").otherwise("ZqLelse"),
            F.create_map(F.lit("ZqLkey"), F.array("name", F.lit("ZqLelement"))),
        ).groupBy("ZqLunnamed", "c").count().collect()


def broken(n):
    raise ValueError("Authorization: Bearer ZqSpython ZqLpython")


for attempt in (
    lambda: spark.sql("SELECT raise_error(concat('ZqLraised ', 'jdbc:x://h?password=ZqSraised'))").collect(),
    lambda: spark.sql("SELECT CAST(concat(name, ' ZqLcast') AS int) FROM people").collect(),
    lambda: spark.table("people").select(F.udf(broken, "long")("id")).collect(),
):
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        attempt()
    except Exception:
        continue
    raise SystemExit("no failure")
spark.stop()
