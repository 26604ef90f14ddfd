"""Does an execution take as long on other slots as predicted? ``python -m bench.what_if --help``.

Queries whose tasks mostly sleep run on 2, 4 and 8 slots, so that slots matter and cores do not. From a run it is
predicted how long the query takes on the other numbers of slots (`joinsight what-if --slots`), and compared with how
long it took: the medians of some rounds, each of which runs all queries on all slots.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path

from tests.documents import read_back

from bench.plugin import executed
from bench.verdicts.record import session
from joinsight.analysis.stored import StoredPlan
from joinsight.contract.document import Execution
from joinsight.why.what_if import more_slots

SLOTS = (2, 4, 8)
SETTINGS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "12",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def sleeping(column: str, ms: str) -> str:
    """A column, after some milliseconds a row."""
    return f"if(reflect('java.lang.Thread', 'sleep', cast({ms} AS bigint)) = '', NULL, {column})"


def _side(tasks: int, ms: str) -> str:
    """Rows of which each is a task."""
    return f"(SELECT {sleeping('id', ms)} AS k FROM range(0, {tasks}, 1, {tasks}))"


QUERIES: Mapping[str, str] = {
    "even": f"SELECT sum(k) FROM {_side(24, '400')}",
    "one wave": f"SELECT sum(k) FROM {_side(4, '2000')}",
    "seven tasks": f"SELECT sum(k) FROM {_side(7, '1200')}",
    "short tasks": f"SELECT sum(k) FROM {_side(80, '100')}",
    "skewed": f"SELECT sum(k) FROM {_side(16, 'if(id = 0, 3000, 300)')}",
    "skewed, late": f"SELECT sum(k) FROM {_side(16, 'if(id = 15, 3000, 300)')}",
    "growing": f"SELECT sum(k) FROM {_side(20, '40 * id')}",
    "two stages": f"SELECT count(k) FROM (SELECT {sleeping('k', '100')} AS k FROM"
    f" (SELECT k % 60 AS k, count(*) FROM {_side(12, '300')} GROUP BY 1))",
    "join": f"SELECT count(*) FROM {_side(10, '400')} JOIN {_side(6, '700')} USING (k)",
    "join of unequal sides": f"SELECT count(*) FROM {_side(2, '2500')} JOIN {_side(16, '200')} USING (k)",
    "three sides": f"SELECT count(*) FROM {_side(6, '500')} JOIN {_side(3, '1000')} USING (k)"
    f" JOIN {_side(8, '300')} USING (k)",
    "union": f"SELECT sum(k) FROM (SELECT k FROM {_side(9, '400')} UNION ALL SELECT k FROM {_side(3, '1500')})",
}


def runs(rounds: int) -> Mapping[tuple[str, int], Sequence[Execution]]:
    """By query and slots, the runs of some rounds, after one that does not count."""
    found: dict[tuple[str, int], list[Execution]] = defaultdict(list)
    for number in range(-1, rounds):
        for slots in SLOTS:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                settings = {**SETTINGS, "spark.master": f"local[{slots}]"}
                spark, sink = stack.enter_context(session(settings, folder))
                spark.range(1).collect()
                for name, text in QUERIES.items():
                    e = executed(spark, sink, spark.sql(text).collect)
                    if number >= 0:
                        found[name, slots].append(e)
    return found


def predictions(rounds: int) -> Iterator[tuple[str, int, int, StoredPlan, int]]:
    """Query, slots of the run, slots of the prediction, the run of median duration, and what it took on the others."""
    found = runs(rounds)
    middle = {
        key: sorted(its, key=lambda e: (e.ended_at_ms or 0) - e.started_at_ms)[len(its) // 2]
        for key, its in found.items()
    }
    for name in QUERIES:
        for known, other in permutations(SLOTS, 2):
            e = middle[name, other]
            yield (
                name,
                known,
                other,
                read_back(middle[name, known]),
                (e.ended_at_ms or 0) - e.started_at_ms,
            )


def main() -> None:
    """Run all, and print a line for each prediction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="after one that does not count (default: 3)")
    arguments = parser.parse_args()
    errors: dict[str, list[float]] = defaultdict(list)
    within = []
    for name, known, other, stored, took in predictions(arguments.rounds):
        found = more_slots(stored, other)
        error = found.predicted_ms / took - 1
        for kind in (f"{known} to {other} slots", "all"):
            errors[kind].append(abs(error))
        within.append(found.low_ms <= took <= found.high_ms)
        print(
            f"{name}: {known} slots {found.measured_ms:,} ms, {other} slots {took:,} ms,"
            f" predicted {found.predicted_ms:,} ms ({found.low_ms:,} to {found.high_ms:,}): {error:+.1%}",
            flush=True,
        )
    for kind, its in errors.items():
        print(f"{kind}: {len(its)} predictions, off by {statistics.median(its):.1%}, worst {max(its):.1%}")
    print(f"within the interval: {sum(within) / len(within):.0%}")


if __name__ == "__main__":
    main()
