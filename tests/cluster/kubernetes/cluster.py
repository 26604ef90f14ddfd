"""A real Kubernetes 1.33 with one node. Its images are built by a Docker engine that runs before it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.docker import IMAGES, POSTGRES, engine, make_images
from tests.cluster.programs import program

from joinsight.driver.attach import listener_jar

SCRIPT = Path(__file__).with_name("cluster.sh")
ROOT = Path(__file__).parents[3]
HOST = "10.77.0.1"
"""This machine, as pods reach it."""
SPARK, COLLECTOR = "localhost/spark:1", "localhost/joinsight:0.1.0"


@dataclass(frozen=True, slots=True)
class Kubernetes:
    folder: Path
    environment: dict[str, str]

    def __call__(self, *arguments: str | Path, stdin: str = "") -> str:
        """What ``kubectl ARGUMENTS`` prints; raises AssertionError with its messages if it fails."""
        done = self.run("kubectl", *arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command that finds the cluster, whether it fails or not."""
        return subprocess.run(command, env=self.environment, input=stdin, capture_output=True, text=True)

    def get(self, *arguments: str) -> Any:
        """Objects as JSON."""
        return json.loads(self("get", *arguments, "-o", "json"))

    def token(self, account: str, namespace: str) -> Path:
        """A file with a token of a service account."""
        file = self.folder / f"{namespace}-{account}.token"
        file.write_text(self("create", "token", account, "-n", namespace, "--duration=24h").strip())
        return file

    def kill(self, pod: str, namespace: str) -> None:
        """Kill a pod's only container, as the kernel does when memory runs out."""
        (status,) = self.get("pod", pod, "-n", namespace)["status"]["containerStatuses"]
        container = status["containerID"].removeprefix("containerd://")
        ctr = program("kubernetes") / "root/usr/bin/ctr"
        place: tuple[str | Path, ...] = ("--address", self.folder / "ctd/sock", "--namespace", "k8s.io")
        done = self.run(ctr, *place, "tasks", "kill", "--signal", "SIGKILL", container)
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def kubernetes() -> Iterator[Kubernetes]:
    """A running cluster. Skips the test where none can run."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = Path(tempfile.mkdtemp(prefix="joinsight-kubernetes-"))
    try:
        _save_images(folder / "images")
        with _started(folder, program("kubernetes")) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _started(folder: Path, programs: Path) -> Iterator[Kubernetes]:
    """The cluster with the images in this folder."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPARK_")},
        "KUBECONFIG": f"{folder}/pki/admin.kubeconfig",
        "PATH": f"{programs}/bin:{program('helm')}:{os.environ['PATH']}",
    }
    cluster = Kubernetes(folder, environment)
    try:
        done = cluster.run("bash", SCRIPT, "up", programs, folder)
        assert done.returncode == 0, done.stdout + done.stderr
        yield cluster
    finally:
        cluster.run("bash", SCRIPT, "down", programs, folder)


def _save_images(folder: Path) -> None:
    """Build the collector's and Spark's images, and save all that the cluster needs."""
    folder.mkdir()
    with engine() as docker, tempfile.TemporaryDirectory() as temporary:
        make_images(docker, Path(temporary))
        docker("build", "--quiet", "--tag", COLLECTOR, ROOT)
        spark = shutil.copytree(IMAGES / "spark", Path(temporary) / "spark")
        shutil.copy(listener_jar(), spark)
        docker("build", "--quiet", "--tag", SPARK, spark)
        pause = shutil.copytree(IMAGES / "pause", Path(temporary) / "pause")
        subprocess.run(["gcc", "-static", "-O", "-o", pause / "pause", pause / "pause.c"], check=True)
        docker("build", "--quiet", "--tag", "localhost/pause:1", pause)
        for number, image in enumerate((COLLECTOR, SPARK, POSTGRES, "localhost/pause:1")):
            docker("save", "--output", folder / f"{number}.tar", image)
