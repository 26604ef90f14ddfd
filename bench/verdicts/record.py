"""Runs scenarios on real Spark, and records their documents and labels: ``python -m bench.verdicts --help``."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pyspark
from pyspark.sql import SparkSession
from tests.spark.sink import Sink, listening
from tests.standalone import standalone
from tests.waiting import until

import joinsight
from bench.verdicts.scenarios import SCENARIOS, SIZES, Case, Planted, Run, Scenario
from joinsight.analysis.rows import execution_rows
from joinsight.contract.decode import decode_document
from joinsight.contract.document import ENDED, Execution
from joinsight.demo.workload import settings

TOGETHER = 12
"""Cases in an application."""
HEALTHY = "healthy"
MARKER = "end of the case"
OTHER = "other"
DEFAULTS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.joinsight.spool": "none",
}


def record(folder: Path, cases: Sequence[tuple[str, str]], rounds: int) -> None:
    """Record the cases that are not in the folder, some of each code first."""
    missing = [case for case in cases if not (folder / "-".join(case)).with_suffix(".json").exists()]
    for group in _groups(missing):
        options = ("--to", str(folder), "--rounds", str(rounds), "--run", *map(":".join, group))
        command = [sys.executable, "-m", "bench.verdicts", *options]
        process = subprocess.run(command, check=False)
        if SCENARIOS[group[0][0]].repaired_settings and not process.returncode:
            subprocess.run([*command, "--repaired"], check=False)


def _groups(cases: Sequence[tuple[str, str]]) -> Sequence[Sequence[tuple[str, str]]]:
    """Cases that share an application."""
    by_code: dict[str, list[tuple[str, str]]] = {}
    for name, size in cases:
        by_code.setdefault(SCENARIOS[name].codes[0], []).append((name, size))
    healthy = by_code.pop(HEALTHY, [])
    groups: list[list[tuple[str, str]]] = []
    open_groups: dict[object, list[tuple[str, str]]] = {}
    for case in (*(case for some in zip_longest(*by_code.values()) for case in some if case), *healthy):
        key = SCENARIOS[case[0]].application
        if key not in open_groups or len(open_groups[key]) == TOGETHER:
            open_groups[key] = []
            groups.append(open_groups[key])
        open_groups[key].append(case)
    return groups


def run(folder: Path, cases: Sequence[tuple[str, str]], rounds: int, is_repaired: bool) -> None:
    """Run cases in this process; `is_repaired`: only their twins, which have other settings."""
    first = SCENARIOS[cases[0][0]]
    options = {**first.settings, **(first.repaired_settings if is_repaired else {})}
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        if first.hosts:
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
            home = Path(pyspark.__file__).parent
            cluster = standalone(home, Path(name), environment, [f"127.0.0.{1 + i}" for i in range(first.hosts)])
            options["spark.master"] = stack.enter_context(cluster).url
        spark, sink = stack.enter_context(session(options, Path(name)))
        spark.range(0, 1_000, 1, 2).selectExpr("id % 7 AS k").groupBy("k").count().collect()
        for scenario, size in cases:
            data = Path(name, "data")
            data.mkdir()
            started = time.monotonic()
            try:
                _Recording(spark, sink, SCENARIOS[scenario], size, data, Path(name), folder).run(rounds, is_repaired)
            except Exception:
                traceback.print_exc()
                print(f"FAILED {scenario} {size}", flush=True)
            shutil.rmtree(data)
            print(f"{scenario} {size}: {time.monotonic() - started:.0f} s in all", flush=True)


@contextmanager
def session(options: Mapping[str, str], folder: Path) -> Iterator[tuple[SparkSession, Sink]]:
    """A session that is attached as README says, and what takes its documents."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with listening() as sink:
        builder = SparkSession.builder.appName("verdicts")
        builder = builder.config(map={**DEFAULTS, "spark.sql.warehouse.dir": str(folder / "warehouse"), **options})
        spark = joinsight.attach(builder, url=sink.url).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        yield spark, sink
        spark.stop()


