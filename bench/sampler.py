"""Measures what sampling costs: ``python -m bench.sampler --help``.

**Conditions.** ``none``; ``listener``, without samples; ``default``, by `spark.extraListeners` alone: the listener and
its samples, at the default interval. All in one JVM with two task threads, one Spark context after the other, in turns:
in each round every condition runs once, and over 6 rounds in every order.

**Measures.** CPU is that of the whole JVM while the queries run, after one that is not counted; it has all that samples
cost the threads that are stopped for them. Ratios are to ``none`` of the same round, with their quartiles and a
bootstrap 95 % interval of the median. Of ``default``: the CPU time of the sampler's thread, how long all threads were
stopped for its looks (the JVM's log of safepoints), the samples that arrived as a share of those that the interval
promises, and the bytes that it sends more.

**Lost samples.** With `--lost`, long and short queries run on a standalone cluster of two executors. Samples are
counted where an executor sends them, where the driver receives them, and in the last documents that arrive.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import random
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from tests.spark.sink import Sink, listening
from tests.standalone import standalone

from bench.overhead import SEND_SECONDS, bootstrap
from bench.plugin import compiled, session
from joinsight.driver.attach import LISTENER, listener_jar

CONDITIONS: dict[str, dict[str, str]] = {
    "none": {},
    "listener": {"spark.extraListeners": LISTENER, "spark.joinsight.sampleInterval": "0"},
    "default": {"spark.extraListeners": LISTENER},
}
SAMPLER = "joinsight-sampler"  # its thread
ORDERS = random.Random(1).sample(tuple(itertools.permutations(CONDITIONS)), 6)
SHORT = "SELECT id % 3, count(*) FROM range(0, 20000, 1, 2) GROUP BY 1"
QUERY = (
    "SELECT g, sum(hash(v, w)) FROM (SELECT id, uuid() AS v, id % 100 AS g FROM range(0, 600000, 1, 4))"
    " JOIN (SELECT id, id AS w FROM range(0, 400000, 1, 4)) USING (id) GROUP BY g"
)


@dataclass(frozen=True)
class Ran:
    """One run under a condition."""

    cpu_s: float
    wall_s: float
    sampler_s: float
    stopped_s: float
    sent_bytes: int
    samples: int
    task_s: float


def main() -> None:
    """Run the rounds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--queries", type=int, default=4, help="in a run")
    parser.add_argument("--interval", default="50ms", help="between samples")
    parser.add_argument("--lost", action="store_true", help="only count samples that are lost on their way")
    arguments = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if arguments.lost:
        print("\n".join(lost(arguments.interval)))
        return
    found: dict[str, list[Ran]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), arguments)
        driver.run("none")  # the JVM's first
        for number in range(-1, arguments.rounds):
            for condition in ORDERS[number % len(ORDERS)]:
                ran = driver.run(condition)
                if number >= 0:
                    found[condition].append(ran)
                    print(f"round {number}, {condition}: {ran}", file=sys.stderr, flush=True)
    print(f"{arguments.rounds} rounds of {arguments.queries} queries, a sample every {arguments.interval}")
    print(report(found, arguments.interval))


def classes(folder: Path) -> str:
    """The folder of the compiled classes that the benchmark needs."""
    for name in ("Probe", "Sampling"):
        compiled(name, folder / "classes")
    return str(folder / "classes")


