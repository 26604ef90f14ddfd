"""Is the task time of operators true? ``python -m bench.task_time --help``.

**Ablation.** Queries run in turns as they are and with a burden in one operator: expressions of growing weight in a
projection, a join's condition or an aggregation; or an operator that is there or not. Each pair of runs is repeated
until the burdened ones have enough samples: one case. By how much the CPU time of the tasks grows (for Python, whose
work is in another process, their run time) is the truth, as a share of the burdened query; it is compared with the
growth of the sampled time of the operator, and of it with the codegen stage that it is part of, where functions hold
several operators.

**TPC-H.** All 22 queries: whether the parts of each stage add up to its run time, and how much of it is one operator's,
that of several operators that share code, or not attributable.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pandas
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf
from tests.exactness import tpch
from tests.spark.sink import Sink, listening

from bench.plugin import run, session
from joinsight.analysis.rows import Rows
from joinsight.demo.workload import settings
from joinsight.tables import TaskTimeRow

CLOSE = 0.05
LEAST = 0.1
"""Burdens of a smaller share are not counted."""
NO_OPERATOR = ("collect", "file_write", "cache_build")
"""What tasks do besides their operators."""
ENOUGH = 20
"""Samples of a stage whose shares are counted."""


@dataclass(frozen=True)
class Burden:
    """A query whose operator gets a burden."""

    name: str
    operators: tuple[str, ...]
    """What the texts of its nodes start with."""
    plain: str
    burdened: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict)
    measure: str = "cpu_time_ns"
    """What the burden takes of the time of stages."""
    is_added: bool = False
    """Whether the operator itself is the burden; all codegen stages of the query are then its own."""


def weighted(name: str, operator: str, query: str, column: str, settings: Mapping[str, str] | None = None) -> Burden:
    """A query with `{}` where the expression is, which hashes 0 to 6 times."""
    queries = []
    expression = f"string({column})"
    for _ in range(7):
        queries.append(query.format(f"crc32({expression})"))
        expression = f"sha2({expression}, 256)"
    return Burden(name, (operator,), queries[0], queries[1::2] + queries[6:], settings or {})


def added(name: str, operator: str, query: str, *kinds: str) -> Burden:
    """A query with `{}` where the operator may be, of several kinds."""
    return Burden(name, (operator,), query.format(""), [query.format(each) for each in kinds], is_added=True)


def called(name: str, operator: str, function: str) -> Burden:
    """A query that may call a Python function."""
    queries = (f"SELECT sum({call}) FROM {FEW}" for call in ("k", f"{function}(k, 0.5D)", f"{function}(k, 2D)"))
    return Burden(name, (operator,), next(queries), list(queries), measure="run_time_ms", is_added=True)


PAIRS = (
    "(SELECT id AS a, id % 7 AS v FROM range(0, 2000000, 1, 2)) JOIN (SELECT id AS b, id % 5 AS w"
    " FROM range(0, 1600000, 1, 2)) ON a = b AND {} <> w"
)
ROWS = "range(0, 3000000, 1, 2)"
TEXTS = f"SELECT sum(double(d)), max(s) FROM (SELECT {{}} hash(id) AS d, string(hash(id)) AS s FROM {ROWS})"
GROUPS = f"SELECT max(n) FROM (SELECT pmod(hash(id), {{}}), count(*) AS n FROM {ROWS} GROUP BY 1)"
FEW = f"(SELECT id % 2000 AS k, max(sha2(string(id), 256)) FROM {ROWS} GROUP BY 1)"


def burdens() -> Iterator[Burden]:
    """All of them."""
    projection = f"SELECT max(x) FROM (SELECT {{}} AS x FROM {ROWS})"
    yield weighted("projection", "Project", projection, "id")
    yield weighted("filter", "Filter", f"SELECT count(*) FROM {ROWS} WHERE {{}} <> 7", "id")
    yield weighted(
        "filter without code",
        "Filter",
        f"SELECT count(*) FROM {ROWS} WHERE reflect('java.lang.Long', 'toString', {{}}) <> '7'",
        "id",
    )
    yield weighted("sort-merge join", "SortMergeJoin", f"SELECT count(*) FROM {PAIRS}", "v + w")
    yield weighted(
        "broadcast join",
        "BroadcastHashJoin",
        f"SELECT count(*) FROM {PAIRS}",
        "v + w",
        {"spark.sql.autoBroadcastJoinThreshold": "64m"},
    )
    yield weighted(
        "aggregation",
        "HashAggregate",
        f"SELECT k, max({{}}) FROM (SELECT id % 7 AS k, id FROM {ROWS}) GROUP BY 1",
        "id",
    )
    yield weighted(
        "aggregation by sorting", "SortAggregate", f"SELECT max(string({{}})) FROM {ROWS} GROUP BY id % 7", "id"
    )
    yield Burden(
        "groups of an aggregation",
        ("HashAggregate", "Exchange hash"),
        GROUPS.format(10),
        [GROUPS.format(n) for n in (30_000, 300_000)],
    )
    yield added(
        "sort",
        "Sort",
        f"SELECT sum(double(d)), max(s) FROM (SELECT hash(id) AS d, string(hash(id)) AS s FROM {ROWS} {{}})",
        "SORT BY s",
        "SORT BY d",
    )
    yield added("exchange by hash", "Exchange hash", TEXTS, "/*+ REPARTITION(4, s) */", "/*+ REPARTITION(50, d) */")
    yield added("exchange in turns", "Exchange RoundRobin", TEXTS, "/*+ REPARTITION(4) */", "/*+ REPARTITION(50) */")
    yield called("Python UDF", "BatchEvalPython", "sleep")
    yield called("pandas UDF", "ArrowEvalPython", "sleep_pandas")


def main() -> None:
    """Run both, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="of the ablation; 0: none")
    parser.add_argument("--interval", default="10ms", help="between samples")
    parser.add_argument("--samples", type=int, default=500, help="of the burdened runs of a case, at least")
    parser.add_argument("--only", help="burdens whose name contains this")
    parser.add_argument("--scale", type=float, default=0.2, help="of TPC-H, 1 is 1 GB; 0: none")
    arguments = parser.parse_args()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if arguments.scale:
        print("\n".join(tpch_table(tpch_rows(arguments))), flush=True)
    if arguments.rounds:
        print("\n".join(ablation_table(ablations(arguments))), flush=True)


