"""The listener's parts that need no Spark: each has a Java program beside this file that says ``ok``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from joinsight.attach import listener_jar

HERE = Path(__file__).parent
JARS = Path(pyspark.__file__).parent / "jars"


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*Test.java")))
def test_unit(name: str, tmp_path: Path) -> None:
    """The program finds nothing wrong."""
    path = os.pathsep.join([str(listener_jar()), str(tmp_path), f"{JARS}/*"])
    subprocess.run(["javac", "-cp", path, "-d", str(tmp_path), str(HERE / f"{name}.java")], check=True)
    run = ["java", "-cp", path, f"io.joinsight.{name}", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
