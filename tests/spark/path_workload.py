"""Queries with planted delays: ``python path_workload.py FOLDER SECONDS [KEY=VALUE...]``.

Each is described as ``NAME planted`` or ``NAME plain``. A task is delayed until there is a file, which this driver
makes once it has seen what must have happened, and some seconds longer: so no delay depends on the machine's speed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

FOLDER, SECONDS = Path(sys.argv[1]), float(sys.argv[2])
builder = SparkSession.builder.master("local[2]").appName("path").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.liveUpdate.period", "0")  # or numbers of tasks are left out
spark = builder.config(map=dict(pair.split("=", 1) for pair in sys.argv[3:])).getOrCreate()
context = spark.sparkContext
tracker = context.statusTracker()


def wait(file: str, seconds: float = 0) -> None:
    """Wait until the file is there, and so many seconds longer; note from when until when that was."""
    while not Path(file).exists():
        time.sleep(0.02)
    if seconds:
        pause(file, seconds)


def pause(file: str, seconds: float) -> None:
    """Sleep, and note from when until when."""
    started = time.time()
    time.sleep(seconds)
    Path(f"{file}.delay").write_text(json.dumps([round(1_000 * started), round(1_000 * time.time())]))


def source(name: str, delays: dict[int, tuple[str, float]], partitions: int) -> DataFrame:
    """A row a partition; partition `i` waits for the file and the time in `delays`. Makes the file ``ran-NAME``."""
    ran = str(FOLDER / f"ran-{name}")

    def rows(index: int, _: Iterator[Any]) -> Iterator[tuple[int, int]]:
        if index in delays:
            wait(*delays[index])
        Path(ran).touch()
        yield index, index

    data = context.parallelize(range(partitions), partitions).mapPartitionsWithIndex(rows)
    return spark.createDataFrame(data, f"k long, {name} long")


def stages() -> list[Any]:
    """The stages that are active, with the numbers of their tasks."""
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [info for info in infos if info is not None]


def when(file: str, happened: Callable[[], bool]) -> threading.Thread:
    """Make the file as soon as this has happened."""

    def watch() -> None:
        while not happened():
            time.sleep(0.02)
        Path(file).touch()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def run(name: str, query: Callable[[str], DataFrame], watch: Callable[[], bool], **conf: str) -> None:
    """Run the query without a delay, then with one: until `watch` has happened, and some seconds longer."""
    for key, value in conf.items():
        spark.conf.set(key, value)
    for kind in ("plain", "planted"):
        file = str(FOLDER / f"{name}-{kind}")
        (FOLDER / "ran-w").unlink(missing_ok=True)
        if kind == "plain":
            Path(file).touch()
        else:
            when(file, watch)
        context.setJobDescription(f"{name} {kind}")
        query(file).collect()


def blocked(name: str, cores: int, query: Callable[[], DataFrame], watch: Callable[[], bool], seconds: float) -> None:
    """Run the query while a job holds some of the cores: until `watch` has happened, and some seconds longer."""
    for kind in ("plain", "planted"):
        held, file = (
            [str(FOLDER / f"{name}-{kind}-held-{core}") for core in range(cores)],
            str(FOLDER / f"{name}-{kind}"),
        )

        def hold(index: int, _: Iterator[Any], held: list[str] = held, file: str = file) -> Iterator[int]:
            Path(held[index]).touch()
            wait(file, seconds)
            yield index

        blocker = context.parallelize(range(cores), cores).mapPartitionsWithIndex(hold)
        thread = threading.Thread(target=blocker.collect)
        if kind == "planted":
            thread.start()
            for each in held:
                wait(each)
            when(file, watch)
        context.setJobDescription(f"{name} {kind}")
        query().collect()
        if kind == "planted":
            thread.join()


def delay(file: str) -> float:
    """Queries without a delay do not wait."""
    return 0 if file.endswith("plain") else SECONDS


# The last of four tasks
run(
    "tail",
    lambda file: source("v", {3: (file, delay(file))}, 4),
    lambda: any(info.numTasks == 4 and info.numCompletedTasks == 3 for info in stages()),
)
# All cores are taken until the query's only stage was submitted, and longer
blocked(
    "waiting", 2, lambda: source("v", {}, 3), lambda: any(info.numTasks == 3 for info in stages()), SECONDS
)  # fmt: skip
# One of two cores is taken, until the query ran all but one of its tasks on the other one
slow = {index: (str(FOLDER), SECONDS / 2) for index in range(3)}
blocked(
    "half", 1, lambda: source("v", slow, 3),
    lambda: any(info.numTasks == 3 and info.numCompletedTasks == 2 for info in stages()), 2 * SECONDS,
)  # fmt: skip


def broadcast_join(slow_side: dict[int, tuple[str, float]], other: dict[int, tuple[str, float]]) -> DataFrame:
    large = source("v", other, 1).groupBy("k").count()
    return large.join(source("w", slow_side, 1).hint("broadcast"), "k")


# The side that is broadcast, for which the join waits
for adaptive in ("true", "false"):
    run(
        f"broadcast {adaptive}",
        lambda file: broadcast_join({0: (file, delay(file))}, {}),
        lambda: any(info.numActiveTasks for info in stages()),
        **{"spark.sql.adaptive.enabled": adaptive},
    )
spark.conf.set("spark.sql.adaptive.enabled", "true")
# The same while the other side takes longer: the broadcast is not what it waits for
run(
    "beside",
    lambda file: broadcast_join({}, {0: (file, delay(file))}),
    lambda: (FOLDER / "ran-w").exists() and len(stages()) == 1,
)

# The driver itself, between two queries
(FOLDER / "input").mkdir()
(FOLDER / "input" / "lines.txt").write_text("a\nb\n")
context.setJobDescription("busy driver")


def each_batch(batch: DataFrame, _: int) -> None:
    batch.collect()
    pause(str(FOLDER / "batch"), SECONDS)
    batch.collect()


stream = spark.readStream.text(str(FOLDER / "input")).writeStream.foreachBatch(each_batch)
stream.option("checkpointLocation", str(FOLDER / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
spark.stop()