def sampled(sink: Sink, settings: Mapping[str, str]) -> SparkSession:
    """A session whose tasks are sampled."""
    return session(sink, {"spark.master": "local[2]", "spark.driver.memory": "3g", **settings})


# Ablation


@dataclass(frozen=True)
class Grown:
    """Shares of the burdened query."""

    truth: float
    operator: float
    with_others: float
    """The share of the operator together with the codegen stages that it is part of."""
    samples: int
    """Samples of the burdened runs."""


def ablations(arguments: argparse.Namespace) -> Mapping[str, Sequence[Grown]]:
    """The growth that each burden causes, by its name."""
    found: dict[str, list[Grown]] = defaultdict(list)
    options = {"spark.joinsight.sampleInterval": arguments.interval, "spark.sql.adaptive.enabled": "false"}
    chosen = [burden for burden in burdens() if not arguments.only or arguments.only in burden.name]
    with listening() as sink:
        spark = sampled(sink, options)
        spark.udf.register("sleep", _sleep, "long")
        spark.udf.register("sleep_pandas", pandas_udf(_sleep_pandas, "long"))
        for number in range(-1, arguments.rounds):
            for burden in chosen:
                with settings(spark, burden.settings):
                    for text in burden.burdened[: 1 if number < 0 else None]:
                        case = Case(burden)
                        while case.samples < (1 if number < 0 else arguments.samples):
                            case.add(*(run(spark, sink, spark.sql(each).collect) for each in (burden.plain, text)))
                        print(f"round {number}, {burden.name}: {case.samples} samples", file=sys.stderr, flush=True)
                        if number >= 0:  # the first round compiles
                            found[burden.name].append(case.grown())
        spark.stop()
    for name, grown in found.items():
        print(f"{name}: {grown}", file=sys.stderr)
    return found


def _sleep(value: int, ms: float) -> int:
    time.sleep(float(ms) / 1000)
    return value


def _sleep_pandas(values: pandas.Series, ms: pandas.Series) -> pandas.Series:
    time.sleep(float(ms.sum()) / 1000)
    return values


class Case:
    """Runs of a query without and with a burden, in turns."""

    def __init__(self, burden: Burden) -> None:
        self.burden = burden
        self.samples = 0
        self._measured = [0.0, 0.0]
        self._task_time: list[Counter[str]] = [Counter(), Counter()]

    def add(self, *runs: Rows) -> None:
        """Add a run of each."""
        for side, rows in enumerate(runs):
            self._measured[side] += _measure(self.burden, rows)
            self._task_time[side].update(_task_time(self.burden, rows))
        self.samples += sum(row.samples or 0 for row in runs[1].task_time)

    def grown(self) -> Grown:
        """How much the query and the operator have grown."""
        was, now = self._measured

        def share(of: str) -> float:
            before, after = (each[of] / each["all"] for each in self._task_time)
            return (after * now - before * was) / now

        return Grown((now - was) / now, share("operator"), share("with others"), self.samples)


def _measure(burden: Burden, rows: Rows) -> float:
    return float(sum(getattr(stage.totals, burden.measure) for stage in rows.stage if stage.totals))


