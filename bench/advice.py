"""Does `try_advice` accept what helps, and nothing else? ``python -m bench.advice --help``.

**Proposals.** 100 variants of queries on real Spark. Half help by construction: fewer of far too many partitions, AQE
where it is off, a broadcast of a small side. Half do not: a setting that changes nothing, in a number that rises or
falls, more partitions, a shuffle more, and a variant that is faster but not for the reason that it gives. They take the
place of what findings propose; all else is as in a user's session.

**Rewrites.** 20 changes of a query that give another result: a row less or twice, a number, digit, text, NULL, order in
an array, entry of a map and so on. They are no slower, and must all be refused as another result.

A line for each query is added to the file, and queries that it has are not run again. Scored: wrong acceptances, right
ones, other results that were caught, and runs of each decided variant.

**Simulated.** How often a variant that changes nothing passes the test of pairs, when runs scatter as those of the
queries did, or by a normal distribution.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, cycle, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import joinsight
from joinsight.measuring import advice, logical
from joinsight.measuring.paired_test import Pairs, is_faster, is_hopeless, log_ratio
from joinsight.measuring.proposals import LONGEST, SHUFFLED, TASKS, Number, Proposal
from joinsight.measuring.rewrite import Plans

ROOT = Path(__file__).parents[1]
_PARTITIONS = "spark.sql.shuffle.partitions"
_ADAPTIVE = "spark.sql.adaptive.enabled"
BASE = {_PARTITIONS: "200", _ADAPTIVE: "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}


@dataclass(frozen=True)
class Variant:
    """A variant, and whether it helps."""

    name: str
    helps: bool
    number: Number
    settings: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Plans, Any, Any], Any] | None = None


def _broadcast(plans: Plans, plan: Any, session: Any) -> Any:
    for node in logical.nodes(plan):
        if logical.class_name(node) == "Join":
            found = logical.join_of(node, plan)
            assert found is not None
            left, right = (tuple(key.toString() for key in side.keys) for side in found.sides)
            return plans.hinted(plan, (left, right), "right", "BROADCAST")
    return None


def _rewritten(*steps: Callable[[DataFrame], DataFrame]) -> Callable[[Plans, Any, Any], Any]:
    def change(plans: Plans, plan: Any, session: Any) -> Any:
        frame = DataFrame(logical.dataset(session, plan), session)
        for step in steps:
            frame = step(frame)
        return frame._jdf.queryExecution().analyzed()

    return change


HELPFUL = (
    Variant("8 partitions", True, TASKS, {_PARTITIONS: "8"}),
    Variant("16 partitions", True, TASKS, {_PARTITIONS: "16"}),
    Variant("AQE", True, TASKS, {_ADAPTIVE: "true"}),
    Variant("broadcast", True, SHUFFLED, change=_broadcast),
    Variant("AQE and 8 partitions", True, TASKS, {_ADAPTIVE: "true", _PARTITIONS: "8"}),
)
_SPLIT = "spark.sql.files.maxPartitionBytes"


def _split(run: Any) -> float:
    """A setting that lowers only itself: no file is read."""
    (execution,) = run.executions[:1]
    return float((execution.rows.execution.configuration or {}).get(_SPLIT, 128))


USELESS = (
    Variant("a setting of nothing", False, TASKS, {"spark.sql.broadcastTimeout": "301"}),
    Variant("a setting of nothing, which is lower", False, Number("split", _split, str), {_SPLIT: "64"}),
    Variant("more partitions", False, LONGEST, {_PARTITIONS: "600"}),
    Variant("a shuffle more", False, LONGEST, change=_rewritten(lambda frame: frame.repartition(400))),
    Variant("another reason", False, Number("one", lambda run: 1.0, str), {_PARTITIONS: "8"}),
)
"""The last one is faster."""


def _query(spark: SparkSession, number: int) -> DataFrame:
    """A join and an aggregation, or only one of them, of different sizes."""
    rows = 40_000 * (1 + number % 5)
    facts = spark.range(rows).selectExpr(f"id % {500 + 100 * number} AS k", "id AS v", "id / 7.0D AS third")
    dims = spark.range(2000).selectExpr("id AS k", f"id % {50 + number} AS region")
    joined = facts.join(dims, "k")
    if number % 2:
        return joined
    return joined.groupBy("region").agg({"third": "sum", "v": "max"})


def _columns(**changed: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.selectExpr(*(f"{changed.get(name, name)} AS {name}" for name in frame.columns))


REWRITES: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "a row less": lambda frame: frame.where("k <> 17"),
    "a row twice": lambda frame: frame.union(frame.where("k = 17")),
    "a row instead of another": lambda frame: frame.where("k <> 17").union(frame.where("k = 18")),
    "limit": lambda frame: frame.limit(999),
    "distinct": lambda frame: frame.union(frame.where("k = 17").selectExpr("*")).union(frame.where("k = 18")),
    "a number": _columns(n="IF(k = 17, n + 1, n)"),
    "a digit of a float": _columns(x="IF(k = 17, x * 1.00001D, x)"),
    "floats rounded": _columns(x="ROUND(x, 3)"),
    "floats of other rows": _columns(x="(999 - k) / 7.0D"),
    "NaN": _columns(x="IF(k = 17, DOUBLE('NaN'), x)"),
    "float for NULL": _columns(x="IF(k = 17, NULL, x)"),
    "NULL as 0": _columns(maybe="COALESCE(maybe, 0)"),
    "NULL elsewhere": _columns(maybe="IF(k % 10 = 1, NULL, k)"),
    "case of a text": _columns(text="UPPER(text)"),
    "blank after a text": _columns(text="IF(k = 17, text || ' ', text)"),
    "order in an array": _columns(list="REVERSE(list)"),
    "float in an array": _columns(list="IF(k = 17, ARRAY(x, 2.0D), list)"),
    "value of a map": _columns(map="IF(k = 17, MAP('a', k, 'b', 0.5D), map)"),
    "decimal": _columns(price="price + 0.01"),
    "day": _columns(day="DATE_ADD(day, 1)"),
}


def _typed(spark: SparkSession) -> DataFrame:
    return spark.range(1000).selectExpr(
        "id AS k",
        "id * 3 AS n",
        "id / 7.0D AS x",
        "IF(id % 10 = 0, NULL, id) AS maybe",
        "'name-' || id AS text",
        "ARRAY(id / 7.0D, 1.0D) AS list",
        "MAP('a', DOUBLE(id), 'b', 1.0D) AS map",
        "CAST(id AS DECIMAL(12,2)) AS price",
        "DATE_ADD(DATE'2026-01-01', CAST(id AS INT)) AS day",
    )


def run(spark: SparkSession, number: int) -> dict[str, Any]:
    """Try five variants of a query, which change with its number; of number -1, all rewrites."""
    if number < 0:
        rewrites = {name: _rewritten(step) for name, step in REWRITES.items()}
        variants = [Variant(name, False, SHUFFLED, change=change) for name, change in rewrites.items()]
        query = _typed(spark).repartition(8, "k")
    else:
        both = [each for pair in zip(HELPFUL, USELESS, strict=True) for each in pair]
        variants = both[:5] if number % 2 else both[5:]
        query = _query(spark, number)
    for name, value in BASE.items():
        spark.conf.set(name, value)
    proposed = [Proposal(each.name, "code", each.number, each.settings, each.change) for each in variants]
    started = time.monotonic()
    pairs: dict[str, list[list[int]]] = {}
    calm: dict[str, list[list[int]]] = {}
    baseline: list[Any] = []
    entry = advice._entry

    def kept(decided: Any, baseline_ms: int, runs: Sequence[Any]) -> dict[str, Any]:
        baseline[:] = runs
        its = decided.candidate.pairs if decided.candidate else []
        pairs[decided.proposal.variant] = [list(map(advice._wall_ms, pair)) for pair in its]
        calm[decided.proposal.variant] = [[round(advice._calm_ms(run)) for run in pair] for pair in its]
        return entry(decided, baseline_ms, runs)

    def logs(of: Callable[[Any], float]) -> list[float]:
        return [round(log_ratio(of(one), of(other)), 3) for one, other in pairwise(baseline)]

    with patch.object(advice, "proposals", lambda execution: proposed), patch.object(advice, "_entry", kept):
        found = joinsight.try_advice(spark, query, 600)
    helps = {each.name: each.helps for each in variants}
    tried = [
        {
            "variant": each["variant"],
            "helps": helps[each["variant"]],
            "accepted": each in found.accepted,
            "reason": each["reason"],
            "same_result": each["same_result"],
            "pairs_ms": pairs[each["variant"]],
            "calm_ms": calm[each["variant"]],
        }
        for each in [*found.accepted, *found.refused]
    ]
    seconds = round(time.monotonic() - started, 1)
    return {
        "query": number,
        "seconds": seconds,
        "load": os.getloadavg()[0],
        "baseline_ms": found.baseline_ms,
        "runs": found.runs,
        "noise": logs(advice._wall_ms),
        "calm_noise": logs(advice._calm_ms),
        "tried": tried,
    }


def simulated(noises: Sequence[Sequence[tuple[float, float]]], saved: float = 0.0) -> tuple[float, float]:
    """The share of 2,000 variants that is accepted, and the median of timed runs, when runs scatter as these did.

    `noises` has log ratios of successive runs, of their wall times and of those without waiting for processors; `saved`
    is the share of both that the variant saves.
    """
    chance = random.Random(38)
    logs: list[tuple[float, ...]] = []
    for noise in noises:
        both = [list(accumulate(each, initial=0.0)) for each in zip(*noise, strict=True)]
        logs += zip(*([statistics.fmean(one) - each for each in one] for one in both), strict=True)
    accepted, lengths = 0, []
    for _ in range(2000):
        start = chance.randrange(len(logs))
        runs = cycle(logs[start:] + logs[:start])
        baseline = [next(runs)]
        ratios: list[list[float]] = [[], []]
        for number in range(advice._MOST_PAIRS):
            pair = [next(runs), next(runs)]
            variant, first = pair if number % 2 == 0 else pair[::-1]
            baseline.append(first)
            for each, one, other in zip(ratios, first, variant, strict=True):
                each.append(one - other - math.log(1 - saved))
            measures = zip(*baseline, strict=True)
            wall, calm = (
                Pairs(each, [one - other for one, other in pairwise(measure[1:])])
                for each, measure in zip(ratios, measures, strict=True)
            )
            if is_faster(wall, calm) or is_hopeless(wall, calm):
                break
        accepted += is_faster(wall, calm)
        lengths.append(2 * len(ratios[0]))
    return accepted / 2000, statistics.median(lengths)


def normal(scatter: float, calm: float) -> list[list[tuple[float, float]]]:
    """Log ratios of 10,000 successive runs, of which pairs have these standard deviations."""
    chance = random.Random(38)
    work = [chance.gauss(0, calm / 2**0.5) for _ in range(10_000)]
    wait = math.sqrt(max(0.0, scatter**2 - calm**2))
    walls = [each + chance.gauss(0, wait / 2**0.5) for each in work]
    both = ([one - other for one, other in pairwise(each)] for each in (walls, work))
    return [list(zip(*both, strict=True))]


def report(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The numbers, as Markdown, below what was decided wrong."""
    tried = [(result, each) for result in results if result["query"] >= 0 for each in result["tried"]]
    rewrites = [each for result in results if result["query"] < 0 for each in result["tried"]]
    for result, each in tried:
        if each["accepted"] != each["helps"]:
            yield f"wrong: query {result['query']}, {each['variant']}: {each['reason']}"
    for each in rewrites:
        if each["same_result"] is not False:
            yield f"wrong: {each['variant']}: {each['reason']}"
    helpful = [each for _, each in tried if each["helps"]]
    useless = [each for _, each in tried if not each["helps"]]
    runs = [2 * len(each["pairs_ms"]) for _, each in tried if each["pairs_ms"]]
    yield "| | |\n|---|---|"
    yield f"| variants that help, accepted | {sum(each['accepted'] for each in helpful)} of {len(helpful)} |"
    yield f"| useless or harmful ones, accepted | {sum(each['accepted'] for each in useless)} of {len(useless)} |"
    caught = sum(each["same_result"] is False and not each["accepted"] for each in rewrites)
    yield f"| other results that were refused | {caught} of {len(rewrites)} |"
    if runs:
        yield f"| timed runs until a variant was decided, median (most) | {statistics.median(runs):g} ({max(runs)}) |"
    if seconds := [result["seconds"] for result in results if result["query"] >= 0]:
        yield f"| seconds for five variants of a query, median | {statistics.median(seconds):.0f} |"
        load = [result["load"] for result in results]
        yield f"| load of the machine | {min(load):.0f} to {max(load):.0f} |"


