"""The listener's parts that need no Spark: each has a Java program in this folder that prints ``ok``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.java import LIGHT, compile_java

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Class path with all of the programs."""
    return compile_java(HERE, tmp_path_factory.mktemp("units"))


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*Test.java")))
def test_the_program_finds_nothing_wrong(name: str, classes: str, tmp_path: Path) -> None:
    """The program finds nothing wrong."""
    run = ["java", *LIGHT, "-Xmx64m", "-cp", classes, f"io.joinsight.{name}", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
