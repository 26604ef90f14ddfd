"""Lays two executions beside each other: operators matched by their key, and what changed in plan and numbers. Pure.

::

    Run, Run ──► Comparison
        configuration ──► settings that differ
        joins, shuffles, broadcasts ──► Pair: an operator in both, or in one alone
        stages ──► Pair: all stages of each, summed up
    a Pair ──► Change: a measure before and after, where it differs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from joinsight.rows import Row, driver_ms


class Measure(NamedTuple):
    """A column that is compared."""

    name: str
    title: str
    unit: str
    """bytes, rows, ms, ns, ratio, count or text."""
    is_cost: bool = False
    """More of it is worse, less is better."""


MEASURES: Mapping[str, Sequence[Measure]] = {
    "execution": (Measure("duration_ms", "duration", "ms", True),),
    "joins": (
        Measure("strategy", "strategy", "text"),
        Measure("build_side", "build side", "text"),
        Measure("left_rows", "left rows", "rows"),
        Measure("right_rows", "right rows", "rows"),
        Measure("output_rows", "rows out", "rows"),
        Measure("build_bytes", "build size", "bytes", True),
        Measure("build_ms", "build time", "ms", True),
        Measure("sort_ms", "sort time", "ms", True),
        Measure("spill_bytes", "spilled, in memory", "bytes", True),
    ),
    "shuffle": (
        Measure("bytes_written", "written", "bytes", True),
        Measure("rows_written", "rows", "rows"),
        Measure("partitions", "partitions", "count"),
        Measure("aqe_partitions", "partitions read", "count"),
        Measure("aqe_read", "AQE reads it", "text"),
        Measure("skew_ratio", "skew", "ratio", True),
        Measure("fetch_wait_ms", "fetch wait", "ms", True),
        Measure("write_time_ns", "write time", "ns", True),
    ),
    "broadcast": (
        Measure("outcome", "outcome", "text"),
        Measure("size_bytes", "size", "bytes", True),
        Measure("rows", "rows", "rows"),
        Measure("driver_ms", "driver time", "ms", True),
    ),
    "stage": (
        Measure("stages", "stages", "count"),
        Measure("succeeded_tasks", "tasks", "count"),
        Measure("failed_tasks", "failed tasks", "count", True),
        Measure("run_time_ms", "task time", "ms", True),
        Measure("gc_time_ms", "GC time", "ms", True),
        Measure("input_bytes", "read by tasks", "bytes"),
        Measure("input_rows", "rows read", "rows"),
        Measure("output_bytes", "output", "bytes"),
        Measure("shuffle_write_bytes", "shuffled", "bytes", True),
        Measure("disk_spilled_bytes", "spilled to disk", "bytes", True),
    ),
}
"""What is compared, by table; ``stage`` is all stages of an execution that ran, summed up."""

LITTLE_RATIO = 0.2
LITTLE: Mapping[str, float] = {"bytes": 1 << 20, "rows": 1_000, "ms": 100, "ns": 100e6, "ratio": 0.5, "count": 1}
"""A change is more than a little from both on: this share of the larger value, and this much in its unit."""

# What a change is roughly worth in milliseconds, to put the largest first: a ms of time, 100 KiB, 1,000 rows
_WEIGHTS = {"ms": 1.0, "ns": 1e-6, "bytes": 1 / 102_400, "rows": 1e-3}
_OPERATORS = ("joins", "shuffle", "broadcast")


@dataclass(frozen=True, slots=True)
class Run:
    """An execution with its rows, as the store has them."""

    execution: Row
    application: Row
    joins: Sequence[Row] = ()
    shuffle: Sequence[Row] = ()
    broadcast: Sequence[Row] = ()
    stage: Sequence[Row] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of both; None where it was not measured."""

    measure: Measure
    before: Any
    after: Any

    @property
    def is_large(self) -> bool:
        """More than a little, as LITTLE and LITTLE_RATIO say; a text that differs always is."""
        if self.before == self.after:
            return False
        if self.measure.unit == "text":
            return True
        before, after = self.before or 0, self.after or 0
        difference = abs(after - before)
        return bool(difference >= LITTLE[self.measure.unit] and difference >= LITTLE_RATIO * max(before, after))

    @property
    def is_worse(self) -> bool | None:
        """Whether it costs more than before; None where that cannot be said."""
        if not self.measure.is_cost or self.before == self.after or None in (self.before, self.after):
            return None
        return bool(self.after > self.before)

    @property
    def weight(self) -> float:
        """How much it matters, to put the largest first."""
        if self.before == self.after:
            return 0.0
        if self.measure.unit == "text":
            return float("inf")
        return float(abs((self.after or 0) - (self.before or 0)) * _WEIGHTS.get(self.measure.unit, 0))


