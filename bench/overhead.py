"""Measures the listener's overhead in a driver, and that of Spark's event log: ``python bench/overhead.py --help``.

**Workloads.** One stage of many tasks that do next to nothing (``range``), the same with a filter, a broadcast join and
the write of a shuffle, so that each of a quarter as many tasks carries more SQL metrics (``shuffle``), and many short
queries (``queries``): the worst that a listener can meet.

**Conditions.** ``none``; ``empty``, a listener that does nothing, which is what Spark's queue costs once anything is
attached; ``joinsight``, sending to an HTTP server in another process that counts and throws away; ``event log``,
Spark's own, uncompressed to local disk, in its own queue. All in one JVM with two task threads, attached and detached
around each run. In each round all conditions run once, each after a garbage collection; over four rounds each stands
in each place, and each follows each other once, because a JVM gets faster for minutes. Runs that are not counted come
first: of a tenth the size, for ``queries`` of the whole.

**Measures.** Wall time is the job's own. CPU is the whole JVM's, from the job's start until the bus is empty, the
listener has sent everything and is detached. Ratios are to ``none`` of the same round: their median, and a bootstrap
95 % interval of it. ``bus thread`` is the CPU of the queue's thread, all events counted, per task. ``onTaskEnd`` is
timed call by call, around the listener, in the running job after all rounds; there, for about every second task, a
mere reading of its SQL metrics is timed instead, which no listener can do without: Spark's objects are in no cache of
the bus's thread. It is timed again when the job's recorded events are replayed to fresh listeners in a loop. Bytes sent
are those of the requests' bodies (gzip). The log is compressed afterwards, with Spark's zstd codec. Heap is what a
garbage collection frees when a listener that was fed the recorded events is dropped, with the recorded events gone
before; for ``range`` and ``shuffle`` it never heard that the execution ended.

**What it cannot resolve.** On a machine with two cores, shared or not, a run's wall and CPU time scatter by several per
cent, and the bootstrap of a few rounds only says how these rounds scattered (of five or fewer it is their range). A
ratio of ``empty`` far from 1, or of a listener below 1, shows how large the noise is. What a listener adds is smaller
than that: compare the CPU of its threads and the time of its calls. Timed in a running job, the mean and p99 of
onTaskEnd contain whatever interrupted the thread, and the recorder keeps all events alive, which no real driver does.
The heap is that of the whole JVM, where Spark's threads work on: readings of the same state were up to 2 MB apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import HTTPServer
from pathlib import Path
from typing import Any

from tests.serving import Handler

from bench.plugin import compiled
from joinsight.driver.attach import listener_jar

CONDITIONS = ("none", "empty", "joinsight", "event log")
ORDERS = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
"""The order of the conditions by round: a balanced square (Williams)."""
QUEUES = {"empty": "shared", "joinsight": "shared", "event log": "eventLog"}
QUEUE = "spark-listener-group-"
"""How the names of the bus's threads begin."""
SEND_SECONDS = 1.0  # the sender collects documents for half a second
REPLAYS = 10
TARGETS = ("target: at most 1 %", "target: at most 5 µs", "target: at most 2 %")
WIDTH = 100


@dataclass(frozen=True)
class Workload:
    """`run` takes a number of tasks or queries: first `warm_up`, which is not measured, then `size`.

    `running` says how heap is measured: before the execution's end.
    """

    name: str
    title: str
    size: int
    warm_up: int
    run: Callable[[int], None]
    running: bool


@dataclass(frozen=True)
class Run:
    """One run of a workload under one condition."""

    round: int
    condition: str
    load: float
    wall_s: float
    closed_s: float
    cpu_s: float
    bus_cpu_s: float
    sender_cpu_s: float
    dropped_events: int
    sent_bytes: int
    document_bytes: int
    documents: int
    log_bytes: int
    log_zstd_bytes: int


@dataclass(frozen=True)
class Result:
    """The measurements of a workload; `listener` has those of the recorded events, by name."""

    workload: str
    title: str
    size: int
    listener: dict[str, float]
    runs: list[Run]


# The sink: a collector that accepts everything and stores nothing.


class _Sink(Handler):
    counts: Any  # requests' bodies, their bytes before gzip, documents

    def do_POST(self) -> None:
        body = self.body()
        documents = gzip.decompress(body)
        for i, count in enumerate((len(body), len(documents), documents.count(b"\n"))):
            self.counts[i] += count
        self.answer(200, b'{"accepted": %d, "refused": []}' % documents.count(b"\n"))