class Driver:
    """One JVM, in which contexts follow each other."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.queries = arguments.queries
        self.safepoints = folder / "safepoints"
        jar = listener_jar()
        self.settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "3g",
            "spark.driver.extraClassPath": f"{jar}{os.pathsep}{classes(folder)}",
            "spark.driver.extraJavaOptions": f"-Xms3g -Xlog:safepoint:file={self.safepoints}::filecount=0",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.joinsight.spool": "none",
            "spark.joinsight.sampleInterval": arguments.interval,
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.shuffle.partitions": "4",
        }

    def run(self, condition: str) -> Ran:
        """Run the queries in a new context."""
        with listening() as sink:
            spark = SparkSession.builder.config(
                map={**self.settings, "spark.joinsight.url": sink.url, **CONDITIONS[condition]}
            ).getOrCreate()
            jvm: Any = spark._jvm
            probe = jvm.io.joinsight.bench.Probe
            spark.sql(QUERY).collect()
            time.sleep(SEND_SECONDS)
            probe.usedHeap()  # collects garbage
            sampler, cpu = probe.threadCpuNs(SAMPLER), probe.processCpuNs()
            stopped = self.stopped_s()
            wall = time.perf_counter()
            for _ in range(self.queries):
                spark.sql(QUERY).collect()
            wall = time.perf_counter() - wall
            time.sleep(SEND_SECONDS)
            cpu = probe.processCpuNs() - cpu
            sampler = probe.threadCpuNs(SAMPLER) - sampler
            stopped = self.stopped_s() - stopped
            spark.stop()
            stages = stages_of(sink)
            sent = sum(int(headers["Content-Length"]) for headers, _, _ in sink.requests)
        tasks = sum(stage.get("run_time_ms", 0) for stage in stages)
        return Ran(cpu / 1e9, wall, sampler / 1e9, stopped, sent, samples_of(stages), tasks / 1_000)

    def stopped_s(self) -> float:
        """How long all threads have been stopped for looks at stacks so far."""
        found = re.findall(r'Safepoint "ThreadDump".*?Total: *(\d+) ns', self.safepoints.read_text())
        return sum(map(int, found)) / 1e9


def stages_of(sink: Sink) -> list[dict[str, Any]]:
    """The stages of the last document of each execution."""
    documents = {each["execution_id"]: each for each in sink.taken() if "execution_id" in each}
    return [stage for each in documents.values() for stage in each.get("stages", ())]


def samples_of(stages: Iterable[dict[str, Any]]) -> int:
    """How many samples stages have."""
    return sum(sum(stage.get("samples", {}).values()) for stage in stages)


def lost(interval: str) -> Iterator[str]:
    """A table of samples sent, received and stored."""
    yield "| queries | sent by executors | received by the driver | in documents |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        class_path = f"{listener_jar()}{os.pathsep}{classes(folder)}"
        (folder / "cluster").mkdir()
        spark = Path(pyspark.__file__).parent
        with standalone(spark, folder / "cluster", {**os.environ, "PYSPARK_PYTHON": sys.executable}) as cluster:
            for what, query, count in (("joins", QUERY, 4), ("short queries", SHORT, 100)):
                sent = Path(tempfile.mkdtemp(dir=folder))
                settings = {
                    "spark.master": cluster.url,
                    "spark.plugins": "io.joinsight.sampling.Sampling$Counting",
                    "spark.bench.sent": str(sent),
                    "spark.executor.extraClassPath": class_path,
                    "spark.executor.memory": "700m",
                    "spark.joinsight.sampleInterval": interval,
                }
                with listening() as sink:
                    running = session(sink, settings, class_path)
                    for _ in range(count):
                        running.sql(query).collect()
                    jvm: Any = running._jvm
                    running.stop()
                    received = jvm.io.joinsight.sampling.Sampling.received()
                    stored = samples_of(stages_of(sink))
                of_executors = sum(int(each.read_text()) for each in sent.iterdir())
                yield f"| {count} {what} | {of_executors:,} | {received:,} | {stored:,} |"


def report(found: dict[str, list[Ran]], interval: str) -> str:
    """The tables."""
    lines = [
        "| | CPU s: quartiles | wall s | CPU ÷ none: quartiles | median, 95 % | wall ÷ none |",
        "|---|---|---|---|---|---|",
    ]
    for condition, runs in found.items():
        cpu, wall = ([getattr(ran, name) for ran in runs] for name in ("cpu_s", "wall_s"))
        ratios = [ran.cpu_s / none.cpu_s for ran, none in zip(runs, found["none"], strict=True)]
        walls = [ran.wall_s / none.wall_s for ran, none in zip(runs, found["none"], strict=True)]
        middle = "{:.3f} [{:.3f}, {:.3f}]".format(*bootstrap(ratios))
        cells = (condition, quartiles(cpu), quartiles(wall), quartiles(ratios), middle, quartiles(walls))
        lines.append(f"| {' | '.join(cells)} |")
    default = found["default"]
    thread = quartiles([100 * ran.sampler_s / ran.cpu_s for ran in default])
    stops = quartiles([100 * ran.stopped_s / ran.wall_s for ran in default])
    rate = quartiles([ran.samples / ran.task_s for ran in default])
    sent = [statistics.median(ran.sent_bytes for ran in found[name]) for name in ("listener", "default")]
    lines += [
        "",
        f"the sampler's thread took {thread} % of the CPU",
        f"all threads were stopped for {stops} % of the wall time",
        f"samples per second of task time that arrived: {rate}, with one every {interval}",
        f"bytes sent in a run: {sent[0]:,.0f} without samples, {sent[1]:,.0f} with them",
    ]
    return "\n".join(lines)


def quartiles(values: Sequence[float]) -> str:
    """The median, and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
