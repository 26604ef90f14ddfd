"""The listener's state is bounded: crowds of executions and tasks go through it in a small heap."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from joinsight.attach import listener_jar

SOURCE = Path(__file__).with_name("Crowd.java")
JARS = Path(pyspark.__file__).parent / "jars"
OPENED = ["java.base/java.lang", "java.base/java.util", "java.base/sun.nio.ch"]
Feed = Callable[..., list[dict[str, Any]]]


class _Sink(http.server.ThreadingHTTPServer):
    """Takes everything."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lines: list[bytes] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Sink

    def do_POST(self) -> None:
        lines = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))).splitlines()
        self.server.lines += lines
        answer = b'{"accepted": %d, "refused": []}' % len(lines)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Class path with the compiled program."""
    folder = tmp_path_factory.mktemp("crowd")
    path = os.pathsep.join([str(listener_jar()), str(folder), f"{JARS}/*"])
    subprocess.run(["javac", "-cp", path, "-d", str(folder), str(SOURCE)], check=True)
    return path


@pytest.fixture
def feed(classes: str) -> Iterator[Feed]:
    """Runs the program against a server that takes everything; returns the documents."""
    with _Sink() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def run(
            executions: int, *, at_once: int = 1, tasks: int = 2, metrics: int = 20, ends: bool = True, **limits: str
        ) -> list[dict[str, Any]]:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            command = ["java", f"-Xmx{limits['heap']}", "-XX:+ExitOnOutOfMemoryError"]
            command += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
            numbers = [executions, at_once, tasks, metrics]
            command += ["-cp", classes, "io.joinsight.Crowd", url, limits["memory"], *map(str, numbers), str(ends)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
            assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
            return [json.loads(line) for line in server.lines]

        yield run
        server.shutdown()
        thread.join()


def finals(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Documents of executions that ended."""
    return [each for each in documents if each["kind"] == "execution" and each["state"] != "running"]


@pytest.mark.parametrize("number", [5_000, pytest.param(100_000, marks=pytest.mark.matrix)])
def test_many_executions(feed: Feed, number: int) -> None:
    """Any number of executions goes through a heap of 48 MB; each is delivered, or counted as dropped."""
    documents = feed(number, heap="48m", memory="8m")
    ended = documents[-1]
    assert (ended["kind"], ended["state"], ended["listener_failures"]) == ("application", "ended", 0)
    assert set(ended["documents_dropped"]) <= {"memory"}
    assert len(finals(documents)) + ended["documents_dropped"].get("memory", 0) == number
    assert {each["sequence"] for each in documents} == set(range(1, ended["documents_made"] + 1))


def test_many_at_once(feed: Feed) -> None:
    """A thousand executions run at once, and none loses a value."""
    documents = feed(1_500, at_once=1_000, heap="256m", memory="128m")
    ended = finals(documents)
    assert len(ended) == 1_500
    for each in ended:
        assert len(each["accumulators"]) == 20
        assert {a["sum"] for a in each["accumulators"]} == set(range(1, 21))
        assert each["incomplete"] == []


def test_executions_that_never_end(feed: Feed) -> None:
    """Beyond the limit the oldest executions are no longer followed, and marked."""
    documents = feed(4_000, at_once=4_000, ends=False, heap="64m", memory="8m")
    assert documents[-1]["state"] == "ended"
    assert documents[-1]["listener_failures"] == 0
    reasons = {reason for each in documents[:-1] for reason in each.get("incomplete", [])}
    assert "it was no longer followed, at the listener's memory limit" in reasons


def test_many_tasks(feed: Feed) -> None:
    """200,000 tasks of 40 metrics are exact where memory allows, else approximated within 1 %, and marked."""
    exact = finals(feed(1, tasks=200_000, metrics=40, heap="256m", memory="200m"))[-1]
    rough = finals(feed(1, tasks=200_000, metrics=40, heap="64m", memory="8m"))[-1]
    assert exact["incomplete"] == []
    assert rough["incomplete"] == ["values of large stages were approximated at the listener's memory limit"]
    assert len(exact["accumulators"]) == len(rough["accumulators"]) == 40
    for metric, (a, b) in enumerate(zip(exact["accumulators"], rough["accumulators"], strict=True), 1):
        assert "approximate" not in a
        assert b["approximate"] is True
        for name in ("id", "type", "count", "sum", "min", "max", "max_stage", "max_task", "stages"):
            assert a[name] == b[name], name
        assert (a["count"], a["sum"], a["max"]) == (200_000, 200 * 499_500 * metric, 999 * metric)
        assert (a["median"], a["p95"]) == (500 * metric, 950 * metric)
        for name in ("median", "p95"):
            assert abs(a[name] - b[name]) <= a[name] / 100
    assert exact["stages"][0]["succeeded_tasks"] == rough["stages"][0]["succeeded_tasks"] == 200_000
