"""Programs that the tests of clusters need: built once by ``programs.sh``, in folders that later runs find."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from tests.installed import ENVIRONMENTS
from tests.processes import ran

SCRIPT = Path(__file__).with_name("programs.sh")


def program(name: str) -> Path:
    """The folder of this program. Skips the test where it cannot be built: without root, Debian or Go."""
    folder = ENVIRONMENTS / f"cluster-{name}"
    if folder.is_dir():
        return folder
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for command in ("apt-get", "go"):
        if not shutil.which(command):
            pytest.skip(f"needs {command}")
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"cluster-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            ran(SCRIPT, name, unfinished)
            unfinished.rename(folder)
    return folder
