"""Event logs and tables in an S3 store: moto's server, read and written by Hadoop's own client in Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import Engine, select, text
from tests.backfill.stored import content
from tests.cluster.programs import program
from tests.eventlog.recorded import VERSIONS, read, recorded
from tests.installed import packages, pyspark_folder
from tests.spark_sql.by_sql import QUERIES
from tests.spark_sql.test_rollup import approximately, rows_of
from tests.versions import SUPPORTED
from tests.waiting import SECONDS, until

from joinsight import tables
from joinsight.backfill.listing import Local, find
from joinsight.store.database import connect
from joinsight.store.writer import Writer

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
PARTS = {"hadoop-aws-3.4.2": "org.apache.hadoop:hadoop-aws:3.4.2", "bundle-2.29.52": "software.amazon.awssdk:bundle"}
"""The jars that Spark needs for `s3a://`, and what the message calls each that is missing."""
(VERSION,) = (version for version in SUPPORTED if version.startswith("4.1."))
"""The Spark with the Hadoop of the jars."""
FIRST = "2026-11-01"
"""Before the recorded logs."""
TABLES = ("execution", "joins", "shuffle", "broadcast")
"""What a roll-up reads."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with the buckets `logs` and `lake`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": str(packages("cluster-moto", "moto[server]==5.2.5"))}
    with (tmp_path_factory.mktemp("s3") / "log").open("w") as log:
        command = [sys.executable, "-m", "moto.server", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        until(lambda: put(f"{address}/logs") or process.poll() is not None, "the S3 server starts")
        assert process.poll() is None, Path(log.name).read_text()[-3000:]
        assert put(f"{address}/lake")
        yield address
    finally:
        process.terminate()
        process.wait()


def put(address: str, content: bytes = b"") -> bool:
    """Create an object or a bucket; False if no server answers."""
    # As bytes: a server takes a request without a type for a form, and waits for its end
    request = Request(address, content, {"Content-Type": "application/octet-stream"}, method="PUT")
    try:
        with urlopen(request, timeout=SECONDS):
            return True
    except URLError:
        return False


@pytest.fixture(scope="module")
def logs(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded log of each version, single files and rolling ones in all compressions, here and in the store."""
    folder = tmp_path_factory.mktemp("logs")
    for version in VERSIONS:
        recorded(version, folder)
    for path in filter(Path.is_file, folder.rglob("*")):
        assert put(f"{server}/logs/spark/{path.relative_to(folder)}", path.read_bytes())
    return folder


def run(
    folder: Path, server: str, parts: list[str], store: Engine, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a Spark with these jars, in the way of its `spark-defaults.conf`."""
    jars = program("s3")
    conf = {
        "spark.jars": ",".join(f"file:{jars}/{each}.jar" for each in parts),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.endpoint": server,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.secret.key": "b",
        "spark.hadoop.fs.s3a.attempts.maximum": "1",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPARK_")},
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": f"{pyspark_folder(VERSION).parent}:{ROOT / 'collector'}",
        "JOINSIGHT_DATABASE_URL": store.url.render_as_string(hide_password=False),
    }
    command = [sys.executable, "-m", "joinsight.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("command", "count"), [("backfill", 0), ("backfill", 1), ("export", 0)])
def test_a_missing_jar_is_named(
    tmp_path: Path, server: str, logs: Path, empty: Engine, command: str, count: int
) -> None:
    """The error has the coordinates of the first that is missing."""
    arguments = ["backfill", "s3a://logs/spark"] if command == "backfill" else ["export", "--to", "s3a://lake"]
    done = run(tmp_path, server, list(PARTS)[:count], empty, *arguments)
    assert done.returncode == 1
    (*_, message) = done.stderr.strip().splitlines()
    assert f"which is in {list(PARTS.values())[count]}: add that to spark.jars.packages" in message


def test_event_logs(tmp_path: Path, server: str, logs: Path, empty: Engine, make_store: Callable[[], str]) -> None:
    """A backfill from S3 stores what one from this disk does."""
    with connect(make_store()) as here:
        for store, path in ((here, logs.as_uri()), (empty, "s3a://logs/spark")):
            done = run(tmp_path, server, list(PARTS), store, "backfill", path)
            assert done.returncode == 0, done.stderr[-5000:]
        of_s3, of_disk = content(empty), content(here)
    assert len(of_disk["application"]) == len(VERSIONS)
    assert [table for table, rows in of_disk.items() if rows != of_s3[table]] == []


def test_tables(tmp_path: Path, server: str, logs: Path, empty: Engine) -> None:
    """A roll-up of what was exported to S3 is that of PostgreSQL."""
    for log in find(Local(), [str(logs)]).logs.values():
        Writer(empty).write(read(log)[0])
    lake = "s3a://lake/joinsight"
    for command in (
        ["export", "--to", lake, *(f"--table={table}" for table in TABLES)],
        ["rollup", "--since", FIRST, "--from", lake],
    ):
        done = run(tmp_path, server, list(PARTS), empty, *command)
        assert done.returncode == 0, done.stderr[-5000:]
    expected = approximately(rows_of(empty, text(QUERIES)))
    assert len(expected) > len(VERSIONS)
    assert rows_of(empty, select(tables.rollup_day)) == expected
