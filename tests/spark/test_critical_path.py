"""A real Spark with planted delays: each is found in its cause, and in no other.

The workload notes from when until when it delayed a query: the segments of just this time must have the cause.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.documents import StoredRows, stored_rows
from tests.spark.sink import listening
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SCALA_2_12

from joinsight.contract.document import Execution

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SECONDS = 6
DELAY = 1_000 * SECONDS
FOUND = 0.9

Ran = dict[str, StoredRows]
Delays = dict[str, tuple[int, int]]


@pytest.fixture(scope="module", params=[NEWEST, SCALA_2_12])
def found(request: pytest.FixtureRequest, spark_run: SparkRun, tmp_path_factory: Any) -> tuple[Ran, Delays]:
    """The rows of the workload's executions, and the times of its delays, by description."""
    folder = tmp_path_factory.mktemp("path")
    with listening() as sink:
        options = (f"{key}={value}" for key, value in sink.conf.items())
        workload = Path(__file__).with_name("path_workload.py")
        spark_run(request.param, workload, str(folder), str(SECONDS), *options)
    last = sink.newest()
    delays = {path.stem: tuple(json.loads(path.read_text())) for path in folder.glob("*.delay")}
    return {name_of(e): stored_rows(e) for e in last.values()}, delays


@pytest.fixture
def ran(found: tuple[Ran, Delays]) -> Ran:
    return found[0]


@pytest.fixture
def delays(found: tuple[Ran, Delays]) -> Delays:
    return found[1]


def name_of(e: Execution) -> str:
    return "batch" if e.nested else e.description


def spent(rows: StoredRows) -> dict[str, int]:
    """Milliseconds by cause."""
    total: dict[str, int] = defaultdict(int)
    for segment in rows["segment"]:
        total[segment["cause"]] += segment["end_ms"] - segment["start_ms"]
    (execution,) = rows["execution"]
    assert sum(total.values()) == execution["duration_ms"]
    return total


def during(rows: StoredRows, delay: tuple[int, int]) -> dict[str, float]:
    """By cause, the share of the delay."""
    (execution,) = rows["execution"]
    begin, end = (time - 1_000 * execution["started_at"].timestamp() for time in delay)
    assert end - begin >= FOUND * DELAY
    shares: dict[str, float] = defaultdict(float)
    for segment in rows["segment"]:
        shares[segment["cause"]] += max(0, min(end, segment["end_ms"]) - max(begin, segment["start_ms"])) / (
            end - begin
        )
    return shares


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        *(("tail", "tail"), ("waiting", "waiting"), ("beside", "running")),
        *(("broadcast true", "running"), ("broadcast false", "running")),
    ],
)
def test_planted_delays_are_on_the_path(ran: Ran, delays: Delays, name: str, cause: str) -> None:
    """A task that runs when the others have ended is a tail, a stage without a slot is waiting, and the tasks of a
    broadcast that a join waits for are running."""
    shares = during(ran[f"{name} planted"], delays[f"{name}-planted"])
    assert shares[cause] >= FOUND, shares
    assert sum(spent(ran[f"{name} planted"]).values()) >= FOUND * DELAY


def test_a_stage_on_half_of_the_cores_is_running(ran: Ran) -> None:
    """A stage that runs on what is left is running, and the last of its tasks is no tail."""
    plain, planted = spent(ran["half plain"]), spent(ran["half planted"])
    assert planted["running"] >= FOUND * 1.5 * DELAY
    assert planted["tail"] == 0 < plain["tail"]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_tasks_of_a_broadcast_are_on_the_path(ran: Ran, adaptive: str) -> None:
    """They are on the path under the broadcast's node."""
    rows = ran[f"broadcast {adaptive} planted"]
    (broadcast,) = rows["broadcast"]
    of_broadcast = [s for s in rows["segment"] if s["node_id"] == broadcast["node_id"]]
    assert sum(s["end_ms"] - s["start_ms"] for s in of_broadcast) >= FOUND * DELAY


def test_a_broadcast_that_nobody_waited_for_is_not_on_the_path(ran: Ran) -> None:
    """It is not on the path, and its stage has as much slack as the other side took longer."""
    rows = ran["beside planted"]
    (broadcast,) = rows["broadcast"]
    assert broadcast["node_id"] not in {segment["node_id"] for segment in rows["segment"]}
    driver_ms = sum(broadcast[name] or 0 for name in ("build_ms", "broadcast_ms"))
    assert max(stage["slack_ms"] or 0 for stage in rows["stage"]) >= FOUND * DELAY - driver_ms


def test_a_busy_driver_has_the_time_between_queries(ran: Ran, delays: Delays) -> None:
    """What a user's function takes between two queries is the driver's; the queries are nested executions."""
    rows = ran["batch"]
    shares = during(rows, delays["batch"])
    assert shares["driver"] >= FOUND, shares
    nested = {s["nested_execution_id"] for s in rows["segment"] if s["cause"] == "nested"}
    assert len(nested) == 2
    assert sum(spent(rows).values()) >= FOUND * DELAY
