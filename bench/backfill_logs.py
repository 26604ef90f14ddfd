"""The event logs that ``bench/backfill.py`` reads: written by Spark, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.exactness import tpch

SHORT_QUERIES = (
    "SELECT g, count(*), sum(id) FROM facts JOIN dims USING (k) GROUP BY g",
    "SELECT /*+ MERGE(d) */ d.g, max(f.id) FROM facts f JOIN dims d ON f.k = d.k GROUP BY d.g",
    "SELECT k, count(*) FROM facts GROUP BY k",
)
STAGE_TASKS = 5000


def make(folder: Path, tasks: int, queries: int, passes: int) -> None:
    """Write ``tasks``, ``queries`` and ``tpch``: plain logs, each of one application."""
    from pyspark.sql import SparkSession

    def many_tasks(spark: Any) -> None:
        for start in range(0, tasks, STAGE_TASKS):
            n = min(STAGE_TASKS, tasks - start)
            small = spark.range(0, 10, 1, 1).withColumnRenamed("id", "k").hint("broadcast")
            rows = spark.range(0, n * 10, 1, n).where("id % 7 < 6")
            joined = rows.join(small, rows["id"] % 10 == small["k"]).repartition(10)
            joined.write.format("noop").mode("overwrite").save()

    def short_queries(spark: Any) -> None:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
        spark.range(0, 2000, 1, 2).selectExpr("id", "id % 50 AS k").createOrReplaceTempView("facts")
        spark.range(0, 50, 1, 2).selectExpr("id AS k", "id % 5 AS g").createOrReplaceTempView("dims")
        for i in range(queries):
            spark.sql(SHORT_QUERIES[i % len(SHORT_QUERIES)]).collect()

    def typical(spark: Any) -> None:
        for key, value in tpch.session_options().items():
            if key.startswith("spark.sql"):
                spark.conf.set(key, value)
        for _ in range(passes):
            tpch.run(spark, folder / "data", tpch.read_queries(folder / "data"))

    tpch.generate(folder / "data")
    workloads: dict[str, Callable[[Any], None]] = {"tasks": many_tasks, "queries": short_queries, "tpch": typical}
    for name, run in workloads.items():
        logs = folder / f"{name}.d"
        logs.mkdir()
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "3g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": logs.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        builder = SparkSession.builder.master("local[2]").appName(f"joinsight backfill {name}")
        spark: Any = builder.config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        run(spark)
        spark.stop()
        (log,) = (path for path in logs.iterdir() if not path.name.startswith("."))
        log.rename(folder / name)


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:]))
