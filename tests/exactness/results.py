"""How many values were compared with Spark's, by version: the tables in ``docs/exactness.md``.

``make exactness`` runs all of `test_exactness`, each of which records its numbers in ``results.json``, and writes the
tables.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from itertools import groupby, product
from pathlib import Path
from typing import Any

from tests.exactness.compare import RULES, Comparison

from joinsight.base.generated import rewrite

FILE = Path(__file__).with_name("results.json")
RECORD = "JOINSIGHT_RECORD_EXACTNESS"
"""The environment variable that has tests record their numbers."""
_WORKLOADS = {"semantics": "plans", "tpch": "TPC-H"}
"""Those in the tables: the name of each, and what it is called."""
_LABELS = {"live": "live", "log": "event log", "live and log": "live and event log"}


def record(truth: Mapping[str, Any], workload: str, compared: Mapping[str, Comparison]) -> None:
    """Replace the numbers of this version and workload, if they are to be recorded."""
    if workload not in _WORKLOADS or not os.environ.get(RECORD):
        return
    run = {
        **{"spark": truth["spark_version"], "scala": truth["scala_version"], "java": truth["java_version"]},
        **{"workload": workload, "date": f"{datetime.now(timezone.utc):%Y-%m-%d}"},
        "executions": len(truth["live"]["executions"]),
        **{
            name: {"compared": each.compared, "equal": each.equal, "allowed": dict(+each.allowed)}
            for name, each in compared.items()
        },
    }
    with FILE.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        runs = [each for each in json.loads(file.read() or "[]") if _key(each) != _key(run)]
        file.truncate(0)
        lines = ",\n".join(json.dumps(each) for each in sorted([*runs, run], key=_key))
        file.write(f"[\n{lines}\n]\n")


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return [int(part) for part in run["spark"].split(".")], run["workload"]


def _by_version() -> dict[str, list[dict[str, Any]]]:
    """The runs of each version, the newest first."""
    runs = json.loads(FILE.read_text())
    versions = {version: [*its_runs] for version, its_runs in groupby(runs, key=lambda run: run["spark"])}
    return dict(reversed(versions.items()))


def table() -> Iterator[str]:
    """A row for each version."""
    yield f"| Spark | Scala | Java | date | workloads | executions | {' | '.join(_LABELS.values())} |"
    yield f"|---|---|---|---|---|---|{'---|' * len(_LABELS)}"
    for its_runs in _by_version().values():
        last = its_runs[-1]
        cells = [last["spark"], last["scala"], last["java"], max(run["date"] for run in its_runs)]
        cells.append(", ".join(_WORKLOADS[run["workload"]] for run in its_runs))
        cells.append(f"{sum(run['executions'] for run in its_runs):,}")
        for name in _LABELS:
            equal, compared = (sum(run[name][key] for run in its_runs) for key in ("equal", "compared"))
            cells.append(f"{equal:,} of {compared:,}")
        yield f"| {' | '.join(cells)} |"


def allowed_table() -> Iterator[str]:
    """A row for each rule about what may differ, with its number in each version."""
    versions = _by_version()
    yield f"| | comparison | {' | '.join(versions)} |"
    yield f"|---|---|{'---|' * len(versions)}"
    for rule, name in product(RULES, _LABELS):
        numbers = [sum(run[name]["allowed"].get(rule, 0) for run in its_runs) for its_runs in versions.values()]
        if any(numbers):
            yield f"| {rule} | {_LABELS[name]} | {' | '.join(f'{number:,}' for number in numbers)} |"


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), "results", table())
    rewrite(Path(sys.argv[1]), "allowed", allowed_table())
