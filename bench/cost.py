"""Is what the critical path says true? ``python -m bench.cost --help``.

**Causality.** A query joins the shuffles of two stages of one task each, which run at the same time: one takes
`--long`, the other `--short` seconds (the tasks sleep), so the short one has slack. Then the short one is delayed by
several seconds. The path of the query *without* a delay predicts what that costs: nothing up to the slack, and what
exceeds it beyond. The same delay of the long one is predicted to cost all of it. Predicted growth is compared with that
of the wall time, both against the run without a delay before it, in the same session.

**What it cannot show.** Sleeping tasks take no CPU from each other; on real work a delay also changes what else runs.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import joinsight
from joinsight.rows import Rows


def main() -> None:
    """Run the rounds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", type=float, default=4.0)
    parser.add_argument("--short", type=float, default=1.0)
    parser.add_argument("--delays", type=float, nargs="+", default=[1.0, 2.0, 4.0, 6.0])
    arguments = parser.parse_args()
    results = measured(arguments)
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{arguments.rounds} rounds; stages of {arguments.long} s and {arguments.short} s; milliseconds, medians")
    print("| delayed | by | slack before | predicted | measured | difference, of each round |")
    print("|---|---|---|---|---|---|")
    for (which, delay), found in results.items():
        slack, predicted, grown = (statistics.median(each) for each in zip(*found, strict=True))
        apart = ", ".join(f"{growth - expected:+.0f}" for _, expected, growth in found)
        print(f"| {which} | {1000 * delay:.0f} | {slack:.0f} | {predicted:.0f} | {grown:.0f} | {apart} |")


Found = dict[tuple[str, float], list[tuple[int, int, int]]]


def measured(arguments: argparse.Namespace) -> Found:
    """Slack, predicted and measured growth of each round, by which stage was delayed and by how much."""
    builder = SparkSession.builder.master("local[2]").appName("cost").config("spark.ui.enabled", "false")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "1",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    found: Found = {}
    run(spark, 0, 0)
    for number in range(arguments.rounds):
        for which in ("short", "long"):
            for delay in arguments.delays:
                plain = run(spark, arguments.long, arguments.short)
                long = arguments.long + delay * (which == "long")
                slow = run(spark, long, arguments.short + delay * (which == "short"))
                slack = max(stage.slack_ms or 0 for stage in plain.stage)
                predicted = max(0, round(1000 * delay) - (slack if which == "short" else 0))
                grown = (slow.execution.duration_ms or 0) - (plain.execution.duration_ms or 0)
                found.setdefault((which, delay), []).append((slack, predicted, grown))
                print(f"round {number}, {which} by {delay} s: {found[which, delay][-1]}", file=sys.stderr)
    spark.stop()
    return found


def run(spark: SparkSession, long: float, short: float) -> Rows:
    """Run the query; returns its rows."""
    left, right = slow(spark, "a", long), slow(spark, "b", short)
    (execution,) = joinsight.measure(left.repartition(1, "k").join(right.repartition(1, "k"), "k").collect).executions
    return execution.rows


def slow(spark: SparkSession, column: str, seconds: float) -> DataFrame:
    """A row, after so many seconds."""

    def rows(of: Iterator[Any]) -> Iterator[tuple[int, int]]:
        time.sleep(seconds)
        yield from ((each, each) for each in of)

    return spark.createDataFrame(spark.sparkContext.parallelize([1], 1).mapPartitions(rows), f"k long, {column} long")


if __name__ == "__main__":
    main()
