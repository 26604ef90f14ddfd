"""Generates histories and counts false, late and missed alarms; ``--record`` repeats a real query first."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from bench.alarms import rules

REPETITIONS = Path(__file__).parent / "repetitions.json"
USUAL_MS = 120_000
BLOCK = 8
"""Mean length of what is drawn together."""
WEEKDAYS = 0.1
"""Standard deviation of the logarithm of a weekday's factor, in half of the queries; the others have none."""
BEFORE = 100
"""Nights before a change."""
WITHIN = {"step": 5, "growth": 21}


def record(runs: int) -> None:
    """Run a query again and again, and write how long each run took."""
    from pyspark.sql import SparkSession

    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    query = (
        "SELECT k, count(*) AS n, max(sha2(string(v), 256)) AS m FROM"
        " (SELECT id % 1000 AS k, id AS v FROM range(0, 400000, 1, 4)) GROUP BY k"
    )
    took = []
    for number in range(-10, runs):
        started = time.monotonic()
        spark.sql(query).collect()
        if number >= 0:
            took.append(round(1000 * (time.monotonic() - started), 1))
    spark.stop()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    REPETITIONS.write_text(json.dumps({"load": load, "milliseconds": took}) + "\n")
    print(f"{runs} runs, median {median(took):.0f} ms, load {load}")


def residuals() -> list[float]:
    """The logarithms of the real durations, less their median."""
    took = json.loads(REPETITIONS.read_text())["milliseconds"]
    middle = median(took)
    return [math.log(each / middle) for each in took]


def spread(values: Sequence[float]) -> float:
    """Robust standard deviation."""
    middle = median(values)
    return 1.4826 * median(abs(each - middle) for each in values)


@dataclass(frozen=True)
class Noise:
    """Real residuals, scaled, and drawn in blocks of this mean length."""

    residuals: Sequence[float]
    scale: float
    block: int


def history(random: Random, noise: Noise, nights: int) -> list[float]:
    """Logarithms of factors of the usual duration: noise in blocks, and weekdays."""
    has_weekdays = random.random() < 0.5
    days = [random.gauss(0, WEEKDAYS) if has_weekdays else 0.0 for _ in range(7)]
    found: list[float] = []
    at = 0
    for night in range(nights):
        if night == 0 or random.random() < 1 / noise.block:
            at = random.randrange(len(noise.residuals))
        found.append(days[night % 7] + noise.scale * noise.residuals[at])
        at = (at + 1) % len(noise.residuals)
    return found


def durations(logarithms: Sequence[float]) -> list[int]:
    return [round(USUAL_MS * math.exp(each)) for each in logarithms]


def changed(kind: str, logarithms: Sequence[float]) -> list[float]:
    """All from `BEFORE` on are slower."""
    each_day = math.log(1.01)
    return [
        value + (0.0 if night < BEFORE else math.log(1.3) if kind == "step" else each_day * (night - BEFORE + 1))
        for night, value in enumerate(logarithms)
    ]


def measure(alarms: rules.Alarms, noise: Noise, weeks: int, changes: int) -> str:
    """A row of the table."""
    random = Random(7)
    false = 0
    for _ in range(weeks // 50):
        false += len(alarms(durations(history(random, noise, 350))))
    found: dict[str, list[int]] = {kind: [] for kind in WITHIN}
    for _ in range(changes):
        base = history(random, noise, BEFORE + 40)
        for kind in WITHIN:
            nights = [n - BEFORE + 1 for n in alarms(durations(changed(kind, base))) if n >= BEFORE]
            found[kind].append(nights[0] if nights else 1000)
    parts = [f"{1000 * false / (weeks // 50 * 50):.1f}"]
    for kind, within in WITHIN.items():
        middle = sorted(found[kind])[len(found[kind]) // 2]
        share = sum(each <= within for each in found[kind]) / len(found[kind])
        parts.append(f"{share:.0%} (median {middle if middle < 1000 else 'never'})")
    return " | ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=int, default=0, metavar="RUNS", help="repeat a real query first")
    parser.add_argument("--weeks", type=int, default=5000, help="of queries to which nothing happens (default: 5000)")
    parser.add_argument("--changes", type=int, default=200, help="histories with a change, of each (default: 200)")
    parser.add_argument("--otava-weeks", type=int, default=500, help="the same for Otava, which is slower")
    parser.add_argument("--otava-changes", type=int, default=50)
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record)
    noise = residuals()
    known = spread(noise)
    near = sum(a * b for a, b in pairwise(noise)) / sum(a * a for a in noise)
    print(f"{len(noise)} real repetitions: spread {known:.1%}, correlation of neighbours {near:.2f}")
    print("noise | rule | false alarms in 1,000 query-weeks | 30 % within 5 runs | 1 % a day within 21 days")
    every: Mapping[str, rules.Alarms | None] = {
        "certain": rules.certain,
        "suspected": rules.suspected,
        "three sigma": rules.three_sigma,
        "Apache Otava": rules.otava(),
    }
    noises = {
        "as it was": Noise(noise, 1.0, BLOCK),
        "scaled to 5 %": Noise(noise, 0.05 / known, BLOCK),
        "5 %, independent": Noise(noise, 0.05 / known, 1),
        "10 %, independent": Noise(noise, 0.1 / known, 1),
    }
    for name, drawn in noises.items():
        for rule, alarms in every.items():
            if alarms is None:
                print(f"{name} | {rule} | not installed: pip install apache-otava")
                continue
            is_slow = rule == "Apache Otava"
            weeks = arguments.otava_weeks if is_slow else arguments.weeks
            changes = arguments.otava_changes if is_slow else arguments.changes
            print(f"{name} | {rule} | {measure(alarms, drawn, weeks, changes)}", flush=True)


if __name__ == "__main__":
    main()