@dataclass(frozen=True, slots=True)
class Pair:
    """An operator as it was in both executions; None where it was in one alone. Or all stages of each."""

    table: str
    a: Row | None
    b: Row | None
    changes: Sequence[Change] = ()
    """All measures that both have, equal ones too; none if it was in one alone."""

    @property
    def row(self) -> Row:
        """The operator, as B has it if it does."""
        found = self.b if self.b is not None else self.a
        assert found is not None
        return found

    @property
    def is_large(self) -> bool:
        """It is in one alone, or something of it changed more than a little."""
        return self.a is None or self.b is None or any(change.is_large for change in self.changes)

    @property
    def weight(self) -> float:
        """That of its heaviest change."""
        return max((change.weight for change in self.changes), default=0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two executions have in common and where they differ; pairs with the largest changes first."""

    a: Run
    b: Run
    duration: Pair
    configuration: Mapping[str, tuple[str | None, str | None]]
    """Settings that differ, by key; None: the default."""
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    """By table: joins, shuffle, broadcast, and stage with one pair."""

    @property
    def same_query(self) -> bool | None:
        """Whether both have the same shape; None if one has none."""
        return _same(self.a.execution["query_shape"], self.b.execution["query_shape"])

    @property
    def same_plan(self) -> bool | None:
        """Whether both ended with the same plan; None if one has none."""
        return _same(self.a.execution["plan_fingerprint"], self.b.execution["plan_fingerprint"])


def compare(a: Run, b: Run) -> Comparison:
    """Compare B with A, the one before."""
    pairs = {table: _matched(table, getattr(a, table), getattr(b, table)) for table in _OPERATORS}
    pairs["stage"] = [_pair("stage", _summed(a.stage), _summed(b.stage))]
    duration = _pair("execution", a.execution, b.execution)
    return Comparison(a, b, duration, dict(_settings(_configuration(a), _configuration(b))), pairs)


def _same(a: str | None, b: str | None) -> bool | None:
    return None if a is None or b is None else a == b


def _configuration(run: Run) -> dict[str, str]:
    """Of the application, and what its session changed."""
    return {**(run.application["configuration"] or {}), **(run.execution["configuration"] or {})}


def _settings(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) != b.get(key):
            yield key, (a.get(key), b.get(key))


def _matched(table: str, a: Sequence[Row], b: Sequence[Row]) -> list[Pair]:
    """Operators with the same key together, then those of one alone; a key is unique within an execution."""
    a, b = [_derived(table, row) for row in a], [_derived(table, row) for row in b]
    before = {row["operator_key"]: row for row in a if row["operator_key"] is not None}
    found: list[Pair] = []
    for row in b:
        other = before.pop(row["operator_key"], None)
        found.append(Pair(table, None, row) if other is None else _pair(table, other, row))
    both = [pair for pair in found if pair.a is not None]
    met = [pair.a for pair in both]
    alone = [Pair(table, row, None) for row in a if not any(row is one for one in met)]
    return [*sorted(both, key=lambda pair: -pair.weight), *alone, *(pair for pair in found if pair.a is None)]


def _pair(table: str, a: Row, b: Row) -> Pair:
    changes = [Change(measure, a[measure.name], b[measure.name]) for measure in MEASURES[table]]
    return Pair(table, a, b, sorted(changes, key=lambda change: -change.weight))


def _derived(table: str, row: Row) -> Row:
    """The row with what is not stored but made of its columns."""
    if table == "broadcast":
        return row | {"driver_ms": driver_ms(row)}
    if table == "shuffle":
        return row | {"aqe_read": " ".join(row["aqe_read"]) if row["aqe_read"] else None}
    return row


def _summed(stages: Sequence[Row]) -> Row:
    ran = [stage for stage in stages if stage["state"] not in ("skipped", "pending")]
    names = [measure.name for measure in MEASURES["stage"] if measure.name != "stages"]
    return {"stages": len(ran), **{name: _sum([stage[name] for stage in ran]) for name in names}}


def _sum(values: Sequence[int | None]) -> int | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None
