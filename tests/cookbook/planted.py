"""Facts added to the generated history for the queries in docs/sql.md and the dashboards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine
from tests.documents import application, planned
from tests.history import END
from tests.spark_sql import by_sql

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Document, Execution, Spread, Stage
from joinsight.store.writer import Writer

NOW_MS = round(END.timestamp() * 1000)
LONG_AGO = "2025_11"
"""A month in which something ran that no question but those of one key may look at."""
GB = 1 << 30

FACTS = "data size=90000000, shuffle bytes written=30000000, shuffle records written=9000"
FEW = "data size=10000000, shuffle bytes written=5000000, shuffle records written=800"
MERGED = f"""
SortMergeJoin | [k#1], [k#2], Inner | number of output rows={{rows}}, spill size={{spilled}}
  Sort | [k#1 ASC NULLS FIRST], false, 0 | sort time=7, spill size=0
    Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=1] | {FACTS}
      Scan parquet db.facts | [k#1] Batched: true
  Sort | [k#2 ASC NULLS FIRST], false, 0 | sort time=8, spill size=0
    Exchange | hashpartitioning(k#2, 8), ENSURE_REQUIREMENTS, [plan_id=2] | {FEW}
      Scan parquet db.few | [k#2] Batched: true
"""
BROADCAST = """
BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=9000
  Scan parquet db.facts | [k#1] Batched: true
  BroadcastExchange | HashedRelationBroadcastMode(List(k#2),false), [plan_id=3] | {measured}
    {below}
"""
MEASURED = "data size={size}, number of output rows=800, time to collect=50, time to build=60, time to broadcast=7"
SCAN = "Scan parquet db.few | [k#2] Batched: true"
SHUFFLED = f"Exchange | hashpartitioning(k#2, 8), ENSURE_REQUIREMENTS, [plan_id=2] | data size={{size}}\n      {SCAN}"
PIECES = """
HashAggregate | keys=[k#1]
  {read}
    Exchange | hashpartitioning(k#1, 400), REPARTITION_BY_NUM, [plan_id=1] | {metrics}
"""
CROSSED = """
CartesianProduct | (k#1 < k#2) | number of output rows={rows}
  Exchange | RoundRobinPartitioning(2), REPARTITION_BY_NUM, [plan_id=1] | shuffle records written=3000
    Scan parquet db.facts | [k#1] Batched: true
  Exchange | RoundRobinPartitioning(2), REPARTITION_BY_NUM, [plan_id=2] | shuffle records written=20
    Scan parquet db.few | [k#2] Batched: true
"""
CACHED = """
InMemoryTableScan | [k#1] | number of output rows=5
  Filter | (k#1 > 2) | number of output rows={filled}
    Range | (0, 9) | number of output rows={filled}
"""
Case = tuple[str, dict[str, Any]]


TOO_SLOW = {"state": "failed", "error": "Could not execute broadcast in 300 secs."}


def _broadcast(size: int, below: str) -> str:
    return BROADCAST.format(measured=MEASURED.format(size=size), below=below)


def _waiting(n: int) -> Case:
    metrics = f"shuffle bytes written=8000, fetch wait time={n}+4000, local bytes read={n}000, remote bytes read=6000"
    return PIECES.format(read="Project", metrics=metrics), {}


def _large(n: int) -> Case:
    read = f"AQEShuffleRead | local | number of partitions={n}"
    return PIECES.format(read=read, metrics=f"shuffle bytes written={n * (GB + n)}, shuffle records written=1000"), {}


def _spilling(n: int) -> Case:
    stage = Stage(
        1, 0, "save at x", 3, "succeeded", 3, run_time_ms=62_000 + n, gc_time_ms=900 * n, disk_spilled_bytes=5_000 * n,
        shuffle_write_bytes=2_000, run_time=Spread(1_000, 1_000 + n, 60_000 + n, 60_000 + n, 3),
    )  # fmt: skip
    return MERGED.format(rows=10, spilled=500 * n), {"stages": [stage]}


def _filling(n: int) -> Case:
    return CACHED.format(filled=n), {"stages": [Stage(7, 0, "save at x", 3, "succeeded", 3, run_time_ms=40_000 + n)]}


def _ended(n: int, **changes: Any) -> Case:
    return MERGED.format(rows=10, spilled=0), {"ended_at_ms": None, **changes}


CASES: Mapping[str, Callable[[int], Case]] = {
    "near": lambda n: (_broadcast(33_554_528, SHUFFLED.format(size=8_388_608 + 10_000 * n)), {}),
    "far": lambda n: (_broadcast(33_554_528, SHUFFLED.format(size=8_388_607 - 10_000 * n)), {}),
    "huge": lambda n: (_broadcast(2 * GB + n, SCAN), {}),
    "explosion": lambda n: (MERGED.format(rows=1_000_000 + n, spilled=0), {}),
    "waiting": _waiting,
    "large": _large,
    "spilling": _spilling,
    "partial": lambda n: _ended(
        n, incomplete=[f"{n} task ends"], incomplete_codes=["task_ends_not_seen"], ended_at_ms=NOW_MS
    ),
    "lost": lambda n: _ended(n, state="lost"),
    "failing": lambda n: _ended(n, state="failed", error=f"Out of memory\nat line {n}", ended_at_ms=NOW_MS),
    "crossed": lambda n: (CROSSED.format(rows=n), {}),
    "filling": _filling,
    "reading": lambda n: (CACHED.format(filled="?"), {}),
}
"""What is planted by hand, twice (a and b) and on four days; the numbers of each run are made of `n`."""
DAYS_AGO = (3, 5, 9, 25, 375)
REPLANNED = sorted((Path(__file__).parents[1] / "corpus").glob("spark-aqe-*.ndjson"))
"""Recorded of a real Spark, each with plans that AQE has changed."""


def _recorded(path: Path, days: int) -> Iterable[Document]:
    """The recorded execution, moved this number of days into the past."""
    for line in path.read_bytes().splitlines():
        document = decode_document(line)
        assert isinstance(document, Execution) and document.ended_at_ms is not None
        later = NOW_MS - days * 86_400_000 - document.started_at_ms
        application_id = f"{document.application_id}-{days}"
        yield application(application_id=application_id, application_name=path.stem, job_name=path.stem)
        yield replace(
            document,
            application_id=application_id,
            application_name=path.stem,
            job_name=path.stem,
            started_at_ms=document.started_at_ms + later,
            ended_at_ms=document.ended_at_ms + later,
            plans=[replace(plan, at_ms=plan.at_ms + later) for plan in document.plans],
        )


def plant(engine: Engine) -> None:
    """Add runs with facts that the generated history lacks, and the roll-ups of all days."""
    merged, broadcast = MERGED.format(rows=9_000, spilled=0), _broadcast(40_000_000, SCAN)
    runs: list[tuple[str, int, Case]] = [
        ("flip", 10, (broadcast, {})),
        ("flip", 2, (merged, {})),
        ("flip, then failure", 10, (broadcast, {})),
        ("flip, then failure", 2, (merged, {"state": "failed", "error": "Boom"})),
        ("flip and back", 10, (broadcast, {})),
        ("flip and back", 9, (merged, {})),
        ("flip and back", 2, (broadcast, {})),
        ("fine, then too slow", 20, (broadcast, {})),
        ("fine, then too slow", 2, (broadcast, TOO_SLOW)),
        ("fine, then too slow", 1, (broadcast, TOO_SLOW)),
    ]
    for number, (name, case) in enumerate(CASES.items()):
        for each in ("a", "b"):
            runs += [(f"{name}/{each}", days, case(number + days * (1 + (each == "b")))) for days in DAYS_AGO]
    documents: list[Document] = []
    for number, (job, days, (drawing, changes)) in enumerate(runs):
        started_at = round((END - timedelta(days=days)).timestamp() * 1000)
        common = {"application_id": f"planted-{number}", "application_name": job, "job_name": job}
        tags = {"team": "by hand"}
        documents.append(application(**common, user="ann", tags=tags))
        changes = {"started_at_ms": started_at, "ended_at_ms": started_at + 5_000, **changes}
        documents.append(planned(drawing, **common, tags=tags, **changes))
    for days in (2, 4, 20):
        documents += [moved for path in REPLANNED for moved in _recorded(path, days)]
    assert Writer(engine).write(documents).refused == []
    with engine.begin() as connection:
        by_sql.fill(connection)
