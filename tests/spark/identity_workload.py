"""Queries and their variations for `test_identity.py`, which are the descriptions of the executions.

It runs in a process of its own, under any Spark version::

    python identity_workload.py FOLDER ROWS [KEY=VALUE ...]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from joinsight.demo.workload import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Options = Mapping[str, str]

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
NO_AQE = {"spark.sql.adaptive.enabled": "false"}
SMALL_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "9k"}  # planned as sort-merge, broadcast at run time

REPORT = """
    SELECT {hint} region, segment, sum(amount) AS total, count(*) AS sales
    FROM sales f JOIN store s ON f.store_id = s.store_id LEFT JOIN customer c ON f.customer_id = c.customer_id
    WHERE {where} GROUP BY region, segment ORDER BY total DESC"""
WHERE = "f.amount > 10 AND s.name <> 'Store 3'"
OTHER_QUERIES = {
    "self join": """
        WITH totals AS (SELECT store_id, day, sum(amount) AS total FROM sales GROUP BY store_id, day)
        SELECT count(*) FROM totals a JOIN totals b ON a.store_id = b.store_id AND a.day = b.day
        WHERE a.total > b.total / 2""",
    "pruning": "SELECT kind, sum(amount) FROM sales JOIN calendar USING (day) WHERE kind = 'holiday' GROUP BY kind",
    "subqueries": """
        SELECT store_id, (SELECT max(amount) FROM sales) AS most FROM sales
        WHERE amount > (SELECT avg(amount) FROM sales) AND customer_id IN (SELECT customer_id FROM customer)""",
    "distinct": "SELECT region, count(DISTINCT customer_id) FROM sales JOIN store USING (store_id) GROUP BY region",
    "window": """
        SELECT * FROM (SELECT store_id, day, rank() OVER (PARTITION BY store_id ORDER BY amount DESC) AS r FROM sales)
        WHERE r <= 2""",
    "not equal": "SELECT count(*) FROM store a JOIN store b ON a.store_id < b.store_id AND a.region = 'north'",
    "top": "SELECT name, amount FROM sales JOIN store USING (store_id) ORDER BY amount DESC LIMIT 5",
    "collected": "SELECT store_id, size(collect_set(customer_id)) FROM sales GROUP BY store_id",
}
SETTINGS: Mapping[str, Options] = {
    "as it is": {},
    "again": {},
    "AQE off": NO_AQE,
    "no broadcast": NO_BROADCAST,
    "no broadcast, AQE off": {**NO_BROADCAST, **NO_AQE},
    "broadcast at run time": SMALL_BROADCAST,
    "7 partitions": {"spark.sql.shuffle.partitions": "7"},
    "no codegen": {"spark.sql.codegen.wholeStage": "false"},
    "no reuse": {"spark.sql.exchange.reuse": "false", **NO_AQE},
    "hashed": {**NO_BROADCAST, "spark.sql.join.preferSortMergeJoin": "false"},
}
SETTINGS_OF_OTHERS = ("as it is", "AQE off", "no broadcast", "no broadcast, AQE off", "no reuse")
SAME = {
    "literals": REPORT.format(hint="", where="f.amount > 2.5 AND s.name <> 'New York, NY'"),
    "conjuncts": REPORT.format(hint="", where="s.name <> 'Store 3' AND f.amount > 10"),
    "merge": REPORT.format(hint="/*+ MERGE(s, c) */", where=WHERE),
    "hash": REPORT.format(hint="/*+ SHUFFLE_HASH(s, c) */", where=WHERE),
    "nested loop": REPORT.format(hint="/*+ SHUFFLE_REPLICATE_NL(s) */", where=WHERE),
    "build left": REPORT.format(hint="/*+ BROADCAST(f) */", where=WHERE),
}
CHANGED = {
    "other key": REPORT.replace("f.store_id = s.store_id", "f.product_id = s.store_id"),
    "other table": REPORT.replace("store s", "branch s"),
    "other filter": REPORT.replace("{where}", "f.product_id > 10 AND s.name <> 'Store 3'"),
    "other join type": REPORT.replace("LEFT JOIN", "JOIN"),
    "other function": REPORT.replace("sum(amount)", "max(amount)"),
    "other grouping": REPORT.replace("region, segment, sum", "segment, sum").replace("region, segment ", "segment "),
    "other order": REPORT.replace("ORDER BY total", "ORDER BY sales"),
}
IN_LISTS = {
    "IN of 1": "('north')",
    "IN of 2": "('north', 'New York')",
    "IN of 30": "(" + ", ".join(f"'region {n}'" for n in range(30)) + ")",
}


def write_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """Create the tables in `folder` with this number of rows in `sales`."""
    tables = {
        "sales": (
            rows,
            "id AS sale_id",
            "id % 37 AS store_id",
            "id % 11 AS product_id",
            "id % 700 AS customer_id",
            "CAST(id % 500 AS DOUBLE) AS amount",
            "id % 5 AS day",
        ),
        "store": (37, "id AS store_id", "concat('Store ', id) AS name", "IF(id % 2 = 0, 'north', 'south') AS region"),
        "branch": (37, "id AS store_id", "concat('Store ', id) AS name", "IF(id % 2 = 0, 'north', 'south') AS region"),
        "customer": (
            700,
            "id AS customer_id",
            "IF(id % 9 = 0, 'gold', 'regular') AS segment",
            "md5(string(id)) AS mail",
        ),
        "calendar": (5, "id AS day", "IF(id = 0, 'holiday', 'working day') AS kind"),
    }
    for table, (count, *columns) in tables.items():
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        writer = spark.range(0, count, 1, 2).selectExpr(*columns).write.option("path", str(folder / table))
        (writer.partitionBy("day") if table == "sales" else writer).saveAsTable(table)


def run(spark: SparkSession, folder: Path, rows: int) -> None:
    """Run each query in each variation; the description is `query: variation`."""

    def collect(name: str, query: str, options: Options | None = None) -> None:
        spark.sparkContext.setJobDescription(name)
        with settings(spark, options or {}):
            spark.sql(query).collect()
        spark.sparkContext.setJobDescription(None)

    write_tables(spark, folder / "small", rows)
    report = REPORT.format(hint="", where=WHERE)
    for variation, options in SETTINGS.items():
        collect(f"report: {variation}", report, options)
    for variation in SETTINGS_OF_OTHERS:
        for name, query in OTHER_QUERIES.items():
            collect(f"{name}: {variation}", query, SETTINGS[variation])
    for variation, query in SAME.items():
        collect(f"report: {variation}", query)
    for variation, query in CHANGED.items():
        collect(f"changed: {variation}", query.format(hint="", where=WHERE))
    for variation, values in IN_LISTS.items():
        collect(f"list: {variation}", f"SELECT count(*) FROM store WHERE region IN {values}")
    spark.sparkContext.setJobDescription("report: DataFrame")
    data_frame(spark).collect()
    for n in range(2):
        spark.sparkContext.setJobDescription(f"write: {n}")
        spark.table("sales").groupBy("store_id").count().write.parquet(str(folder / f"written {n}"))
    spark.sparkContext.setJobDescription("cache")
    spark.sql("CACHE LAZY TABLE spending AS SELECT customer_id, sum(amount) AS spent FROM sales GROUP BY customer_id")
    for variation in ("fills it", "reads it"):
        collect(f"cached: {variation}", "SELECT segment, avg(spent) FROM spending JOIN customer USING (customer_id)"
                " GROUP BY segment")  # fmt: skip
    spark.sql("UNCACHE TABLE spending")
    write_tables(spark, folder / "large", 5 * rows)
    collect("report: more data", report)


def data_frame(spark: SparkSession) -> DataFrame:
    """The report without SQL."""
    from pyspark.sql import functions as F

    f, s, c = spark.table("sales"), spark.table("store"), spark.table("customer")
    joined = f.join(s, f.store_id == s.store_id).join(c, f.customer_id == c.customer_id, "left")
    kept = joined.where((f.amount > 10) & (s.name != "Store 3"))
    grouped = kept.groupBy("region", "segment").agg(F.sum("amount").alias("total"), F.count(F.lit(1)).alias("sales"))
    return grouped.orderBy(F.desc("total"))


def main(folder: Path, rows: int, *conf: str) -> None:
    from pyspark.sql import SparkSession

    options = {
        "spark.master": "local[2]",
        "spark.app.name": "identity",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.default.parallelism": "2",
    }
    options |= dict(pair.split("=", 1) for pair in conf)
    spark = SparkSession.builder.config(map=options).getOrCreate()
    try:
        run(spark, folder, rows)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
