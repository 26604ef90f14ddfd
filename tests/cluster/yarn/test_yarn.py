"""Jobs on YARN, and their event logs in HDFS: Hadoop's own daemons, in one process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.cluster.programs import program
from tests.installed import pyspark_folder
from tests.java import LIGHT
from tests.processes import ran
from tests.versions import SUPPORTED
from tests.waiting import until

from joinsight.driver.attach import listener_jar
from joinsight.store.database import connect
from joinsight.store.mark_lost import declare_lost

pytestmark = pytest.mark.cluster
HERE = Path(__file__).parent
JOB = HERE.parent / "jobs/job.py"
(VERSION,) = (version for version in SUPPORTED if version.startswith("4.1."))
"""The Spark with the Hadoop of the daemons."""
LOGS, LAKE = "hdfs:///logs", "hdfs:///lake"
MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"


Daemons = tuple[subprocess.Popen[str], Path]


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """The process of a running YARN and HDFS, and its folder."""
    for command in ("mvn", "javac"):
        if not shutil.which(command):
            pytest.skip(f"needs {command}")
    folder = tmp_path_factory.mktemp("yarn")
    path = f"{folder}:{program('yarn')}/*:{pyspark_folder(VERSION)}/jars/*"
    subprocess.run(["javac", "-cp", path, "-d", folder, *HERE.glob("*.java")], check=True)
    java = ["java", *LIGHT, "-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path, "Cluster"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*java, folder], cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
        )
    try:
        ready = folder / "conf/core-site.xml"
        until(lambda: ready.exists() or process.poll() is not None, "YARN starts")
        assert ready.exists(), (folder / "log").read_text()[-3000:]
        yield process, folder
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def cluster(daemons: Daemons) -> Path:
    """The folder of a running YARN and HDFS; `conf` in it is their configuration."""
    return daemons[1]


def environment(cluster: Path) -> dict[str, str]:
    """Variables of a machine with this cluster's configuration."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    return {**own, "HADOOP_CONF_DIR": str(cluster / "conf"), "PYSPARK_PYTHON": sys.executable}


def jars() -> str:
    """Spark's own, which are on all nodes."""
    return f"local:{pyspark_folder(VERSION)}/jars/*"


