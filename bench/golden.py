"""Are golden plans steady, and do they notice? ``python -m bench.golden --help``.

**Steady.** All TPC-H queries and the queries of AQE's decisions run again and again: in fresh processes with other hash
seeds, in fresh sessions, with other ids. Each difference from the first golden plan is counted.

**Noticed.** Mutants of the TPC-H queries: a hint dropped, a key cast, a filter removed, a Python function around a key,
bucketing lost, no broadcasts, another order of joins. A mutant whose final plan is the same (`plan_fingerprint`) is
none. Counted is which differ, and whether the sentences name the cause.

**Cheap.** The same query is run with and without a measurement and a golden plan, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from tests.exactness import tpch
from tests.spark import decisions_workload

import joinsight
from joinsight.demo.workload import settings
from joinsight.gate.golden import Section, difference, from_text, meanings, to_text

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
EQUALITY = re.compile(r"^(\s*(?:AND )?)((?:\w+\.)?(\w+) = (?:\w+\.)?(\w+))$", re.MULTILINE)
FILTER = re.compile(r"^\s*(?:AND )?(?:\w+\.)?\w+ (?:=|<>|<|>|<=|>=|LIKE|BETWEEN) (?:'|\d|CAST|DATE).*$", re.MULTILINE)
FROM = re.compile(r"FROM\n((?:\s+\w+(?: \w+)?,\n)+\s+\w+(?: \w+)?)\n")


class Mutant(NamedTuple):
    """A query before and after, and what the sentences must say."""

    kind: str
    before: str
    after: str
    says: str
    settings: Mapping[str, str] = {}


def main() -> None:
    """Run both, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=10, help="in each process")
    parser.add_argument("--mutants", type=int, default=400, help="at most; 0: none")
    parser.add_argument("--pairs", type=int, default=100, help="runs with and without a measurement; 0: none")
    parser.add_argument("--verbose", action="store_true", help="print each miss")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        repeat(Path(arguments.child[0]), Path(arguments.child[1]), arguments.sessions)
        return
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tpch.generate(folder / "tpch")
        if arguments.processes:
            steady(folder, arguments)
        if arguments.mutants:
            noticed(folder, arguments)
        if arguments.pairs:
            cheap(folder, arguments.pairs)


