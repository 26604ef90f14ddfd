"""Runs variants of a query in turns, and compares what they cost."""

from __future__ import annotations

import html
import io
import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joinsight.base.errors import JoinsightError
from joinsight.base.units import bytes_text, duration_text
from joinsight.measuring.advice import check_budget
from joinsight.measuring.measurement import Measured, measure
from joinsight.measuring.paired_test import ENOUGH, evidence, log_ratio
from joinsight.measuring.results import Result, result_of, same
from joinsight.tables import ExecutionRow
from joinsight.terminal.console import text_console
from joinsight.terminal.table import Column, lines

_MEASURES: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "task time": ("task_time_ms", duration_text),
    "shuffled": ("shuffle_write_bytes", bytes_text),
    "broadcast": ("broadcast_bytes", bytes_text),
    "spilled": ("disk_spilled_bytes", bytes_text),
}

_ENOUGH_RUNS = 5
"""Equal variants are in one order five times out of five in 6 % of comparisons, twice out of two in half of them."""


@dataclass(frozen=True)
class Variant:
    """A variant with its measured runs, one a round."""

    name: str
    runs: Sequence[Measured]

    @property
    def durations_ms(self) -> Sequence[int]:
        """Wall time of the queries of each run, milliseconds."""
        return [_sum(run, "duration_ms", lambda row: row.root_execution_id == row.execution_id) for run in self.runs]

    def median(self, column: str) -> int:
        """The median over runs of the sum of a column of table `execution`, in its unit."""
        return round(statistics.median(_sum(run, column) for run in self.runs))

    @property
    def joins(self) -> str:
        """How the last run joined: ``SortMergeJoin, 2 BroadcastHashJoin``."""
        counted = Counter(join.strategy for each in self.runs[-1].executions for join in each.joins)
        return ", ".join(f"{number} {name}" if number > 1 else name for name, number in counted.items())


@dataclass(frozen=True)
class Variants:
    """The variants; ratios are those to the first, of the same round."""

    variants: Sequence[Variant]

    def ratios(self, variant: Variant) -> Sequence[float]:
        """Wall time divided by that of the first variant, round by round."""
        pairs = zip(variant.durations_ms, self.variants[0].durations_ms, strict=True)
        return [one / max(1, first) for one, first in pairs]

    @property
    def noise(self) -> Sequence[float]:
        """Log ratios of successive runs of the first variant, which differ by chance."""
        return [log_ratio(one, other) for one, other in itertools.pairwise(self.variants[0].durations_ms)]

    @property
    def are_decided(self) -> bool:
        """Whether each variant is certainly faster or slower than the first."""
        return all(_decided(self.ratios(variant), self.noise) for variant in self.variants[1:])

    def __str__(self) -> str:
        text = io.StringIO()
        out = text_console(text)
        for line in lines(self._table(), None):
            out.print(line, soft_wrap=True)
        return text.getvalue() + self._about()

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(variant.name for variant in self.variants)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        columns = [column for column in self._table() if any(column.cells)]
        head = "".join(f"<th>{html.escape(column.header)}</th>" for column in columns)
        rows = zip(*(column.cells for column in columns), strict=True)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(self._about())}</p>"

    def _table(self) -> list[Column]:
        ran = [variant.durations_ms for variant in self.variants]
        median = [duration_text(round(statistics.median(each))) for each in ran]
        spread = [f"{duration_text(min(each))} to {duration_text(max(each))}" for each in ran]
        return [
            Column("variant", [variant.name for variant in self.variants]),
            Column("wall time", median, right=True),
            Column("from, to", spread, right=True),
            Column("compared", [self._compared(variant) for variant in self.variants]),
            *(
                Column(
                    title, [text(n) if (n := variant.median(column)) else "" for variant in self.variants], right=True
                )
                for title, (column, text) in _MEASURES.items()
            ),
            Column("joins", [variant.joins for variant in self.variants]),
        ]

    def _compared(self, variant: Variant) -> str:
        if variant is self.variants[0]:
            return ""
        ratios = self.ratios(variant)
        least, most = min(ratios), max(ratios)
        verdict = "no clear difference"
        if decided := _decided(ratios, self.noise):
            verdict = f"certainly {decided}"
        elif most < 1 or least > 1:
            word, rounds = "faster" if most < 1 else "slower", len(ratios)
            few = f"{word} in {rounds} of {rounds} rounds, too few to tell"
            verdict = f"always {word}" if rounds >= _ENOUGH_RUNS else few
        return f"{statistics.median(ratios):.2f}× ({least:.2f} to {most:.2f}): {verdict}"

    def _about(self) -> str:
        first = self.variants[0]
        runs = f"Median of {len(first.runs)} alternating runs after a warm-up"
        return f"{runs}; baseline: {first.name}."


def _decided(ratios: Sequence[float], noise: Sequence[float] = ()) -> str:
    """faster, slower, or empty if the ratios to the baseline do not tell yet; may be asked after every round."""
    logs = [-math.log(max(1e-9, each)) for each in ratios]
    if evidence(logs, noise) >= ENOUGH:
        return "faster"
    return "slower" if evidence([-each for each in logs], noise) >= ENOUGH else ""


def compare(
    variants: Mapping[str, Callable[[], Any]], runs: int, check: bool, budget_s: float | None = None
) -> Variants:
    """Implements `joinsight.compare`."""
    if len(variants) < 2:
        raise JoinsightError('Nothing to compare: write joinsight.compare({"as it is": ..., "broadcast": ...}).')
    if runs < 1:
        raise JoinsightError(f"runs={runs} is not a number of runs; it must be at least 1.")
    if budget_s is not None:
        check_budget(budget_s)
    started = time.monotonic()
    results = {name: _once(make) for name, make in variants.items()}
    if check:
        _check({name: _result(value) for name, value in results.items()})
    names = list(variants)
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    found = Variants([Variant(name, measured[name]) for name in names])
    for number in itertools.count():
        spent = time.monotonic() - started
        if number == runs if budget_s is None else number and (found.are_decided or _is_last(number, spent, budget_s)):
            break
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            run = measure(lambda make=variants[name]: _once(make))
            if not run.executions:
                raise JoinsightError(f"{name!r} ran no query: return a DataFrame, or call an action such as count().")
            measured[name].append(run)
    return found


def _is_last(rounds: int, spent_s: float, budget_s: float) -> bool:
    """Whether no other round fits; the warm-up is one, too."""
    return spent_s + spent_s / (rounds + 1) > budget_s


def _check(results: Mapping[str, Any]) -> None:
    (first, expected), *others = results.items()
    for name, found in others:
        if not same(expected, found):
            differing = f"{_text(expected)} of {first!r}, {_text(found)} of {name!r}"
            raise JoinsightError(f"The results differ: {differing}. If they may, write check=False.")


def _sum(run: Measured, column: str, counts: Callable[[ExecutionRow], bool] = lambda row: True) -> int:
    return sum(getattr(each.row, column) or 0 for each in run.executions if counts(each.row))


def _once(make: Callable[[], Any]) -> Any:
    """Run a variant. A DataFrame is computed whole, and written nowhere."""
    from pyspark.sql import DataFrame

    result = make()
    if isinstance(result, DataFrame):
        result.write.format("noop").mode("overwrite").save()
    return result


def _result(value: Any) -> Any:
    """What is equal for equal results, in whatever order rows are."""
    from pyspark.sql import DataFrame

    return result_of(value) if isinstance(value, DataFrame) else value


def _text(result: Any) -> str:
    return str(result) if isinstance(result, Result) else repr(result)[:80]
