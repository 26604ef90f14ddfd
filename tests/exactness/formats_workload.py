"""What a table format does: writes, merges, updates, deletes, compaction and time travel, in a table of that format.

Each statement is an execution of its own with this statement as its description, so that a difference names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = "SELECT id, id % 50 AS key, {day} AS day, id * 1.5D AS amount FROM range({start}, {end}, 1, 2)"
_FIRST = _ROWS.format(day="id % 4", start=0, end=8000)
_NEWS = _ROWS.format(day="id % 4", start=7900, end=8100)
_MERGE = (
    "MERGE INTO {table} AS t USING (" + _NEWS + ") AS s ON t.id = s.id"
    " WHEN MATCHED AND s.key = 7 THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET amount = s.amount + 1 WHEN NOT MATCHED THEN INSERT *"
)
_CHANGES = (
    "INSERT INTO {table} " + _ROWS.format(day="id % 4", start=9000, end=9100),
    _MERGE,
    "UPDATE {table} SET amount = 0 WHERE key = 3",
    "DELETE FROM {table} WHERE key = 5",
    "DELETE FROM {table} WHERE day = 1",
    "SELECT key, count(*), sum(amount) FROM {table} WHERE day >= 2 GROUP BY key",
    "SELECT a.key, count(*) FROM {table} a JOIN {table} b ON a.id = b.id GROUP BY a.key",
    "SELECT * FROM {table} WHERE id = -1",
)
_DELTA = {
    "copied": ("CREATE TABLE {table} USING delta PARTITIONED BY (day) AS " + _FIRST, *_CHANGES),
    "vectors": (
        "CREATE TABLE {table} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS " + _FIRST,
        *_CHANGES,
        "OPTIMIZE {table} ZORDER BY (key)",
        "SELECT count(*) FROM {table} VERSION AS OF 1",
        "DESCRIBE HISTORY {table}",
    ),
}
_ICEBERG = {
    mode.replace("-", "_"): (
        "CREATE TABLE {table} USING iceberg PARTITIONED BY (day) TBLPROPERTIES ("
        + ", ".join(f"'write.{name}.mode' = '{mode}'" for name in ("merge", "update", "delete"))
        + ") AS "
        + _FIRST,
        *_CHANGES,
        "CALL formats.system.rewrite_data_files(table => '{table}')",
        "SELECT count(*) FROM {table}.snapshots",
    )
    for mode in ("copy-on-write", "merge-on-read")
}
_HUDI_ROWS = "SELECT id, id % 50 AS key, id * 1.5D AS amount, 0L AS day FROM range({start}, {end}, 1, 2)"
_HUDI = {
    "copied": (
        "CREATE TABLE {table} USING hudi PARTITIONED BY (day)"
        " TBLPROPERTIES (type = 'cow', primaryKey = 'id', preCombineField = 'amount') AS "
        + _HUDI_ROWS.format(start=0, end=400),
        "MERGE INTO {table} AS t USING (" + _HUDI_ROWS.format(start=390, end=410) + ") AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "UPDATE {table} SET amount = 0 WHERE key = 3",
        "DELETE FROM {table} WHERE key = 5",
        "SELECT key, count(*), sum(amount) FROM {table} GROUP BY key",
    )
}
STATEMENTS: Mapping[str, Mapping[str, Iterable[str]]] = {"delta": _DELTA, "iceberg": _ICEBERG, "hudi": _HUDI}
"""By format, for each of its tables: the statements, in which ``{table}`` is its name."""


def session_options() -> dict[str, str]:
    """Few partitions, as the tables are small."""
    return {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}


def format_options(name: str, warehouse: str) -> dict[str, str]:
    """The settings that a format needs besides its jars."""
    if name == "delta":
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    if name == "iceberg":
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.formats": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.formats.type": "hadoop",
            "spark.sql.catalog.formats.warehouse": warehouse,
        }
    return {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.hadoop.hoodie.metadata.enable": "false",
    }


def run(spark: SparkSession, name: str, database: str, tables: int | None = None) -> None:
    """Run the statements of a format, in tables of their own for each database; `tables`: of the first ones only."""
    where = f"formats.{database}" if name == "iceberg" else database
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {where}")
    for table, statements in list(STATEMENTS[name].items())[:tables]:
        for statement in statements:
            spark.sql(statement.format(table=f"{where}.{table}")).collect()