def serve_sink(counts: Any, port: Any) -> None:
    """Runs in a process of its own, so that its CPU is not the driver's, and ends with its parent."""
    _Sink.counts = counts
    server = HTTPServer(("127.0.0.1", 0), _Sink)
    server.timeout = 1
    port.value = server.server_port
    parent = multiprocessing.parent_process()
    while parent and parent.is_alive():
        server.handle_request()


@contextmanager
def sink() -> Iterator[tuple[int, Any]]:
    """The port of a sink, and its counts."""
    processes = multiprocessing.get_context("spawn")
    counts, port = processes.Array("q", 3, lock=False), processes.Value("i", 0, lock=False)
    process = processes.Process(target=serve_sink, args=(counts, port), daemon=True)
    process.start()
    while process.is_alive() and not port.value:
        time.sleep(0.05)
    yield port.value, counts
    process.terminate()


# The driver


class Driver:
    """A Spark session, and the conditions that can be attached to it."""

    elsewhere = False  # a real collector receives the documents, so bytes are not counted

    def __init__(self, folder: Path, url: str, counts: Any, memory: str) -> None:
        from pyspark.sql import SparkSession

        jar = Path(shutil.copy(listener_jar(), folder))  # may be rebuilt in the meantime
        settings = {
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": f"-Xms{memory}",
            "spark.driver.extraClassPath": f"{jar}{os.pathsep}{compiled('Probe', folder / 'classes')}",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        builder = SparkSession.builder.master("local[2]").appName("joinsight overhead")
        self.spark: Any = builder.config(map=settings).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.folder = folder
        self.counts = counts
        self.jvm = self.spark.sparkContext._jvm
        self.context = self.spark.sparkContext._jsc.sc()
        self.bus = self.context.listenerBus()
        self.probe = self.jvm.io.joinsight.bench.Probe
        self.conf = self.context.getConf().set("spark.joinsight.url", url)
        self.replay_conf = self.conf.clone().set("spark.joinsight.progressInterval", "1h")

    def measure(self, workload: Workload, condition: str, size: int, number: int) -> Run:
        """Run a workload under a condition."""
        probe, context = self.probe, self.context
        log_folder = Path(tempfile.mkdtemp(dir=self.folder))
        probe.usedHeap()
        dropped, sunk, load = probe.droppedEvents(context), list(self.counts), os.getloadavg()[0]
        listener = probe.attach(context, condition, self.conf, str(log_folder))
        cpu, start = probe.processCpuNs(), time.perf_counter()
        workload.run(size)
        wall = time.perf_counter() - start
        self.bus.waitUntilEmpty(600_000)
        time.sleep(SEND_SECONDS)
        bus_cpu = probe.threadCpuNs(f"{QUEUE}{QUEUES.get(condition)}")
        sender_cpu = probe.threadCpuNs("joinsight-sender")
        start = time.perf_counter()
        probe.detach(context, listener)
        closed = time.perf_counter() - start
        cpu = probe.processCpuNs() - cpu
        logs = [path for path in log_folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        log_bytes = sum(path.stat().st_size for path in logs)
        zstd_bytes = sum(probe.zstdBytes(self.conf, str(path)) for path in logs)
        shutil.rmtree(log_folder)
        sent, raw, documents = (now - before for now, before in zip(self.counts, sunk, strict=True))
        if condition.startswith("joinsight") and not (sent or self.elsewhere):
            raise SystemExit("the listener sent nothing: its overhead cannot be measured")
        times = (load, wall, closed, cpu / 1e9, bus_cpu / 1e9, sender_cpu / 1e9)
        lost = probe.droppedEvents(context) - dropped
        return Run(number, condition, *times, lost, sent, raw, documents, log_bytes, zstd_bytes)

    def record(self, workload: Workload, runs: list[Run]) -> Result:
        """Time the listener's calls in a real run, and again when its events are replayed."""
        recorder = getattr(self.jvm.io.joinsight.bench, "Probe$Recorder")(self.context, self.conf)
        workload.run(workload.size)
        self.bus.waitUntilEmpty(600_000)
        recorder.stop()
        recorded = dict(recorder.results(self.replay_conf, REPLAYS, workload.running))
        return Result(workload.name, workload.title, workload.size, recorded, runs)

    def all_conditions(self, workload: Workload, rounds: int) -> Result:
        """Warm up, measure all conditions in rounds, and record."""
        for condition in CONDITIONS:
            self.measure(workload, condition, workload.warm_up, -1)
        runs = [
            self.measure(workload, CONDITIONS[place], workload.size, number)
            for number in range(rounds)
            for place in ORDERS[number % len(ORDERS)]
        ]
        return self.record(workload, runs)


def create_views(spark: Any) -> None:
    """The small tables of short queries: ``facts`` and ``dims``."""
    spark.range(0, 2000, 1, 2).selectExpr("id", "id % 50 AS k").createOrReplaceTempView("facts")
    spark.range(0, 50, 1, 2).selectExpr("id AS k", "id % 5 AS g").createOrReplaceTempView("dims")


def workloads(spark: Any, tasks: Sequence[int], queries: int) -> list[Workload]:
    """The workloads that the options select."""

    def sink(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def one_stage(n: int) -> None:
        sink(spark.range(0, n, 1, n))

    def into_a_shuffle(n: int) -> None:
        small = spark.range(0, 10, 1, 1).withColumnRenamed("id", "k").hint("broadcast")
        rows = spark.range(0, n, 1, n).where("id % 7 < 6")
        sink(rows.join(small, rows["id"] % 10 == small["k"]).repartition(1))

    def short_queries(n: int) -> None:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
        create_views(spark)
        texts = (
            "SELECT g, count(*), sum(id) FROM facts JOIN dims USING (k) GROUP BY g",
            "SELECT /*+ MERGE(d) */ d.g, max(f.id) FROM facts f JOIN dims d ON f.k = d.k GROUP BY d.g",
            "SELECT k, count(*) FROM facts GROUP BY k",
        )
        for i in range(n):
            spark.sql(texts[i % len(texts)]).collect()

    made = []
    for n in tasks:
        made.append(Workload(f"range-{n}", f"one stage of {n:,} tasks", n, n // 10, one_stage, True))
    for n in (count // 4 for count in tasks):
        made.append(Workload(f"shuffle-{n}", f"{n:,} tasks that write to a shuffle", n, n // 10, into_a_shuffle, True))
    if queries:
        title = "short joins and aggregations"
        made.append(Workload(f"queries-{queries}", title, queries, queries, short_queries, False))
    return made


# The report


def bootstrap(values: Sequence[float], times: int = 10_000) -> tuple[float, float, float]:
    """The median and the 95 % interval of resampled medians."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(times))
    return statistics.median(values), medians[int(0.025 * times)], medians[int(0.975 * times)]


def spread(values: Sequence[float]) -> str:
    """Median and quartiles as text."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else 3 * [*values]
    low, middle, high = (f"{value:.2f}" if value < 100 else f"{value:.1f}" for value in quartiles)
    return f"{middle} [{low}, {high}]"


def ratios(runs: Sequence[Run], condition: str, measure: str) -> tuple[float, float, float]:
    """The ratio of a measure to ``none`` of the same round."""
    values = {(run.condition, run.round): float(getattr(run, measure)) for run in runs}
    rounds = [run.round for run in runs if run.condition == condition]
    return bootstrap([values[condition, i] / values["none", i] for i in rounds])


def report(result: Result) -> str:
    """The report on a workload, in lines of `WIDTH` characters."""
    runs = {c: [run for run in result.runs if run.condition == c] for c in CONDITIONS}
    recorded = result.listener
    tasks = int(recorded["tasks"])
    load = statistics.median(run.load for run in result.runs)
    lines = ["─" * WIDTH, f"{result.workload}: {result.title}"]
    lines.append(
        f"{tasks:,} task ends of {recorded['sql_metrics_per_task']:.1f} SQL metrics; {len(runs['none'])} rounds;"
        f" load of the machine {load:.1f}\n"
    )
    lines.append(f"{'':<12}{'wall s':<22}{'CPU s':<22}{'wall ÷ none':<22}{'CPU ÷ none'}")
    for condition in CONDITIONS:
        line = f"{condition:<12}{spread([run.wall_s for run in runs[condition]]):<22}"
        line += f"{spread([run.cpu_s for run in runs[condition]]):<22}"
        for measure in ("wall_s", "cpu_s") if condition != "none" else ():
            line += "{:.3f} [{:.3f}, {:.3f}]".format(*ratios(result.runs, condition, measure)).ljust(22)
        lines.append(line.rstrip())

    def middle(condition: str, measure: str) -> float:
        return statistics.median(float(getattr(run, measure)) for run in runs[condition])

    def times(name: str) -> str:
        mean, median, p99 = (recorded[f"{name}_{kind}_ns"] / 1000 for kind in ("mean", "median", "p99"))
        return f"mean {mean:.2f}, median {median:.2f}, p99 {p99:.2f} µs"

    def entries(prefix: str) -> str:
        found = {name.removeprefix(prefix): int(size) for name, size in recorded.items() if name.startswith(prefix)}
        return ", ".join(f"{name} {size}" for name, size in found.items() if size and "_" not in name) or "none"

    threads = [f"{c} {1e6 * middle(c, 'bus_cpu_s') / tasks:.1f}" for c in CONDITIONS[1:]]
    sender, cpu = middle("joinsight", "sender_cpu_s"), middle("none", "cpu_s")
    log, zstd = middle("event log", "log_bytes"), middle("event log", "log_zstd_bytes")
    sent, documents = middle("joinsight", "sent_bytes"), middle("joinsight", "documents")
    wall, _, _ = ratios(result.runs, "joinsight", "wall_s")
    lost = ", ".join(f"{c} {sum(run.dropped_events for run in runs[c])}" for c in CONDITIONS)
    return "\n".join(
        [
            *lines,
            "",
            f"wall       {100 * wall - 100:+.1f} % in the median   ({TARGETS[0]})",
            f"threads    the bus's thread: {', '.join(threads)} µs of CPU a task;",
            f"           joinsight's sender {1000 * sender:.0f} ms a run; both"
            f" {_percent(middle('joinsight', 'bus_cpu_s') + sender, cpu)} of the CPU of none"
            f" (empty {_percent(middle('empty', 'bus_cpu_s'), cpu)})",
            f"end        the application's end waits {middle('joinsight', 'closed_s'):.2f} s for the sender",
            f"onTaskEnd  live   {times('live')}   ({TARGETS[1]})",
            f"           replay {times('replay')}",
            f"           a mere reading of the metrics, live: {times('reading')}",
            f"           replay of all events of a task: {recorded['replay_cpu_ns_per_task'] / 1000:.2f} µs of CPU,"
            f" {recorded['replay_allocated_bytes_per_task']:.0f} bytes allocated",
            f"bytes      {sent:,.0f} in {documents:.0f} documents"
            f" ({middle('joinsight', 'document_bytes'):,.0f} before gzip);"
            f" {_percent(sent, log)} of the log   ({TARGETS[2]})",
            f"           event log {log:,.0f}, in zstd {zstd:,.0f}: of that {_percent(sent, zstd)}",
            f"heap       {recorded['held_bytes'] / 1e6:.2f} MB held by the listener: {entries('entries_')}",
            f"           {recorded['held_after_bytes'] / 1e6:.2f} MB after the end: {entries('entries_after_')}",
            f"dropped    {lost} events",
        ]
    )


def _percent(part: float, whole: float) -> str:
    share = 100 * part / whole if whole else 0
    return f"{share:.2f} %" if share >= 0.1 else f"{share:.2g} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the listener costs a driver.")
    parser.add_argument("--tasks", type=int, nargs="*", default=[20_000], help="sizes of the long stages")
    parser.add_argument("--queries", type=int, default=150, help="number of short queries; 0: skip")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--memory", default="6g", help="heap of the driver: the events of a run are recorded in it")
    parser.add_argument("--collector", metavar="URL", help="send to this collector; the bytes are then not counted")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw numbers to this file")
    arguments = parser.parse_args()

    with sink() as (port, counts), tempfile.TemporaryDirectory(prefix="joinsight-overhead-") as folder:
        url = arguments.collector or f"http://127.0.0.1:{port}"
        driver = Driver(Path(folder), url, counts, arguments.memory)
        driver.elsewhere = bool(arguments.collector)
        machine = {
            "cores": os.cpu_count(),
            "architecture": platform.machine(),
            "java": str(driver.jvm.java.lang.System.getProperty("java.version")),
            "spark": driver.spark.version,
            "timer_ns": driver.probe.timerNs(),
        }
        print(
            f"Spark {machine['spark']}, Java {machine['java']}, {machine['cores']} cores {machine['architecture']};"
            f" the timer costs {machine['timer_ns']:.0f} ns a call"
        )
        results = []
        for workload in workloads(driver.spark, arguments.tasks, arguments.queries):
            results.append(result := driver.all_conditions(workload, arguments.rounds))
            print(report(result), flush=True)
            if arguments.json:
                document = {"machine": machine, "results": [asdict(result) for result in results]}
                arguments.json.write_text(json.dumps(document, indent=1) + "\n")
        driver.spark.stop()


if __name__ == "__main__":
    main()
