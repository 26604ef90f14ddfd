"""The stack of docs/install.md on a real Docker: image, services, secrets, restarts.

Docker's Compose reads docker-compose.yml unchanged, from a checkout that only its owner can read. Grafana is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.docker import Docker, engine, make_images
from tests.processes import ran
from tests.stack.stack import ROOT
from tests.waiting import until

pytestmark = pytest.mark.cluster
SERVICES = ("postgres", "schema", "reader", "collector", "prometheus")
LASTING = ("postgres", "collector", "prometheus")
JOB = Path(__file__).with_name("job.py")


@dataclass(frozen=True, slots=True)
class Stack:
    docker: Docker
    checkout: Path
    port: int

    @property
    def url(self) -> str:
        """The collector's address on this machine."""
        return f"http://127.0.0.1:{self.port}"

    def compose(self, *arguments: str, stdin: bytes | None = None) -> str:
        """What ``docker compose ARGUMENTS`` prints; it must succeed."""
        return self.docker("compose", *arguments, cwd=self.checkout, stdin=stdin)

    def up(self, *options: str) -> None:
        """Start it, and wait until it is healthy."""
        self.compose("up", "--detach", "--pull", "never", *options, *SERVICES)
        until(lambda: all(map(self.is_healthy, LASTING)) and self.has_ended("reader"), "it is healthy")

    def execute(self, *command: str) -> list[dict[str, Any]]:
        """The rows that a command of the collector prints."""
        printed = self.compose("exec", "-T", "collector", "joinsight-entrypoint", *command, "--json")
        return [json.loads(line) for line in printed.splitlines()]

    def prometheus(self, path: str) -> Any:
        """An answer of Prometheus' API, which only the other services can reach."""
        query = ("wget", "-q", "-O", "-", f"http://127.0.0.1:9090/api/v1/{path}")
        return json.loads(self.compose("exec", "-T", "prometheus", *query))["data"]

    def container(self, service: str) -> dict[str, Any]:
        """What Docker knows about the service's container."""
        number = self.compose("ps", "--all", "--quiet", service).strip()
        (found,) = json.loads(self.docker("inspect", number))
        return dict(found)

    def is_healthy(self, service: str) -> bool:
        """Whether it runs and its health check passes."""
        return bool(self.container(service)["State"].get("Health", {}).get("Status") == "healthy")

    def has_ended(self, service: str) -> bool:
        """Whether it has done its work."""
        state = self.container(service)["State"]
        return bool(state["Status"] == "exited" and state["ExitCode"] == 0)

    def run_job(self, name: str, token_file: Path) -> str:
        """Run a Spark job that sends to this collector; returns its log."""
        command = [sys.executable, str(JOB), self.url, str(token_file), name]
        done = ran(*command, timeout=300)
        return str(done.stderr)

    def jobs(self) -> set[str]:
        """Names of the jobs whose executions are stored."""
        return {row["job_name"] for row in self.execute("queries")}


def checkout(folder: Path) -> Path:
    """A copy of this repository's files, as git makes one where the umask is 077."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & 0o700)
    return folder


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    """A Docker engine."""
    with engine() as started:
        yield started


@pytest.fixture(scope="module")
def unprepared(docker: Docker, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A checkout in which nothing was run yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Stack(docker, checkout(tmp_path_factory.mktemp("checkout")), port)


@pytest.fixture(scope="module")
def stack(unprepared: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The running stack."""
    make_images(unprepared.docker, tmp_path_factory.mktemp("images"))
    folder = unprepared.checkout
    subprocess.run(["sh", folder / "docker/secrets.sh"], check=True)
    with (folder / ".env").open("a") as settings:
        settings.write(f"JOINSIGHT_PORT={unprepared.port}\n")
    unprepared.compose("build")
    unprepared.up()
    yield unprepared
    unprepared.compose("down", "--volumes", "--timeout", "5")


def test_without_secrets_it_says_what_to_run(unprepared: Stack) -> None:
    """Whoever starts it first reads which command makes the secrets."""
    done = unprepared.docker.run("compose", "up", "--detach", cwd=unprepared.checkout)
    assert done.returncode != 0
    assert b"sh docker/secrets.sh" in done.stderr, done.stderr


def test_all_is_up(stack: Stack) -> None:
    """Services that last are healthy, the others ended well; the collector is as confined as the file says."""
    assert all(stack.is_healthy(service) for service in LASTING)
    assert stack.has_ended("schema")
    collector = stack.container("collector")
    assert collector["Config"]["User"] == "10001"
    assert collector["HostConfig"]["ReadonlyRootfs"] is True
    assert collector["HostConfig"]["Tmpfs"] == {"/tmp": "size=1g"}


def test_a_document_arrives(stack: Stack) -> None:
    """A Spark job with the token sends its queries; without, it sends none, and the collector says so."""
    stack.run_job("arrives", stack.checkout / "secrets/spark_token")
    until(lambda: "arrives" in stack.jobs(), "the job's queries are stored")
    wrong = stack.checkout / "wrong_token"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    assert "401" in stack.run_job("refused", wrong)
    assert "refused" not in stack.jobs()


def test_prometheus_scrapes_and_its_rules_are_healthy(stack: Stack) -> None:
    """The target is up, and every rule was evaluated without an error."""
    until(lambda: [each["health"] for each in stack.prometheus("targets")["activeTargets"]] == ["up"], "it is up")

    def health() -> set[str]:
        return {rule["health"] for group in stack.prometheus("rules")["groups"] for rule in group["rules"]}

    until(lambda: health() == {"ok"}, "all rules were evaluated")


@pytest.mark.parametrize("service", LASTING)
def test_a_killed_service_heals(stack: Stack, service: str) -> None:
    """Docker starts it again, and it becomes healthy."""
    before = stack.container(service)
    os.kill(before["State"]["Pid"], signal.SIGKILL)
    until(lambda: stack.container(service)["RestartCount"] == before["RestartCount"] + 1, "it was started again")
    until(lambda: stack.is_healthy(service), "it is healthy")
    assert "arrives" in stack.jobs()
