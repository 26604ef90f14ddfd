"""Records the templates of the generated history from a real Spark: run it when their queries below change.

::

    python -m tests.history.record

writes ``templates.ndjson.gz``: one document for each execution, its description is
``<template>/<variant>``, or ``<template>`` where there is one variant. Variants are the same query under other
settings, which the document does not show: in a real history it is the data that makes Spark plan otherwise.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.history.templates import FILE, LAKE
from tests.recording import AQE, ROWS, SHOP, as_text, last_documents, session
from tests.spark.sink import listening

from joinsight.demo.workload import settings
from joinsight.driver.attach import PLUGIN, listener_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
NO_BROADCAST = {THRESHOLD: "-1"}
VARIANTS = {
    "broadcast": {THRESHOLD: "10m"},
    "merge": NO_BROADCAST,
    "hash": NO_BROADCAST,
    "split": {
        **NO_BROADCAST,
        f"{AQE}.advisoryPartitionSizeInBytes": "128k",
        f"{AQE}.skewJoin.skewedPartitionFactor": "2",
        f"{AQE}.skewJoin.skewedPartitionThresholdInBytes": "150k",
    },
    "switched": {THRESHOLD: "100k"},
    "failed": {THRESHOLD: "10m", "spark.sql.maxBroadcastTableSize": "10k"},
}

STAR = """
    SELECT category, sum(amount) AS total
    FROM sales JOIN product USING (product_id) WHERE amount > 1 GROUP BY category"""
CHAIN = """
    SELECT region, segment, sum(amount) AS total, count(*) AS items
    FROM sales s JOIN store USING (store_id) LEFT JOIN customer USING (customer_id)
    WHERE quantity > 1 GROUP BY region, segment ORDER BY total DESC"""
PAIR = """
    SELECT day, count(*) AS items, sum(s.amount - r.refund) AS net
    FROM sales s JOIN returns r ON s.sale_id = r.sale_id GROUP BY day"""
CUSTOMERS = "SELECT segment, sum(amount) AS total FROM sales JOIN customer USING (customer_id) GROUP BY segment"
FEW = """
    SELECT day, sum(amount) AS total FROM sales JOIN customer USING (customer_id)
    WHERE customer.customer_id % 50 = 3 GROUP BY day"""
QUERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "star": (STAR, ("broadcast", "merge", "failed")),
    "chain": (CHAIN, ("broadcast", "merge")),
    "pair": (PAIR, ("merge",)),
    "hashed": (PAIR.replace("SELECT", "SELECT /*+ SHUFFLE_HASH(r) */").replace("count(*)", "max(amount)"), ("hash",)),
    "skewed": (CUSTOMERS, ("merge", "split")),
    "selective": (FEW, ("switched",)),
    "bands": (
        """SELECT band, count(*) AS items FROM sales
        JOIN VALUES ('low', 0, 50), ('middle', 50, 200), ('high', 200, 500) AS bands(band, low, high)
        ON amount >= low AND amount < high GROUP BY band""",
        ("broadcast",),
    ),
    "reused": (
        """WITH totals AS (SELECT store_id, day, sum(amount) AS total FROM sales GROUP BY store_id, day)
        SELECT count(*) AS days FROM totals a JOIN totals b
        ON a.store_id = b.store_id AND a.day = b.day + 1 WHERE a.total > b.total / 2""",
        ("merge",),
    ),
    "totals": ("SELECT product_id, day, sum(quantity) AS items FROM sales GROUP BY product_id, day", ("broadcast",)),
    "distinct": (
        """SELECT region, count(DISTINCT customer_id) AS customers
        FROM sales JOIN store USING (store_id) GROUP BY region""",
        ("broadcast",),
    ),
    "top": (
        """SELECT * FROM (SELECT store_id, day, amount,
        rank() OVER (PARTITION BY store_id ORDER BY score(amount) DESC) AS place FROM sales) WHERE place <= 3""",
        ("broadcast",),
    ),
    "lapsed": (
        """SELECT segment, count(*) AS customers FROM customer c
        LEFT ANTI JOIN sales s ON c.customer_id = s.customer_id AND s.day > 20 GROUP BY segment""",
        ("merge",),
    ),
    "write": (
        """INSERT OVERWRITE TABLE daily SELECT product_id, name, day, sum(amount) AS total
        FROM sales JOIN product USING (product_id) GROUP BY product_id, name, day""",
        ("broadcast",),
    ),
}  # fmt: skip

NAMES = {*QUERIES, "cached", "stream"}
ROW_BYTES = 24
OUT_OF_MEMORY = (  # a broadcast that fails for any other reason leaves the same document
    "Not enough memory to build and broadcast the table to all worker nodes. As a workaround, you can either disable"
    " broadcast by setting spark.sql.autoBroadcastJoinThreshold to -1 or increase the spark driver memory by setting"
    " spark.driver.memory to a higher value."
)


def write_tables(spark: SparkSession) -> None:
    """The shop, with returns."""
    returns = ("id * 3 AS sale_id", "pmod(xxhash64(id, 'refund'), 50000) / 100D AS refund")
    for table, columns in {**SHOP, "returns": returns}.items():
        rows = ROWS.get(table, 120_000)
        frame = spark.range(0, rows, 1, 8 if rows > 100_000 else 2).selectExpr(*columns)
        frame.write.mode("overwrite").saveAsTable(table)
    spark.sql("CREATE TABLE daily (product_id INT, name STRING, day INT, total DOUBLE) USING parquet")


def run(spark: SparkSession) -> None:
    """Every query in each of its variants, under its name."""
    spark.udf.register("score", lambda amount: amount**0.5, "double")
    for name, (query, variants) in QUERIES.items():
        for variant in variants:
            spark.sparkContext.setJobDescription(f"{name}/{variant}" if len(variants) > 1 else name)
            with settings(spark, VARIANTS[variant]):
                try:
                    frame = spark.sql(query)
                    if name != "write":
                        frame.collect()
                except Exception as error:
                    if variant != "failed":
                        raise
                    print(f"{name}/{variant}: {str(error).splitlines()[0]}")
    spark.sparkContext.setJobDescription("not kept")
    spark.sql(
        "CACHE TABLE spending AS SELECT customer_id, day, sum(amount) AS spent FROM sales GROUP BY customer_id, day"
    )
    spark.sparkContext.setJobDescription("cached")
    joined = "SELECT segment, avg(spent) AS mean FROM spending JOIN customer USING (customer_id) GROUP BY segment"
    spark.sql(joined).collect()
    spark.sparkContext.setJobDescription("stream")
    stream = spark.readStream.table("sales").createOrReplaceTempView("arriving") or spark.sql(
        "SELECT region, amount, quantity FROM arriving JOIN store USING (store_id) WHERE amount > 1"
    )
    stream.writeStream.format("noop").queryName("stream").trigger(availableNow=True).start().awaitTermination()
    spark.sparkContext.setJobDescription(None)


def clean(document: dict[str, Any], folder: str) -> bytes:
    """The template without data of this machine and these settings, with sizes that scale with the data."""
    document.update(configuration={}, call_site="", job_group=None, job_tags=[])
    document["root_execution_id"] = document["execution_id"]
    document["description"] = document["description"].split("\n")[0]
    _size_relations(document)
    _count_input(document)
    _read_remotely(document)
    if document["state"] == "failed":
        document["error"] = OUT_OF_MEMORY
    return as_text(document, folder, Path(__file__), LAKE).encode() + b"\n"


def _size_relations(document: dict[str, Any]) -> None:
    """Spark 4.3 says 32 MiB for a hash relation of a few rows; here it is as large as the rows are in a shuffle."""
    for position, node in enumerate(document["nodes"]):
        metrics = _measured(document, node)
        if node["name"] == "BroadcastExchange" and metrics.get("data size", {}).get("sum", 0) >= 32 << 20:
            _resize(metrics["data size"], metrics["number of output rows"]["sum"] * ROW_BYTES)
        elif node["name"] == "ShuffledHashJoin" and "data size of build side" in metrics:
            plan = next(plan for plan in document["plans"] if position in plan["nodes"])
            below = [document["nodes"][i] for i in plan["nodes"][plan["nodes"].index(position) :]]
            exchanges = [_measured(document, each) for each in below if each["name"] == "Exchange"]
            _resize(metrics["data size of build side"], exchanges[1]["data size"]["sum"])


def _resize(accumulator: dict[str, Any], size: int) -> None:
    factor = size / accumulator["sum"]
    accumulator.update({name: round(accumulator[name] * factor) for name in ("sum", "min", "median", "p95", "max")})


def _count_input(document: dict[str, Any]) -> None:
    """Files of this size are read past the statistics that the tasks' input bytes are taken from."""
    read: Counter[int] = Counter()
    for node in document["nodes"]:
        metrics = _measured(document, node)
        if "size of files read" in metrics and "number of output rows" in metrics:
            read.update(
                dict.fromkeys(
                    metrics["number of output rows"].get("stages", ()), metrics["size of files read"].get("sum", 0)
                )
            )
    for stage in document["stages"]:
        if stage["id"] in read:
            stage["input_bytes"] = read[stage["id"]]


