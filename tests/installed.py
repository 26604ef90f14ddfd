"""What tests install at first use, each in a folder of its own, because not all of it goes together.

``python -m tests.installed`` installs all older versions of PySpark, two at a time.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from tests.versions import SUPPORTED

ENVIRONMENTS = Path(__file__).resolve().parent.parent / ".venvs"


def packages(name: str, *requirements: str) -> Path:
    """The folder of this name, for PYTHONPATH, with the packages in it."""
    folder = ENVIRONMENTS / name
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process of the test run installs it, the others wait
        if not folder.is_dir():
            unfinished = folder.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--target", str(unfinished), *requirements], check=True)
            unfinished.rename(folder)
    return folder


def pyspark_folder(version: str) -> Path:
    """The folder of PySpark in this version."""
    if version == metadata.version("pyspark"):
        import pyspark

        return Path(pyspark.__file__).parent
    return packages(f"pyspark-{version}", f"pyspark=={version}") / "pyspark"


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(pyspark_folder, SUPPORTED))