def archive(cluster: Path) -> Path:
    """Spark's own and the listener's, in one file."""
    path = cluster / "jars.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for jar in (*pyspark_folder(VERSION).glob("jars/*.jar"), listener_jar()):
            packed.write(jar, jar.name)
    return path


def command(
    mode: str, name: str, url: str, token: Path, *arguments: str, job: Path = JOB, more: Mapping[str, str] = {}
) -> list[str]:
    """spark-submit as docs/attach.md has it, and what small containers and a Spark of PyPI need."""
    spark = pyspark_folder(VERSION)
    conf = {
        "spark.jars": str(listener_jar()),
        "spark.yarn.jars": jars(),
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.yarn.maxAppAttempts": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": LOGS,
        "spark.plugins": "io.joinsight.JoinsightPlugin",
        "spark.joinsight.url": url,
        "spark.joinsight.tokenFile": "spark_token" if mode == "cluster" else str(token),
        **more,
    }
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    submit = [str(spark / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", mode, "--name", name]
    return [*submit, "--files", str(token), *settings, str(job), *arguments]


def joinsight(cluster: Path, *arguments: str) -> list[str]:
    """A command of ours under spark-submit, as docs/backfill.md has it; all nodes have this Python."""
    script = cluster / "joinsight_command.py"
    script.write_text("from joinsight.cli import main; main()")
    spark = pyspark_folder(VERSION)
    submit = [str(spark / "bin/spark-submit"), "--master", "yarn", "--conf", f"spark.yarn.jars={jars()}"]
    return [*submit, "--conf", "spark.executor.memory=512m", str(script), *arguments]


def stored(engine: Engine, name: str) -> list[tuple[Any, ...]]:
    """Attempt and state of each application of this name, and the states of its executions."""
    query = """
        SELECT a.attempt_id, a.state, array_agg(e.state ORDER BY e.started_at)
        FROM application a JOIN execution e USING (application_id, attempt_id) WHERE a.name = :name
        GROUP BY a.attempt_id, a.state ORDER BY a.attempt_id
    """
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query), {"name": name})]


@pytest.mark.parametrize("way", ["client", "cluster", "dynamic allocation", "spark.yarn.jars", "spark.yarn.archive"])
def test_a_job(cluster: Path, engine: Engine, url: str, token: Path, way: str) -> None:
    """Its queries are stored, in cluster mode with the number of the attempt; also without --jars."""
    mode, attempt = ("client", "") if way == "client" else ("cluster", "1")
    more = {}
    if way == "dynamic allocation":
        more = {"spark.dynamicAllocation.enabled": "true", "spark.shuffle.service.enabled": "true"}
    elif way == "spark.yarn.jars":
        more = {"spark.jars": "", "spark.yarn.jars": f"{jars()},file:{listener_jar()}"}
    elif way == "spark.yarn.archive":
        more = {"spark.jars": "", "spark.yarn.archive": f"file:{archive(cluster)}"}
    ran(*command(mode, way, url, token, more=more), env=environment(cluster))
    assert stored(engine, way) == [(attempt, "ended", ["succeeded"] * 2)]


PUSHED = {
    "spark.shuffle.service.enabled": "true",
    "spark.shuffle.push.enabled": "true",
    "spark.shuffle.push.mergersMinStaticThreshold": "1",
    "spark.shuffle.push.minShuffleSizeToWait": "0",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.adaptive.enabled": "false",
}
MERGED = {
    "local_merged_blocks_read": "local merged blocks fetched",
    "local_merged_chunks_read": "local merged chunks fetched",
    "remote_merged_blocks_read": "remote merged blocks fetched",
    "remote_merged_chunks_read": "remote merged chunks fetched",
    "merged_fetch_fallbacks": "merged fetch fallback count",
    "corrupt_merged_block_chunks": "corrupt merged block chunks",
}
"""Columns, and Spark's names of the metrics."""


def test_push_based_shuffle(cluster: Path, engine: Engine, url: str, token: Path) -> None:
    """What was read of merged blocks is as Spark shows it, also where these files are gone and it fell back."""
    pushed = command("client", "pushed", url, token, str(cluster), job=JOB.with_name("pushed.py"), more=PUSHED)
    done = ran(*pushed, env=environment(cluster))
    shown = [[int(metrics[name].replace(",", "")) for name in MERGED.values()] for metrics in json.loads(done.stdout)]
    columns = ", ".join(f"s.{name}" for name in MERGED)
    query = f"""
        SELECT {columns} FROM shuffle s JOIN application a USING (application_id, attempt_id)
        WHERE a.name = 'pushed' ORDER BY s.execution_id
    """
    with engine.connect() as connection:
        read = [dict(zip(MERGED, row, strict=True)) for row in connection.execute(text(query))]
    assert [list(row.values()) for row in read] == shown
    first, again = read
    assert first["local_merged_blocks_read"] > 0 == first["merged_fetch_fallbacks"]
    assert again["merged_fetch_fallbacks"] > 0


def process_of(cluster: Path, program: str, container: str) -> int | None:
    """The process of this program in the cluster whose container has this pattern."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().decode().split("\0")
            folder = (process / "cwd").resolve()
            if folder.is_relative_to(cluster) and program in arguments and re.search(container, folder.name):
                return int(process.name)
    return None


def master(cluster: Path, attempt: int) -> int | None:
    """The process of the driver of this attempt in the cluster."""
    return process_of(cluster, MASTER, rf"_{attempt:02d}_000001$")


def mark(engine: Engine) -> list[tuple[Any, ...]]:
    """What is stored after the collector has marked as lost whose next attempt started."""
    with engine.begin() as connection:
        declare_lost(connection, None)
    return stored(engine, "killed")


def test_a_driver_that_is_killed(cluster: Path, engine: Engine, url: str, token: Path) -> None:
    """YARN starts another attempt; the query of the first becomes lost while that one runs."""
    killed = command("cluster", "killed", url, token, "sleep")
    nothing = subprocess.DEVNULL
    submitting = subprocess.Popen(killed, env=environment(cluster), stdout=nothing, stderr=nothing)
    try:
        until(lambda: stored(engine, "killed") == [("1", "running", ["succeeded", "running"])], "its query runs")
        first = master(cluster, 1)
        assert first
        os.kill(first, signal.SIGKILL)
        both = [("1", "lost", ["succeeded", "lost"]), ("2", "running", ["succeeded", "running"])]
        until(lambda: mark(engine) == both, "the second attempt runs, and the first is lost")
    finally:
        for attempt in (1, 2):
            if process := master(cluster, attempt):
                os.kill(process, signal.SIGKILL)
        submitting.wait()


def test_event_logs_in_hdfs(cluster: Path, engine: Engine, make_store: Callable[[], str]) -> None:
    """A backfill on YARN reads the same executions as the listener has stored; a roll-up of an export in HDFS."""
    fresh = make_store()
    ran(*joinsight(cluster, "backfill", LOGS), env={**environment(cluster), "JOINSIGHT_DATABASE_URL": fresh})
    query = text(
        "SELECT count(*) FROM execution JOIN application USING (application_id, attempt_id) WHERE name <> 'killed'"
    )
    totals = text("SELECT sum(executions) FROM rollup_day")
    with connect(fresh) as read, read.connect() as imported, engine.connect() as live:
        assert imported.scalar(query) == live.scalar(query) > 0
        variables = {**environment(cluster), "JOINSIGHT_DATABASE_URL": fresh}
        ran(*joinsight(cluster, "export", "--to", LAKE), env=variables)
        ran(*joinsight(cluster, "rollup", "--from", LAKE, "--since", "2d"), env=variables)
        assert imported.scalar(totals) == imported.scalar(text("SELECT count(*) FROM execution")) > 0


@pytest.mark.parametrize("lost", ["executor", "node"])
def test_what_ran_is_lost(daemons: Daemons, engine: Engine, url: str, token: Path, tmp_path: Path, lost: str) -> None:
    """The query that ran on it runs again elsewhere, and the attempts of its stages are stored."""
    process, cluster = daemons
    go = tmp_path / "go"
    held = command("client", lost, url, token, "held", str(go))
    nothing = subprocess.DEVNULL
    submitting = subprocess.Popen(held, env=environment(cluster), stdout=nothing, stderr=nothing)
    try:
        until(lambda: go.with_suffix(".runs").exists() or submitting.poll() is not None, "its second query runs")
        executor = process_of(cluster, EXECUTOR, "")
        assert executor
        if lost == "executor":
            os.kill(executor, signal.SIGKILL)
        else:
            (node,) = re.findall(r"-nm-(\d)", str(Path(f"/proc/{executor}/cwd").resolve()))
            assert process.stdin
            print(node, file=process.stdin, flush=True)
        until(lambda: not Path(f"/proc/{executor}").exists(), "the executor is gone")
        go.touch()
        assert submitting.wait() == 0
    finally:
        submitting.kill()
        submitting.wait()
    assert stored(engine, lost) == [("", "ended", ["succeeded"] * 3)]
    query = """
        SELECT max(stage_attempt) FROM stage JOIN application a USING (application_id, attempt_id) WHERE a.name = :name
    """
    with engine.connect() as connection:
        assert connection.scalar(text(query), {"name": lost}) > 0