def steady(folder: Path, arguments: argparse.Namespace) -> None:
    """Run the repetitions, each process with a hash seed of its own."""
    texts: dict[str, list[str]] = defaultdict(list)
    for number in range(arguments.processes):
        out = folder / f"texts-{number}.json"
        command = [sys.executable, "-m", "bench.golden", "--sessions", str(arguments.sessions)]
        command += ["--child", str(folder), str(out)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": str(number + 1)})
        for query, found in json.loads(out.read_text()).items():
            texts[query] += found
    runs = sum(map(len, texts.values()))
    differing = {query: Counter(found) for query, found in texts.items() if len(set(found)) > 1}
    other = sum(counter.total() - max(counter.values()) for counter in differing.values())
    print(
        f"{len(texts)} queries, {runs} runs: {other} differ from most runs of their query, in {len(differing)} queries"
    )
    for query, counter in differing.items():
        (usual, _), *others = counter.most_common()
        for text, number in others:
            print(f"\n{query}, {number} of {counter.total()}:\n{difference(from_text(usual), from_text(text))}")


def repeat(folder: Path, out: Path, sessions: int) -> None:
    """Run all queries in new sessions of one Spark, in an order that varies."""
    texts: dict[str, list[str]] = defaultdict(list)
    spark = new_spark(out.with_suffix(""))
    decisions_workload.write_tables(spark)
    queries: list[tuple[str, Mapping[str, str], str]] = [
        (f"TPC-H {n}", {}, text) for n, text in tpch.read_queries(folder / "tpch").items()
    ]
    queries += list(decisions_workload.QUERIES)
    for number in range(sessions):
        session = spark.newSession()
        prepare(session, folder)
        random.seed(hash(f"{number}"))
        for _ in range(random.randrange(20)):
            session.range(3).selectExpr("id AS a", "id AS b").filter("a > 1").schema  # noqa: B018  # uses up ids
        for name, options, text in random.sample(queries, len(queries)):
            with settings(session, options):
                texts[name].append(to_text(golden(session, text)))
    spark.stop()
    out.write_text(json.dumps(texts))


def new_spark(warehouse: Path) -> SparkSession:
    """A Spark whose small data behave like large."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config(map=tpch.session_options()).config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()


def prepare(session: SparkSession, folder: Path) -> None:
    """Make the tables known to a session."""
    for table in tpch.TABLES:
        session.read.parquet(str(folder / "tpch" / f"{table}.parquet")).createOrReplaceTempView(table)
    session.udf.register("same", lambda value: value, "bigint")


def golden(session: SparkSession, text: str) -> list[Section]:
    """The golden plan of a query."""
    with joinsight.measure(session) as measured:
        session.sql(text).collect()
    return [each.section for each in measured.executions if each.plan]


def noticed(folder: Path, arguments: argparse.Namespace) -> None:
    """Run the mutants beside their originals."""
    spark = new_spark(folder / "warehouse")
    prepare(spark, folder)
    for table, key in (("orders", "o_custkey"), ("customer", "c_custkey")):
        for name, how in ((f"{table}_bucketed", "bucketed"), (f"{table}_plain", "plain")):
            writer = spark.table(table).write.mode("overwrite").format("parquet")
            (writer.bucketBy(8, key) if how == "bucketed" else writer).saveAsTable(name)
    found = list(mutants(tpch.read_queries(folder / "tpch")))
    random.seed(1)
    found = random.sample(found, min(arguments.mutants, len(found)))
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    known: dict[tuple[str, str], Ran] = {}
    for mutant in found:
        old, old_keys = ran(spark, mutant.before, {}, known)
        new, new_keys = ran(spark, mutant.after, mutant.settings, known)
        if not new or old_keys == new_keys:
            counted[mutant.kind]["the same plan"] += 1
            continue
        counted[mutant.kind]["mutants"] += 1
        text = " ".join(meanings(old[0], new[0]))
        counted[mutant.kind]["noticed"] += bool(text)
        is_named = re.search(mutant.says, text) is not None
        counted[mutant.kind]["named"] += is_named
        if arguments.verbose and not is_named:
            print(f"--- {mutant.kind}: {text}\n{mutant.after}\n{difference(old, new)}", file=sys.stderr)
    spark.stop()
    print("| mutant | with another plan | noticed | cause named | with the same plan |\n|---|---|---|---|---|")
    for kind, counter in [*sorted(counted.items()), ("all", sum(counted.values(), Counter()))]:
        figures = (counter[name] for name in ("mutants", "noticed", "named", "the same plan"))
        print(f"| {kind} | {' | '.join(map(str, figures))} |")


def cheap(folder: Path, number: int) -> None:
    """Compare a test's query with the same in a measurement, whose golden plan is compared."""
    spark = new_spark(folder / "warehouse")
    prepare(spark, folder)
    text = tpch.read_queries(folder / "tpch")["3"]
    kept = golden(spark, text)
    extra = []
    for _ in range(number):
        begin = time.perf_counter()
        spark.sql(text).collect()
        between = time.perf_counter()
        if difference(kept, golden(spark, text)):
            raise AssertionError("The golden plan is another one.")
        extra.append((time.perf_counter() - between) - (between - begin))
    spark.stop()
    half = extra[number // 2 :]  # the first ones warm the JVM
    middle, low, high = statistics.median(half), *statistics.quantiles(half, n=4)[::2]
    print(f"a measurement and a golden plan: {middle * 1000:.0f} ms a test ({low * 1000:.0f} to {high * 1000:.0f})")


Ran = tuple[list[Section], list[str | None]]
"""The golden plan of a query, and the fingerprints of its final plans."""


def ran(spark: SparkSession, text: str, options: Mapping[str, str], known: dict[tuple[str, str], Ran]) -> Ran:
    """Run a query once; nothing of one that fails."""
    key = (text, json.dumps(dict(options)))
    if key not in known:
        for name, value in options.items():
            spark.conf.set(name, value)
        try:
            with joinsight.measure(spark) as measured:
                spark.sql(text).collect()
            known[key] = (
                [each.section for each in measured.executions if each.plan],
                [each.row.plan_fingerprint for each in measured.executions],
            )
        except Exception as error:
            print(f"{error}\n{text}"[:1000], file=sys.stderr)
            known[key] = [], []
        for name in options:
            spark.conf.set(name, tpch.session_options()[name])
    return known[key]


def mutants(queries: Mapping[str, str]) -> Iterator[Mutant]:
    """All mutants of these queries."""
    for text in queries.values():
        for match in EQUALITY.finditer(text):
            if match[3] == match[4] or not re.match(r"[a-z]+_\w*key$", match[3]):
                continue
            left, right = match[2].split(" = ")
            for kind, changed, says in (
                ("key cast", f"CAST({left} AS STRING) = CAST({right} AS STRING)", r"cast\("),
                ("function around a key", f"same({left}) = {right}", r"same\("),
            ):
                yield Mutant(kind, text, text[: match.start(2)] + changed + text[match.end(2) :], says)
        for match in FILTER.finditer(text):
            line = match[0]
            if line.count("(") != line.count(")"):
                continue
            without = text.replace(line, re.sub(r"\S.*", "AND true" if "AND" in line.split()[:1] else "true", line), 1)
            yield Mutant("filter removed", text, without, r"filter .* is gone|The filter")
        source = FROM.search(text)
        if source:
            tables = [each.strip() for each in source[1].split(",")]
            names = [each.split()[-1] for each in tables]
            for name in names:
                for hint in ("BROADCAST", "MERGE", "SHUFFLE_HASH"):
                    hinted = re.sub("SELECT", f"SELECT /*+ {hint}({name}) */", text, count=1)
                    yield Mutant("hint dropped", hinted, text, "hint")
            orders = [tables[::-1], tables[1:] + tables[:1]] if len(tables) > 2 else [tables[::-1]]
            for order in orders:
                swapped = text[: source.start(1)] + "    " + ",\n    ".join(order) + text[source.end(1) :]
                yield Mutant("order of joins", text, swapped, "another order")
        yield Mutant("no broadcasts", text, text, THRESHOLD, {THRESHOLD: "-1"})
        if "orders" in text and "customer" in text and "o_custkey" in text:
            both = [re.sub(r"\b(orders|customer)\b(?!_)", rf"\1_{how}", text) for how in ("bucketed", "plain")]
            yield Mutant("bucketing lost", both[0], both[1], "bucket")


if __name__ == "__main__":
    main()
