"""Is the task time of operators true, and what does sampling cost? ``python -m bench.task_time --help``.

**Ablation.** A query runs as it is, and with a burden in one operator: calls that sleep for a known time, or hashes. By
how much the run time of its stages grows is the truth; it is compared with the growth of the time of the operator that
got the burden, and with its standard error.

**Cost.** The same join runs with sampling and without it, in a JVM each, in turns. The JVM's CPU time is compared, and
that of the sampler's thread is read. Its stops of other threads are only in the former.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from tests.spark.sink import Sink, listening
from tests.waiting import until

from joinsight.attach import listener_jar
from joinsight.decode import decode_document
from joinsight.document import Execution
from joinsight.rows import Rows, execution_rows

SLEEP = "reflect('java.lang.Thread', 'sleep', 5L + 0 * {0}) IS NOT NULL"
BURDENS = {
    "Filter that sleeps (interpreted)": (
        "Filter",
        "SELECT count(*) FROM range(0, 1000, 1, 2) WHERE {burden}",
        "reflect('java.lang.Long', 'hashCode', id) IS NOT NULL",
        SLEEP.format("id"),
    ),
    "HashAggregate that hashes": (
        "HashAggregate",
        "SELECT sum(crc32({burden})) FROM range(0, 3000000, 1, 2)",
        "string(id)",
        "sha2(string(id), 512)",
    ),
    "SortMergeJoin that hashes": (
        "SortMergeJoin",
        "SELECT count(*) FROM (SELECT id, id % 7 v FROM range(2000000)) a"
        " JOIN (SELECT id, id % 5 w FROM range(1000000)) b"
        " ON a.id = b.id AND crc32({burden}) <> w",
        "string(v + w)",
        "sha2(string(v + w), 512)",
    ),
}
JOIN = (
    "SELECT sum(hash(v, w)) FROM (SELECT id, uuid() v FROM range(2000000))"
    " JOIN (SELECT id, id w FROM range(1000000)) USING (id)"
)


def main() -> None:
    """Run the rounds, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=8, help="in a JVM, for the cost")
    parser.add_argument("--intervals", nargs="+", default=["0", "50ms"])
    parser.add_argument("--only", choices=["ablation", "cost"])
    parser.add_argument("--cost-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cost_of is not None:
        cost_of(arguments.cost_of, arguments.queries)
        return
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if arguments.only != "cost":
        ablations(arguments.rounds)
    if arguments.only != "ablation":
        costs(arguments)


def session(sink: Sink, interval: str) -> SparkSession:
    """A session with the plugin."""
    builder = SparkSession.builder.master("local[2]").appName("task_time").config("spark.ui.enabled", "false")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.plugins": "io.joinsight.JoinsightPlugin",
        "spark.joinsight.url": sink.url,
        "spark.joinsight.spool": "none",
        "spark.joinsight.sampleInterval": interval,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def ablations(rounds: int) -> None:
    """Print predicted and true growth of each burden."""
    print(
        "| burden | true growth ms | growth of the operator ms | of its codegen stage | of others | samples | largest |"
    )
    print("|---|---|---|---|---|---|---|")
    with listening() as sink:
        spark = session(sink, "20ms")
        for name, (operator, query, plain, burden) in BURDENS.items():
            for number in range(rounds + 1):
                before = run(spark, sink, query.format(burden=plain))
                after = run(spark, sink, query.format(burden=burden))
                if number == 0:
                    continue  # it compiled
                print(f"| {name} | {' | '.join(growth(before, after, operator))} |", flush=True)
        spark.stop()


def growth(before: Rows, after: Rows, operator: str) -> Iterator[str]:
    """What grew by how much, with standard errors."""
    ran, had = times(after), times(before)
    total = sum(ms for ms, _ in ran.values()) - sum(ms for ms, _ in had.values())
    yield str(total)
    own = (operator, operator + " with others")
    for name in own:
        (ms, error), (ms_before, error_before) = ran.get(name, (0, 0)), had.get(name, (0, 0))
        total -= ms - ms_before
        yield f"{ms - ms_before} ± {math.hypot(error, error_before):.0f}"
    yield str(total)
    yield str(sum(row.samples or 0 for row in after.task_time))
    grown = {name: ms - had.get(name, (0, 0))[0] for name, (ms, _) in ran.items() if name not in own}
    largest = max(grown, key=lambda name: grown[name], default="")
    yield f"{largest} {grown.get(largest, 0)}"


def times(rows: Rows) -> dict[str, tuple[int, float]]:
    """Times and their errors, by operator or, for a codegen stage, by each of its operators "with others"."""
    found: dict[str, tuple[int, float]] = {}
    nodes = {row.node_id: row for row in rows.plan_node}
    for row in rows.task_time:
        name = row.part if row.node_id is None else nodes[row.node_id].name
        if row.node_id is not None and nodes[row.node_id].is_cluster:
            inside = [each.name for each in rows.plan_node if each.cluster_id == row.node_id]
            known = [operator for operator, *_ in BURDENS.values()]
            name = next((f"{each} with others" for each in inside if each in known and each != "HashAggregate"), "")
            name = name or (f"{inside[0]} with others")
        ms, error = found.get(name, (0, 0.0))
        found[name] = ms + row.task_time_ms, math.hypot(error, row.task_time_error_ms or 0)
    return found


def run(spark: SparkSession, sink: Sink, query: str) -> Rows:
    """Run the query; returns its rows, with all samples."""
    name = f"run {time.monotonic_ns()}"
    spark.sparkContext.setJobDescription(name)
    spark.sql(query).collect()

    def arrived() -> Execution | None:
        documents = [decode_document(msgspec.json.encode(each)) for each in sink.taken() if each.get("ended_at_ms")]
        mine = [each for each in documents if isinstance(each, Execution) and each.description == name]
        return max(mine, key=lambda each: each.sequence, default=None)

    until(lambda: arrived() is not None, "the document of a run")
    e = arrived()
    assert e is not None
    sink.requests.clear()
    return execution_rows(e)


def costs(arguments: argparse.Namespace) -> None:
    """Print the CPU time of JVMs, by the interval, of rounds in turns."""
    found: dict[str, list[tuple[float, float]]] = {interval: [] for interval in arguments.intervals}
    for number in range(arguments.rounds):
        for interval in found if number % 2 == 0 else reversed(found):
            command = [sys.executable, "-m", "bench.task_time", "--cost-of", interval]
            done = subprocess.run(
                [*command, "--queries", str(arguments.queries)], stdout=subprocess.PIPE, text=True, check=True
            )
            cpu, sampler = map(float, done.stdout.split()[-2:])
            found[interval].append((cpu, sampler))
            print(f"round {number}, {interval}: {cpu:.2f} s, sampler {sampler:.3f} s", file=sys.stderr, flush=True)
    print("| interval | CPU s of each round | median | sampler's thread, share of the CPU |")
    print("|---|---|---|---|")
    for interval, rounds in found.items():
        each = ", ".join(f"{cpu:.1f}" for cpu, _ in rounds)
        share = statistics.median(sampler / cpu for cpu, sampler in rounds)
        print(f"| {interval} | {each} | {statistics.median(cpu for cpu, _ in rounds):.1f} | {share:.2%} |")


def cost_of(interval: str, queries: int) -> None:
    """Print the CPU seconds of the JVM and of the sampler's thread while queries run, after two to warm up."""
    with listening() as sink:
        spark = session(sink, interval)
        for _ in range(2):
            spark.sql(JOIN).collect()
        before = cpu_of(spark)
        for _ in range(queries):
            spark.sql(JOIN).collect()
        after = cpu_of(spark)
        print(*(later - earlier for later, earlier in zip(after, before, strict=True)))
        spark.stop()


def cpu_of(spark: SparkSession) -> tuple[float, float]:
    """CPU seconds of the JVM, and of the sampler's thread."""
    jvm: Any = spark._jvm
    factory = jvm.java.lang.management.ManagementFactory
    threads = factory.getThreadMXBean()
    named = [each for each in threads.dumpAllThreads(False, False) if each.getThreadName() == "joinsight-sampler"]
    nanos = sum(threads.getThreadCpuTime(each.getThreadId()) for each in named)
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), nanos / 1e9


if __name__ == "__main__":
    main()
