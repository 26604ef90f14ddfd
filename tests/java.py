"""Java for the tests: compiles programs against the listener and Spark, and ends PySpark's JVM."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

from joinsight.driver.attach import listener_jar

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for a JVM of a test, which lives for seconds: most of them are Java's start."""
OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/sun.nio.ch")
"""Packages that Spark's classes reach into, where no Spark starts the JVM."""


def class_name(source: Path) -> str:
    """The name of the class in this file, with its package."""
    (package,) = re.findall(r"^package (.*);", source.read_text(), re.MULTILINE)
    return f"{package}.{source.stem}"


def compile_java(source: Path, folder: Path, *others: Path) -> str:
    """Compile files, or all of a folder, into `folder`; returns the class path to run them with, `folder` first."""
    path = os.pathsep.join([str(folder), str(listener_jar()), str(Path(pyspark.__file__).parent / "jars" / "*")])
    light = (f"-J{option}" for option in LIGHT)
    command = ["javac", *light, "-encoding", "UTF-8", "-nowarn", "-proc:none", "-cp", path, "-d", str(folder)]
    command += map(str, sorted(source.glob("*.java")) if source.is_dir() else [source, *others])
    subprocess.run(command, check=True, capture_output=True)
    return path


def jar_of(classes: Path, name: str) -> Path:
    """A jar of the compiled class of that name, in the same folder."""
    jar = classes / f"{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in classes.glob(f"{name}*.class"):
            archive.write(path, path.name)
    return jar


def spark_home(environment: Mapping[str, str]) -> Path:
    """The folder of the PySpark that a Python with these environment variables finds."""
    command = [sys.executable, "-c", "import pyspark; print(pyspark.__path__[0])"]
    return Path(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())


def end_java() -> None:
    """End the JVM of a stopped Spark, because the next Spark in this process would inherit its settings."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
