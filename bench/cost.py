"""Is what the critical path and the costs say true? ``python -m bench.cost --help``.

**Causality.** Queries run in one session, in turns as they are and with a delay of known length in one place: a slow
side of a join, a slow partition, a slow side of a broadcast join, a busy driver, cores that another job holds. How much
longer a run took than the mean of the two undelayed runs next to it (`real`) is compared with how much longer the
segments, or the costs of the operator, say that the delayed place took (`blamed`). A delay that something longer hides
must be blamed for nothing.

**What it cannot show.** Tasks sleep, so they take no CPU from each other; on real work a delay also changes what else
runs. Real and blamed times differ by what else changed between the runs, as on a shared machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from tests.spark.sink import Sink, listening
from tests.waiting import until

from bench.plugin import compiled, measured, run, session
from joinsight.analysis.rows import Rows
from joinsight.analysis.stored import stored_plan

CORES = 8
TASKS = 3
"""Tasks of the delayed stage; no other stage has as many."""
OTHER_TASKS = 4
CLOSE = 0.1
OPERATOR = "the operator"
DRIVER = os.getpid()

Place = Callable[[Rows], float]
"""Milliseconds that went into a place."""
Runs = Callable[[Sequence[float]], Sequence[Rows]]
"""Runs a query with each of these delays, in seconds."""


@dataclass(frozen=True)
class Kind:
    """A kind of delay."""

    name: str
    runs: Runs
    places: Mapping[str, Place]
    is_hidden: bool = False
    """Nothing waits for it."""


@dataclass(frozen=True)
class Change:
    """What a delay changed, in milliseconds."""

    delay: float
    real: float
    blamed: float

    def difference(self, kind: Kind, truth: float) -> float:
        """How far the blamed time is from the truth, relative to it; if hidden, from nothing, relative to the delay."""
        return self.blamed / self.delay if kind.is_hidden else (self.blamed - truth) / abs(truth)


def main() -> None:
    """Run the rounds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="of two delays of each kind")
    parser.add_argument("--least", type=float, default=1.0, help="seconds of the shortest delay")
    parser.add_argument("--most", type=float, default=3.0, help="of the longest")
    parser.add_argument("--only", help="kinds whose name contains this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, listening() as sink:
        spark = session(sink, settings(Path(folder)), compiled("Slow", Path(folder) / "classes"))
        found = changes(Queries(spark, sink, Path(folder)).kinds(), arguments)
        spark.stop()
    print(f"\n{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("\n".join(table(found)))


def changes(kinds: Sequence[Kind], arguments: argparse.Namespace) -> list[tuple[Kind, str, list[Change]]]:
    """What delays changed, by kind and place."""
    kinds = [kind for kind in kinds if not arguments.only or arguments.only in kind.name]
    found: dict[tuple[str, str], list[Change]] = defaultdict(list)
    chance = random.Random(0)
    for kind in kinds:
        kind.runs([0.1])  # compiles
    for number in range(arguments.rounds):
        for kind in kinds:
            delays = [0.0]
            for _ in range(2):
                delays += [round(chance.uniform(arguments.least, arguments.most), 3), 0.0]
            rows = kind.runs([0.0, *delays])[1:]  # the first one starts Python's workers again
            for name, place in kind.places.items():
                for i in range(1, len(rows), 2):
                    real, blamed = (_grown(of, rows[i - 1 : i + 2]) for of in (wall, place))
                    change = Change(1_000 * delays[i], real, blamed)
                    found[kind.name, name].append(change)
                    shown = f"delay {change.delay:.0f}, real {real:.0f}, blamed {blamed:.0f}"
                    print(f"round {number}, {kind.name}, {name}: {shown}", file=sys.stderr, flush=True)
    return [(kind, name, found[kind.name, name]) for kind in kinds for name in kind.places]


def _grown(place: Place, rows: Sequence[Rows]) -> float:
    before, delayed, after = map(place, rows)
    return delayed - (before + after) / 2


def table(found: Sequence[tuple[Kind, str, list[Change]]]) -> Iterator[str]:
    """A line for each kind and place, and one for all segments and for all operators."""
    yield "| delayed | blamed | runs | real growth ÷ delay | blamed, against the real growth | against the delay |"
    yield "|---|---|---|---|---|---|"
    every: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kind, place, each in found:
        differences = [(change.difference(kind, change.real), change.difference(kind, change.delay)) for change in each]
        every["operators" if place == OPERATOR else "segments"] += differences
        grown = statistics.median(change.real / change.delay for change in each)
        yield f"| {kind.name} | {place} | {len(each)} | {grown:.0%} | {closeness(differences)} |"
    for name, differences in every.items():
        yield f"| all | {name} | {len(differences)} | | {closeness(differences)} |"


def closeness(differences: Sequence[tuple[float, ...]]) -> str:
    """How many are close, the median and the worst, by column."""
    cells = []
    for column in zip(*differences, strict=True):
        apart = sorted(column, key=abs)
        close = sum(abs(each) <= CLOSE for each in column)
        cells.append(f"{close / len(column):.0%}; {statistics.median(map(abs, column)):.1%}, {apart[-1]:+.1%}")
    return " | ".join(cells)


def settings(folder: Path) -> dict[str, str]:
    """The settings of the session."""
    return {
        "spark.master": f"local[{CORES}]",
        "spark.sql.extensions": "io.joinsight.bench.Slow$Extensions",
        "spark.io.compression.codec": "io.joinsight.bench.Slow$Codec",
        "spark.sql.sources.commitProtocolClass": "io.joinsight.bench.Slow$Commit",
        "spark.ui.liveUpdate.period": "0",  # or stages are known late
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


# Places


def wall(rows: Rows) -> float:
    """The wall time."""
    return rows.execution.duration_ms or 0


def segments(rows: Rows, *causes: str, stages: set[int] | None = None, node: int | None = None) -> float:
    """The wall time of the segments with one of these causes, or all, of these stages and this node."""
    return sum(
        segment.end_ms - segment.start_ms
        for segment in rows.segment
        if (not causes or segment.cause in causes)
        and (stages is None or segment.stage_id in stages)
        and (node is None or segment.node_id == node)
    )


def delayed_stages(rows: Rows) -> set[int]:
    """The stages with as many tasks as only the delayed one has."""
    return {stage.stage_id for stage in rows.stage if stage.tasks == TASKS and stage.state == "succeeded"}


def delayed_stage(rows: Rows) -> float:
    """All segments of the delayed stage."""
    return segments(rows, stages=delayed_stages(rows))


def both_sides(rows: Rows) -> float:
    """All segments of the stages of both sides of a join."""
    return segments(rows, stages={stage.stage_id for stage in rows.stage if stage.tasks in (TASKS, OTHER_TASKS)})


def tail(rows: Rows) -> float:
    """The tails of all stages."""
    return segments(rows, "tail")


def cause(*causes: str) -> Place:
    """All segments with a cause."""
    return lambda rows: segments(rows, *causes)


def broadcast(rows: Rows) -> float:
    """All segments of the broadcast, with its tasks."""
    (node,) = (row.node_id for row in rows.broadcast)
    return segments(rows, node=node)


def operator(text: str) -> Place:
    """The cost of the operators with this text."""

    def cost(rows: Rows) -> float:
        nodes = {row.node_id for row in rows.plan_node if not row.is_cluster and text in (row.simple or "")}
        return sum(item.wall_ms for node, item in stored_plan(rows).breakdown.operators().items() if node in nodes)

    return cost


# Queries


def slow(column: str, seconds: float, tasks: int = TASKS, only: int | None = None) -> str:
    """A table of a row in each task, which takes so long; if `only` that one does, 0.1 s."""
    ms = f"{1_000 * seconds:.0f}L"
    if only is not None:
        ms = f"CASE id WHEN {only} THEN {ms} ELSE 100L END"
    sleep = f"reflect('java.lang.Thread', 'sleep', {ms} + 0 * id) <> 'of {tasks}'"  # an interpreted filter
    return f"(SELECT id AS {column} FROM range(0, {tasks}, 1, {tasks}) WHERE {sleep})"


class SlowSum(AccumulatorParam[float]):  # type: ignore[misc]  # not typed
    """An accumulator that keeps Spark's scheduler waiting for the driver's Python: the seconds that are added."""

    def zero(self, value: float) -> float:
        return 0.0

    def addInPlace(self, value1: float, value2: float) -> float:
        if os.getpid() == DRIVER:
            time.sleep(value2)
        return value1 + value2


class Queries:
    """Runs queries with delays."""

    def __init__(self, spark: SparkSession, sink: Sink, folder: Path) -> None:
        self.spark, self.sink, self.folder = spark, sink, folder

    def kinds(self) -> list[Kind]:
        """All kinds of delays."""
        stage = {"its stage": delayed_stage}
        filtered = {**stage, OPERATOR: operator(f"of {TASKS}")}
        on_broadcast = {"the broadcast": broadcast}
        return [
            Kind("one side of a join", self.sql(self.join), filtered),
            Kind("one side of a join, without AQE", self.sql(self.join, adaptive=False), filtered),
            Kind("a Python UDF on one side of a join", self.each(self.python), stage | {
                OPERATOR: operator("BatchEvalPython")}),
            Kind("one side of a join, while the other runs", self.sql(self.hidden), filtered, is_hidden=True),
            Kind("one side of a join, longer than its slack", self.sql(self.past_slack), {"both sides": both_sides}),
            Kind("a shuffle that is read twice", self.sql(self.reused), filtered),
            Kind("a partition that is scanned", self.sql(self.skewed), {"tail": tail}),
            Kind("a partition of a shuffle", self.sql(self.skewed_shuffle), {"tail": tail}),
            Kind("the side that is broadcast", self.sql(self.broadcast), on_broadcast),
            Kind("the side that is broadcast, without AQE", self.sql(self.broadcast, adaptive=False), on_broadcast),
            Kind("the side that is broadcast, while the other runs", self.sql(self.hidden_broadcast), on_broadcast,
                is_hidden=True),
            Kind("sending a broadcast", self.each(self.sent), {"the broadcast": broadcast}),
            Kind("a subquery", self.sql(self.subquery), filtered),
            Kind("a subquery, without AQE", self.sql(self.subquery, adaptive=False), filtered),
            Kind("a table while it is cached", self.each(self.cached), stage),
            Kind("a rule of the optimizer, in AQE", self.each(self.planned), {"replan": cause("replan")}),
            Kind("a rule of the optimizer, in AQE, while a stage runs", self.each(self.planned_beside), {
                "replan": cause("replan")}, is_hidden=True),
            Kind("the commit of a write", self.each(self.written), {"commit": cause("commit")}),
            Kind("Spark's scheduler", self.each(self.scheduled), {"driver": cause("driver")}),
            Kind("a user's function between two queries", self.batches, {"driver": cause("driver")}),
            Kind("another job on all cores", self.each(self.all_cores), {"waiting": cause("waiting")}),
            Kind("another job on half of the cores", self.each(self.half_of_the_cores), {
                "its stage": cause("running", "tail", "waiting")}),
        ]  # fmt: skip

    def sql(self, text: Callable[[float], str], *, adaptive: bool = True) -> Runs:
        """Runs of a query."""

        def runs(delays: Sequence[float]) -> list[Rows]:
            self.spark.conf.set("spark.sql.adaptive.enabled", str(adaptive).lower())
            found = [run(self.spark, self.sink, self.spark.sql(text(delay)).collect) for delay in delays]
            self.spark.conf.set("spark.sql.adaptive.enabled", "true")
            return found

        return runs

    def each(self, query: Callable[[float], Rows]) -> Runs:
        return lambda delays: [query(delay) for delay in delays]

    def join(self, delay: float) -> str:
        return f"SELECT count(*) FROM {slow('a', 0.3 + delay)} JOIN {slow('b', 0, 2)} ON a = b"

    def hidden(self, delay: float) -> str:
        return f"SELECT count(*) FROM {slow('a', 0.1 + delay)} JOIN {slow('b', 4, 2)} ON a = b"

    def past_slack(self, delay: float) -> str:
        """The other side takes half a second longer, unless this one is delayed."""
        return f"SELECT count(*) FROM {slow('a', 0.3 + delay)} JOIN {slow('b', 0.8, OTHER_TASKS)} ON a = b"

    def reused(self, delay: float) -> str:
        grouped = f"s AS (SELECT a % 5 AS a, count(*) AS n FROM {slow('a', 0.3 + delay)} GROUP BY 1)"
        return f"WITH {grouped} SELECT count(*) FROM s AS x JOIN s AS y ON x.a = y.a"

    def skewed(self, delay: float) -> str:
        return f"SELECT a % 2, count(*) FROM {slow('a', 0.1 + delay, 8, only=7)} GROUP BY 1"

    def skewed_shuffle(self, delay: float) -> str:
        rows = "(SELECT /*+ REPARTITION(8) */ * FROM range(0, 64, 1, 1))"
        ms = f"CASE id WHEN 7 THEN {1_000 * delay:.0f}L ELSE 5L END"
        return f"SELECT id FROM {rows} WHERE reflect('java.lang.Thread', 'sleep', {ms} + 0 * id) IS NOT NULL"

    def broadcast(self, delay: float) -> str:
        return f"SELECT /*+ BROADCAST(s) */ count(*) FROM range(0, 9, 1, 2) JOIN {slow('a', delay)} AS s ON id = a"

    def hidden_broadcast(self, delay: float) -> str:
        grouped = f"(SELECT b % 5 AS b, count(*) AS n FROM {slow('b', 4, 2)} GROUP BY 1)"
        return f"SELECT /*+ BROADCAST(s) */ count(*) FROM {grouped} JOIN {slow('a', delay)} AS s ON a = b"

    def subquery(self, delay: float) -> str:
        return f"SELECT count(*) FROM range(0, 9, 1, 2) WHERE id < (SELECT max(a) FROM {slow('a', delay)})"

    def python(self, delay: float) -> Rows:
        def sleep(value: int) -> int:
            time.sleep(0.3 + delay)
            return value

        self.spark.udf.register("sleep_python", sleep, "long")
        left = f"(SELECT id AS a, sleep_python(id) AS v FROM range(0, {TASKS}, 1, {TASKS}))"
        query = f"SELECT sum(v) FROM {left} JOIN {slow('b', 0, 2)} ON a = b"
        return run(self.spark, self.sink, self.spark.sql(query).collect)

    def cached(self, delay: float) -> Rows:
        table = self.spark.sql(f"SELECT * FROM {slow('a', 0.1 + delay)}").cache()
        rows = run(self.spark, self.sink, table.selectExpr("a % 2 AS a").groupBy("a").count().collect)
        table.unpersist(blocking=True)
        return rows

    def planned(self, delay: float) -> Rows:
        self._slow().nextPlan(round(1_000 * delay))
        query = "SELECT n, count(*) FROM (SELECT id % 7 AS k, count(*) AS n FROM range(99) GROUP BY 1) GROUP BY 1"
        return run(self.spark, self.sink, self.spark.sql(query).collect)

    def planned_beside(self, delay: float) -> Rows:
        self._slow().nextPlan(round(1_000 * delay))
        query = f"SELECT count(*) FROM {slow('a', 0)} JOIN {slow('b', 4, 2)} ON a = b"
        return run(self.spark, self.sink, self.spark.sql(query).collect)

    def sent(self, delay: float) -> Rows:
        self._slow().nextBroadcast(round(1_000 * delay))
        return run(self.spark, self.sink, self.spark.sql(self.broadcast(0)).collect)

    def written(self, delay: float) -> Rows:
        self._slow().nextCommit(round(1_000 * delay))
        writer = self.spark.range(0, 9, 1, 2).write.mode("overwrite")
        return run(self.spark, self.sink, lambda: writer.parquet(str(self.folder / "written")))

    def _slow(self) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.io.joinsight.bench.Slow

    def scheduled(self, delay: float) -> Rows:
        slow_sum = self.spark.sparkContext.accumulator(0.0, SlowSum())

        def rows(index: int, each: Iterator[int]) -> Iterator[tuple[int]]:
            if index == 0:
                slow_sum.add(delay)
            yield from ((value,) for value in each)

        data = self.spark.sparkContext.parallelize(range(TASKS), TASKS).mapPartitionsWithIndex(rows)
        frame = self.spark.createDataFrame(data, "a long").groupBy("a").count()
        return run(self.spark, self.sink, frame.collect)

    def batches(self, delays: Sequence[float]) -> Sequence[Rows]:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for i in range(len(delays)):
            (folder / f"{i}.txt").write_text("a\n")

        def batch(frame: DataFrame, number: int) -> None:
            frame.collect()
            time.sleep(delays[number])
            frame.collect()

        lines = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        stream = lines.writeStream.foreachBatch(batch).trigger(availableNow=True)
        stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
        return measured(self.sink, lambda e: bool(e.nested), len(delays))

    def all_cores(self, delay: float) -> Rows:
        query = self.spark.sql(f"SELECT * FROM {slow('a', 0.3)}")
        with self._held(CORES, delay):
            return run(self.spark, self.sink, query.collect)

    def half_of_the_cores(self, delay: float) -> Rows:
        """A stage of 4 s, which takes longer by half of the time that half of the cores are held."""
        query = self.spark.sql(f"SELECT * FROM {slow('a', 0.2, 20 * CORES)}")
        with self._held(CORES // 2, 2 * delay):
            return run(self.spark, self.sink, query.collect)

    @contextmanager
    def _held(self, cores: int, seconds: float) -> Iterator[None]:
        """Another job holds some cores, until so many seconds after the next stage was submitted."""
        if not seconds:
            yield
            return
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        tracker = self.spark.sparkContext.statusTracker()

        def hold(core: int) -> None:
            (folder / f"{core}").touch()
            while not (folder / "released").exists():
                time.sleep(0.005)

        def release() -> None:
            until(lambda: len(tracker.getActiveStageIds()) > 1, "the query waits")
            time.sleep(seconds)
            (folder / "released").touch()

        job = self.spark.sparkContext.parallelize(range(cores), cores)
        threads = [threading.Thread(target=job.foreach, args=[hold]), threading.Thread(target=release)]
        threads[0].start()
        until(lambda: len(list(folder.iterdir())) == cores, "all cores are held")
        threads[1].start()
        yield
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
