"""Scores what names the causes of a slower run against what was planted. `scored` takes any tool's causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

from tests.documents import read_back

from bench.why.plants import PLANTS
from bench.why.record import Run, read
from joinsight.analysis.stored import StoredPlan
from joinsight.contract.document import Execution, Stage
from joinsight.tables import Row
from joinsight.why import NOT_EXPLAINED, explain

_LEAST_MS = 300
_LEAST_RATIO = 1.25
"""How much slower the changed run must have been, for something to have been planted in fact."""
_POINTS = 0.10
_MOST_EARLIER = 9


@dataclass(frozen=True)
class Pair:
    """Two runs; `codes`: the causes of their difference, best first; empty: nothing was changed."""

    plant: str
    size: int
    codes: Sequence[str]
    a: Run
    b: Run
    earlier: Sequence[Run]
    """Unchanged runs before `b`, the latest first."""
    adds_ms: int = 0
    """How much the causes add; 0: all of the difference."""

    @property
    def longer_ms(self) -> int:
        return self.b.wall_ms - self.a.wall_ms


@dataclass(frozen=True)
class Said:
    """What a tool answers for a pair: causes with milliseconds, the largest first; none: normal scatter."""

    causes: Sequence[tuple[str, float]]


Tool = Callable[[Pair], Said]


def pairs_of(runs: Sequence[Run], *, is_typical: bool = False) -> list[Pair]:
    """A planted run with the unchanged one just before it, and each unchanged one with the next.

    `is_typical`: with the one of median duration among the nine before, as `joinsight why B` takes it.
    """
    found = []
    before: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in runs:  # in the order of time within an application; plants of other applications come later
        its = before[run.base, run.size]
        earlier = its[: -_MOST_EARLIER - 1 : -1]
        if earlier:
            a = median_low_run(earlier) if is_typical else earlier[0]
            plant = PLANTS.get(run.plant)
            codes, adds_ms = (plant.codes, plant.adds_ms * run.size) if plant else ((), 0)
            found.append(Pair(run.plant or run.base, run.size, codes, a, run, earlier, adds_ms))
        if not run.plant:
            its.append(run)
    return found


def median_low_run(runs: Sequence[Run]) -> Run:
    """The one of median duration."""
    middle = median_low(run.wall_ms for run in runs)
    return next(run for run in runs if run.wall_ms == middle)


def joinsight(pair: Pair) -> Said:
    """What `joinsight why` answers."""
    why = explain(_stored(pair.a), replace(_stored(pair.b), earlier=[_earlier(run) for run in pair.earlier]))
    assert sum(each.wall_ms for each in why.causes) == why.difference_ms
    return Said([(each.code, each.wall_ms) for each in why.causes if each.code != NOT_EXPLAINED])


def without_history(pair: Pair) -> Said:
    """What it answers if only the two are known."""
    return joinsight(replace(pair, earlier=[]))


_kept: dict[int, StoredPlan] = {}


def _stored(run: Run) -> StoredPlan:
    if id(run) not in _kept:
        stored = read_back(run.execution)
        slots = max((stage.slots or 0 for stage in run.execution.stages), default=0)
        _kept[id(run)] = replace(stored, slots=slots or 2, settings=run.settings)
    return _kept[id(run)]


def _earlier(run: Run) -> Row:
    stages = run.execution.stages
    return {
        "duration_ms": run.wall_ms,
        "plan_fingerprint": _stored(run).execution["plan_fingerprint"],
        "input_rows": sum(each.input_rows or 0 for each in stages),
        "run_time_ms": sum(each.run_time_ms or 0 for each in stages),
        "cpu_time_ms": sum(each.cpu_time_ns or 0 for each in stages) // 1_000_000,
        "waited_ms": sum(map(_waited, stages)),
    }


def _waited(stage: Stage) -> int:
    in_cpu = (stage.cpu_time_ns + stage.shuffle_write_time_ns) // 1_000_000
    return max(0, stage.run_time_ms - stage.gc_time_ms - stage.shuffle_fetch_wait_ms - in_cpu)


def most_changed(pair: Pair) -> Said:
    """A plain rule: the counter of all stages that changed most, relative to its size."""
    names = {
        "data": ("input_rows", "shuffle_read_rows"),
        "cpu_per_row": ("cpu_time_ns",),
        "memory": ("gc_time_ms", "memory_spilled_bytes"),
        "fetch": ("shuffle_fetch_wait_ms", "shuffle_write_time_ns"),
        "partitions": ("tasks",),
        "contention": ("run_time_ms",),
    }
    found = {}
    for code, counters in names.items():
        first, last = (_sum(each.execution, counters) for each in (pair.a, pair.b))
        found[code] = max(first, last, 1) / max(1, min(first, last))
    largest = sorted(found.items(), key=lambda each: -each[1])
    return Said([(code, float(pair.longer_ms)) for code, _ in largest[:2]])


def _sum(e: Execution, counters: Sequence[str]) -> int:
    return sum(getattr(stage, name) or 0 for stage in e.stages for name in counters)


def three_sigma(pair: Pair) -> Said:
    """Only whether it was slow: three standard deviations above the mean of the runs before. It names no cause."""
    walls = [run.wall_ms for run in pair.earlier]
    mean = sum(walls) / len(walls)
    deviation = (sum((wall - mean) ** 2 for wall in walls) / max(1, len(walls) - 1)) ** 0.5
    return Said([("slow", float(pair.longer_ms))] if pair.b.wall_ms > mean + 3 * deviation else [])


TOOLS: dict[str, Tool] = {
    "joinsight why": joinsight,
    "joinsight why, only the two runs": without_history,
    "the counter that changed most": most_changed,
    "three sigma": three_sigma,
}


def report(file: Path, *, is_verbose: bool = False) -> Iterator[str]:
    """A table for each tool."""
    runs = read(file)
    pairs = [*pairs_of(runs)]
    if not runs:
        return
    yield f"{len(runs)} runs; load of the machine: median {median_low(run.load for run in runs):.1f}"
    for name, tool in TOOLS.items():
        yield f"{name}:"
        yield from scored(pairs, tool, is_verbose=is_verbose and tool is joinsight)


def scored(pairs: Sequence[Pair], tool: Tool, *, is_verbose: bool = False) -> Iterator[str]:
    """How often a tool is right: by plant, and in all."""
    first: dict[str, list[bool]] = defaultdict(list)
    second: list[bool] = []
    near: dict[str, list[bool]] = defaultdict(list)
    blamed: list[bool] = []
    for pair in pairs:
        said = tool(pair)
        took, before = pair.longer_ms, pair.a.wall_ms
        told = ", ".join(f"{code} {ms:+,.0f}" for code, ms in said.causes[:4]) or "nothing"
        line = f"{pair.plant} {pair.size}, {took:+,} ms of {before:,} ms: {told}"
        if not pair.codes:
            blamed.append(bool(said.causes))
            if is_verbose and said.causes:
                yield f"  blamed: {line}"
            continue
        if took < _LEAST_MS or pair.b.wall_ms < _LEAST_RATIO * before:
            continue
        codes = [code for code, _ in said.causes]
        first[pair.plant].append(codes[:1] != [] and codes[0] in pair.codes)
        second.append(any(code in pair.codes for code in codes[:2]))
        amount = sum(ms for code, ms in said.causes if code in pair.codes)
        near[pair.plant].append(abs(amount - (pair.adds_ms or took)) <= _POINTS * took)
        if is_verbose and not (first[pair.plant][-1] and near[pair.plant][-1]):
            yield f"  {'far' if first[pair.plant][-1] else 'wrong'}: {line}"
    for plant, its in first.items():
        yield f"  {plant}: {sum(its)} of {len(its)}, amount {sum(near[plant])}"
    yield f"  first cause right: {_share(_every(first))}; among the first two: {_share(second)}"
    yield f"  its amount within 10 points of the difference: {_share(_every(near))}"
    yield f"  unchanged pairs blamed: {_share(blamed)}"


def _every(by_plant: dict[str, list[bool]]) -> list[bool]:
    return [each for its in by_plant.values() for each in its]


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)} ({sum(right) / len(right):.0%})" if right else "none"


__all__ = ["TOOLS", "Pair", "Said", "pairs_of", "report", "scored"]