class _Recording:
    def __init__(
        self, spark: SparkSession, sink: Sink, scenario: Scenario, size: str, data: Path, shared: Path, folder: Path
    ) -> None:
        self._spark, self._sink, self._scenario, self._size = spark, sink, scenario, size
        self._stem = folder / f"{scenario.name}-{size}"
        self._case = Case(spark, data, shared, SIZES[size])

    def run(self, rounds: int, is_repaired: bool) -> None:
        with settings(self._spark, self._scenario.conf):
            planted = self._scenario.make(self._case)
            if is_repaired:
                self._add_twin(planted, rounds)
                return
            before: list[bytes] = []
            is_apart = bool(self._scenario.repaired_settings)
            runs: list[tuple[list[bytes], Execution]] = []
            twins: list[int] = []
            if planted.before:
                before, _ = self._documents(planted.before)
            elif is_apart:
                planted.run()  # compiles, as the twin does
            elif planted.repaired and rounds > 1:
                self._twin(planted.repaired)
            for _ in range(rounds):
                runs.append(self._documents(planted.run))
                if planted.settle:
                    planted.settle()
                if planted.repaired and not is_apart and not (planted.settle and twins):
                    twins.append(self._twin(planted.repaired))
                if planted.settle:
                    break
            self._write(before, runs, twins)

    def _add_twin(self, planted: Planted, rounds: int) -> None:
        assert planted.repaired is not None
        if planted.before:
            planted.before()
        twins = [self._twin(planted.repaired) for _ in range(rounds + 1)][1:]
        path = self._stem.with_suffix(".json")
        label = json.loads(path.read_text())
        _add_twins(label, twins)
        path.write_text(json.dumps(label, indent=1) + "\n")

    def _twin(self, repaired: Run) -> int:
        with settings(self._spark, self._scenario.repaired_conf):
            _, execution = self._documents(repaired)
        return _duration(execution)

    def _documents(self, what: Run) -> tuple[list[bytes], Execution]:
        """Run it; returns the application's and its last documents, and the longest execution that is not another's."""
        spark, sink = self._spark, self._sink
        start = int(1000 * time.time()) - 1
        what()
        spark.sparkContext.setJobDescription(MARKER)
        spark.range(1).collect()
        spark.sparkContext.setJobDescription(None)
        found: dict[int, dict[str, Any]] = {}
        applications: list[dict[str, Any]] = []

        def arrived() -> bool:
            applications[:] = [each for each in sink.taken() if each["kind"] == "application"]
            for each in sink.taken():
                if each["kind"] == "execution" and each["started_at_ms"] >= start:
                    known = found.get(each["execution_id"])
                    if known is None or each["sequence"] > known["sequence"]:
                        found[each["execution_id"]] = each
            is_over = any(each.get("description") == MARKER and each["state"] in ENDED for each in found.values())
            return is_over and all(each["state"] in ENDED for each in found.values())

        until(arrived, "the documents of a run")
        del sink.requests[1:]  # the first one has the application
        documents = [found[id] for id in sorted(found) if found[id].get("description") != MARKER]
        executions = [decode_document(msgspec.json.encode(each)) for each in documents]
        own = [each for each in executions if isinstance(each, Execution) and each.description != OTHER]
        longest = max(own, key=lambda each: (_duration(each), -each.execution_id))
        return [msgspec.json.encode(each) for each in (*applications[:1], *documents)], longest

    def _write(self, before: list[bytes], runs: Sequence[tuple[list[bytes], Execution]], twins: Sequence[int]) -> None:
        documents, execution = runs[-1]
        rows = execution_rows(execution)
        operators = [
            (node, text)
            for node, text in self._scenario.operators
            if any(row.name.startswith(node) and text in (row.simple or "") for row in rows.plan_node)
        ]
        if self._scenario.operators and not operators:
            plan = [f"{row.name}: {row.simple}" for row in rows.plan_node]
            raise ValueError(f"no operator of {self._scenario.operators} in {plan}")
        label: dict[str, Any] = {
            "scenario": self._scenario.name,
            "size": self._size,
            "codes": self._scenario.codes,
            "operators": [{"node": node, "contains": text} for node, text in operators],
            "application_id": execution.application_id,
            "execution_id": execution.execution_id,
            "wall_ms": _duration(execution),
            "wall_ms_runs": [_duration(each) for _, each in runs],
            "load": os.getloadavg()[0],
        }
        _add_twins(label, twins)
        self._stem.with_suffix(".ndjson").write_bytes(b"".join(line + b"\n" for line in (*before, *documents)))
        self._stem.with_suffix(".json").write_text(json.dumps(label, indent=1) + "\n")
        print(json.dumps(label), flush=True)


def _duration(execution: Execution) -> int:
    assert execution.ended_at_ms is not None
    return execution.ended_at_ms - execution.started_at_ms


def _add_twins(label: dict[str, Any], twins: Sequence[int]) -> None:
    if twins:
        wall = statistics.median(label["wall_ms_runs"])
        repaired = statistics.median(twins)
        label["repaired_ms"] = twins
        label["saved_ms"] = wall - repaired
        label["planted_share"] = round(max(0.0, 1 - repaired / wall), 3)
