"""An archive of the classes that Spark loads, with which the JVMs of the tests start in two thirds of the CPU.

Java maps such an archive (class data sharing) if Java, the class path and its jars are those that it was made with;
otherwise, and while there is none, it loads classes as ever. So it is made in the background of a whole test run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.spark.sink import sending_to

from joinsight.driver.attach import listener_jar

FOLDER = Path(__file__).resolve().parent.parent / ".venvs"
CONFIGURATION = FOLDER / "empty"
"""Spark's folder of settings, which is on its class path: Java has no archives for one with files in it."""


def archive() -> Path:
    """Where the archive is for this Java, Spark and listener; it may not be there yet."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    made_of = java + metadata.version("pyspark").encode() + listener_jar().read_bytes()
    return FOLDER / f"classes-{hashlib.sha256(made_of).hexdigest()[:16]}.jsa"


@contextmanager
def in_background(path: Path, options: str) -> Iterator[None]:
    """Make the archive, unless it is there or another process makes it; stops that at the end."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "classes.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield
            return
        if path.exists():
            yield
            return
        for old in FOLDER.glob("classes-*.jsa*"):
            old.unlink()
        process = subprocess.Popen(
            [sys.executable, __file__, str(path), options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def make(path: Path, options: str) -> None:
    """Run queries in a JVM that writes its classes to the archive when it ends."""
    unfinished = path.with_suffix(".jsa.part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -XX:ArchiveClassesAtExit={unfinished}"
    from pyspark.sql import SparkSession

    with TemporaryDirectory() as folder:
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(folder).as_uri(),
            **sending_to("http://127.0.0.1:1"),
            "spark.joinsight.spool": folder,
            "spark.joinsight.shutdownTimeout": "1s",
        }
        spark = SparkSession.builder.config(map=settings).getOrCreate()
        spark.range(1000).selectExpr("id", "id % 7 AS key").write.parquet(f"{folder}/facts")
        facts = spark.read.parquet(f"{folder}/facts")
        facts.createOrReplaceTempView("facts")
        for hint in ("", "/*+ MERGE(b) */", "/*+ SHUFFLE_HASH(b) */"):
            text = (
                f"SELECT {hint} a.key, count(*) FROM facts a JOIN facts b ON a.id = b.id GROUP BY a.key ORDER BY a.key"
            )
            spark.sql(text).collect()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.proc.stdin.close()  # the JVM ends, and writes
        gateway.proc.wait()
    unfinished.rename(path)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
