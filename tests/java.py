"""Java of the tests: programs compiled against the listener and Spark, and the one that PySpark starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark

from joinsight.attach import listener_jar


def compile_java(source: Path, folder: Path) -> str:
    """Compile a file into `folder`; returns the class path to run it with, on which `folder` comes first."""
    path = os.pathsep.join([str(folder), str(listener_jar()), str(Path(pyspark.__file__).parent / "jars" / "*")])
    command = ["javac", "-nowarn", "-proc:none", "-cp", path, "-d", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def end_java() -> None:
    """End the Java of a Spark that was stopped: the next one of this process would inherit its settings."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
