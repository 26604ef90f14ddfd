"""Asks the Spark of this machine about its listener, and runs a query that it should report.

``python -m joinsight.driver.probe URL [--conf KEY=VALUE]...`` prints a `ProbeResult` as JSON in its last line;
`joinsight doctor --spark` starts it. Spark starts as in any job: with SPARK_HOME, spark-defaults.conf and the
environment of this process. If no setting attaches the listener, it is attached to the collector at URL.
"""

from __future__ import annotations

import argparse
import os
import platform
import warnings
from pathlib import Path
from typing import Any

import msgspec

from joinsight.contract.document import DOCTORS_QUERY
from joinsight.driver.attach import LISTENER, attach, call_with_context, listener_jar


class ProbeResult(msgspec.Struct):
    """What was found. The settings are those of Spark, whatever attaches the listener."""

    error: str | None = None
    """Why Spark does not start, or why its query failed; all that follows was found before."""
    spark: str = ""
    """Version; so are the next four."""
    pyspark: str = ""
    scala: str = ""
    java: str = ""
    python: str = ""
    home: str = ""
    master: str = ""
    application_id: str | None = None
    jar: str | None = None
    """Where the driver's class path has the listener; None if it has none."""
    jar_version: str | None = None
    settings: dict[str, str] = {}
    is_listening: bool = False
    """Whether a setting has attached the listener, and it works."""
    sampling: str | None = None
    """What the listener, whatever attached it, says about samples of task time."""
    unknown: str | None = None
    """Settings of the listener that do not exist, with the nearest that do."""
    problem: str | None = None
    """Why the listener that a setting names does not work."""
    attach_problem: str | None = None
    """Why it could not be attached now either."""
    spool: str | None = None
    spool_problem: str | None = None
    ran: bool = False
    """Whether the query ended."""


SETTINGS = (
    "spark.extraListeners",
    "spark.plugins",
    "spark.joinsight.url",
    "spark.joinsight.tokenFile",
    "spark.joinsight.caFile",
    "spark.joinsight.useProxy",
    "spark.joinsight.enabled",
)


def main() -> None:
    """Start Spark, ask it, run the query."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    result = ProbeResult(python=platform.python_version())
    try:
        _look(result, arguments.url, [each.partition("=")[::2] for each in arguments.conf])
    except Exception as error:
        result.error = _reason(error)
    print("\n" + msgspec.json.encode(result).decode(), flush=True)


def _look(result: ProbeResult, url: str, conf: list[tuple[str, str]]) -> None:
    import pyspark
    from pyspark.sql import SparkSession

    result.pyspark, result.home = (
        pyspark.__version__,
        os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent),
    )
    builder: Any = SparkSession.builder.appName(DOCTORS_QUERY)
    for key, value in conf:
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = getattr(session, "_sc", None)
    if context is None:
        raise RuntimeError("this is a client of Spark Connect, which has no driver: run this where the server runs")
    java = context._jvm.java.lang.System.getProperty
    result.spark, result.scala = context.version, context._jvm.scala.util.Properties.versionNumberString()
    result.java, result.master, result.application_id = java("java.version"), context.master, context.applicationId
    spark_conf = context.getConf()
    result.settings = {key: spark_conf.get(key) for key in SETTINGS if spark_conf.contains(key)}
    result.jar, result.jar_version = _jar(context._jvm)
    result.is_listening, result.problem = _listener(context)
    _attach_and_run(result, session, result.settings.get("spark.joinsight.url", url))
    session.stop()


def _attach_and_run(result: ProbeResult, session: Any, url: str) -> None:
    context = session._sc
    if not result.is_listening:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            attach(type(session).builder, url)
        result.attach_problem = str(caught[0].message) if caught else None
    result.sampling, result.unknown = _said(context, "sampling"), _said(context, "unknownSettings")
    if not result.attach_problem:
        settings = {"spark.joinsight.url": url}
        result.spool, result.spool_problem = call_with_context(
            context, listener_jar(), "io.joinsight.delivery.SpoolCheck", "run", settings
        )
    context.setJobDescription(DOCTORS_QUERY)
    session.range(1000).selectExpr("id % 10 AS key").groupBy("key").count().collect()
    result.ran = True


def _jar(jvm: Any) -> tuple[str | None, str | None]:
    """The path and version of the listener's jar on the driver's class path."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    from py4j.protocol import Py4JJavaError

    try:
        found = jvm.java.lang.Class.forName(LISTENER, False, loader)
    except Py4JJavaError:
        return None, None
    path = found.getProtectionDomain().getCodeSource().getLocation().getPath()
    return path, found.getPackage().getImplementationVersion()


def _listener(context: Any) -> tuple[bool, str | None]:
    """Whether a listener works, and why one that is there does not."""
    problem = None
    for each in context._jsc.sc().listenerBus().listeners():
        if each.getClass().getName() == LISTENER:
            problem = each.problem()
            if problem is None:
                return True, None
    return False, problem


def _said(context: Any, method: str) -> str | None:
    """The first answer of a listener."""
    from py4j.protocol import Py4JError

    for each in context._jsc.sc().listenerBus().listeners():
        if each.getClass().getName() == LISTENER:
            try:
                found = getattr(each, method)()
            except Py4JError:  # of an earlier version
                continue
            if found:
                return str(found)
    return None


def _reason(error: Exception) -> str:
    """The innermost cause in Java, else the message in Python."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return " ".join(str(error).split()) or type(error).__name__
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.toString())


if __name__ == "__main__":
    main()
