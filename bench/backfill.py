"""Measures the speed of reading event logs, compared with Spark's replay: ``python -m bench.backfill --help``.

**Logs.** Written by Spark in this run (`bench/backfill_logs.py`): ``tasks``, whose bytes are nearly all ends of tasks;
``queries``, many short queries; ``tpch``, TPC-H's queries again and again. Each plain, and as Spark's zstd and lz4
codecs pack it. MB are those of the plain log, a million bytes each.

**Readers.** ``Spark``: ReplayListenerBus with AppStatusListener and SQLAppStatusListener on an in-memory store, the
settings those of the History Server. One JVM with 4 GB reads all logs twice before anything counts. ``ours``: the JVM
of `joinsight backfill`, whose documents Python decodes, after as many readings. Each is a process that stays; in a
round of a log one follows the other, who goes first alternates. Ratios are of a round: their median and range.

**Warm-up.** ``--cold`` reads each log again and again in a new process, and prints the CPU of each reading: much of the
first ones' is the compiler's.

**Whole.** ``--whole`` runs the command ``joinsight backfill`` on each plain log into an empty embedded PostgreSQL, and
Spark's replay of it, once in a new process, in turns: CPU from start to end of all their processes, and of PostgreSQL.

**Cores.** Readers are bound to them. On one, the JVM's compiler and garbage collector (the serial one, by its own
choice) share the core with the replay, as they would on any machine of one core. CPU is of the whole process, so what
they take is in it. On two, Spark's replay of one log still is one thread, and it reads two logs in two threads of its
JVM, as the History Server does; ours are two processes (``2 logs``).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyspark
from sqlalchemy import text

from bench import serving
from bench.serving import with_children
from joinsight.backfill import jvm
from joinsight.backfill.listing import Local, find
from joinsight.backfill.tasks import LogDocuments
from joinsight.base.gc_tuning import collect_seldom
from joinsight.store.database import open_database, upgrade

LOGS = ("tasks", "queries", "tpch")
CODECS = ("plain", "zstd", "lz4")
WARM_UPS = 2
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Took:
    wall_s: float
    cpu_s: float


# Spark's replay


class Replay:
    """A JVM that replays logs. Start it after binding the process to its cores."""

    def __init__(self) -> None:
        from pyspark import SparkContext

        os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 4g pyspark-shell"
        SparkContext._ensure_initialized()
        self.jvm: Any = SparkContext._jvm

    def __call__(self, paths: Sequence[Path]) -> None:
        """Replay these logs at the same time, each in a thread."""
        with ThreadPoolExecutor(len(paths)) as pool:
            list(pool.map(self._one, paths))

    def _one(self, path: Path) -> None:
        jvm, spark = self.jvm, self.jvm.org.apache.spark
        conf = spark.SparkConf(False).set("spark.appStateStore.asyncTracking.enable", "false")
        store = spark.status.ElementTrackingStore(spark.util.kvstore.InMemoryStore(), conf)
        bus = spark.scheduler.ReplayListenerBus()
        bus.addListener(spark.sql.execution.ui.SQLAppStatusListener(conf, store, False))
        nothing = jvm.scala.Option.empty()
        bus.addListener(spark.status.AppStatusListener(store, conf, False, nothing, nothing))
        file = jvm.org.apache.hadoop.fs.Path(path.as_uri())
        stream = spark.deploy.history.EventLogFileReader.openEventLog(
            file, file.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
        )
        if not bus.replay(stream, str(path), False, getattr(bus, "replay$default$4")()):
            raise SystemExit(f"Spark did not read {path} to its end")
        stream.close()
        store.close(False)

    def pack(self, path: Path, codec: str, target: Path) -> None:
        """Write a plain log through Spark's codec."""
        codecs = self.jvm.org.apache.spark.io.CompressionCodec
        to = codecs.createCodec(self.jvm.org.apache.spark.SparkConf(False), codec)
        stream = to.compressedContinuousOutputStream(self.jvm.java.io.FileOutputStream(str(target)))
        self.jvm.java.nio.file.Files.copy(self.jvm.java.io.File(str(path)).toPath(), stream)
        stream.close()


# Ours


@cache
def reader() -> jvm.Reader:
    """The JVM of this process, which is started once."""
    return jvm.Reader()


def ours(paths: Sequence[Path]) -> None:
    """Read these logs one by one."""
    collect_seldom()
    for log in find(Local(), map(str, paths)).logs.values():
        documents = LogDocuments(log, reader().read([log.request()]))
        for _ in documents:
            pass
        if documents.outcome.problems or not documents.executions:
            raise SystemExit(f"{log.path}: {len(documents.executions)} executions, {documents.outcome.problems}")


class Pool:
    """Persistent processes, one for each core."""

    def __init__(self, cores: int) -> None:
        self._pool = ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()  # a process waits for its children before it would do this by itself

    def logs(self, paths: Sequence[Path]) -> None:
        """Read each log in one of the processes."""
        list(self._pool.map(ours, [[path] for path in paths]))


