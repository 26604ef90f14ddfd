"""Every finished execution is stored, once, whatever happens between the driver and the database."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, text
from tests.serve.real import Service, service
from tests.serve.test_tls import Pair
from tests.serving import serving
from tests.spark.faults import FAULTS, FaultyProxy
from tests.spark.sink import sending_to
from tests.versions import NEWEST
from tests.waiting import until

from joinsight.store.embedded import free_port
from joinsight.tables import delivery, execution, joins

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).parent / "jobs" / "queries.py"


@pytest.fixture
def start(tmp_path: Path, spark_environment: Callable[[str], dict[str, str]]) -> Iterator[Callable[..., Job]]:
    """Starts the script; scripts that still run at the end are killed."""
    jobs: list[subprocess.Popen[bytes]] = []

    def start_job(name: str, url: str, *, least: int = 10, **settings: str) -> Job:
        conf = {
            **sending_to(url),
            "spark.joinsight.spool": str(tmp_path / "spool"),
            "spark.joinsight.progressInterval": "500ms",
            **{f"spark.joinsight.{key}": value for key, value in settings.items()},
        }
        until = tmp_path / f"{name} may end"
        command = [sys.executable, str(SCRIPT), name, str(least), str(until), *(f"{k}={v}" for k, v in conf.items())]
        paths = tmp_path / f"{name}.out", tmp_path / f"{name}.err"
        with paths[0].open("w") as output, paths[1].open("w") as errors:
            environment = spark_environment(NEWEST)
            process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment, start_new_session=True)
        jobs.append(process)
        return Job(name, process, *paths, until)

    yield start_job
    for job in jobs:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


class Job:
    """A running Spark application."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: Path, errors: Path, until: Path) -> None:
        self.name, self.process, self.output, self.errors, self.until = name, process, output, errors, until

    def queries(self) -> int:
        """The number of queries that have ended."""
        whole = [line for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return max((int(line.split()[1]) for line in whole), default=0)

    def wait_for(self, queries: int) -> None:
        """Wait until this number of queries has ended."""
        until(lambda: self.queries() >= queries, f"{queries} queries have ended")

    def finish(self) -> int:
        """Let the application end; returns the number of its queries."""
        self.until.touch()
        assert self.process.wait() == 0, self.errors.read_text()
        assert f"done {self.queries()}" in self.output.read_text()
        return self.queries()

    def kill(self) -> int:
        """Kill the driver, with Python and the JVM, and without a warning."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.queries()


class Collector:
    """`joinsight serve` in a process of its own, on the test's database and always the same port."""

    def __init__(self, engine: Engine) -> None:
        self.port = free_port()
        self._url = engine.url.render_as_string(hide_password=False)
        self._service: Service | None = None

    def start(self) -> None:
        self._service = Service(self._url, "--port", str(self.port))

    def kill(self) -> None:
        if self._service:
            self._service.signal(signal.SIGKILL)
            self._service.end()


@contextmanager
def collectors(engine: Engine, number: int) -> Iterator[list[Collector]]:
    """Collectors that are not started yet; killed at the end."""
    made = [Collector(engine) for _ in range(number)]
    try:
        yield made
    finally:
        for collector in made:
            collector.kill()


def stored(engine: Engine, name: str) -> dict[str, int]:
    """Executions of the application of this name, by state."""
    query = select(execution.c.state, func.count()).where(execution.c.job_name == name).group_by(execution.c.state)
    with engine.connect() as connection:
        return {row.state: row[1] for row in connection.execute(query)}


def join_rows(engine: Engine, name: str) -> list[int]:
    """Output rows of the joins of the application of this name, by execution."""
    of = select(execution.c.application_id).where(execution.c.job_name == name)
    query = select(joins.c.output_rows).where(joins.c.application_id.in_(of)).order_by(joins.c.execution_id)
    with engine.connect() as connection:
        return [int(rows or 0) for rows in connection.scalars(query)]


def spooled(folder: Path) -> list[Path]:
    """Complete files of a spool."""
    return sorted(folder.rglob("*.ndjson.gz"))


def documents(folder: Path) -> list[bytes]:
    """Lines of all files of a spool."""
    return [line for path in spooled(folder) for line in gzip.decompress(path.read_bytes()).splitlines()]


def ship(url: str, folder: Path) -> None:
    """Deliver what is in a spool folder by hand."""
    subprocess.run([sys.executable, "-m", "joinsight.cli", "ship", "--url", url, str(folder)], check=True)


@pytest.mark.matrix
@pytest.mark.parametrize("restarts", [2, 12])
def test_everything_goes_wrong(engine: Engine, start: Callable[..., Job], tmp_path: Path, restarts: int) -> None:
    """Two collectors behind one address, killed and restarted; sessions of the database killed; all kinds of faults."""
    name = f"everything-{restarts}"
    chance = random.Random(1)
    faults: list[str | None] = [*FAULTS, *(None for _ in FAULTS)]
    chance.shuffle(faults)

    def fault() -> str | None:
        return faults.pop() if faults else None

    with collectors(engine, 2) as two, serving(FaultyProxy([each.port for each in two], fault)) as proxy:
        job = start(name, proxy.url, requestTimeout="3s")
        job.wait_for(5)  # nobody is there yet
        for n in range(restarts):
            for collector in two[n % 2 :: 2] if n else two:
                collector.kill()
                collector.start()
            time.sleep(1.5)
            with engine.begin() as connection:
                others = "datname = current_database() AND pid <> pg_backend_pid()"
                connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
        until(lambda: not faults, "all faults have happened")
        queries = job.finish()
        # On a slow machine a request may take longer than its time-out, and the driver ends without it: nothing is lost
        if spooled(tmp_path / "spool"):
            (folder,) = (tmp_path / "spool").iterdir()
            ship(f"http://127.0.0.1:{two[0].port}", folder)
    assert {fault: proxy.seen[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 1)
    assert stored(engine, name) == {"succeeded": queries}
    assert join_rows(engine, name) == [n + 1 for n in range(queries)]
    assert missing(engine, name) == [0]
    assert spooled(tmp_path / "spool") == []
    assert "Joinsight: cannot deliver documents to the collector at" in job.errors.read_text()


def missing(engine: Engine, name: str) -> list[int | None]:
    """Missing documents of each listener of the application with this name."""
    of = select(execution.c.application_id).where(execution.c.job_name == name)
    with engine.connect() as connection:
        return list(connection.scalars(select(delivery.c.documents_missing).where(delivery.c.application_id.in_(of))))


@pytest.mark.matrix
def test_documents_of_a_killed_driver_are_in_its_spool(
    engine: Engine, start: Callable[..., Job], tmp_path: Path
) -> None:
    """Undelivered documents of a killed driver are in its spool; `joinsight ship` or the next driver delivers them."""
    with collectors(engine, 1) as (collector,):
        url = f"http://127.0.0.1:{collector.port}"
        job = start("killed", url)
        job.wait_for(30)
        until(lambda: len(documents(tmp_path / "spool")) >= 30, "30 documents are spooled")
        queries = job.kill()
        files = spooled(tmp_path / "spool")
        assert files
        assert stored(engine, "killed") == {}
        left = map(json.loads, documents(tmp_path / "spool"))
        final = {document["execution_id"] for document in left if document["state"] == "succeeded"}
        assert 0 < len(final) <= queries + 1
        elsewhere = shutil.copytree(tmp_path / "spool" / f"127.0.0.1_{collector.port}", tmp_path / "elsewhere")
        collector.start()
        for folder in (elsewhere, elsewhere):
            ship(url, folder)
            assert stored(engine, "killed")["succeeded"] == len(final)
        assert spooled(elsewhere) == []
        assert missing(engine, "killed") == [0]
        next_one = start("next", url)
        until(lambda: spooled(tmp_path / "spool") == [], "the spool is delivered")
        assert stored(engine, "killed")["succeeded"] == len(final)
        queries = next_one.finish()
        assert stored(engine, "next") == {"succeeded": queries}


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 KB; skips the test if it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.matrix
@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_on_a_full_disk_documents_are_kept_in_memory(
    engine: Engine, start: Callable[..., Job], request: pytest.FixtureRequest, disk: str
) -> None:
    spool = request.getfixturevalue("full_disk") if disk == "full" else Path("/proc/no/spool/here")
    with collectors(engine, 1) as (collector,):
        job = start(disk, f"http://127.0.0.1:{collector.port}", spool=str(spool))
        job.wait_for(40)
        assert f"cannot use the spool folder {spool}" in job.errors.read_text()
        collector.start()
        until(lambda: stored(engine, disk).get("succeeded", 0) >= 40, "40 executions are stored")
        queries = job.finish()
        assert stored(engine, disk) == {"succeeded": queries}
        assert missing(engine, disk) == [0]


@pytest.mark.matrix
def test_a_private_ca_is_trusted_only_by_its_file(engine: Engine, start: Callable[..., Job], tmp_path: Path) -> None:
    good, other = (tmp_path / name for name in ("good", "other"))
    for folder in (good, other):
        folder.mkdir()
    pair, stranger = Pair(good), Pair(other)
    with service(engine.url.render_as_string(hide_password=False), *pair.options) as collector:
        trusting = start("trusting", collector.url, caFile=str(pair.authority))
        trusting.wait_for(1)
        nowhere = {"spool": "none", "shutdownTimeout": "5s"}
        distrusting = start("distrusting", collector.url, caFile=str(stranger.authority), **nowhere)
        distrusting.wait_for(10)
        queries = trusting.finish()
        assert stored(engine, "trusting") == {"succeeded": queries}
        distrusting.finish()
        assert stored(engine, "distrusting") == {}
        assert "unable to find valid certification path" in distrusting.errors.read_text()
