"""Runs bases and plants on real Spark, and appends what a file lacks, a run a line: it can be ended any time."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pyspark
from pyspark.sql import SparkSession
from tests.java import end_java
from tests.spark.sink import Sink, listening
from tests.standalone import standalone

from bench.plugin import compiled, executed, session
from bench.why.plants import BASES, PLANTS, SESSIONS, SETTINGS, Case, base_of, changed_of, make_tables, planted
from joinsight.contract.document import Execution

_WARM = 2
"""Runs of each base that a new JVM makes first."""


class Run(msgspec.Struct, frozen=True):
    """A run of a base, or with what is planted in it."""

    base: str
    plant: str
    """Empty: nothing is planted. The base was run just before it."""
    beside: str
    """The plant for which an unchanged run was made; its own for others."""
    size: int
    round: int
    settings: dict[str, str]
    """Those of the application."""
    load: float
    """That of the machine, before it."""
    execution: Execution

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.plant, self.beside, self.size, self.round

    @property
    def wall_ms(self) -> int:
        return (self.execution.ended_at_ms or 0) - self.execution.started_at_ms


def read(file: Path) -> list[Run]:
    """All runs of a file; none if there is no file. What was written in part is left out."""
    found = []
    if file.exists():
        with gzip.open(file) as lines:
            try:
                found += [msgspec.json.decode(line, type=Run) for line in lines]
            except (EOFError, msgspec.DecodeError):
                print("the last run was written in part", file=sys.stderr)
    return found


def record(file: Path, data: Path, sizes: list[int], rounds: int, only: str, until_s: float) -> None:
    """Append the runs that the file lacks; those of a session together."""
    for name in SESSIONS:
        if time.monotonic() < until_s:
            missing = _missing(file, name, sizes, rounds, only)
            if missing:
                _Recording(file, data, name).run(missing, until_s)


def _missing(file: Path, session: str, sizes: list[int], rounds: int, only: str) -> list[tuple[str, int, int]]:
    """Plants whose runs are missing, each with its size and round."""
    known = {run.key for run in read(file)}
    every = [(plant, size, number) for number in range(rounds) for size in sizes for plant in PLANTS if only in plant]
    own = [each for each in every if session in (PLANTS[each[0]].session, BASES[PLANTS[each[0]].base].session)]
    return [each for each in own if any((plant, *each) not in known for plant in _plants(session, each[0]))]


def _plants(session: str, beside: str) -> list[str]:
    """What runs in a session for a plant: its base, the plant, or both."""
    plant = PLANTS[beside]
    base = BASES[plant.base]
    return [""] * (base.session == session) + [beside] * ((plant.session or base.session) == session)


class _Recording:
    def __init__(self, file: Path, data: Path, session: str) -> None:
        self._file, self._data, self._session = file, data, session

    def run(self, missing: list[tuple[str, int, int]], until_s: float) -> None:
        known = {run.key for run in read(self._file)}
        with self._spark() as (spark, sink, settings), self._file.open("ab") as out:
            spark.udf.register("same", lambda key: key, "long")
            warm: set[tuple[str, int]] = set()
            for beside, size, number in missing:
                if time.monotonic() > until_s:
                    return
                case, plant = Case(spark, self._data, size), PLANTS[beside]
                make_tables(case)
                if (plant.base, size) not in warm:
                    for _ in range(_WARM):
                        self._executed(case, sink, beside, "")
                    warm.add((plant.base, size))
                for name in _plants(self._session, beside):
                    if (name, beside, size, number) in known:
                        continue
                    load = os.getloadavg()[0]
                    execution = self._executed(case, sink, beside, name)
                    run = Run(plant.base, name, beside, size, number, settings, load, execution)
                    out.write(gzip.compress(msgspec.json.encode(run) + b"\n"))
                    out.flush()
                    print(f"{name or plant.base}, size {size}: {run.wall_ms:,} ms, load {load:.1f}", flush=True)
                if beside == "lost executor":
                    self._executed(case, sink, beside, "")  # in the new JVM

    def _executed(self, case: Case, sink: Sink, beside: str, name: str) -> Execution:
        plant = PLANTS[beside]
        base = BASES[plant.base]
        own = plant.conf if name else {}
        for key, value in {**SETTINGS, **SESSIONS[self._session].conf, **base.conf, **own}.items():
            case.spark.conf.set(key, value)
        if not name:
            return executed(case.spark, sink, base_of(case, base))
        query = changed_of(case, plant)
        with planted(case, plant):
            return executed(case.spark, sink, query)

    @contextmanager
    def _spark(self) -> Iterator[tuple[SparkSession, Sink, dict[str, str]]]:
        its = SESSIONS[self._session]
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            sink = stack.enter_context(listening())
            settings: Mapping[str, str] = {**its.settings, "spark.sql.warehouse.dir": str(folder / "warehouse")}
            classes = ""
            if its.hosts:
                environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
                home, hosts = Path(pyspark.__file__).parent, [f"127.0.0.{1 + i}" for i in range(its.hosts)]
                cluster = stack.enter_context(standalone(home, folder, environment, hosts))
                local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
                settings = {**settings, "spark.master": cluster.url, **local, "spark.jars": _jar()}
            else:
                classes = compiled("Slow", folder / "classes")
            stack.callback(end_java)
            spark = session(sink, settings, classes)
            stack.callback(spark.stop)
            spark.sparkContext.setLogLevel("OFF" if its.hosts else "ERROR")
            yield spark, sink, dict(its.settings)


def _jar() -> str:
    from joinsight.driver.attach import listener_jar

    return str(listener_jar())
