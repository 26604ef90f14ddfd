"""The history that the questions of docs/sql.md are asked about: a generated one, and by hand what it lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import mean
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, select
from tests.documents import application, planned
from tests.lake import by_sql

from joinsight.decode import decode_document
from joinsight.demo.history import Planted, generate
from joinsight.document import Document, Execution, Spread, Stage
from joinsight.rows import Row
from joinsight.store import models
from joinsight.store.writer import Writer

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
"""A Friday. The questions are asked as if it were this moment."""
NOW_MS = round(NOW.timestamp() * 1000)
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
}
"""What is planted by hand, twice (a and b) and on four days; the numbers of each run are made of `n`."""
DAYS_AGO = (3, 5, 9, 25, 375)
REPLANNED = sorted((Path(__file__).parents[1] / "corpus").glob("spark-aqe-*.ndjson"))
"""Recorded of a real Spark, each with plans that AQE has changed."""


def _recorded(path: Path, days: int) -> Iterable[Document]:
    """As if it had run so many days ago."""
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


def plant(engine: Engine) -> Planted:
    """Six weeks of sixteen jobs, and some runs of what does not happen in them."""
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
        started_at = round((NOW - timedelta(days=days)).timestamp() * 1000)
        common = {"application_id": f"planted-{number}", "application_name": job, "job_name": job}
        documents.append(application(**common, user="ann"))
        changes = {"started_at_ms": started_at, "ended_at_ms": started_at + 5_000, **changes}
        documents.append(planned(drawing, **common, **changes))
    for days in (2, 4, 20):
        documents += [moved for path in REPLANNED for moved in _recorded(path, days)]
    planted = generate(engine, days=45, end=NOW, jobs=16)
    assert Writer(engine).write(documents).refused == []
    with engine.begin() as connection:
        by_sql.fill(connection)
    return planted


class History:
    """All rows, each operator and stage with what its execution and application say."""

    def __init__(self, connection: Connection, planted: Planted) -> None:
        def rows(table: Any) -> list[Row]:
            return [dict(row) for row in connection.execute(select(table)).mappings()]

        self.planted = planted
        users = {row["application_id"]: {"spark_user": row["spark_user"]} for row in rows(models.application)}
        self.executions = [{**row, **users[row["application_id"]]} for row in rows(models.execution)]
        of = {_key(row): row for row in self.executions}
        self.broadcasts = [{**of[_key(row)], **row} for row in rows(models.broadcast)]
        self.joins = [{**of[_key(row)], **row} for row in rows(models.joins)]
        self.shuffles = [{**of[_key(row)], **row} for row in rows(models.shuffle)]
        self.decisions = [{**of[_key(row)], **row} for row in rows(models.aqe_decision)]
        self.findings = [{**of[_key(row)], **row} for row in rows(models.finding)]
        self.stages = [{**of[_key(row)], **row} for row in rows(models.stage)]
        nodes = {(_key(row), row["node_id"]): row["name"] for row in rows(models.plan_node)}
        metric = models.node_metric
        read = select(metric).where(metric.c.name == "size of files read", metric.c.node_id >= 0)
        self.files_read = [
            {**row, "scan": nodes[_key(dict(row)), row["node_id"]]} for row in connection.execute(read).mappings()
        ]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in models.EXECUTION_KEY)


def since(rows: Iterable[Row], moment: datetime) -> list[Row]:
    """Those that started at or after a moment."""
    return [row for row in rows if row["started_at"] >= moment]


def days_ago(days: int) -> datetime:
    """A moment."""
    return NOW - timedelta(days=days)


def day(row: Row) -> datetime:
    """Midnight before it started."""
    started: datetime = row["started_at"]
    return started.replace(hour=0, minute=0, second=0, microsecond=0)


def month(row: Row) -> datetime:
    """Midnight of the first of its month."""
    return day(row).replace(day=1)


def week(row: Row) -> datetime:
    """Midnight of the Monday before it started."""
    return day(row) - timedelta(days=row["started_at"].weekday())


def grouped(rows: Iterable[Row], *keys: str | Callable[[Row], Any]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of columns, or of functions of a row."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] if isinstance(key, str) else key(row) for key in keys)].append(row)
    return groups


def known(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a column that are not NULL."""
    return [row[name] for row in rows if row[name] is not None]


def total(rows: Iterable[Row], name: str) -> Any:
    """SQL's sum."""
    return sum(known(rows, name)) if known(rows, name) else None


def largest(rows: Iterable[Row], name: str) -> Any:
    """SQL's max."""
    return max(known(rows, name), default=None)


def average(rows: Iterable[Row], name: str) -> Any:
    """SQL's avg."""
    return mean(known(rows, name)) if known(rows, name) else None


def hours(rows: Iterable[Row], name: str = "task_time_ms") -> Any:
    """A sum of milliseconds in hours."""
    found = total(rows, name)
    return None if found is None else found / 3_600_000


def percentile(rows: Iterable[Row], name: str, share: float) -> float | None:
    """SQL's percentile_cont: between the two nearest values."""
    values = sorted(known(rows, name))
    if not values:
        return None
    position = share * (len(values) - 1)
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return float(values[below] + (values[above] - values[below]) * (position - below))