def _read_remotely(document: dict[str, Any]) -> None:
    """Three quarters of what is read of shuffles, as if there were four executors on machines of their own."""
    read: Counter[int] = Counter()
    several: set[int] = set()  # stages that read an exchange which others read too: how much each is not known
    done: set[int] = set()
    for exchange in document["nodes"]:
        of_exchange = _measured(document, exchange)
        local, remote = of_exchange.get("local bytes read"), of_exchange.get("remote bytes read")
        if local and remote and local.get("sum") and local["id"] not in done:
            done.add(local["id"])
            remote.update({name: value for name, value in local.items() if name != "id"})
            for name in ("sum", "min", "median", "p95", "max"):
                remote[name] = local[name] * 3 // 4
                local[name] -= remote[name]
            stages = local.get("stages", ())
            read.update(dict.fromkeys(stages, remote["sum"]))
            several.update(stages if len(stages) > 1 else ())
    for stage in document["stages"]:
        total = stage.get("shuffle_read_local_bytes", 0)
        remotely = total * 3 // 4 if stage["id"] in several else read[stage["id"]]
        stage.update(shuffle_read_local_bytes=total - remotely, shuffle_read_remote_bytes=remotely)


def _measured(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    measured = {a["id"]: a for a in document["accumulators"]}
    return {m["name"]: measured[m["id"]] for m in node.get("metrics", ()) if m["id"] in measured}


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder, listening() as sink:
        settings = {
            "spark.master": "local[2]",
            "spark.app.name": "templates",
            "spark.driver.extraClassPath": str(listener_jar()),
            "spark.plugins": PLUGIN,
            "spark.joinsight.sampleInterval": "10ms",
            "spark.joinsight.url": sink.url,
        }
        spark = session(folder, "warehouse", **settings)
        spark.sparkContext.setLogLevel("ERROR")
        write_tables(spark)
        run(spark)
        spark.stop()
        kept = [
            d for d in last_documents(sink) if d["description"].split("/")[0].split("\n")[0] in NAMES and d["stages"]
        ]
        lines = [clean(document, folder) for document in kept]
    for document, line in zip(kept, lines, strict=True):
        print(
            f"{document['description']!r:30} {document['state']:10} {len(line):7} bytes {len(document['plans'])} plans"
        )
    Path(FILE).write_bytes(gzip.compress(b"".join(lines), mtime=0))
    print(f"{FILE}: {Path(FILE).stat().st_size} bytes")


if __name__ == "__main__":
    main()
