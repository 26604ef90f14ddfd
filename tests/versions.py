"""The versions of Spark that are supported: the one place that lists them.

pip enforces some of it from pyproject.toml: the bound of the extra `spark`, and the newest version for developers.
`tests/test_docs.py` compares both.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ENVIRONMENTS = Path(__file__).resolve().parent.parent / ".venvs"
"""What tests install at first use."""

SUPPORTED = ("3.4.4", "3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
"""The latest patch of each minor version, oldest first: versions of PySpark, installed at first use."""
NEWEST = SUPPORTED[-1]
SCALA_2_12 = [version for version in SUPPORTED if version.startswith("3.")][-1]
"""The newest that PySpark packs with Scala 2.12 (from 4.0 on, with 2.13)."""
BOTH_SCALA = (NEWEST, pytest.param(SCALA_2_12, marks=pytest.mark.matrix))
"""Parameters of a test: the newest in the normal run, Scala 2.12 in the matrix."""


def pyspark_folder(version: str) -> Path:
    """The folder of PySpark in this version: this Python's, or one in `ENVIRONMENTS`, installed at first use."""
    if version == metadata.version("pyspark"):
        import pyspark

        return Path(pyspark.__file__).parent
    folder = ENVIRONMENTS / f"pyspark-{version}"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process of the test run installs it, the others wait
        if not (folder / "pyspark" / "jars").is_dir():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
            subprocess.run([*pip, f"pyspark=={version}"], check=True)
    return folder / "pyspark"
