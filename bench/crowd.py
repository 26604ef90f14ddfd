"""Measures what many executors and bursts of tasks cost the listener: ``python -m bench.crowd --help``.

**Heartbeats.** Each executor sends the values of its running tasks every 10 s (``spark.executor.heartbeatInterval``).
The listener takes them in, because a task may never end. One query whose only stage runs a task on each core of each
executor; all executors send a heartbeat in each round. The events are made once and fed in a loop to a listener of
Joinsight, and to the two of Spark's UI: ``SQLAppStatusListener`` reads the same values, ``AppStatusListener`` the rest.
The CPU is that of the thread that feeds them; the heap is what their state takes when all tasks have reported.

**Tasks.** The same for starts and ends of the million tasks of one stage, each with values of its own.

**Queues.** Starts and ends of tasks are posted to the bus of a Spark context for three seconds, at each rate first
without Joinsight, then with it on the queue ``shared``. A queue of the default length (10,000 events) drops what it has
no room for; that of Spark's UI, ``appStatus``, is always there. Which one is the first to lose events?
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import pyspark
from tests.java import OPENED

from bench.plugin import compiled
from joinsight.driver.attach import listener_jar

INTERVAL_S = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=10_000)
    parser.add_argument("--cores", type=int, default=4, help="of each executor, with a task each")
    parser.add_argument("--metrics", type=int, default=25, help="of each task")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--rates", type=int, nargs="*", default=[20_000, 80_000, 120_000, 160_000], help="tasks a second"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        path = os.pathsep.join([compiled("CrowdProbe", Path(folder)), str(listener_jar()), str(jars)])
        command = ["java", "-Xmx4g", *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED), "-cp", path]
        numbers = map(str, (options.executors, options.cores, options.metrics, options.rounds, *options.rates))
        run = [*command, "io.joinsight.CrowdProbe", *numbers]
        lines = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    print(
        f"{options.executors:,} executors with {options.cores} tasks of {options.metrics} metrics each,"
        f" {options.rounds} rounds; load {os.getloadavg()[0]:.1f}"
    )
    print("| | CPU of a heartbeat, µs | of a core, a heartbeat every 10 s | heap of its state, MB |")
    print("|---|---|---|---|")
    for line in lines[:3]:
        name, cost_us, held = line.split()
        share = float(cost_us) / 1e6 * options.executors / INTERVAL_S
        print(f"| `{name}` | {float(cost_us):.1f} | {100 * share:.2f} % | {int(held) / 1e6:.1f} |")
    print("\n| | CPU of a task, µs | heap after a million tasks, MB |")
    print("|---|---|---|")
    for line in lines[3:6]:
        name, cost_us, held = line.split()
        print(f"| `{name}` | {float(cost_us):.2f} | {int(held) / 1e6:.1f} |")
    print("\n| tasks a second: wanted, posted | dropped by the UI's queue, alone | with Joinsight | by Joinsight's |")
    print("|---|---|---|---|")
    for line in lines[6:]:
        rate, posted, *dropped = map(float, line.split())
        print(f"| {rate:,.0f}, {posted:,.0f} | {' | '.join(f'{number:,.0f}' for number in dropped)} |")


if __name__ == "__main__":
    main()
