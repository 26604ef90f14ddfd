"""Findings of micro-batches; those that compare one with those before it are planted and stored one after the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.documents import STARTED_AT_MS, execution, planned

from joinsight import tables
from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.document import Execution, Job, Nested, Stage
from joinsight.findings import FindingsEngine
from joinsight.findings.finding import NoHistory
from joinsight.store.writer import Writer
from joinsight.tables import ExecutionRow
from joinsight.verdict import judge

QUERY, RUN = (str(uuid.UUID(int=number)) for number in (1, 2))
LAST = 29
"""The last micro-batch; it and each before it is stored."""

STATIC = """
WriteToDataSourceV2
  SortMergeJoin | [k#1], [k#2], Inner | number of output rows=10
    Exchange | hashpartitioning(k#1, 8), [plan_id=3] | shuffle records written={stream}, data size=100
      {scan} | [k#1] | number of output rows={stream}
    Exchange | hashpartitioning(k#2, 8), [plan_id=5] | shuffle records written={static}, data size=4000
      Scan parquet | [k#2] | number of output rows={static}
"""
STATE = """
WriteToDataSourceV2
  {root}
    StateStoreSave | [k#1] | number of total state rows={rows}, memory used by state:size=5000
      MicroBatchScan | [k#1] | number of output rows=10
"""


def batch(app: str, number: int, drawing: str, start: int, took: int) -> list[Execution]:
    """A micro-batch as two executions, of which the inner one ran a stage that wrote the static side's shuffle."""
    description = f"orders\nid = {QUERY}\nrunId = {RUN}\nbatch = {number}"
    begin, end, outer = STARTED_AT_MS + start, STARTED_AT_MS + start + took, 2 * number
    common: dict[str, Any] = {
        **{"application_id": app, "description": description, "root_execution_id": outer},
        **{"started_at_ms": begin, "ended_at_ms": end},
    }
    its: dict[str, Any] = {
        **{"id": 7, "attempt": 0, "name": "s", "tasks": 4, "state": "succeeded", "succeeded_tasks": 4},
        **{"submitted_at_ms": begin, "first_launch_at_ms": begin, "last_finish_at_ms": begin + took // 2},
        **{"completed_at_ms": begin + took // 2, "run_time_ms": took},
    }
    job = Job(0, begin, [7], "succeeded", begin + took // 2)
    inner = planned(
        drawing, **common, execution_id=outer + 1, sequence=2 * number + 2, jobs=[job], stages=[Stage(**its)]
    )
    nested = [Nested(outer + 1, begin, end)]
    return [inner, execution(**common, execution_id=outer, sequence=2 * number + 1, nested=nested)]


def found(
    engine: Engine,
    drawing: Callable[[int], str],
    start: Callable[[int], int] = lambda number: 10_000 * number,
    took: Callable[[int], int] = lambda number: 4_000,
    numbers: range = range(LAST + 1),
) -> list[Any]:
    """What is found in the last micro-batch, after the others were stored."""
    app = f"stream-{uuid.uuid4()}"
    for number in numbers:
        Writer(engine).write(batch(app, number, drawing(number), start(number), took(number)))
    of_streams = tables.finding.c.finding.like("stream-%")
    with engine.connect() as connection:
        rows = connection.execute(select(tables.finding).where(tables.finding.c.application_id == app, of_streams))
        return list(rows.mappings())


def joined(number: int, scan: str = "MicroBatchScan", static: int = 1_000) -> str:
    return STATIC.format(scan=scan, stream=10 + number % 3, static=static)


@pytest.mark.parametrize("scan", ["MicroBatchScan", "Scan json"])
def test_a_static_side_that_each_micro_batch_shuffles(engine: Engine, scan: str) -> None:
    """Looked at in micro-batches 9, 19 and 29; of files, the side whose rows never change is the static one."""
    first, _, last = sorted(found(engine, lambda number: joined(number, scan)), key=lambda row: row["execution_id"])
    assert {first["finding"], last["finding"]} == {"stream-static-side"}
    assert (first["evidence"]["batches"], last["evidence"]["batches"]) == (10, 21)
    assert last["evidence"]["batches_made_ms"] == 21 * 2_000
    assert last["wall_ms"] == 2_000
    assert last["title"] == (
        "The join on k shuffles its right side, which is not of the stream, in each micro-batch: 42.0 s in the last 21,"
        " 50 % of their time (1,000 rows, 3.9 KiB)."
    )


def test_a_static_side_of_a_stream_whose_files_have_as_many_rows_each(engine: Engine) -> None:
    """A micro-batch names the files that it reads, a static side its folder."""
    scans = ("MicroBatchScan | [k#1]", "Scan parquet | [k#2]")
    paths = ("/in/part-00008-9193...", "/dim]")

    def drawing(paths: tuple[str, str]) -> str:
        made = STATIC.format(scan="MicroBatchScan", stream=1_000, static=1_000)
        for scan, path in zip(scans, paths, strict=True):
            its = f"{scan[-5:]}, Location: InMemoryFileIndex(1 paths)[file:{path}, ReadSchema: struct<k:int>"
            made = made.replace(scan, f"Scan parquet | {its}")
        return made

    assert found(engine, lambda number: drawing(paths), numbers=range(10))
    assert not found(engine, lambda number: drawing(("/in]", "/dim]")), numbers=range(10))


def test_sides_that_change_are_not_static(engine: Engine) -> None:
    """Both are files: either may be of the stream. Two streams have no static side."""
    assert not found(engine, lambda number: joined(number, "Scan json", static=1_000 + number))
    assert not found(engine, lambda number: joined(number).replace("Scan parquet", "MicroBatchScan"))


def kept(rows: int, root: str = "HashAggregate") -> str:
    return STATE.format(rows=rows, root=root)


def test_state_that_only_grows(engine: Engine) -> None:
    """Without a watermark, from a number of rows on."""
    rows = found(engine, lambda number: kept(200_000 + 1_000 * number))
    assert [row["finding"] for row in rows] == ["stream-state"] * 3
    assert "grew in each of the last 20 micro-batches, from 209,000 rows to 229,000 rows (" in rows[-1]["title"]
    assert rows[-1]["evidence"]["rows_a_batch"] == 1_000


@pytest.mark.parametrize(
    "drawing",
    [
        lambda number: kept(1_000 + number),
        lambda number: kept(200_000 + 1_000 * (number % 8)),
        lambda number: kept(200_000 + 1_000 * number, "EventTimeWatermark"),
    ],
    ids=["small", "removed", "watermark"],
)
def test_state_that_is_removed_or_small(engine: Engine, drawing: Callable[[int], str]) -> None:
    assert not found(engine, drawing)


def test_micro_batches_that_take_longer_than_their_trigger_says(engine: Engine) -> None:
    """Some wait for their time, 10 s after the one before; most take 12 s, and are followed at once."""
    is_short = {number: number % 3 == 0 for number in range(100)}
    starts = [0]
    for number in range(99):
        starts.append(starts[-1] + (10_000 if is_short[number] else 12_100))
    rows = found(engine, lambda _: kept(5), starts.__getitem__, lambda number: 4_000 if is_short[number] else 12_000)
    assert {row["finding"] for row in rows} == {"stream-behind"}
    assert "took longer than the trigger's interval, about 10.0 s" in rows[-1]["title"]


def test_micro_batches_that_grow_without_a_pause(engine: Engine) -> None:
    """More arrives while one runs than it processes; of the same length, they may have a limit."""
    took = [int(2_000 * 1.1**number) for number in range(100)]
    rows = found(engine, lambda _: kept(5), lambda number: sum(took[:number]), took.__getitem__)
    assert {row["finding"] for row in rows} == {"stream-behind"}
    assert "the median of the last 10 took 2.6 times as long as that of the 10 before" in rows[-1]["title"]
    assert not found(engine, lambda _: kept(5), lambda number: 4_000 * number)


def test_few_micro_batches_are_not_compared(engine: Engine) -> None:
    """Ten must be known before it."""
    assert not found(engine, joined, numbers=range(11, 20))
    assert found(engine, joined, numbers=range(10, 20))


COMPUTES = """
HashAggregate
  Scan ExistingRDD | [k#1]
"""
READS_CACHE = """
HashAggregate
  InMemoryTableScan | [k#1]
    Scan ExistingRDD | [k#1]
"""
OTHERS = """
HashAggregate
  Scan parquet | [k#1]
"""


def of_function(app: str, took: Sequence[int], drawings: Sequence[str], **changes: Any) -> list[Execution]:
    """A micro-batch of 10 s, last, and the executions of its function before it."""
    ends = [STARTED_AT_MS + ms for ms in accumulate(took, initial=0)]
    description = f"o\nid = {QUERY}\nrunId = {RUN}\nbatch = 3"
    common: dict[str, Any] = {"application_id": app, "root_execution_id": 4, "description": description}
    inner = [
        planned(drawing, **{**common, "execution_id": 5 + i, "started_at_ms": start, "ended_at_ms": end, **changes})
        for i, (drawing, (start, end)) in enumerate(zip(drawings, pairwise(ends), strict=True))
    ]
    nested = [Nested(5 + i, *times) for i, times in enumerate(pairwise(ends))]
    outer = execution(**common, execution_id=4, ended_at_ms=STARTED_AT_MS + 10_000, nested=nested)
    return [*inner, outer]


class Started(NoHistory):
    """Knows what an execution started."""

    def __init__(self, its: Sequence[Execution]) -> None:
        self._its = its

    def started(self, run: ExecutionRow) -> Sequence[StoredPlan]:
        return [stored_plan(execution_rows(each)) for each in self._its]


@pytest.mark.parametrize(
    ("took", "drawings", "changes", "again"),
    [
        ((4_000, 3_000, 3_000), [COMPUTES] * 3, {}, 6_000),
        ((4_000, 3_000, 3_000), [OTHERS, COMPUTES, COMPUTES], {}, 3_000),
        ((9_000, 300, 300), [COMPUTES] * 3, {}, None),
        ((9_900,), [COMPUTES], {}, None),
        ((4_000, 3_000, 3_000), [READS_CACHE] * 3, {}, None),  # each does work of its own
        ((4_000, 3_000, 3_000), [READS_CACHE, OTHERS, COMPUTES], {}, None),
        ((4_000, 3_000, 3_000), [COMPUTES] * 3, {"call_site": "org.apache.spark.sql.delta.commands.Merge"}, None),
        ((4_000, 3_000, 3_000), [COMPUTES] * 3, {"description": "Delta: MERGE operation - scanning files"}, None),
    ],
)
def test_a_micro_batch_that_executions_of_its_function_compute(
    took: Sequence[int], drawings: Sequence[str], changes: dict[str, str], again: int | None
) -> None:
    """Not what reads it from a cache, or is a part of a table format's command. The verdict says the same."""
    *inner, outer = of_function("alone", took, drawings, **changes)
    its, started = execution_rows(outer), Started(inner)
    rows = FindingsEngine().rows(its, started)
    assert [(row.finding, row.wall_ms) for row in rows] == ([] if again is None else [("stream-recomputed", again)])
    assert all("call persist() on it first" in row.advice for row in rows)
    verdict = judge(replace(stored_plan(its), nested=started.started(its.execution)))
    assert ("call persist() on it first" in verdict.next) == (drawings[1:] == [COMPUTES] * 2 and not changes)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_executions_of_a_micro_batch_read_is_known_once_they_are_stored(engine: Engine, *, at_once: bool) -> None:
    """In the same batch, also after it; or before it."""
    app = f"stream-{uuid.uuid4()}"
    its = of_function(app, (4_000, 3_000, 3_000), [COMPUTES, READS_CACHE, COMPUTES])
    for documents in [its[::-1]] if at_once else [[each] for each in its]:
        Writer(engine).write(documents)
    where = (tables.finding.c.application_id == app, tables.finding.c.execution_id == 4)
    with engine.connect() as connection:
        (row,) = connection.execute(select(tables.finding).where(*where)).mappings()
    assert (row["finding"], row["wall_ms"]) == ("stream-recomputed", 3_000)


def test_a_micro_batch_whose_executions_are_not_known_is_no_finding() -> None:
    (*_, outer) = of_function("alone", (4_000, 3_000, 3_000), [COMPUTES] * 3)
    assert FindingsEngine().rows(execution_rows(outer)) == []
