"""TPC-H for the exactness tests: DuckDB writes the data and the queries, any Spark runs them.

Writing needs DuckDB and its tpch extension, running does not, so that one folder serves every Spark version::

    python tpch.py --folder DIR [--scale 0.01]
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES_FILE = "queries.json"
ROW_GROUP_ROWS = 10_240


def generate(folder: Path, scale: float = 0.01) -> None:
    """Write one Parquet file per table, and `queries.json`: query number to text in Spark's dialect."""
    import duckdb

    package = Path(str(importlib.resources.files("duckdb_extension_tpch")))
    (extension,) = package.rglob("tpch.duckdb_extension")
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dbgen(sf={scale})")
        for table in TABLES:
            target = folder / f"{table}.parquet"
            # Small row groups let Spark split a small file into several tasks.
            connection.execute(f"COPY {table} TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP_ROWS})")
        rows = connection.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall()
    queries = {str(number): spark_dialect(text) for number, text in rows}
    (folder / QUERIES_FILE).write_text(json.dumps(queries, indent=1), encoding="utf-8")


def spark_dialect(query: str) -> str:
    """DuckDB's text of a TPC-H query as Spark reads it; `spark.sql` takes no closing semicolon."""
    return query.strip().rstrip(";")


def read_queries(folder: Path) -> dict[str, str]:
    """The queries that `generate` wrote, by number."""
    queries: dict[str, str] = json.loads((folder / QUERIES_FILE).read_text(encoding="utf-8"))
    return queries


def session_options() -> dict[str, str]:
    """Settings that make small data behave like large: several tasks per table, sort-merge joins and broadcasts."""
    return {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.files.maxPartitionBytes": "256k",
        "spark.sql.files.openCostInBytes": "64k",
        "spark.sql.autoBroadcastJoinThreshold": "100k",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64k",
    }


def run(spark: SparkSession, folder: Path, queries: Mapping[str, str]) -> dict[str, list[Row]]:
    """Run the queries one after the other on the tables in `folder`; returns their rows."""
    for table in TABLES:
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    results: dict[str, list[Row]] = {}
    for number, text in queries.items():
        spark.sparkContext.setJobDescription(f"TPC-H {number}")
        results[number] = spark.sql(text).collect()
    spark.sparkContext.setJobDescription(None)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the TPC-H tables and queries that run.py reads.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=0.01)
    arguments = parser.parse_args()
    generate(arguments.folder, arguments.scale)


if __name__ == "__main__":
    main()
