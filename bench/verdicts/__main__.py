"""Does Joinsight say what is wrong with a query? ``python -m bench.verdicts --help``.

**Scenarios** (`scenarios`). Queries in which exactly one thing is wrong run on real Spark with the listener attached,
in three sizes, in turns with the same query repaired. What is wrong, and with which operator, is known from how the
query was made; how much of its wall time that takes is measured: it is what the repaired query takes less. **Healthy
queries** (`healthy`): TPC-H at two scales, and ordinary small ETL. Their documents, as the listener sends them, and
labels are kept in `--to`: what is there is not recorded again.

**Score.** The documents are stored in a database, and `joinsight verdict` and `joinsight findings` are asked about
each. The first lines name what is not as the label says.
"""

from __future__ import annotations

import argparse
import os
import platform
from datetime import date
from pathlib import Path

import pyspark

from bench.verdicts import asked, dataframes, healthy, own_work, reported  # noqa: F401
from bench.verdicts.record import record, run
from bench.verdicts.scenarios import SCENARIOS, SIZES
from bench.verdicts.score import score

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=2, help="runs of each query and of its twin")
    parser.add_argument(
        "--to", type=Path, default=ROOT / "build" / "bench" / "verdicts", help="folder of the recordings"
    )
    parser.add_argument("--score", action="store_true", help="record nothing")
    parser.add_argument("--run", nargs="*", help=argparse.SUPPRESS)  # name:size, in this process
    parser.add_argument("--repaired", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    healthy.register()
    arguments.to.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        cases = [(name, size) for name, _, size in (each.partition(":") for each in arguments.run)]
        run(arguments.to, cases, arguments.rounds, arguments.repaired)
        return
    cases = [
        (name, size)
        for size in arguments.sizes
        for name, scenario in SCENARIOS.items()
        if arguments.only in name and size in scenario.sizes
    ]
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"Spark {pyspark.__version__}, {len(cases)} cases", flush=True)
    if not arguments.score:
        record(arguments.to, cases, arguments.rounds)
    score(arguments.to, cases)


if __name__ == "__main__":
    main()
