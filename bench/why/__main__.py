"""Records pairs of runs, and scores the causes that `joinsight why` names. A file with pairs is only scored."""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from tests.spark.sink import Sink

from bench.plugin import executed
from bench.verdicts.record import session
from bench.why.plants import BASE, PLANTS, Case, Plant, base_of, changed_of, make_tables
from bench.why.score import Pair, score
from joinsight.contract.document import Execution


def record(file: Path, sizes: list[int], rounds: int, only: str) -> None:
    """Run all plants in all sizes, and write the pairs, the unchanged ones, too."""
    plants = {name: plant for name, plant in PLANTS.items() if only in name}
    with gzip.open(file, "wb") as out, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {**BASE, "spark.master": "local[2]"}
        spark, sink = stack.enter_context(session(settings, folder))
        for size in sizes:
            case = Case(spark, folder, size)
            make_tables(case)
            for name, plant in plants.items():
                for pair in _pairs(case, sink, name, plant, rounds):
                    out.write(msgspec.json.encode(pair) + b"\n")
                    out.flush()


def _pairs(case: Case, sink: Sink, name: str, plant: Plant, rounds: int) -> Iterator[Pair]:
    bases: list[Execution] = []
    changed: list[Execution] = []
    for number in range(-1, rounds):
        e = executed(case.spark, sink, base_of(case, plant))
        with _settings(case.spark, plant), plant.meanwhile(case):
            other = executed(case.spark, sink, changed_of(case, plant))
        if number >= 0:
            bases.append(e)
            changed.append(other)
    earlier = [_wall(e) for e in bases]
    for i, (a, b) in enumerate(zip(bases, changed, strict=True)):
        yield Pair(name, case.size, list(plant.codes), a, b, earlier)
        if i:
            yield Pair(name, case.size, [], bases[i - 1], a, earlier)
    print(f"{name}, size {case.size}: {earlier} ms, changed {[_wall(e) for e in changed]} ms", flush=True)


def _wall(e: Execution) -> int:
    return (e.ended_at_ms or 0) - e.started_at_ms


@contextmanager
def _settings(spark: SparkSession, plant: Plant) -> Iterator[None]:
    for key, value in plant.conf.items():
        spark.conf.set(key, value)
    yield
    for key in plant.conf:
        spark.conf.set(key, BASE[key])


def main() -> None:
    """Record what is not recorded, and score it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="keeps the pairs, or has them")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4], help="of the data (default: 1 2 4)")
    parser.add_argument("--rounds", type=int, default=4, help="of each plant (default: 4)")
    parser.add_argument("--only", default="", help="plants whose names have this")
    parser.add_argument("--verbose", action="store_true", help="print what is wrong")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.file or Path(folder, "pairs.ndjson.gz")
        if not file.exists():
            record(file, arguments.sizes, arguments.rounds, arguments.only)
        for line in score(file, is_verbose=arguments.verbose):
            print(line)


if __name__ == "__main__":
    main()
