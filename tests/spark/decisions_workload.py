"""Queries in which AQE makes each kind of decision, and some that only look as if it made one.

A script, not a test: it runs in a process of its own, with a PySpark of any version::

    python decisions_workload.py DIR [KEY=VALUE ...]

Each query runs under its name as the job description, on tables whose files are larger than what the queries leave of
them, so that Spark plans other joins than AQE makes of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from joinsight.demo.workload import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
SMALL = {THRESHOLD: "20k"}
OFF = {THRESHOLD: "-1"}
SKEW = {
    **OFF,
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64k",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "128k",
}

JOIN = "SELECT {hint} count(*), max(filler), max(name) FROM facts {type} JOIN dims USING (key) {where}"
TOTALS = "WITH totals AS (SELECT key, sum(amount) AS total FROM facts GROUP BY key)"

QUERIES: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("to broadcast", SMALL, JOIN.format(hint="", type="", where="WHERE name LIKE '%77'")),
    (
        "to shuffled hash",
        {**OFF, "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m"},
        JOIN.format(hint="", type="", where=""),
    ),
    ("coalesced", {"spark.sql.shuffle.partitions": "200"}, "SELECT day, sum(amount) FROM facts GROUP BY day"),
    ("skew", SKEW, JOIN.format(hint="", type="", where="")),
    ("empty", OFF, JOIN.format(hint="", type="", where="WHERE name = 'nobody'")),
    (
        "empty to the top",
        OFF,
        "SELECT name, filler FROM facts JOIN dims USING (key) WHERE name = 'nobody' ORDER BY name, filler",
    ),
    ("outer join with nothing", OFF, "SELECT count(amount), count(name) FROM facts f"
     " LEFT JOIN (SELECT * FROM dims WHERE name = 'nobody') d ON f.key = d.key"),
    ("anti join with nothing", OFF, "SELECT count(*) FROM facts WHERE NOT EXISTS"
     " (SELECT * FROM dims WHERE name = 'nobody' AND dims.key = facts.key)"),
    (
        "dropped",
        SMALL,
        "SELECT count(*), max(filler) FROM facts f JOIN dims d ON f.key = d.key JOIN dims e ON f.day = e.key"
        " WHERE d.name LIKE '%77' AND e.name LIKE 'name 3%9'",
    ),
    ("half of a union is empty", OFF, "SELECT amount, name FROM facts JOIN dims USING (key) WHERE name = 'nobody'"
     " UNION ALL SELECT amount, name FROM facts JOIN dims USING (key) WHERE name LIKE '%77'"),
    # Nothing is dropped or empty in these, though nodes go away: what is reused is drawn once
    (
        "reused",
        OFF,
        f"{TOTALS} SELECT /*+ MERGE(a) */ count(*) FROM totals a JOIN totals b ON a.key = b.key AND a.total >= b.total",
    ),
    (
        "reused joins",
        OFF,
        "WITH t AS (SELECT key, count(*) AS n FROM facts JOIN dims USING (key) GROUP BY key)"
        " SELECT count(*) FROM t a JOIN t b ON a.n = b.key UNION ALL SELECT count(*) FROM t a JOIN t b ON a.n = b.key",
    ),
    (
        "reused above joins",
        OFF,
        "WITH t AS (SELECT n, count(*) AS m FROM (SELECT key, count(*) AS n FROM facts JOIN dims USING (key)"
        " GROUP BY key) GROUP BY n) SELECT /*+ MERGE(a) */ count(*) FROM t a JOIN t b ON a.n = b.n",
    ),
    ("scalar subqueries", OFF, "SELECT count(*) FROM facts WHERE amount > (SELECT avg(n) FROM (SELECT count(*)"
     " AS n FROM facts GROUP BY key)) OR amount < (SELECT avg(n) FROM (SELECT count(*) AS n FROM facts GROUP BY key))"
     " - 100"),
    ("pruned", {}, "SELECT count(*) FROM facts JOIN dims ON facts.day = dims.key WHERE name = 'name 3'"),
    ("pruned by a join", {}, "SELECT count(*) FROM facts JOIN (SELECT /*+ MERGE(b) */ a.key FROM dims a JOIN dims b"
     " ON a.key = b.key WHERE a.name = 'name 3') d ON facts.day = d.key"),
    ("merge", OFF, JOIN.format(hint="/*+ MERGE(dims) */", type="FULL OUTER", where="")),
    ("without AQE", {**SMALL, "spark.sql.adaptive.enabled": "false"}, JOIN.format(hint="", type="", where="")),
)  # fmt: skip


def write_tables(spark: SparkSession) -> None:
    """60 % of the facts have key 0; a name is long, so that dims is larger than the threshold."""
    facts = spark.range(0, 20_000, 1, 4).selectExpr(
        "IF(id % 10 < 6, 0, id % 2000) AS key", "id % 97 AS amount", "md5(string(id)) AS filler", "id % 5 AS day"
    )
    facts.write.partitionBy("day").saveAsTable("facts")
    dims = spark.range(0, 2000, 1, 2).selectExpr("id AS key", "concat('name ', id) AS name", "md5(string(id)) AS more")
    dims.write.saveAsTable("dims")


def run(spark: SparkSession) -> None:
    write_tables(spark)
    for name, options, query in QUERIES:
        spark.sparkContext.setJobDescription(name)
        with settings(spark, options):
            spark.sql(query).collect()
    spark.sparkContext.setJobDescription("cached")
    spark.sql("CACHE LAZY TABLE spending AS SELECT key, sum(amount) AS spent FROM facts GROUP BY key")
    for _ in range(2):
        spark.sql("SELECT count(*) FROM spending a JOIN spending b ON a.spent = b.key JOIN dims USING (key)").collect()
    spark.sparkContext.setJobDescription("run twice")
    again = spark.table("facts").groupBy("day").count()
    again.collect()
    again.collect()
    spark.sparkContext.setJobDescription("failed")
    try:
        spark.sql("SELECT count(*) FROM facts JOIN dims USING (key) WHERE assert_true(amount < 90) IS NULL").collect()
    except Exception as error:
        if "amount" not in str(error):
            raise
    else:
        raise RuntimeError("it should have failed")


def main(folder: Path, *conf: str) -> None:
    from pyspark.sql import SparkSession

    options = {
        "spark.master": "local[2]",
        "spark.app.name": "decisions",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "2",
    }
    options |= dict(pair.split("=", 1) for pair in conf)
    spark = SparkSession.builder.config(map=options).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        run(spark)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
