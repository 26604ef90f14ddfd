"""Runs a job of this folder that writes what it saw to a file, with an event log."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.java import LIGHT
from tests.processes import ran


def run(job: str, environment: Mapping[str, str], folder: Path) -> tuple[Any, Path]:
    """What the job of this name wrote, and the folder of its event log."""
    logs, out = folder / "logs", folder / "out.json"
    logs.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join(LIGHT),
    }
    settings = (f"{key}={value}" for key, value in conf.items())
    command = [sys.executable, str(Path(__file__).with_name(job)), str(out), str(folder), *settings]
    env = {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran(*command, env=env, cwd=folder)
    return json.loads(out.read_text()), logs
