"""Compares two executions side by side: operators matched by key, differences in plan and numbers. Pure.

::

    Run, Run ──► Comparison
        configuration ──► settings that differ
        joins, shuffles, broadcasts ──► Pair: an operator in both, or in one only
        stages ──► Pair: the totals of all stages of each
        executions that both started ──► Part: a Comparison of theirs
    a Pair ──► MeasureChange: a measure before and after, where it differs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Integer, Table

from joinsight.analysis.parts import matched
from joinsight.analysis.table_formats import reads_of
from joinsight.contract.document import NOT_RUN
from joinsight.tables import DRIVER_PHASES, Row, broadcast, driver_ms, execution, joins, shuffle, stage


class Measure(NamedTuple):
    """A column that is compared."""

    name: str
    title: str
    unit: str
    """bytes, rows, ms, ns, ratio, count or text."""
    is_cost: bool = False
    """More of it is worse, less is better."""


def _measure(table: Table, name: str, title: str, is_cost: bool = False) -> Measure:
    """A column of a table, in its unit."""
    column = table.columns[name]
    counts = isinstance(column.type, Integer)
    return Measure(name, title, column.info["unit"] or ("count" if counts else "text"), is_cost)


MEASURES: Mapping[str, Sequence[Measure]] = {
    "execution": (_measure(execution, "duration_ms", "duration", is_cost=True),),
    "joins": (
        _measure(joins, "strategy", "strategy"),
        _measure(joins, "build_side", "build side"),
        _measure(joins, "left_rows", "left rows"),
        _measure(joins, "right_rows", "right rows"),
        _measure(joins, "output_rows", "rows out"),
        _measure(joins, "build_bytes", "build size", is_cost=True),
        _measure(joins, "build_ms", "build time", is_cost=True),
        _measure(joins, "sort_ms", "sort time", is_cost=True),
        _measure(joins, "spill_bytes", "spilled, in memory", is_cost=True),
    ),
    "shuffle": (
        _measure(shuffle, "bytes_written", "written", is_cost=True),
        _measure(shuffle, "rows_written", "rows"),
        _measure(shuffle, "partitions", "partitions"),
        _measure(shuffle, "aqe_partitions", "partitions read"),
        _measure(shuffle, "aqe_read", "AQE reads it"),
        _measure(shuffle, "skew_ratio", "skew", is_cost=True),
        _measure(shuffle, "fetch_wait_ms", "fetch wait", is_cost=True),
        _measure(shuffle, "write_time_ns", "write time", is_cost=True),
    ),
    "broadcast": (
        _measure(broadcast, "outcome", "outcome"),
        _measure(broadcast, "size_bytes", "size", is_cost=True),
        _measure(broadcast, "rows", "rows"),
        Measure("driver_ms", "driver time", "ms", True),
    ),
    "stage": (
        Measure("stages", "stages", "count"),
        _measure(stage, "succeeded_tasks", "tasks"),
        _measure(stage, "failed_tasks", "failed tasks", is_cost=True),
        _measure(stage, "run_time_ms", "task time", is_cost=True),
        _measure(stage, "gc_time_ms", "GC time", is_cost=True),
        _measure(stage, "input_bytes", "read by tasks"),
        _measure(stage, "input_rows", "rows read"),
        _measure(stage, "output_bytes", "output"),
        _measure(stage, "shuffle_write_bytes", "shuffled", is_cost=True),
        _measure(stage, "disk_spilled_bytes", "spilled to disk", is_cost=True),
    ),
}
"""The measures by table; ``stage`` is the total of the stages of an execution that ran."""

MIN_RATIO = 0.2
MIN_CHANGE: Mapping[str, float] = {"bytes": 1 << 20, "rows": 1_000, "ms": 100, "ns": 100e6, "ratio": 0.5, "count": 1}
"""A change is large from both thresholds on: this share of the larger value, and this difference in its unit."""

# Approximate milliseconds per unit, to sort changes across units: 100 KiB or 1,000 rows count as 1 ms
_WEIGHTS = {"ms": 1.0, "ns": 1e-6, "bytes": 1 / 102_400, "rows": 1e-3}
_OPERATORS = ("joins", "shuffle", "broadcast")


@dataclass(frozen=True, slots=True)
class ComparedExecution:
    """An execution with its rows, as the store has them."""

    execution: Row
    application: Row
    joins: Sequence[Row] = ()
    shuffle: Sequence[Row] = ()
    broadcast: Sequence[Row] = ()
    stage: Sequence[Row] = ()
    started: Sequence[ComparedExecution] = ()
    """The executions that it started, in the order of their start."""


@dataclass(frozen=True, slots=True)
class MeasureChange:
    """A measure in both executions; None where it was not measured."""

    measure: Measure
    before: Any
    after: Any

    @property
    def is_large(self) -> bool:
        """Whether it exceeds MIN_CHANGE and MIN_RATIO; a text that differs is always large."""
        if self.before == self.after:
            return False
        if self.measure.unit == "text":
            return True
        before, after = self.before or 0, self.after or 0
        difference = abs(after - before)
        return bool(difference >= MIN_CHANGE[self.measure.unit] and difference >= MIN_RATIO * max(before, after))

    @property
    def is_worse(self) -> bool | None:
        """Whether it costs more than before; None if equal, not measured in one, or not a cost."""
        if not self.measure.is_cost or self.before == self.after or None in (self.before, self.after):
            return None
        return bool(self.after > self.before)

    @property
    def weight(self) -> float:
        """Its approximate cost in ms, for sorting; infinite for a text that differs."""
        if self.before == self.after:
            return 0.0
        if self.measure.unit == "text":
            return float("inf")
        return float(abs((self.after or 0) - (self.before or 0)) * _WEIGHTS.get(self.measure.unit, 0))


@dataclass(frozen=True, slots=True)
class Pair:
    """An operator in both executions, None in the one that lacks it; or the totals of all stages of each."""

    table: str
    a: Row | None
    b: Row | None
    changes: Sequence[MeasureChange] = ()
    """All measures, equal ones too; empty if only one execution has the operator."""

    @property
    def row(self) -> Row:
        """The operator in B, else in A."""
        row = self.b if self.b is not None else self.a
        assert row is not None
        return row

    @property
    def is_large(self) -> bool:
        """Whether only one execution has it, or one of its changes is large."""
        return self.a is None or self.b is None or any(change.is_large for change in self.changes)

    @property
    def weight(self) -> float:
        """The largest weight of its changes."""
        return max((change.weight for change in self.changes), default=0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two executions; pairs with the largest changes first."""

    a: ComparedExecution
    b: ComparedExecution
    duration: Pair
    configuration: Mapping[str, tuple[str | None, str | None]]
    """Settings that differ, by key; None: the default."""
    pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)
    """By table: joins, shuffle, broadcast, and stage with one pair, which includes the stages of what they started."""
    parts: Sequence[Part] = ()
    """What they started, in the order of B, then what only A did; without what a table format read for itself."""

    @property
    def same_query(self) -> bool | None:
        """Whether both have the same query shape; None if one has no plan."""
        return _same(self.a.execution["query_shape"], self.b.execution["query_shape"])

    @property
    def same_plan(self) -> bool | None:
        """Whether both ended with the same plan; None if one has no plan."""
        return _same(self.a.execution["plan_fingerprint"], self.b.execution["plan_fingerprint"])


