"""One Spark for all tests of a module: it writes an event log, with the listener attached, and then reads logs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.java import end_java

from joinsight.demo.runner import collector
from joinsight.driver.attach import LISTENER, listener_jar
from joinsight.store.database import connect

MASTER = os.environ.get("JOINSIGHT_TEST_SPARK_MASTER", "local[2]")
"""`test_cluster.py` runs these tests again on another Spark, whose executors are processes of their own."""
_SALES = "(SELECT id, id % 10 AS store, id % 7 AS amount FROM range(0, 2000, 1, 3))"
_STORES = "(SELECT id AS store, id % 3 AS region FROM range(10))"
QUERIES = (
    *(
        f"SELECT /*+ {hint}(s) */ region, sum(amount) FROM {_SALES} JOIN {_STORES} s USING (store) GROUP BY region"
        for hint in ("BROADCAST", "MERGE")
    ),
    f"SELECT count(*) FROM {_SALES} WHERE amount > (SELECT avg(amount) FROM {_SALES})",
    # One task: another one might outlive the query, which the listener would then report again
    "SELECT raise_error('on purpose') FROM range(0, 10, 1, 1)",
)


@dataclass(frozen=True)
class Live:
    """A Spark that ran queries, what the listener reported about them, and its event log, which is still open."""

    spark: Any
    engine: Engine
    application_id: str
    log: Path


@pytest.fixture(scope="module")
def live(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """After a few queries."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    logs = tmp_path_factory.mktemp("logs")
    options = {
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.sampleInterval": "0",  # a log has no samples
        "spark.joinsight.spool": str(tmp_path_factory.mktemp("spool")),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
    }
    with connect(make_store()) as engine, collector(engine, 0, []) as (url, _):
        builder = SparkSession.builder.master(MASTER).appName("live and logged")
        spark = builder.config(map=options | {"spark.joinsight.url": url}).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        for query in QUERIES:
            with contextlib.suppress(Exception):
                spark.sql(query).collect()
        (log,) = (path for path in logs.iterdir() if not path.name.startswith("."))
        yield Live(spark, engine, spark.sparkContext.applicationId, log)
        spark.stop()
        end_java()


@pytest.fixture(scope="module")
def spark(live: Live) -> Any:
    return live.spark
