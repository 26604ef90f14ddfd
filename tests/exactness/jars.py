"""The jars of native engines and table formats, which Maven's client fetches once into ``.venvs``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.class_archive import FOLDER

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
ARTIFACTS = {
    ("comet", "4.1.4"): ("org.apache.datafusion:comet-spark-spark4.1_2.13:1.2.0",),
    ("delta", "4.1.4"): ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    ("delta", "4.0.5"): ("io.delta:delta-spark_2.13:4.0.0", "io.delta:delta-storage:4.0.0"),
    ("delta", "3.5.9"): ("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2"),
    ("iceberg", "4.1.4"): ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    ("iceberg", "3.5.9"): ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",),
    ("hudi", "3.5.9"): ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2",),
}
"""By engine or format and version of Spark: the jars."""
COMET_OPTIONS: Mapping[str, str] = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.comet.enabled": "true",
    "spark.comet.shuffle.enabled": "true",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "2g",
}


class NotFetchedError(Exception):
    """A jar is not here, and cannot be fetched."""


def jars_of(name: str, version: str) -> list[Path]:
    """The jars of an engine or a format, fetched once."""
    return [_jar(artifact) for artifact in ARTIFACTS[name, version]]


def _jar(artifact: str) -> Path:
    _, name, version = artifact.split(":")
    path = FOLDER / f"{name}-{version}.jar"
    if path.exists():
        return path
    if shutil.which("mvn") is None:
        raise NotFetchedError(f"{path.name} is not here, and neither is Maven's client")
    FOLDER.mkdir(exist_ok=True)
    folder = FOLDER / f"{name}-{version}.part"
    command = ["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotFetchedError(f"{path.name} is not here, and Maven could not fetch it: {done.stdout[-300:]}")
    (folder / path.name).rename(path)
    folder.rmdir()
    return path


def options(conf: Mapping[str, str]) -> Iterable[str]:
    """Settings as arguments of `run`."""
    for key, value in conf.items():
        yield from ("--conf", f"{key}={value}")