def simulations(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How seldom the test of pairs errs, as Markdown."""
    yield "| runs scatter | useless, accepted | half the time, accepted | timed runs, median |\n|---|---|---|---|"
    ran = [result for result in results if result["query"] >= 0 and result["noise"]]
    recorded = [list(zip(each["noise"], each.get("calm_noise", each["noise"]), strict=True)) for each in ran]
    worlds = {f"by {100 * each:.0f} %": normal(each, each) for each in (0.05, 0.15, 0.3, 0.5)}
    worlds |= {f"by {100 * each:.0f} %, without waiting 10 %": normal(each, 0.1) for each in (0.3, 0.5)}
    for name, noises in {**({"as recorded": recorded} if recorded else {}), **worlds}.items():
        (wrong, _), (right, runs) = simulated(noises), simulated(noises, 0.5)
        yield f"| {name} | {100 * wrong:.1f} % | {100 * right:.0f} % | {runs:g} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=ROOT / "build" / "bench" / "advice.jsonl", help="of the results")
    parser.add_argument("--queries", type=int, default=20, help="with five variants each (default: 20)")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no query after this time")
    parser.add_argument("--score", action="store_true", help="run no queries, but the simulations (a minute)")
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in arguments.file.read_text().splitlines()] if arguments.file.exists() else []
    known = {result["query"] for result in done}
    todo = [number for number in range(-1, arguments.queries) if number not in known]
    if todo and not arguments.score:
        started = time.monotonic()
        builder = SparkSession.builder.master("local[2]").appName("advice").config("spark.driver.memory", "2g")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        spark = builder.config("spark.log.level", "ERROR").getOrCreate()
        with arguments.file.open("a") as file:
            for number in todo:
                if time.monotonic() - started > arguments.seconds:
                    break
                done.append(run(spark, number))
                file.write(json.dumps(done[-1]) + "\n")
                file.flush()
        spark.stop()
    print("\n".join([*report(done), *(simulations(done) if arguments.score else ())]))


if __name__ == "__main__":
    main()
