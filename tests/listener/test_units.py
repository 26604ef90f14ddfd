"""The listener's parts that need no Spark: each has a Java program beside this file that says ``ok``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.java import compile_java

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*Test.java")))
def test_unit(name: str, tmp_path: Path) -> None:
    """The program finds nothing wrong."""
    path = compile_java(HERE / f"{name}.java", tmp_path)
    run = ["java", "-Xmx64m", "-cp", path, f"io.joinsight.{name}", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