def _task_time(burden: Burden, rows: Rows) -> Mapping[str, int]:
    """Milliseconds of the operator; of it with its codegen stages; and of all."""
    its = [row for row in rows.plan_node if not row.is_cluster and (row.simple or "").startswith(burden.operators)]
    alone = {row.node_id for row in its}
    codegen = {row.cluster_id for row in (rows.plan_node if burden.is_added else its)} - {None}
    around = alone | codegen | {row.node_id for row in rows.plan_node if row.cluster_id in codegen}
    return {
        "operator": sum(row.task_time_ms for row in rows.task_time if row.node_id in alone),
        "with others": sum(row.task_time_ms for row in rows.task_time if row.node_id in around),
        "all": sum(row.task_time_ms for row in rows.task_time),
    }


def ablation_table(found: Mapping[str, Sequence[Grown]]) -> Iterator[str]:
    """A line for each burden, and one for all."""
    cases = f"cases of {LEAST:.0%} or more"
    yield f"| burden | {cases} | their shares | samples | of the operator | of its codegen stage, too |"
    yield "|---|---|---|---|---|---|"
    counted = {name: [each for each in grown if each.truth >= LEAST] for name, grown in found.items()}
    for name, grown in {**counted, "all": [each for cases in counted.values() for each in cases]}.items():
        if grown:
            shares = f"{min(each.truth for each in grown):.0%} to {max(each.truth for each in grown):.0%}"
            operator = _closeness([each.operator - each.truth for each in grown])
            with_others = _closeness([each.with_others - each.truth for each in grown])
            samples = f"{min(each.samples for each in grown)} to {max(each.samples for each in grown)}"
            yield f"| {name} | {len(grown)} | {shares} | {samples} | {operator} | {with_others} |"


def _closeness(differences: Sequence[float]) -> str:
    close = sum(abs(each) <= CLOSE for each in differences)
    apart = sorted((100 * each for each in differences), key=abs)
    return f"{close} within 5 points; median {statistics.median(map(abs, apart)):.1f}, worst {apart[-1]:+.1f}"


# TPC-H


def tpch_rows(arguments: argparse.Namespace) -> Mapping[str, Rows]:
    """The rows of the queries of their second run, by number."""
    with tempfile.TemporaryDirectory() as name, listening() as sink:
        folder = Path(name)
        tpch.generate(folder, arguments.scale)
        settings = {
            "spark.joinsight.sampleInterval": arguments.interval,
            "spark.sql.autoBroadcastJoinThreshold": "10m",
            "spark.sql.shuffle.partitions": "8",
        }
        spark = sampled(sink, settings)
        for table in tpch.TABLES:
            spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
        found = {}
        for number, text in tpch.read_queries(folder).items():
            for _ in range(2):  # the first one compiles
                found[number] = run(spark, sink, spark.sql(text).collect)
        spark.stop()
    return found


def tpch_table(queries: Mapping[str, Rows]) -> Iterator[str]:
    """The task time by kind, by query and in all."""
    yield "| query | task time, s | samples | one operator | several in one function | no operator | not attributable |"
    yield "|---|---|---|---|---|---|---|"
    parts: Counter[str] = Counter()
    of_stages, wrong, stages = [], 0, 0
    for number, rows in queries.items():
        clusters = {row.node_id for row in rows.plan_node if row.is_cluster}
        spent: Counter[str] = Counter()
        by_stage: dict[tuple[int, int], list[TaskTimeRow]] = defaultdict(list)
        for row in rows.task_time:
            kind = _kind(row, clusters)
            spent[kind] += row.task_time_ms
            by_stage[row.stage_id, row.stage_attempt].append(row)
            if kind == "none":
                parts[row.part] += row.task_time_ms
        yield _shares_line(number, spent, sum(row.samples or 0 for row in rows.task_time))
        for stage in rows.stage:
            if stage.totals is None:
                continue
            its = by_stage[stage.stage_id, stage.stage_attempt]
            stages += 1
            wrong += sum(row.task_time_ms for row in its) != stage.totals.run_time_ms
            if sum(row.samples or 0 for row in its) >= ENOUGH:
                missing = sum(row.task_time_ms for row in its if _kind(row, clusters) == "none")
                of_stages.append(missing / stage.totals.run_time_ms)
    yield ""
    yield f"{stages} stages, of which {wrong} do not add up to their run time"
    found = statistics.quantiles(of_stages, n=4) if len(of_stages) > 1 else of_stages
    quartiles = ", ".join(f"{share:.1%}" for share in found)
    yield f"{len(of_stages)} stages with at least {ENOUGH} samples: not attributable, quartiles: {quartiles}"
    yield f"what is not attributable, ms: {dict(parts.most_common())}"


def _kind(row: TaskTimeRow, clusters: set[int]) -> str:
    if row.node_id is not None:
        return "several" if row.node_id in clusters else "operator"
    return "activity" if row.part in NO_OPERATOR else "none"


def _shares_line(name: str, spent: Counter[str], samples: int) -> str:
    total = spent.total()
    shares = " | ".join(f"{spent[kind] / total:.1%}" for kind in ("operator", "several", "activity", "none"))
    return f"| {name} | {total / 1000:.1f} | {samples} | {shares} |"


if __name__ == "__main__":
    main()