# Processes that are measured


class Reader:
    """A process bound to cores, which reads logs on request."""

    def __init__(self, kind: str, cores: Sequence[int]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, kind, list(cores)))
        self._process.start()

    def __call__(self, method: str, *arguments: Any) -> Took:
        """Call a method; returns its seconds, and the CPU seconds of all its processes."""
        cpu, wall = self.cpu_seconds(), time.perf_counter()
        self._pipe.send((method, arguments))
        if self._pipe.recv() is not True:
            raise SystemExit(f"{method} failed")
        wall = time.perf_counter() - wall
        return Took(wall, max(1 / TICKS, self.cpu_seconds() - cpu))

    def cpu_seconds(self) -> float:
        """The CPU seconds of all its processes so far."""
        assert self._process.pid is not None
        return cpu_seconds(self._process.pid)

    def stop(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has failed
            self._pipe.send(None)
        self._process.join()


def serve(pipe: Connection, kind: str, cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)
    methods: dict[str, Callable[..., None]]
    pool = Pool(len(cores))
    if kind == "Spark":
        replay = Replay()
        methods = {"read": replay, "pack": replay.pack}
    else:
        methods = {"read": ours, "logs": pool.logs}
    with pool:
        while (told := pipe.recv()) is not None:
            method, arguments = told
            try:
                methods[method](*arguments)
            except BaseException:
                pipe.send(False)
                raise
            pipe.send(True)


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its living descendants."""
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        used[int(path.parent.name)] = int(fields[11]) + int(fields[12])
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    total, open_ones = 0, [pid]
    while open_ones:
        each = open_ones.pop()
        total += used.get(each, 0)
        open_ones += children.get(each, [])
    return total / TICKS


# The report


@dataclass(frozen=True)
class Case:
    """Logs that both readers read."""

    name: str
    paths: tuple[Path, ...]
    method: str
    megabytes: float
    runs: list[tuple[Took, Took]]
    """Spark's result and ours, by round."""

    def line(self) -> str:
        spark, our = ([pair[i] for pair in self.runs] for i in (0, 1))
        cells = [f"{self.name:<24}"]
        for took in (spark, our):
            cells.append(f"{spread([self.megabytes / each.wall_s for each in took], '.0f'):<18}")
        cells.append(f"{spread([s.wall_s / o.wall_s for s, o in self.runs], '.1f'):<18}")
        for took in (spark, our):
            cells.append(f"{spread([self.megabytes / each.cpu_s for each in took], '.0f'):<18}")
        cells.append(spread([s.cpu_s / o.cpu_s for s, o in self.runs], ".1f"))
        return "".join(cells)


def spread(values: Sequence[float], form: str) -> str:
    """Median and range as text."""
    middle, low, high = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} [{low}, {high}]"


def measure(folder: Path, cores: int, only: str, rounds: int) -> Iterator[Case]:
    """All cases on this number of cores, each in rounds."""
    at = sorted(os.sched_getaffinity(0))[:cores]
    if len(at) < cores:
        raise SystemExit(f"this machine gives {len(at)} cores, not {cores}")
    cases = []
    for log, codec in itertools.product(LOGS, CODECS):
        path = path_of(folder, log, codec)
        megabytes = (folder / log).stat().st_size / 1e6
        cases.append(Case(f"{log} {codec}", (path,), "read", megabytes, []))
        if cores > 1:
            cases.append(Case(f"{log} {codec}, {cores} logs", (path,) * cores, "logs", cores * megabytes, []))
    cases = [case for case in cases if only in case.name]
    readers = Reader("Spark", at), Reader("ours", at)
    try:
        for case in {case.paths[0]: case for case in cases}.values():
            for _ in range(WARM_UPS):
                readers[0]("read", case.paths)
        for case in cases:
            for _ in range(WARM_UPS):
                readers[1](case.method, case.paths)
            for number in range(rounds):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                took = {i: readers[i]("read" if i == 0 else case.method, case.paths) for i in order}
                case.runs.append((took[0], took[1]))
            yield case
    finally:
        for reader in readers:
            reader.stop()


def cold(folder: Path, only: str, megabytes: int) -> Iterator[str]:
    """Lines for each plain log, read repeatedly by a new process on one core: MB read so far, and MB per CPU second."""
    for log in LOGS:
        if only not in f"{log} plain":
            continue
        size = (folder / log).stat().st_size / 1e6
        process = Reader("ours", sorted(os.sched_getaffinity(0))[:1])
        cpu = 0.0
        for number in range(1, max(2, round(megabytes / size)) + 1):
            took = process("read", (folder / log,)).cpu_s
            cpu += took
            speeds = f"this time {size / took:.0f}, so far {number * size / cpu:.0f} MB a CPU second"
            yield f"{log:<10}{number * size:>8.0f} MB: {speeds}"
        process.stop()


