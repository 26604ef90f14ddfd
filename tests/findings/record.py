"""Records the documents for tests of findings from a real Spark. Run it after changing the queries below.

::

    python -m tests.findings.record [NAME...]

writes ``tests/findings/recordings.ndjson.gz``, or replaces those with these names: a line for each execution, its
description is the name by which `test_findings.py` knows it. Each thing to be found stands beside a query that is
nearly the same and has nothing of it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.recording import AQE, ROWS, SHOP, as_text, last_documents, session
from tests.spark.sink import listening

from joinsight.demo.workload import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = Path(__file__).parent / "recordings.ndjson.gz"
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
NO_AQE = {f"{AQE}.enabled": "false"}
NO_BROADCAST = {THRESHOLD: "-1"}

Options = Mapping[str, str]

FEW = """
    SELECT day, sum(amount) AS total FROM sales JOIN customer USING (customer_id)
    WHERE customer.customer_id % 50 = 3 GROUP BY day"""
CATEGORIES = "SELECT {hint} category, sum(amount) AS total FROM sales JOIN product USING (product_id) GROUP BY category"
SEGMENTS = "SELECT segment, sum(amount) AS total FROM sales JOIN customer USING (customer_id) GROUP BY segment"
SLOW = """
    SELECT /*+ BROADCAST(slow) */ region, sum(amount) AS total
    FROM sales JOIN (SELECT * FROM store WHERE reflect('java.lang.Thread', 'sleep', 100L) = 'null') slow
    USING (store_id) GROUP BY region"""
MATCHED = """
    SELECT /*+ MERGE(b) */ count(*) AS pairs FROM sales a JOIN sales b ON a.{key} = b.{key}
    WHERE a.sale_id % 18 = 1 AND b.sale_id % 18 < 2"""
BANDS = """
    SELECT band, count(*) AS items FROM {table}
    JOIN VALUES ('low', 0, 50), ('middle', 50, 200), ('high', 200, 500) AS bands(band, low, high)
    ON amount >= low AND amount < high GROUP BY band"""
EVERY = """
    SELECT /*+ SHUFFLE_REPLICATE_NL(b) */ a.region, count(*) AS pairs
    FROM store a CROSS JOIN {table} b GROUP BY a.region"""
TWICE = """
    SELECT count(*) AS days FROM (SELECT store_id, day, sum(amount) AS total FROM sales GROUP BY store_id, day) a
    JOIN (SELECT store_id, day, {value} AS total FROM sales GROUP BY store_id, day) b
    ON a.store_id = b.store_id AND a.day = b.day WHERE a.total > b.total / 2"""
ORDERED = "SELECT max(place) FROM (SELECT row_number() OVER (PARTITION BY {by} ORDER BY receipt) AS place FROM sales)"
SPENT = "SELECT customer_id, sum(amount) AS spent FROM sales GROUP BY customer_id"
GOLD = """
    SELECT {hint} day, sum(amount) AS total FROM sales JOIN customer USING (customer_id)
    WHERE segment = 'gold' GROUP BY day"""
NOT_FOUND = """
    SELECT segment, count(*) AS items FROM (SELECT * FROM sales WHERE amount < 0) sales
    JOIN customer USING (customer_id) GROUP BY segment"""

QUERIES: dict[str, tuple[str, Options]] = {
    "clean": ("SELECT region, sum(amount) AS total FROM sales JOIN store USING (store_id) GROUP BY region", {}),
    "clean-merge": (SEGMENTS.replace("customer", "client"), NO_BROADCAST),
    "broadcast-files-near": (CATEGORIES.format(hint=""), {THRESHOLD: "50k"}),
    "broadcast-hinted-over": (CATEGORIES.format(hint="/*+ BROADCAST(product) */"), {THRESHOLD: "20k"}),
    "broadcast-switched-near": (FEW, {THRESHOLD: "7000"}),
    "broadcast-switched": (FEW, {THRESHOLD: "100k"}),
    "broadcast-slow": (
        "SELECT /*+ BROADCAST(sales) */ sum(amount) AS total FROM sales JOIN store ON sale_id = 1000 * store.store_id",
        {},
    ),
    "broadcast-missed": (CATEGORIES.format(hint="/*+ MERGE(product) */"), {}),
    "broadcast-not-missed": (CATEGORIES.format(hint=""), {THRESHOLD: "20k"}),
    "broadcast-timeout": (SLOW, {**NO_AQE, "spark.sql.broadcastTimeout": "1"}),
    "broadcast-too-large": (CATEGORIES.format(hint=""), {"spark.sql.maxBroadcastTableSize": "10k"}),
    "failed-otherwise": (
        "SELECT region, sum(1 / (store_id - store_id)) FROM sales JOIN store USING (store_id) GROUP BY region",
        {"spark.sql.ansi.enabled": "true"},
    ),
    "skewed": (SEGMENTS, {**NO_BROADCAST, f"{AQE}.advisoryPartitionSizeInBytes": "64k"}),
    "skewed-split": (
        SEGMENTS,
        {
            **NO_BROADCAST,
            f"{AQE}.advisoryPartitionSizeInBytes": "64k",
            f"{AQE}.skewJoin.skewedPartitionFactor": "2",
            f"{AQE}.skewJoin.skewedPartitionThresholdInBytes": "100k",
        },
    ),
    # The same, in the most partitions of which Spark keeps each size, and in one more
    **{
        name: (
            SEGMENTS,
            {
                **NO_BROADCAST,
                "spark.sql.shuffle.partitions": partitions,
                f"{AQE}.advisoryPartitionSizeInBytes": "64k",
                f"{AQE}.skewJoin.skewedPartitionFactor": "2",
                f"{AQE}.skewJoin.skewedPartitionThresholdInBytes": "100k",
            },
        )
        for name, partitions in (("skew-visible", "2000"), ("skew-hidden", "2001"))
    },
    "skewed-median-none": (
        "SELECT store_id % 2, count(DISTINCT receipt) FROM sales GROUP BY store_id % 2",
        {**NO_AQE, "spark.sql.shuffle.partitions": "7"},
    ),
    "partitions-tiny": (
        "SELECT store_id, day, sum(quantity) AS items FROM sales GROUP BY store_id, day",
        {**NO_AQE, "spark.sql.shuffle.partitions": "1000"},
    ),
    "partitions-coalesced": (
        "SELECT store_id, day, sum(quantity) AS items FROM sales GROUP BY store_id, day",
        {"spark.sql.shuffle.partitions": "1000"},
    ),
    "partitions-huge": (
        "SELECT count(DISTINCT receipt) FROM sales",
        {**NO_AQE, "spark.sql.shuffle.partitions": "2"},
    ),
    "partitions-more": (
        "SELECT count(DISTINCT receipt) FROM sales",
        {**NO_AQE, "spark.sql.shuffle.partitions": "8"},
    ),
    "partitions-single": (ORDERED.replace("PARTITION BY {by} ", ""), {}),
    "spill": (ORDERED.format(by="quantity % 2"), {**NO_AQE, "spark.sql.shuffle.partitions": "2"}),
    "spill-not": (ORDERED.format(by="client_id"), {**NO_AQE, "spark.sql.shuffle.partitions": "16"}),
    "join-exploding": (MATCHED.format(key="store_id"), {}),
    "join-one-to-one": (MATCHED.format(key="sale_id"), {}),
    "nested-loop": (BANDS.format(table="sales"), {}),
    "nested-loop-small": (BANDS.format(table="(SELECT * FROM sales LIMIT 1000)"), {}),
    "cartesian": (EVERY.format(table="customer"), {}),
    "cartesian-small": (EVERY.format(table="store"), {}),
    "shuffle-repeated": (
        TWICE.format(value="sum(amount)"),
        {**NO_BROADCAST, **NO_AQE, "spark.sql.exchange.reuse": "false"},
    ),
    "shuffle-reused": (TWICE.format(value="sum(amount)"), {**NO_BROADCAST, **NO_AQE}),
    "shuffle-other": (TWICE.format(value="sum(quantity)"), {**NO_BROADCAST, **NO_AQE}),
    "replanned-late": (GOLD.format(hint=""), {THRESHOLD: "30k"}),
    "replanned-not": (GOLD.format(hint="/*+ BROADCAST(customer) */"), {THRESHOLD: "30k"}),
    "replanned-empty": (NOT_FOUND, NO_BROADCAST),
}  # fmt: skip


def write_tables(spark: SparkSession) -> None:
    """The shop, with clients of which none stands out."""
    clients = ("CAST(id AS INT) AS client_id", "IF(id % 500 = 7, 'gold', 'regular') AS segment")
    of_sales = (
        "CAST(pmod(xxhash64(id, 'client'), 20000) AS INT) AS client_id",
        "hex(xxhash64(id, 'receipt')) AS receipt",
    )
    for table, columns in {**SHOP, "client": clients, "sales": (*SHOP["sales"], *of_sales)}.items():
        rows = ROWS.get(table, 20_000)
        spark.range(0, rows, 1, 8 if table == "sales" else 2).selectExpr(*columns).write.saveAsTable(table)


def run(spark: SparkSession) -> None:
    """Every query, under its name."""

    def described(name: str, act: Callable[[], object], options: Options) -> None:
        spark.sparkContext.setJobDescription(name)
        with settings(spark, options):
            try:
                act()
            except Exception as error:
                print(f"{name}: {str(error).splitlines()[0][:100]}")
        spark.sparkContext.setJobDescription("not kept")

    spark.sql(CATEGORIES.format(hint="")).collect()  # the first one waits for much that has to be loaded
    for name, (query, options) in QUERIES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        described(name, lambda query=query: spark.sql(query).collect(), options)  # type: ignore[misc]
    if sys.argv[1:]:
        return
    described("collected", lambda: spark.table("sales")._jdf.collectAsList(), {})
    described("collected-little", lambda: spark.table("sales").limit(1_000)._jdf.collectAsList(), {})
    spending = spark.sql(SPENT).cache()
    described("cache-filled", lambda: of_segments(spark, spending).collect(), {})
    described("cache-read", lambda: of_segments(spark, spending).collect(), {})
    spending.unpersist()
    spending = spark.sql(SPENT).cache()
    described("cache-filled-read-twice", lambda: spending.join(spending, "customer_id").count(), NO_BROADCAST)


def of_segments(spark: SparkSession, spending: DataFrame) -> DataFrame:
    return spending.join(spark.table("customer"), "customer_id").groupBy("segment").avg("spent")


def run_apart(spark: SparkSession) -> None:
    """Queries that need executors in separate processes, whose blocks come over the network."""
    write_tables(spark)
    spark.sparkContext.setJobDescription("fetch-wait")
    with settings(spark, NO_BROADCAST):
        spark.sql("SELECT count(DISTINCT receipt), count(DISTINCT sale_id) FROM sales").collect()
    spark.sparkContext.setJobDescription("not kept")


def clean(document: dict[str, Any], folder: str) -> bytes:
    """The document without details of this machine."""
    document.update(call_site="", job_group=None, job_tags=[])
    if document.get("error"):
        document["error"] = document["error"].split("\n\tat ")[0]
    return as_text(document, folder, Path(__file__), "s3a://lake").encode() + b"\n"


def record(folder: str, master: str, work: Callable[[SparkSession], None]) -> list[bytes]:
    """Record the last document of each execution that has a name."""
    with listening() as sink:
        settings = {
            "spark.master": master,
            "spark.app.name": "findings",
            "spark.sql.shuffle.partitions": "16",
            # A sorter spills from here on, as if its memory were full
            "spark.shuffle.spill.numElementsForceSpillThreshold": "150000",
        }
        spark = session(folder, re.sub("[^a-z]", "", master), **sink.conf, **settings)
        spark.sparkContext.setLogLevel("OFF")
        work(spark)
        spark.stop()
        newest = last_documents(sink)
    kept = [d for d in newest if re.fullmatch("[a-z]+(-[a-z]+)*", d["description"]) and d["stages"]]
    lines = [clean(document, folder) for document in kept]
    for document, line in zip(kept, lines, strict=True):
        plans = len(document["plans"])
        print(f"{document['description']:28} {document['state']:10} {len(line):7} bytes {plans} plans")
    return lines


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    def everything(spark: SparkSession) -> None:
        spark.sparkContext.setJobDescription("not kept")
        write_tables(spark)
        run(spark)

    with tempfile.TemporaryDirectory() as folder:
        lines = record(folder, "local[2]", everything)
        if sys.argv[1:]:
            before = gzip.decompress(FILE.read_bytes()).splitlines(keepends=True)
            names = {json.loads(line)["description"] for line in lines}
            lines = [line for line in before if json.loads(line)["description"] not in names] + lines
        else:
            lines += record(folder, "local-cluster[2,1,1024]", run_apart)
    FILE.write_bytes(gzip.compress(b"".join(lines), mtime=0))
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
