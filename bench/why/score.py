"""Scores what names the causes of a slower run against what was planted. `scored` takes any tool's causes."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.document import Execution
from joinsight.why import NOT_EXPLAINED, explain

_LEAST_MS = 300
_LEAST_RATIO = 1.25
"""How much slower the changed run must have been, for something to have been planted in fact."""
_POINTS = 0.10


class Pair(msgspec.Struct, frozen=True):
    """Two runs; `codes`: the cause of their difference, best first; empty: nothing was changed."""

    plant: str
    size: int
    codes: list[str]
    a: Execution
    b: Execution
    earlier_ms: list[int]
    """Durations of runs before, in which nothing was changed."""


@dataclass(frozen=True)
class Said:
    """What a tool answers for a pair: causes with milliseconds, the largest first; none: normal scatter."""

    causes: Sequence[tuple[str, float]]


def wall(e: Execution) -> int:
    """How long it took."""
    return (e.ended_at_ms or 0) - e.started_at_ms


def joinsight(pair: Pair) -> Said:
    """What `joinsight why` answers."""
    a, b = (_stored(each) for each in (pair.a, pair.b))
    rows = [{"duration_ms": ms, "run_time_ms": 1, "cpu_time_ms": 1} for ms in pair.earlier_ms]
    why = explain(a, replace(b, earlier=rows))
    if why.is_normal:
        return Said(())
    return Said([(each.code, each.wall_ms) for each in why.causes if each.code != NOT_EXPLAINED])


def _stored(e: Execution) -> StoredPlan:
    return replace(stored_plan(execution_rows(e)), slots=2)


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
        first, last = (sum(getattr(s, name) or 0 for s in e.stages for name in counters) for e in (pair.a, pair.b))
        found[code] = max(first, last, 1) / max(1, min(first, last))
    largest = sorted(found.items(), key=lambda each: -each[1])
    return Said([(code, float(wall(pair.b) - wall(pair.a))) for code, _ in largest[:2]])


TOOLS: dict[str, Callable[[Pair], Said]] = {"joinsight why": joinsight, "the counter that changed most": most_changed}


def score(file: Path, *, is_verbose: bool = False) -> Iterator[str]:
    """A table for each tool."""
    with gzip.open(file) as lines:
        pairs = [msgspec.json.decode(line, type=Pair) for line in lines]
    for name, tool in TOOLS.items():
        yield f"{name}:"
        yield from scored(pairs, tool, is_verbose=is_verbose and tool is joinsight)


def scored(pairs: Sequence[Pair], tool: Callable[[Pair], Said], *, is_verbose: bool = False) -> Iterator[str]:
    """How often a tool is right: by plant, and in all."""
    first: dict[str, list[bool]] = defaultdict(list)
    second: list[bool] = []
    near: list[bool] = []
    blamed: list[bool] = []
    for pair in pairs:
        said = tool(pair)
        took = wall(pair.b) - wall(pair.a)
        if not pair.codes:
            blamed.append(bool(said.causes))
            if is_verbose and said.causes:
                yield f"  blamed: {pair.plant} {pair.size}, {took:+,} ms of {wall(pair.a):,} ms: {said.causes[:3]}"
            continue
        if took < _LEAST_MS or wall(pair.b) < _LEAST_RATIO * wall(pair.a):
            continue
        codes = [code for code, _ in said.causes]
        first[pair.plant].append(codes[:1] != [] and codes[0] in pair.codes)
        second.append(any(code in pair.codes for code in codes[:2]))
        amount = sum(ms for code, ms in said.causes if code in pair.codes)
        near.append(abs(amount / took - 1) <= _POINTS)
        if is_verbose and not first[pair.plant][-1]:
            yield f"  wrong: {pair.plant} {pair.size}, {took:+,} ms of {wall(pair.a):,} ms: {said.causes[:3]}"
    for plant, its in first.items():
        yield f"  {plant}: {sum(its)} of {len(its)}"
    every = [each for its in first.values() for each in its]
    yield f"  first cause right: {_share(every)}; among the first two: {_share(second)}"
    yield f"  its amount within 10 points of the difference: {_share(near)}"
    yield f"  unchanged pairs blamed: {_share(blamed)}"


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)} ({sum(right) / len(right):.0%})" if right else "none"
