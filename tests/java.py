"""Java programs of the tests, compiled against the listener and Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from joinsight.attach import listener_jar


def compile_java(source: Path, folder: Path) -> str:
    """Compile a file into `folder`; returns the class path to run it with, on which `folder` comes first."""
    path = os.pathsep.join([str(folder), str(listener_jar()), str(Path(pyspark.__file__).parent / "jars" / "*")])
    command = ["javac", "-nowarn", "-proc:none", "-cp", path, "-d", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return path
