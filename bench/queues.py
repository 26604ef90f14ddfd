"""Measures what the listener costs Spark's bus on each of its queues: ``python -m bench.queues --help``.

Spark gives each queue of listeners a thread, which wakes up for every event. ``joinsight`` is on the queue of users'
listeners (``shared``), where all ways to attach put it; it is alone there. ``appStatus`` is the queue of Spark's own UI
store, ``executorManagement`` that of its executors; both are always there. One stage of tasks that do nothing, in one
JVM, all conditions in turns and each in each place, as `bench.overhead` does it. The CPU is that of all threads of
the bus, Spark's own listeners included: compare with ``none``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from bench.overhead import ORDERS, Driver, sink, workloads

CONDITIONS = ("none", "joinsight", "joinsight on appStatus", "joinsight on executorManagement")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    with sink() as (port, counts), tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), f"http://127.0.0.1:{port}", counts, "2g")
        workload = workloads(driver.spark, [arguments.tasks], 0)[0]
        tasks = workload.size
        for condition in CONDITIONS:
            driver.measure(workload, condition, workload.warm_up, -1)
        costs: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
        for number in range(arguments.rounds):
            for place in ORDERS[number % len(ORDERS)]:
                run = driver.measure(workload, CONDITIONS[place], tasks, number)
                costs[run.condition].append(1e6 * run.queues_cpu_s / tasks)
        print(f"{workload.title}, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}")
        print("| | CPU of the bus, µs a task, median [quartiles] | more than without, in the same round |")
        print("|---|---|---|")
        for condition, values in costs.items():
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
            more = statistics.median(value - none for value, none in zip(values, costs["none"], strict=True))
            print(f"| {condition} | {middle:.1f} [{low:.1f}, {high:.1f}] | {more:+.1f} |", flush=True)
        driver.spark.stop()


if __name__ == "__main__":
    main()
