"""The workload of `joinsight demo`: a small shop, and one query for each kind of join and each kind of AQE decision.

It needs only PySpark, and of Joinsight what names its lines, because it runs in its own process::

    python -m joinsight.demo.workload --data DIR [--conf KEY=VALUE ...]

It prints one line of JSON to standard output as each step starts: `{"step": 1, "steps": 14, "title": "..."}`. The data
(about 50 MB) is generated from hashes, so it is the same in every run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from joinsight.driver import call_sites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int, str], None]

SALES_ROWS = 1_500_000
DAYS = 30
STORES = 40
PRODUCTS = 5_000
CUSTOMERS = 100_000
DIMENSIONS = {"calendar": DAYS, "store": STORES, "product": PRODUCTS, "customer": CUSTOMERS}


def session_options(data: Path) -> dict[str, str]:
    """The settings of the session; options from the command line take precedence."""
    return {
        "spark.app.name": "joinsight demo",
        "spark.master": "local[2]",
        # The demo works without a network, regardless of what this machine's name resolves to.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(data / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "16",
    }


def generate(spark: SparkSession, data: Path, progress: Progress) -> None:
    """Write the tables as Parquet, one folder each, replacing those of an earlier run."""
    for step, (title, write) in enumerate(TABLES, start=1):
        announce(spark, step, title, progress)
        write(spark, data)


def run(spark: SparkSession, data: Path, progress: Progress) -> None:
    """Run every query on the tables that `generate` wrote, each under its title as the job description."""
    spark.sparkContext.setJobDescription("Register the tables")
    for table in (*DIMENSIONS, "sales"):
        if not spark.catalog.tableExists(table):
            spark.catalog.createTable(table, str(data / table), "parquet")
    spark.catalog.recoverPartitions("sales")
    for step, (title, query) in enumerate(QUERIES, start=len(TABLES) + 1):
        announce(spark, step, title, progress)
        query(spark)
    spark.sparkContext.setJobDescription(None)


def announce(spark: SparkSession, step: int, title: str, progress: Progress) -> None:
    spark.sparkContext.setJobDescription(title)
    progress(step, len(TABLES) + len(QUERIES), title)


# The data. Customer 0 stands for all anonymous cash customers: 40 % of all sales.


def write_dimensions(spark: SparkSession, data: Path) -> None:
    columns = {
        "calendar": (
            "id AS day",
            "date_add(DATE'2026-01-01', id) AS date",
            "IF(id IN (0, 5, 13), 'holiday', 'working day') AS kind",
        ),
        "store": (
            "id AS store_id",
            "concat('Store ', id) AS name",
            "element_at(array('north', 'east', 'south', 'west'), id % 4 + 1) AS region",
        ),
        "product": (
            "id AS product_id",
            "concat('Product ', id) AS name",
            "concat('Category ', id % 25) AS category",
            "1 + id % 300 AS list_price",
        ),
        "customer": (
            "id AS customer_id",
            "concat('Customer ', id) AS name",
            "CASE WHEN id = 0 THEN 'walk-in' WHEN id % 500 = 7 THEN 'gold' ELSE 'regular' END AS segment",
            "md5(CAST(id AS STRING)) AS email",
        ),
    }
    for table, rows in DIMENSIONS.items():
        frame = spark.range(0, rows, 1, 1).selectExpr("CAST(id AS INT) AS id").selectExpr(*columns[table])
        frame.write.mode("overwrite").parquet(str(data / table))


def write_sales(spark: SparkSession, data: Path) -> None:
    frame = spark.range(0, SALES_ROWS, 1, 4).selectExpr(
        "id AS sale_id",
        f"CAST(pmod(xxhash64(id, 'store'), {STORES}) AS INT) AS store_id",
        f"CAST(pmod(xxhash64(id, 'product'), {PRODUCTS}) AS INT) AS product_id",
        f"CAST(IF(id % 10 < 4, 0, pmod(xxhash64(id, 'customer'), {CUSTOMERS})) AS INT) AS customer_id",
        "CAST(1 + pmod(xxhash64(id, 'quantity'), 5) AS INT) AS quantity",
        "pmod(xxhash64(id, 'amount'), 50000) / 100D AS amount",
        "hex(xxhash64(id, 'receipt')) AS receipt",
        f"CAST(id DIV {SALES_ROWS // DAYS} AS INT) AS day",
    )
    frame.write.mode("overwrite").partitionBy("day").parquet(str(data / "sales"))


# The queries


def broadcast_hash_join(spark: SparkSession) -> None:
    spark.sql("SELECT region, sum(amount) FROM sales JOIN store USING (store_id) GROUP BY region").collect()


def sort_merge_join(spark: SparkSession) -> None:
    spark.sql("""
        SELECT /*+ MERGE(product) */ category, sum(amount)
        FROM sales JOIN product USING (product_id) GROUP BY category""").collect()


def shuffled_hash_join(spark: SparkSession) -> None:
    spark.sql("""
        SELECT /*+ SHUFFLE_HASH(product) */ category, avg(list_price - amount)
        FROM sales JOIN product USING (product_id) GROUP BY category""").collect()


def broadcast_nested_loop_join(spark: SparkSession) -> None:
    spark.sql("""
        SELECT band, count(*) FROM sales
        JOIN VALUES ('low', 0, 50), ('middle', 50, 200), ('high', 200, 500) AS bands(band, low, high)
        ON amount >= low AND amount < high GROUP BY band""").collect()


def cartesian_product(spark: SparkSession) -> None:
    spark.sql("""
        SELECT /*+ SHUFFLE_REPLICATE_NL(product) */ region, count(*)
        FROM store CROSS JOIN product GROUP BY region""").collect()


def skewed_join(spark: SparkSession) -> None:
    options = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1m",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2m",
    }
    with settings(spark, options):
        spark.sql("""
            SELECT segment, count(DISTINCT receipt)
            FROM sales JOIN customer USING (customer_id) GROUP BY segment""").collect()


def join_switched_at_run_time(spark: SparkSession) -> None:
    # The customers' file is larger than the threshold; the gold customers among them are not.
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "256k"}):
        spark.sql("""
            SELECT day, sum(amount) FROM sales JOIN customer USING (customer_id)
            WHERE segment = 'gold' GROUP BY day""").collect()


def coalesced_partitions(spark: SparkSession) -> None:
    with settings(spark, {"spark.sql.shuffle.partitions": "200"}):
        spark.sql("SELECT store_id, day, sum(quantity) FROM sales GROUP BY store_id, day").collect()


def reused_exchange(spark: SparkSession) -> None:
    spark.sql("""
        WITH totals AS (SELECT store_id, day, sum(amount) AS total FROM sales GROUP BY store_id, day)
        SELECT /*+ MERGE(a) */ count(*) FROM totals a JOIN totals b
        ON a.store_id = b.store_id AND a.day = b.day WHERE a.total > b.total / 2""").collect()


def dynamic_partition_pruning(spark: SparkSession) -> None:
    spark.sql("""
        SELECT date, sum(amount) FROM sales JOIN calendar USING (day)
        WHERE kind = 'holiday' GROUP BY date""").collect()


def cached_table(spark: SparkSession) -> None:
    spark.sql("CACHE TABLE spending AS SELECT customer_id, sum(amount) AS spent FROM sales GROUP BY customer_id")
    spark.sql("SELECT * FROM spending ORDER BY spent DESC LIMIT 10").collect()
    spark.sql("SELECT segment, avg(spent) FROM spending JOIN customer USING (customer_id) GROUP BY segment").collect()
    spark.sql("UNCACHE TABLE spending")


def six_nights(spark: SparkSession) -> None:
    for night in range(6):
        # As if the statistics of the stores had been lost in the last night
        with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"} if night == 5 else {}):
            spark.sql(f"""
                SELECT region, sum(amount) FROM sales JOIN store USING (store_id)
                WHERE day = {night} GROUP BY region""").collect()


def broadcast_timeout(spark: SparkSession) -> None:
    # Adaptive execution ignores the timeout of broadcasts.
    options = {"spark.sql.adaptive.enabled": "false", "spark.sql.broadcastTimeout": "1"}
    slow_stores = "(SELECT * FROM store WHERE reflect('java.lang.Thread', 'sleep', 100L) = 'null')"
    with settings(spark, options):
        query = spark.sql(f"""
            SELECT /*+ BROADCAST(slow) */ region, sum(amount)
            FROM sales JOIN {slow_stores} slow USING (store_id) GROUP BY region""")
        try:
            query.collect()
        except Exception as error:
            if "spark.sql.broadcastTimeout" not in str(error):
                raise
        else:
            raise RuntimeError("the broadcast should have timed out")


@contextmanager
def settings(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Set options for one query, and restore the session's values afterwards."""
    before = {key: spark.conf.get(key, None) for key in options}
    for key, value in options.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, former in before.items():
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)