@dataclass(frozen=True, slots=True)
class Part:
    """An execution that both runs of a command started, or only one of them."""

    a: ComparedExecution | None
    b: ComparedExecution | None
    comparison: Comparison | None
    """None if only one has it."""

    @property
    def run(self) -> ComparedExecution:
        """In B, if it is there."""
        its = self.b or self.a
        assert its is not None
        return its

    @property
    def only(self) -> str:
        """The letter of the one that started it; empty for both."""
        return "" if self.comparison else "B" if self.b else "A"

    @property
    def is_large(self) -> bool:
        """Whether only one has it, or what differs is more than a little."""
        its = self.comparison
        if its is None:
            return True
        is_other = its.same_plan is False or its.a.execution["state"] != its.b.execution["state"]
        return is_other or any(pair.is_large for pair in (its.duration, *chain(*its.pairs.values())))


def compare(a: ComparedExecution, b: ComparedExecution) -> Comparison:
    """Compare B with A, the earlier run."""
    pairs = {table: _match_by_key(table, getattr(a, table), getattr(b, table)) for table in _OPERATORS}
    pairs["stage"] = [_pair("stage", _stage_totals(_all_stages(a)), _stage_totals(_all_stages(b)))]
    duration = _pair("execution", a.execution, b.execution)
    settings = changed_settings(settings_of(a.application, a.execution), settings_of(b.application, b.execution))
    return Comparison(a, b, duration, settings, pairs, _parts(a, b))


