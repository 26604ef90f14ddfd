"""The listener's parts that need no Spark: each has a Java program in this folder that prints ``ok``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.java import LIGHT, class_name, compile_java

from joinsight.terminal.escaping import HIDDEN

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Class path with all of the programs."""
    return compile_java(HERE, tmp_path_factory.mktemp("units"))


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*Test.java")))
def test_the_program_finds_nothing_wrong(name: str, classes: str, tmp_path: Path) -> None:
    run = ["java", *LIGHT, "-Xmx64m", "-cp", classes, class_name(HERE / f"{name}.java")]
    run += [str(tmp_path), str(HERE.parent / "delivery_cases.json")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_the_listener_escapes_what_the_collector_escapes(classes: str) -> None:
    """The same characters; in logs of the driver tabs and line feeds, too."""
    done = subprocess.run(
        ["java", *LIGHT, "-cp", classes, "io.joinsight.capture.Hidden"], capture_output=True, check=True
    )
    expected = {code for code in range(sys.maxunicode + 1) if HIDDEN.match(chr(code))} | {9, 10}
    assert set(map(int, done.stdout.split())) == expected
