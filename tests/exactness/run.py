"""Run one workload in a fresh Spark, then write down what Spark's own status stores say about it.

A script, not a test: it runs in a process of its own, with a PySpark of any version::

    python run.py --workload semantics --aqe on off --folder DIR --out FILE --conf spark.extraListeners=...

DIR holds the workload's files; for `tpch` it is a folder that tpch.py filled before.
FILE becomes `{"spark_version", "scala_version", "java_version", "live": what oracle.dump says, "log": path of the event
log}`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.eventlog import replay
from tests.exactness import formats_workload, oracle, semantics_workload, tpch

# Nothing may be evicted before it is read.
STORE_OPTIONS = {
    **replay.RETAINED,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
STEPS = {"semantics": semantics_workload.STEPS, "few": semantics_workload.FEW_STEPS}
FORMATS = formats_workload.STATEMENTS
MASTERS = {**dict.fromkeys(STEPS, "local[2,3]"), **dict.fromkeys(["tpch", *FORMATS], "local[2]")}
OPTIONS = {
    **dict.fromkeys(STEPS, semantics_workload.session_options),
    **dict.fromkeys(FORMATS, formats_workload.session_options),
    "tpch": tpch.session_options,
}


def main() -> None:
    arguments = parse()
    folder: Path = arguments.folder.resolve()
    logs = Path(mkdtemp(prefix="logs-", dir=arguments.out.resolve().parent))
    extra = {"spark.eventLog.dir": logs.as_uri(), **dict(arguments.conf)}
    spark = session(arguments.workload, folder, extra)
    try:
        for aqe in arguments.aqe:
            spark.conf.set(semantics_workload.ADAPTIVE, str(aqe == "on").lower())
            if arguments.workload == "tpch":
                tpch.run(spark, folder, tpch.read_queries(folder))
            elif arguments.workload in FORMATS:
                formats_workload.run(spark, arguments.workload, f"aqe_{aqe}", arguments.tables)
            else:
                spark.sql(f"CREATE DATABASE aqe_{aqe}")
                spark.sql(f"USE aqe_{aqe}")
                semantics_workload.run(spark, folder / aqe, STEPS[arguments.workload])
        jvm: Any = spark.sparkContext._jvm
        result = {
            "spark_version": spark.version,
            "scala_version": jvm.scala.util.Properties.versionNumberString(),
            "java_version": jvm.java.lang.System.getProperty("java.version"),
            "live": oracle.dump(spark),
        }
    finally:
        spark.stop()
    (log,) = (path for path in logs.iterdir() if not path.name.startswith("."))
    result["log"] = str(log)
    arguments.out.write_text(json.dumps(result), encoding="utf-8")


def session(workload: str, folder: Path, extra: dict[str, str]) -> SparkSession:
    """A session with the settings of the workload and the oracle; `extra` overrides them."""
    options = {
        "spark.master": MASTERS[workload],
        "spark.app.name": f"exactness {workload}",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        semantics_workload.LOCAL_DIR: str(folder / "local"),
        **STORE_OPTIONS,
        **OPTIONS[workload](),
        **extra,
    }
    spark: SparkSession = SparkSession.builder.config(map=options).getOrCreate()
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
    parser.add_argument("--aqe", choices=["on", "off"], nargs="+", required=True, help="run it once with each")
    parser.add_argument("--tables", type=int, help="of a table format, run the statements of so many tables only")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--conf", type=pair, action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
