"""Does `measured.keys()` name the hottest key? ``python -m bench.keys --help``.

100 joins of which a key is hot by construction: one key, three keys, NULL, the empty text, two columns, texts, dates,
decimals, collations, after a filter, after a Python function, on the build side of a broadcast, and a key that is rare
on both sides and makes most of the output. Each with 200 and 3,000 shuffle partitions (with 200, all rows of the larger
side are counted; with 3,000 it has more, of which a sample is), with AQE off, on, coalescing partitions, and splitting
them. The query runs once, measured, then `measured.keys()` is asked once; a join before, which does not count, warms
the JVM.

A line for each case is added to the file, and cases that it has are not run again. Scored: whether the hottest key is
named, its share, and the wall time of the question to that of the query; where other programs run, their CPU times say
more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import joinsight

ROOT = Path(__file__).parents[1]
ROWS = {200: 400_000, 3000: 1_000_000}
"""Rows of the hot side, by shuffle partitions."""
_COLD = "5000 + id % 20000"
_ADAPTIVE = "spark.sql.adaptive"
MODES: Mapping[str, Mapping[str, str]] = {
    "off": {f"{_ADAPTIVE}.enabled": "false"},
    "on": {f"{_ADAPTIVE}.enabled": "true", f"{_ADAPTIVE}.coalescePartitions.enabled": "false"},
    "coalesced": {f"{_ADAPTIVE}.enabled": "true", f"{_ADAPTIVE}.coalescePartitions.parallelismFirst": "false"},
    "split": {
        f"{_ADAPTIVE}.enabled": "true",
        f"{_ADAPTIVE}.skewJoin.skewedPartitionThresholdInBytes": "16k",
        f"{_ADAPTIVE}.advisoryPartitionSizeInBytes": "64k",
    },
}
SETTINGS = sorted({name for mode in MODES.values() for name in mode})


@dataclass(frozen=True)
class Plant:
    """A skewed join."""

    query: Callable[[SparkSession, int], DataFrame]
    """The join, for a number of rows."""
    keys: Sequence[tuple[Mapping[str, str], float]]
    """The hot keys as texts, hottest first, with their shares."""
    side: str = "left"
    """left, right, or output."""


def _joined(
    hot: str, cold: str = _COLD, how: str = "inner", name: str = "k"
) -> Callable[[SparkSession, int], DataFrame]:
    """A side of which 40 % have one key, and one with each key once."""

    def query(spark: SparkSession, rows: int) -> DataFrame:
        facts = spark.range(rows).selectExpr(f"IF(id % 10 < 4, {hot}, {cold}) AS {name}", "id AS v")
        dims = spark.range(20_000).selectExpr(f"{cold} AS {name}").union(spark.range(1).selectExpr(f"{hot} AS {name}"))
        return facts.join(dims, name, how)

    return query


def _three(spark: SparkSession, rows: int) -> DataFrame:
    facts = spark.range(rows).selectExpr(
        f"CASE WHEN id % 20 < 5 THEN 1 WHEN id % 20 < 9 THEN 2 WHEN id % 20 < 12 THEN 3 ELSE {_COLD} END AS k",
        "id AS v",
    )
    return facts.join(spark.range(25_000).selectExpr("id AS k"), "k")


def _two_columns(spark: SparkSession, rows: int) -> DataFrame:
    columns = [f"IF(id % 10 < 4, 7, {_COLD}) AS k", "IF(id % 10 < 4, DATE'2026-01-31', DATE'2020-01-01') AS day"]
    facts = spark.range(rows).selectExpr(*columns, "id AS v")
    return facts.join(spark.range(20_000).selectExpr(*columns).distinct(), ["k", "day"])


def _filtered(spark: SparkSession, rows: int) -> DataFrame:
    """Without the filter, 3 is the hottest key."""
    facts = spark.range(2 * rows).selectExpr(f"IF(id % 2 = 0, 3, IF(id % 20 < 8, 7, {_COLD})) AS k", "id AS v")
    return facts.where("v % 2 = 1").join(spark.range(25_000).selectExpr("id AS k"), "k")


def _after_python(spark: SparkSession, rows: int) -> DataFrame:
    double = f.udf(lambda x: 2 * x, "long")
    facts = spark.range(rows // 2).selectExpr(f"IF(id % 10 < 4, 7, {_COLD}) AS k", "id AS v")
    return facts.select(double("k").alias("k"), "v").join(spark.range(60_000).selectExpr("id AS k"), "k")


def _build_side(spark: SparkSession, rows: int) -> DataFrame:
    built = spark.range(100_000).selectExpr("IF(id % 10 < 4, 7, 5000 + id) AS k", "id AS w")
    return (
        spark.range(rows)
        .selectExpr("5000 + id AS k")
        .union(spark.range(50).selectExpr("7L AS k"))
        .join(f.broadcast(built), "k")
    )


def _output(spark: SparkSession, rows: int) -> DataFrame:
    """A thousandth of each side makes most of the output."""
    hot, least = rows // 1000, 3 * rows // 1000
    sides = [
        spark.range(rows // 2).selectExpr(f"IF(id < {3 * hot}, 1, {least} + id) AS k", f"id AS {name}") for name in "vw"
    ]
    return sides[0].join(sides[1], "k")


def _output_share(rows: int) -> float:
    hot = 3 * (rows // 1000)
    return hot * hot / (hot * hot + rows // 2 - hot)


_LOWER = "COLLATE UTF8_LCASE"
PLANTS: Mapping[str, Plant] = {
    "one key": Plant(_joined("7"), [({"k": "7"}, 0.4)]),
    "three keys": Plant(_three, [({"k": "1"}, 0.25), ({"k": "2"}, 0.2), ({"k": "3"}, 0.15)]),
    "NULL": Plant(_joined("NULL", how="left"), [({"k": "None"}, 0.4)]),
    "empty text": Plant(_joined("''", f"CAST({_COLD} AS STRING)"), [({"k": ""}, 0.4)]),
    "two columns": Plant(_two_columns, [({"k": "7", "day": "2026-01-31"}, 0.4)]),
    "text": Plant(_joined("'customer-7'", f"'customer-' || ({_COLD})"), [({"k": "customer-7"}, 0.4)]),
    "date": Plant(
        _joined("DATE'2026-01-31'", "DATE_ADD(DATE'1950-01-01', CAST(id % 20000 AS INT))"), [({"k": "2026-01-31"}, 0.4)]
    ),
    "decimal": Plant(_joined("CAST(1.5 AS DECIMAL(12,2))", f"CAST({_COLD} AS DECIMAL(12,2))"), [({"k": "1.50"}, 0.4)]),
    "collation": Plant(
        _joined(f"IF(id % 2 = 0, 'Hot', 'hOT') {_LOWER}", f"CAST({_COLD} AS STRING) {_LOWER}"), [({"k": "hot"}, 0.4)]
    ),
    "after a filter": Plant(_filtered, [({"k": "7"}, 0.4)]),
    "after Python": Plant(_after_python, [({"k": "14"}, 0.4)]),
    "build side": Plant(_build_side, [({"k": "7"}, 0.4)], "right"),
    "output only": Plant(_output, [({"k": "1"}, -1.0)], "output"),
}
CASES = [
    (name, partitions, mode)
    for mode in MODES
    for partitions in ROWS
    for name in PLANTS
    if (name, partitions) != ("build side", 3000)  # it shuffles nothing
]


def run(spark: SparkSession, name: str, partitions: int, mode: str) -> dict[str, Any]:
    """A case: what was planted, what was named, and both times."""
    plant = PLANTS[name]
    for setting in SETTINGS:
        spark.conf.unset(setting)
    for setting, value in {**MODES[mode], "spark.sql.shuffle.partitions": str(partitions)}.items():
        spark.conf.set(setting, value)
    rows = ROWS[partitions]
    query = plant.query(spark, rows)
    before = _cpu_s(spark)
    with joinsight.measure(spark) as measured:
        query.write.format("noop").mode("overwrite").save()
    between = _cpu_s(spark)
    case: dict[str, Any] = {"kind": name, "partitions": partitions, "mode": mode, "load": os.getloadavg()[0]}
    case["query_cpu_s"] = round(between - before, 2)
    case["query_ms"] = max(each.duration_ms or 0 for each in measured.executions)
    wanted = [(key, _output_share(rows) if share < 0 else share) for key, share in plant.keys]
    started = time.monotonic()
    try:
        found = measured.keys()
    except Exception as error:  # a case that failed is a wrong one
        return {**case, "error": str(error).partition("\n")[0][:300]}
    case["question_ms"] = round(1000 * (time.monotonic() - started))
    case["question_cpu_s"] = round(_cpu_s(spark) - between, 2)
    of_side = found.output if plant.side == "output" else [each for each in found.keys if each["side"] == plant.side]
    first = found.keys[0]["side"] if found.keys else ""
    named = [[_texts(each["key"]), each["share"]] for each in of_side[: len(wanted)]]
    is_first = plant.side in ("output", first)
    return {
        **case,
        "wanted": wanted,
        "named": named,
        "is_first": is_first,
        "is_sampled": "sample" in " ".join(found.notes),
    }


def _cpu_s(spark: SparkSession) -> float:
    """CPU time of the JVM and its Python workers that have ended, seconds."""
    process: Any = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _texts(key: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in key.items()}


def is_named(case: Mapping[str, Any]) -> bool:
    """Whether the hot keys are named, hottest first, and on the right side."""
    if "error" in case or not case["is_first"] or len(case["named"]) != len(case["wanted"]):
        return False
    pairs = zip(case["named"], case["wanted"], strict=True)
    lower = case["kind"] == "collation"
    return all(
        {name: text.lower() if lower else text for name, text in key.items()} == expected
        for (key, _), (expected, _) in pairs
    )


def has_share(case: Mapping[str, Any]) -> bool:
    """Whether the shares of the hot keys are within two points."""
    return is_named(case) and all(
        share is not None and abs(share - expected) <= 0.02
        for (_, share), (_, expected) in zip(case["named"], case["wanted"], strict=True)
    )


def ratio(case: Mapping[str, Any]) -> float:
    """The time of the question to that of the query."""
    return float(case.get("question_ms", 0) / max(1, case["query_ms"]))


def cpu_ratio(case: Mapping[str, Any]) -> float:
    """The CPU time of the question to that of the query."""
    return float(case["question_cpu_s"] / max(0.01, case["query_cpu_s"]))


def report(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The tables, as Markdown."""
    for case in cases:
        if not has_share(case):
            yield f"wrong: {json.dumps(case)}"
    columns = (
        "",
        "cases",
        "hottest key named",
        "share within 2 points",
        "query, ms",
        "question, ms",
        "question ÷ query",
        "worst",
        "of CPU time",
    )
    yield f"| {' | '.join(columns)} | at most a quarter |"
    yield "|---" * (len(columns) + 1) + "|"
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for case in cases:
        for group in ("all", case["kind"], f"{case['partitions']:,} partitions", f"AQE {case['mode']}"):
            groups[group].append(case)
    for group, its in groups.items():
        asked = [case for case in its if "question_ms" in case]
        if not asked:
            continue
        numbers = (
            f"{statistics.median(case['query_ms'] for case in asked):,.0f}",
            f"{statistics.median(case['question_ms'] for case in asked):,.0f}",
            f"{statistics.median(map(ratio, asked)):.2f}",
            f"{max(map(ratio, asked)):.2f}",
            f"{statistics.median(map(cpu_ratio, asked)):.2f}",
            f"{sum(ratio(case) <= 0.25 for case in asked)}",
        )
        right = f"{sum(map(is_named, its))} | {sum(map(has_share, its))}"
        yield f"| {group} | {len(its)} | {right} | {' | '.join(numbers)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=ROOT / "build" / "bench" / "keys.jsonl", help="of the results")
    parser.add_argument("--only", default="", help="kinds whose names have this")
    parser.add_argument("--cases", type=int, default=len(CASES), help="maximum (default: all)")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no case after this time")
    parser.add_argument("--score", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in arguments.file.read_text().splitlines()] if arguments.file.exists() else []
    known = {(case["kind"], case["partitions"], case["mode"]) for case in done}
    todo = [case for case in CASES if case not in known and arguments.only in case[0]][: arguments.cases]
    if todo and not arguments.score:
        started = time.monotonic()
        with arguments.file.open("a") as file:
            spark = _session()
            run(spark, "one key", 200, "on")  # warms the JVM
            for each in todo:
                if time.monotonic() - started > arguments.seconds:
                    break
                result = run(spark, *each)
                done.append(result)
                file.write(json.dumps(result) + "\n")
                file.flush()
            spark.stop()
    print("\n".join(report(done)))


def _session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("keys").config("spark.driver.memory", "2g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.sql.execution.pythonUDF.arrow.enabled", "false")
    return builder.config("spark.sql.autoBroadcastJoinThreshold", "-1").getOrCreate()


if __name__ == "__main__":
    main()
