"""A Spark for the tests of this project, with two small tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Orders of 100 customers in 5 segments."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    folder = tmp_path_factory.mktemp("data")
    tables = {
        "orders": session.range(1000).selectExpr("id AS order_id", "id % 100 AS customer_id", "id * 1.5 AS amount"),
        "customers": session.range(100).selectExpr("id AS customer_id", "id % 5 AS segment"),
    }
    for name, table in tables.items():
        table.coalesce(1).write.parquet(str(folder / name))
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    yield session
    session.stop()