def _parts(a: ComparedExecution, b: ComparedExecution) -> Sequence[Part]:
    mine = ([each for each in run.started if reads_of(each.execution) is None] for run in (a, b))
    order = {id(each): number for number, each in enumerate((*b.started, *a.started))}
    found = [Part(x, y, compare(x, y) if x and y else None) for x, y in matched(*mine)]
    return sorted(found, key=lambda part: order[id(part.run)])


def _all_stages(run: ComparedExecution) -> Sequence[Row]:
    return [*run.stage, *chain.from_iterable(each.stage for each in run.started)]


def _same(a: str | None, b: str | None) -> bool | None:
    return None if a is None or b is None else a == b


def settings_of(application: Row, execution: Row) -> dict[str, str]:
    """The application's settings, overridden by the session's."""
    return {**(application["configuration"] or {}), **(execution["configuration"] or {})}


def changed_settings(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """The settings that differ, by key, with both values; None: the default."""
    return {key: (a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)}


def _match_by_key(table: str, a: Sequence[Row], b: Sequence[Row]) -> list[Pair]:
    """Pairs of operators with the same key, then unpaired operators; a key is unique within an execution."""
    a, b = [_derived(table, row) for row in a], [_derived(table, row) for row in b]
    before = {row["operator_key"]: row for row in a if row["operator_key"] is not None}
    pairs: list[Pair] = []
    for row in b:
        other = before.pop(row["operator_key"], None)
        pairs.append(Pair(table, None, row) if other is None else _pair(table, other, row))
    both = [pair for pair in pairs if pair.a is not None]
    paired = [pair.a for pair in both]
    only_a = [Pair(table, row, None) for row in a if not any(row is one for one in paired)]
    return [*sorted(both, key=lambda pair: -pair.weight), *only_a, *(pair for pair in pairs if pair.a is None)]


def _pair(table: str, a: Row, b: Row) -> Pair:
    changes = [MeasureChange(measure, a[measure.name], b[measure.name]) for measure in MEASURES[table]]
    return Pair(table, a, b, sorted(changes, key=lambda change: -change.weight))


def _derived(table: str, row: Row) -> Row:
    """The row with the measures that are computed from its columns."""
    if table == "broadcast":
        return row | {"driver_ms": driver_ms(*(row[phase] for phase in DRIVER_PHASES))}
    if table == "shuffle":
        return row | {"aqe_read": " ".join(row["aqe_read"]) if row["aqe_read"] else None}
    return row


def _stage_totals(stages: Sequence[Row]) -> Row:
    ran = [stage for stage in stages if stage["state"] not in NOT_RUN]
    names = [measure.name for measure in MEASURES["stage"] if measure.name != "stages"]
    return {"stages": len(ran), **{name: _sum([stage[name] for stage in ran]) for name in names}}


def _sum(values: Sequence[int | None]) -> int | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None
