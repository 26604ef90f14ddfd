"""The listener's memory is bounded: it handles very many executions and tasks in a small heap."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.java import LIGHT, OPENED, compile_java
from tests.spark.sink import Sink, listening

SOURCE = Path(__file__).with_name("Crowd.java")
Feed = Callable[..., Sink]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Class path with the compiled program."""
    return compile_java(SOURCE, tmp_path_factory.mktemp("crowd"))


@pytest.fixture
def feed(classes: str) -> Iterator[Feed]:
    """Runs the program against a server that takes everything, and returns that server."""
    with listening() as sink:

        def run(
            executions: int,
            *,
            at_once: int = 1,
            tasks: int = 2,
            metrics: int = 20,
            ends: bool = True,
            late: bool = False,
            **limits: str,
        ) -> Sink:
            command = ["java", *LIGHT, f"-Xmx{limits['heap']}", "-XX:+ExitOnOutOfMemoryError"]
            command += [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
            numbers = [executions, at_once, tasks, metrics]
            command += ["-cp", classes, "io.joinsight.Crowd", sink.url, limits["memory"], *map(str, numbers)]
            command += [str(ends), str(late)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stdout + done.stderr
            return sink

        yield run


def finals(sink: Sink) -> list[dict[str, Any]]:
    """Documents of executions that ended."""
    return [each for each in sink.taken() if each["kind"] == "execution" and each["state"] != "running"]


@pytest.mark.matrix
@pytest.mark.parametrize("number", [2_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_a_heap_of_64_mb_handles_any_number_of_executions(feed: Feed, number: int) -> None:
    """A heap of 64 MB handles any number of executions; each is delivered or counted as dropped.

    Some 20 MB are the JVM's and Spark's own; with 48 MB it is out of memory now and then though half of it is garbage,
    while its native code packs a batch and keeps the collector of garbage from its work (GCLocker).
    """
    sink = feed(number, metrics=5, heap="64m", memory="8m")
    lines = [line for _, lines, _ in sink.requests for line in lines]  # too many to be read as JSON
    ended = json.loads(lines[-1])
    assert (ended["kind"], ended["state"], ended["listener_failures"]) == ("application", "ended", 0)
    assert set(ended["dropped"]) <= {"memory"}
    sequences = [int(re.findall(rb'"sequence":(\d+)', line)[0]) for line in lines]
    delivered = {
        sequence
        for sequence, line in zip(sequences, lines, strict=True)
        if line.startswith(b'{"kind":"execution"') and b'"state":"succeeded"' in line
    }
    dropped = {n for first, last in ended["dropped"].get("memory", []) for n in range(first, last + 1)}
    # A slow machine takes longer than the progress interval: what is reported while it runs may be dropped, too
    assert number <= len(delivered | dropped) <= number + 10
    # Where the answer to a request was lost, its documents come again, or are dropped though they have come
    assert {*sequences, *dropped} == set(range(1, ended["documents_made"] + 1))


@pytest.mark.matrix
def test_many_at_once(feed: Feed) -> None:
    """A thousand executions run at once, and none loses a value."""
    ended = finals(feed(1_500, at_once=1_000, heap="256m", memory="128m"))
    assert len(ended) == 1_500
    for each in ended:
        assert len(each["accumulators"]) == 20
        assert {a["sum"] for a in each["accumulators"]} == set(range(1, 21))
        assert each["incomplete"] == []


@pytest.mark.matrix
def test_executions_that_never_end(feed: Feed) -> None:
    """Beyond the limit the oldest executions are no longer followed, and marked."""
    documents = feed(4_000, at_once=4_000, ends=False, heap="64m", memory="8m").taken()
    assert documents[-1]["state"] == "ended"
    assert documents[-1]["listener_failures"] == 0
    reasons = {reason for each in documents[:-1] for reason in each.get("incomplete", [])}
    assert "it was no longer followed: the listener reached its memory limit, or paused after failures" in reasons


@pytest.mark.matrix
def test_jobs_that_come_late(feed: Feed) -> None:
    """Late jobs are added to the executions still in memory; the documents of all others stay unchanged."""
    ended = finals(feed(1_200, metrics=5, late=True, heap="128m", memory="64m"))
    last = {each["execution_id"]: each for each in ended}
    jobs = [len(last[id]["jobs"]) for id in range(1_200)]
    kept = jobs.count(2)
    assert 100 < kept < 1_200
    assert jobs == [1] * (1_200 - kept) + [2] * kept
    for each in last.values():
        assert each["incomplete"] == []
        assert len(each["accumulators"]) == 5


@pytest.mark.matrix
@pytest.mark.parametrize("tasks", [40_000, pytest.param(200_000, marks=pytest.mark.nightly)])
def test_values_of_many_tasks_are_exact_or_within_1_percent(feed: Feed, tasks: int) -> None:
    """Values of 40 metrics are exact where memory allows, else approximated within 1 %, and marked."""
    exact = finals(feed(1, tasks=tasks, metrics=40, heap="256m", memory="200m"))[-1]
    rough = finals(feed(1, tasks=tasks, metrics=40, heap="64m", memory="8m"))[-1]
    assert exact["incomplete"] == []
    assert rough["incomplete"] == ["values of large stages were approximated: the listener reached its memory limit"]
    assert (exact["incomplete_codes"], rough["incomplete_codes"]) == ([], ["values_approximated"])
    assert len(exact["accumulators"]) == len(rough["accumulators"]) == 40
    for metric, (a, b) in enumerate(zip(exact["accumulators"], rough["accumulators"], strict=True), 1):
        assert "approximate" not in a
        assert b["approximate"] is True
        for name in ("id", "type", "count", "sum", "min", "max", "max_stage", "max_task", "stages"):
            assert a[name] == b[name], name
        assert (a["count"], a["sum"], a["max"]) == (tasks, tasks // 1_000 * 499_500 * metric, 999 * metric)
        assert (a["median"], a["p95"]) == (500 * metric, 950 * metric)
        for name in ("median", "p95"):
            assert abs(a[name] - b[name]) <= a[name] / 100
    assert exact["stages"][0]["succeeded_tasks"] == rough["stages"][0]["succeeded_tasks"] == tasks
