"""Does the replay of an execution take as long as the execution did? ``python -m bench.replay --help``.

The 22 queries of TPC-H run on 2 and on 4 slots, with and without AQE, once alone and once with another process that
takes CPU. What is stored of each run is replayed.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path

import msgspec
from tests.documents import read_back
from tests.exactness import tpch

from bench.hogs import hogs
from bench.plugin import executed
from bench.verdicts.record import session
from joinsight.analysis.replay import Recording
from joinsight.contract.document import Execution


class Run(msgspec.Struct, frozen=True):
    """A run of a query, with how it was run."""

    query: str
    slots: int
    is_adaptive: bool
    is_loaded: bool
    document: Execution


def settings(slots: int, is_adaptive: bool) -> dict[str, str]:
    """Those of an application."""
    return {
        "spark.master": f"local[{slots}]",
        "spark.driver.memory": "3g",
        "spark.sql.adaptive.enabled": str(is_adaptive).lower(),
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.autoBroadcastJoinThreshold": "1m",
    }


def record(path: Path, data: Path, rounds: int, most: int) -> None:
    """Run all, and write the runs to a file."""
    queries = dict(list(tpch.read_queries(data).items())[:most])
    with gzip.open(path, "wb") as file:
        for slots, is_adaptive in ((2, True), (4, True), (2, False), (4, False)):
            for run in _runs(slots, is_adaptive, data, queries, rounds):
                file.write(msgspec.json.encode(run) + b"\n")


def _runs(slots: int, is_adaptive: bool, data: Path, queries: Mapping[str, str], rounds: int) -> Iterator[Run]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark, sink = stack.enter_context(session(settings(slots, is_adaptive), folder))
        for table in tpch.TABLES:
            spark.read.parquet(str(data / f"{table}.parquet")).createOrReplaceTempView(table)
        for number in range(rounds):
            is_loaded = number % 2 == 1
            for name, text in queries.items():
                with hogs(1) if is_loaded else nullcontext():
                    e = executed(spark, sink, spark.sql(text).collect)
                yield Run(name, slots, is_adaptive, is_loaded, e)


def score(path: Path) -> None:
    """Print how far the replays are from the runs."""
    errors: dict[str, list[float]] = defaultdict(list)
    with gzip.open(path) as file:
        for run in (msgspec.json.decode(line, type=Run) for line in file):
            stored = read_back(run.document)
            recording = Recording(stored.execution, stored.stages, run.slots)
            error = abs(recording.replay.wall_ms() / recording.wall_ms - 1)
            kinds = (f"{run.slots} slots", "AQE" if run.is_adaptive else "without AQE")
            for kind in (*kinds, "under load" if run.is_loaded else "alone", "all"):
                errors[kind].append(error)
    for kind, its in sorted(errors.items()):
        late = sorted(its)[len(its) * 9 // 10]
        print(f"{kind}: {len(its)} runs, off by {statistics.median(its):.1%}, p90 {late:.1%}, worst {max(its):.1%}")


def main() -> None:
    """Record the runs unless the file is there, and score them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.3, help="of TPC-H (default: 0.3)")
    parser.add_argument("--rounds", type=int, default=2, help="every second one under load (default: 2)")
    parser.add_argument("--queries", type=int, default=22, help="the first of them (default: 22)")
    parser.add_argument("--file", type=Path, help="keeps the runs, or has them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file or Path(folder, "runs.ndjson.gz")
        if not path.exists():
            tpch.generate(Path(folder, "tpch"), arguments.scale)
            record(path, Path(folder, "tpch"), arguments.rounds, arguments.queries)
        score(path)


if __name__ == "__main__":
    main()
