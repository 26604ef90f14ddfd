"""Records runs of queries, some with a change that is planted, and scores the causes that `joinsight why` names.

What is missing in the file is recorded, so that it can be ended and continued: a session after the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.why.record import record
from bench.why.score import report


def main() -> None:
    """Record what is missing, and score all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="keeps the runs, or has them")
    parser.add_argument("--data", type=Path, help="keeps the tables, for the next time")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 3], help="of the data (default: 1 2 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of each plant (default: 3)")
    parser.add_argument("--only", default="", help="plants whose names have this")
    parser.add_argument("--minutes", type=float, default=1_000, help="after which nothing more is begun")
    parser.add_argument("--no-record", action="store_true", help="only score")
    parser.add_argument("--verbose", action="store_true", help="print what is wrong")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, data = arguments.file or Path(folder, "runs.ndjson.gz"), arguments.data or Path(folder, "data")
        if not arguments.no_record:
            data.mkdir(parents=True, exist_ok=True)
            until_s = time.monotonic() + 60 * arguments.minutes
            record(file, data, arguments.sizes, arguments.rounds, arguments.only, until_s)
        for line in report(file, is_verbose=arguments.verbose):
            print(line)


if __name__ == "__main__":
    main()
