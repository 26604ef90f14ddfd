"""Run one workload in a fresh Spark, then write down what Spark's own status store says about it.

A script, not a test: it runs in a process of its own, with a PySpark of any version::

    python run.py --workload semantics --aqe on --folder DIR --out FILE --conf spark.extraListeners=...

DIR holds the workload's files; for `tpch` it is a folder that tpch.py filled before.
FILE becomes `{"spark_version", "application_id", "workload", "aqe", "executions": what oracle.dump says}`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.exactness import oracle, semantics_workload, tpch

# Nothing may be evicted before it is read, and aggregation must not race with the events that follow.
STORE_OPTIONS = {
    "spark.appStateStore.asyncTracking.enable": "false",
    "spark.sql.ui.retainedExecutions": "100000",
    "spark.ui.retainedJobs": "100000",
    "spark.ui.retainedStages": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
MASTERS = {"semantics": "local[2,3]", "tpch": "local[2]"}
OPTIONS = {"semantics": semantics_workload.session_options, "tpch": tpch.session_options}


def main() -> None:
    arguments = parse()
    folder: Path = arguments.folder.resolve()
    spark = session(arguments.workload, arguments.aqe, folder, dict(arguments.conf))
    try:
        if arguments.workload == "tpch":
            tpch.run(spark, folder, tpch.read_queries(folder))
        else:
            semantics_workload.run(spark, folder)
        result = {
            "spark_version": spark.version,
            "application_id": spark.sparkContext.applicationId,
            "workload": arguments.workload,
            "aqe": arguments.aqe,
            "executions": oracle.dump(spark),
        }
    finally:
        spark.stop()
    arguments.out.write_text(json.dumps(result), encoding="utf-8")


def session(workload: str, aqe: str, folder: Path, extra: dict[str, str]) -> SparkSession:
    """A session with what the workload and the oracle need; `extra` wins over all of it."""
    options = {
        "spark.master": MASTERS[workload],
        "spark.app.name": f"exactness {workload}, AQE {aqe}",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.adaptive.enabled": str(aqe == "on").lower(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        semantics_workload.LOCAL_DIR: str(folder / "local"),
        **STORE_OPTIONS,
        **OPTIONS[workload](),
        **extra,
    }
    builder = SparkSession.builder
    for key, value in options.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run a workload, then dump Spark's SQL status store.")
    parser.add_argument("--workload", choices=sorted(MASTERS), required=True)
    parser.add_argument("--aqe", choices=["on", "off"], required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--conf", type=pair, action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