def whole(folder: Path, cores: int, only: str, rounds: int) -> Iterator[str]:
    """Lines for each plain log: the medians of the command's CPU and PostgreSQL's, and of a new process's replay."""
    at = sorted(os.sched_getaffinity(0))[:cores]
    for log in LOGS:
        if only not in f"{log} plain":
            continue
        took: list[tuple[float, float, float]] = []
        executions = 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as data, open_database(None, Path(data), create=True) as engine:
                upgrade(engine)
                (postgres,) = Path(data).rglob("postmaster.pid")
                server = int(postgres.read_text().split()[0])
                for process in with_children(server):
                    os.sched_setaffinity(process, at)
                before = serving.cpu_seconds(with_children(server))
                command = [sys.executable, "-m", "joinsight.cli", "backfill", "--data", data, str(folder / log)]
                ours = child_cpu_seconds(command, at)
                with engine.connect() as connection:
                    executions = connection.scalar(text("SELECT count(*) FROM execution")) or 0
                engine.dispose()
                theirs = serving.cpu_seconds(with_children(server)) - before
            replay = Reader("Spark", at)
            replay("read", (folder / log,))
            took.append((ours, theirs, replay.cpu_seconds()))
            replay.stop()
        ours, theirs, spark = (statistics.median(each) for each in zip(*took, strict=True))
        size = (folder / log).stat().st_size / 1e6
        each = 1000 * (ours + theirs)
        yield (
            f"{log:<8}{size:>4.0f} MB, {executions:>4} executions: the command {ours:.1f} s, PostgreSQL {theirs:.1f} s,"
            f" {each / size:.0f} ms a MB, {each / max(1, executions):.1f} ms an execution;"
            f" Spark's replay {spark:.1f} s, {1000 * spark / size:.0f} ms a MB"
        )


def child_cpu_seconds(command: Sequence[str], cores: Sequence[int]) -> float:
    """CPU seconds of a command on these cores, with all processes that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    bound = ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]
    subprocess.run(bound, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(folder: Path, sizes: Sequence[int]) -> None:
    """Write the logs, unless they exist."""
    if not all((folder / log).exists() for log in LOGS):
        command = [sys.executable, "-m", "bench.backfill_logs", str(folder), *map(str, sizes)]
        subprocess.run(command, check=True)
    packer = Reader("Spark", sorted(os.sched_getaffinity(0)))
    for log, codec in itertools.product(LOGS, CODECS[1:]):
        if not path_of(folder, log, codec).exists():
            packer("pack", folder / log, codec, path_of(folder, log, codec))
    packer.stop()


def path_of(folder: Path, log: str, codec: str) -> Path:
    return folder / (log if codec == "plain" else f"{log}.{codec}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=60_000, help="of the log tasks (default: 60,000)")
    parser.add_argument("--queries", type=int, default=900, help="of the log queries (default: 900)")
    parser.add_argument("--passes", type=int, default=6, help="of TPC-H's queries (default: 6)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, action="append", help="1, 2 ...; may be repeated (default: 1 and 2)")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--logs", type=Path, help="folder of the logs, kept (default: a temporary one)")
    parser.add_argument("--cold", type=int, metavar="MB", help="only read this much of each log in a new process")
    parser.add_argument("--whole", action="store_true", help="measure the command, into PostgreSQL")
    options = parser.parse_args()

    folder = (options.logs or Path(tempfile.mkdtemp())).resolve()
    folder.mkdir(exist_ok=True)
    try:
        fill(folder, (options.tasks, options.queries, options.passes))
        print(f"Spark {pyspark.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
        for log in LOGS:
            sizes = (f"{codec} {path_of(folder, log, codec).stat().st_size / 1e6:.1f} MB" for codec in CODECS)
            print(f"  {log}: " + ", ".join(sizes))
        if options.cold:
            for line in cold(folder, options.only, options.cold):
                print(line, flush=True)
            return
        if options.whole:
            for cores in options.cores or (1, 2):
                print(f"\n{cores} cores, medians of {options.rounds} rounds, load before {os.getloadavg()[0]:.1f}")
                for line in whole(folder, cores, options.only, options.rounds):
                    print(line, flush=True)
            return
        head = ("", "Spark MB/s", "ours MB/s", "ratio", "Spark MB/CPU s", "ours MB/CPU s", "ratio")
        for cores in options.cores or (1, 2):
            load = os.getloadavg()[0]
            print(f"\n{cores} cores, {options.rounds} rounds, load before {load:.1f}; median [range]")
            print(f"{head[0]:<24}" + "".join(f"{title:<18}" for title in head[1:]), flush=True)
            for case in measure(folder, cores, options.only, options.rounds):
                print(case.line(), flush=True)
    finally:
        if options.logs is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
