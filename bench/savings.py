"""Is the saving true that `joinsight cost` reports for a shuffle? ``python -m bench.savings --help``.

A join of a large table with a small one, both shuffled, runs in turns with the same join of the same rows, whose large
table is bucketed by the key, so that Spark needs no shuffle of it. By how much less time that takes is the truth. It is
compared with the saving that is reported for the large table's shuffle, with samples every 10 ms.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from datetime import date

from pyspark.sql import SparkSession
from tests.spark.sink import listening

from bench.plugin import run, session
from joinsight.analysis.stored import stored_plan

TABLES = ("shuffled", "bucketed")
KEYS = 8
"""Rows of the large table for each of the small one."""


def main() -> None:
    """Run the rounds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the large table")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2, help="slots for tasks")
    arguments = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    shares = []
    with tempfile.TemporaryDirectory() as folder, listening() as sink:
        settings = {
            "spark.master": f"local[{arguments.cores}]",
            "spark.driver.memory": "4g",
            "spark.sql.warehouse.dir": folder,
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            "spark.joinsight.sampleInterval": "10ms",
        }
        spark = session(sink, settings)
        make_tables(spark, arguments.rows)
        for number in range(-1, arguments.rounds):
            order = TABLES if number % 2 else TABLES[::-1]
            rows = {table: run(spark, sink, spark.sql(query(table)).collect) for table in order}
            if number < 0:
                continue
            shuffled, bucketed = (rows[table].execution.duration_ms or 0 for table in TABLES)
            stored = stored_plan(rows["shuffled"])
            largest = max(rows["shuffled"].shuffle, key=lambda shuffle: shuffle.bytes_written or 0)
            reported, real = stored.savings.of(largest.node_id), shuffled - bucketed
            shares.append(reported / real)
            print(f"{shuffled} ms, bucketed {bucketed} ms: {real} ms less, reported {reported} ms", flush=True)
        spark.stop()
    print(f"reported ÷ real: median {statistics.median(shares):.2f}, from {min(shares):.2f} to {max(shares):.2f}")


def make_tables(spark: SparkSession, rows: int) -> None:
    """The same rows twice, once bucketed, and the small table."""
    for table in TABLES:
        clustered = "CLUSTERED BY (k) INTO 4 BUCKETS" if table == "bucketed" else ""
        spark.sql(
            f"CREATE TABLE {table} USING parquet {clustered} AS SELECT /*+ REPARTITION(4, k) */"
            f" id % {rows // KEYS} AS k, sha2(string(id), 256) AS v FROM range(0, {rows}, 1, 4)"
        )
    spark.sql(
        f"CREATE TABLE small USING parquet AS SELECT id AS k, sha2(string(id), 256) AS w FROM range({rows // KEYS})"
    )


def query(table: str) -> str:
    """The join of a table."""
    return f"SELECT sum(hash(v, w)) FROM {table} JOIN small USING (k)"


if __name__ == "__main__":
    main()
