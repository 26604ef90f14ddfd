"""Joins and shuffles with planted hot keys, for `test_keys`: writes what `measured.keys` named as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import joinsight
from joinsight.base.errors import JoinsightError

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.ui.showConsoleProgress": "false",
}
builder = SparkSession.builder.master("local[2]")
spark = builder.config(map=SETTINGS).getOrCreate()
spark.conf.set("spark.sql.exchange.reuse", "false")  # which the question switches on for itself
spark.range(2000).selectExpr(
    "CASE WHEN id % 10 < 4 THEN 7 ELSE id % 500 END AS k",
    "CASE WHEN id % 10 < 4 THEN 8L WHEN id % 10 < 7 THEN 9L ELSE id END AS several",
    "CASE WHEN id % 2 = 0 THEN NULL ELSE id END AS missing",
    "CASE WHEN id % 2 = 0 THEN '' ELSE CAST(id AS STRING) END AS text",
    "IF(id % 10 < 4, DATE'2026-01-31', DATE_ADD(DATE'2020-01-01', CAST(id AS INT))) AS day",
    "CAST(IF(id % 10 < 4, 1.5, id) AS DECIMAL(12,2)) AS price",
    "id AS v",
).createOrReplaceTempView("facts")
facts = spark.table("facts")
dims = spark.range(500).selectExpr("id AS k", "id % 5 AS region")
spark.conf.set("spark.sql.execution.pythonUDF.arrow.enabled", "false")  # Arrow needs pyarrow
double = F.udf(lambda x: 2 * x, LongType())
calls = spark.sparkContext.accumulator(0)


def uneven(x: int) -> int:
    calls.add(1)
    return 7 if x % 10 < 4 else x


def on(column: str, right: DataFrame | None = None, how: str = "inner") -> Callable[[], DataFrame]:
    return lambda: facts.join(right if right is not None else facts.select(column).distinct(), column, how)


def conf(name: str, value: str, query: Callable[[], DataFrame]) -> Callable[[], DataFrame]:
    def run() -> DataFrame:
        spark.conf.set(name, value)
        return query()

    return run


few = {
    "several": on("several"),
    "null": lambda: facts.join(facts.selectExpr("missing", "v AS w"), "missing", "left"),
    "composite": lambda: facts.join(facts.select("k", "day").distinct(), ["k", "day"]),
    "filtered": lambda: facts.where("v % 10 < 4 OR v % 10 = 9").join(dims, "k"),
    "after a udf": lambda: facts.select(double("k").alias("k")).join(dims, "k"),
    "build side": lambda: dims.join(F.broadcast(facts.select("k", "v")), "k"),
    "output only": lambda: (
        spark.range(1000)
        .selectExpr("IF(id < 30, 1, id) AS k")
        .join(spark.range(1000).selectExpr("IF(id < 30, 1, id) AS k", "id AS w"), "k")
    ),
    "array": lambda: facts.selectExpr("array(k, NULL) AS pair", "v").repartition(8, "pair"),
    "mixed": lambda: spark.sql(
        "WITH odd AS (SELECT IF(v % 2 = 0, NULL, 7) AS x, IF(v % 2 = 1, NULL, 1) AS y, v FROM facts)"
        " SELECT * FROM odd a FULL JOIN (SELECT * FROM odd WHERE v < 20) b ON a.x = b.x AND a.y <=> b.y"
    ),
    "computed": lambda: facts.selectExpr("k + 0 * v AS computed", "v").join(dims, F.expr("computed = k"), "left_semi"),
    "group by computed": lambda: facts.groupBy(F.upper(F.concat(F.lit("n"), "k")).alias("name")).agg(
        F.collect_list("v")
    ),
    "window": lambda: spark.sql("SELECT sum(v) OVER (PARTITION BY k) AS s FROM facts"),
    "latest of each": lambda: spark.sql(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM facts) WHERE n = 1"
    ),
    "sampled": lambda: (
        spark.range(600_000)
        .selectExpr("IF(id % 100 = 1, NULL, IF(id % 10 < 4, MD5(CAST(id % 1 AS STRING)), CAST(id AS STRING))) AS k")
        .join(facts.selectExpr("IF(v = 5, MD5(CAST(v % 1 AS STRING)), text) AS k", "v"), "k", "left")
    ),
}
more = {
    "one key": on("k", dims),
    "null removed": on("missing"),
    "null safe": lambda: facts.alias("a").join(
        facts.select("missing").distinct().alias("b"), F.expr("a.missing <=> b.missing")
    ),
    "empty text": on("text"),
    "date": on("day"),
    "decimal": on("price"),
    "cast": lambda: facts.join(dims.selectExpr("CAST(k AS INT) AS j"), F.expr("k = j")),
    "expression": lambda: facts.join(dims.selectExpr("k + 1 AS j"), F.expr("k + 1 = j")),
    "random": lambda: facts.withColumn("k", F.when(F.rand(1) < 0.9, 7).otherwise(F.col("k"))).join(dims, "k"),
    "right side": lambda: dims.join(facts, "k"),
    "condition": lambda: facts.alias("a").join(dims.alias("b"), F.expr("a.k = b.k AND a.v > b.region")),
    "crowded": lambda: (
        spark.range(158_000)
        .selectExpr("IF(id < 8000, 7, 100 + id % 1500) AS k", "id AS v")
        .alias("a")
        .join(
            spark.range(150_001).selectExpr("IF(id = 0, 7, 100 + id % 1500) AS k", "id AS w").alias("b"),
            F.expr("a.k = b.k AND a.v > b.w + 157000"),
        )
    ),
    "semi": on("k", dims, "left_semi"),
    "repartition": lambda: facts.repartition(8, "k"),
    "group": lambda: facts.groupBy("k").agg(F.collect_list("v")),
    "distinct aggregate": lambda: facts.groupBy("k").agg(F.countDistinct("v")),
    "range": lambda: facts.orderBy("k"),
    "without AQE": conf("spark.sql.adaptive.enabled", "false", on("k", dims)),
    "split": conf(
        "spark.sql.adaptive.enabled",
        "true",
        conf(
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes",
            "1k",
            conf("spark.sql.adaptive.advisoryPartitionSizeInBytes", "512", on("k", dims)),
        ),
    ),
    "subquery": lambda: spark.sql("SELECT (SELECT max(f.v) FROM facts f JOIN facts g ON f.k = g.k) AS m"),
    "rebalance": lambda: spark.sql("SELECT /*+ REBALANCE(k) */ * FROM facts"),
    "not in": lambda: spark.sql(
        "SELECT * FROM facts WHERE k NOT IN (SELECT IF(v < 9, v, NULL) FROM facts WHERE v < 7)"
    ),
    "below a filter": lambda: (
        spark.range(600_000).where("id % 2 = 0").select(F.udf(uneven, LongType())("id").alias("k")).groupBy("k").count()
    ),
    "in": lambda: facts.where("k IN (SELECT k FROM facts WHERE v > 5)"),
    "union": lambda: facts.select("k").union(facts.select("k")).join(dims, "k"),
    "cached": lambda: facts.where("v >= 0").cache().join(dims, "k"),
    "struct": lambda: facts.selectExpr("named_struct('n', k, 'day', DATE'2020-01-01') AS s", "v").repartition(8, "s"),
    "binary": lambda: facts.selectExpr("CAST(CAST(k AS STRING) AS BINARY) AS b", "v").repartition(8, "b"),
    "interval": lambda: facts.selectExpr("make_ym_interval(CAST(k AS INT)) AS i", "v").repartition(8, "i"),
    "old date": lambda: facts.selectExpr("DATE_SUB(DATE'0001-01-01', CAST(k AS INT)) AS d", "v").repartition(8, "d"),
    "late time": lambda: facts.selectExpr("TIMESTAMP'9999-12-31' + k * INTERVAL '1' DAY AS t").repartition(8, "t"),
    "nested": lambda: facts.join(dims, "k").join(facts.select("several").distinct(), "several"),
}
if spark.version >= "4":
    more["map"] = lambda: facts.selectExpr("map('b', k, 'a', 1L) AS m", "v").groupBy("m").agg(F.collect_list("v"))
    more["collation"] = lambda: spark.sql(
        "SELECT * FROM (SELECT IF(v % 2 = 0, 'Hot', IF(v % 10 = 1, 'hOT', CAST(v AS STRING))) COLLATE UTF8_LCASE AS c"
        " FROM facts) a JOIN (SELECT DISTINCT CAST(v AS STRING) COLLATE UTF8_LCASE AS c FROM facts"
        " UNION ALL SELECT 'hot' COLLATE UTF8_LCASE) b ON a.c = b.c"
    )
CASES = few | more if sys.argv[2:] == ["all"] else few


def asked(query: Callable[[], Any]) -> Any:
    try:
        with joinsight.measure(spark) as measured:
            query().write.format("noop").mode("overwrite").save()
        found = measured.keys()
    except JoinsightError as error:
        return str(error)
    return {
        "title": found.title,
        "keys": [{**each, "key": {n: str(v) for n, v in each["key"].items()}} for each in found.keys],
        "output": [{**each, "key": {n: str(v) for n, v in each["key"].items()}} for each in found.output[:2]],
        "rows": found.rows,
        "notes": found.notes,
        "text": str(found),
        "html": found._repr_html_(),
    }


out: dict[str, Any] = {name: asked(query) for name, query in CASES.items()}
out["calls"] = calls.value

for name in SETTINGS:
    if name.startswith("spark.sql"):
        spark.conf.set(name, SETTINGS[name])
with joinsight.measure(spark) as measured:
    facts.join(dims, "k").groupBy("region").count().collect()
    spark.range(5).count()
(execution,) = (each for each in measured.executions if each.joins)
out["nodes"] = {
    row.node_id: (found := measured.keys(row.node_id)).title + f" {sorted(found.rows)}"
    for row in [*execution.joins, *execution.shuffles]
    if getattr(row, "keys", True)
}
out["joins"] = [row.node_id for row in execution.joins]
out["exchanges"] = [execution.joins[0].left_exchange, execution.joins[0].right_exchange]
for what, ask in {
    "no such node": lambda: measured.keys(10_000),
    "no key": lambda: joinsight.measure(lambda: spark.range(5).count()).keys(),
    "a scan": lambda: execution.keys(max(each.node_id for each in execution.nodes)),
}.items():
    try:
        ask()
    except JoinsightError as error:
        out[what] = str(error)
with joinsight.measure(spark) as hot:
    CASES["sampled"]().write.format("noop").mode("overwrite").save()
with joinsight.measure(spark) as asking:
    hot.keys()
out["settings"] = spark.conf.get("spark.sql.adaptive.enabled"), spark.conf.get("spark.sql.exchange.reuse")
out["plans"] = str(asking) + repr(hot.keys()) + "".join(map(str, asking.documents().splitlines()))
Path(sys.argv[1]).write_text(json.dumps(out))