TABLES: tuple[tuple[str, Callable[[SparkSession, Path], None]], ...] = (
    ("Write the tables of stores, products, customers and days", write_dimensions),
    ("Write the sales, partitioned by day", write_sales),
)
NIGHTLY = "Sales of the night by region: six nights, in the last one without a broadcast"
QUERIES: tuple[tuple[str, Callable[[SparkSession], None]], ...] = (
    ("Sales by region: the small table goes to every task (broadcast hash join)", broadcast_hash_join),
    ("Sales by category: both tables are shuffled and sorted (sort-merge join)", sort_merge_join),
    ("Discount by category: shuffled, one side hashed (shuffled hash join)", shuffled_hash_join),
    ("Sales by price band: no equality to join on (broadcast nested loop join)", broadcast_nested_loop_join),
    ("Every store with every product (cartesian product)", cartesian_product),
    ("Receipts by segment: one customer has 40 % of the rows, its partition is split (skewed join)", skewed_join),
    ("Sales to gold customers: planned as sort-merge, broadcast once the side proves small", join_switched_at_run_time),
    ("Items by store and day: 200 tiny shuffle partitions are coalesced", coalesced_partitions),
    ("Sales joined with themselves: one shuffle, read twice (reused exchange)", reused_exchange),
    ("Sales on holidays: only matching days are read (dynamic partition pruning)", dynamic_partition_pruning),
    ("Spending by customer: cached, then read twice", cached_table),
    (NIGHTLY, six_nights),
    ("Sales by slow stores: the broadcast takes too long (fails on purpose)", broadcast_timeout),
)


def open_session(data: Path, extra: Mapping[str, str]) -> SparkSession:
    """A session with this workload's options, overridden by `extra`; both override Spark's files and variables."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.config(map={**session_options(data), **extra}).getOrCreate()


def print_step(step: int, steps: int, title: str) -> None:
    print(json.dumps({"step": step, "steps": steps, "title": title}), flush=True)


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m joinsight.demo.workload", description="Run the demo's workload.")
    parser.add_argument("--data", type=Path, required=True, help="folder for the tables and the warehouse")
    parser.add_argument("--conf", type=pair, action="append", default=[], metavar="KEY=VALUE", help="Spark option")
    options = parser.parse_args(arguments)
    data = options.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    spark = open_session(data, dict(options.conf))
    call_sites.install()
    try:
        # The one error that Spark would log is deliberate; any other is raised as an exception.
        spark.sparkContext.setLogLevel("FATAL")
        generate(spark, data, print_step)
        run(spark, data, print_step)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
