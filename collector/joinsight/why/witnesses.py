"""The numbers that moved with a cause, as lines of evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.verdict.view import View
from joinsight.why.places import RunPlaces, StageRun

MOVED = 1.1
"""How much a number must have changed to be a witness."""
_READ, _WRITTEN = "number of files read", "number of written files"
_SKEWED_MS = 500
_UNEVEN_ROWS, _UNEVEN_TIMES = 1.5, 4.0
"""How much more unequal the tasks of a stage must be, for it to be no scatter."""

_LEAST_CPU_MS, _OTHER_CPU = 500, 1.9


def ratio(a: float, b: float) -> float:
    """How many times the larger is the smaller."""
    low, high = sorted((max(a, 1e-9), max(b, 1e-9)))
    return high / low


def files_of(one: StageRun, other: StageRun) -> list[int]:
    """How many files both read; if they wrote the execution's result, how many they wrote, if that changed more."""
    read, written = [], []
    for its in (one, other):
        plan, ran = its.view.plan, its.view.breakdown.ran(its.stage_id)
        read.append(sum(plan.total(plan.nodes[i], _READ) or 0 for i in ran))
        written.append(_all(its.view, _WRITTEN) if its.writes is None else 0)
    return written if min(written) and (not min(read) or ratio(*written) > ratio(*read)) else read


def all_files(run: RunPlaces) -> int:
    """How many files an execution read."""
    return _all(run.view, _READ)


def _all(view: View, name: str) -> int:
    return sum(view.plan.total(node, name) or 0 for node in view.plan.graph.nodes)


def has_other_skew(one: StageRun, other: StageRun) -> bool:
    """Whether the largest task of a stage has much more of its rows, also for its number of tasks, or takes so much
    longer that it is no chance.
    """
    if max(one.wall_ms, other.wall_ms) < _SKEWED_MS:
        return False
    rows = [its.most_rows_to_mean for its in (one, other)]
    parts = [each / max(1, its.tasks) for each, its in zip(rows, (one, other), strict=True)]
    is_same_way = (rows[1] - rows[0]) * (parts[1] - parts[0]) > 0
    return (all(rows) and is_same_way and min(ratio(*rows), ratio(*parts)) >= _UNEVEN_ROWS) or (
        one.tasks == other.tasks and ratio(one.longest_to_mean, other.longest_to_mean) >= _UNEVEN_TIMES
    )


def has_other_cpu(one: StageRun, other: StageRun) -> bool:
    """Whether the rows of a stage took so much more or less CPU time that it is no chance."""
    if one.is_threaded or other.is_threaded:
        return False
    cpu = [its.parts["cpu"] + its.parts["python"] for its in (one, other)]
    per_row = [its / max(1, stage.handled) for its, stage in zip(cpu, (one, other), strict=True)]
    return max(cpu) >= _LEAST_CPU_MS and ratio(*per_row) >= _OTHER_CPU


def _of_run(stage: StageRun, name: str, scale: float = 1.0) -> float:
    return stage.total(name) / scale / stage.run_ms if stage.run_ms else 0.0


def witness(code: str, one: StageRun, other: StageRun) -> str:
    """The number that moved with a cause; empty if none did."""
    look = _WITNESSES.get(code)
    return look(one, other) if look else ""


def _cpu_per_row(one: StageRun, other: StageRun) -> str:
    if one.is_threaded or other.is_threaded:
        return ""
    each = [(its.parts["cpu"] + its.parts["python"]) / max(1, its.handled) * 1000 for its in (one, other)]
    if ratio(*each) < MOVED:
        return ""
    scans = [{name.strip() for name in its.names if operators.of(name).kind == "scan"} for its in (one, other)]
    read = f"; it has {', '.join(sorted(scans[1]))} in place of {', '.join(sorted(scans[0]))}"
    return (
        f"stage {other.stage_id} took {each[1]:,.1f} us of CPU and Python a row, {each[0]:,.1f} before"
        f"{read if all(scans) and scans[0] != scans[1] else ''}"
    )


def _memory(one: StageRun, other: StageRun) -> str:
    gc = [_of_run(its, "gc_time_ms") for its in (one, other)]
    spilled = [its.total("memory_spilled_bytes") for its in (one, other)]
    texts = []
    if abs(gc[1] - gc[0]) >= 0.03:
        texts.append(f"garbage collection took {gc[1]:.0%} of stage {other.stage_id}, {gc[0]:.0%} before")
    if max(spilled) and ratio(*spilled) >= MOVED:
        texts.append(f"stage {other.stage_id} spilled {bytes_text(spilled[1])}, {bytes_text(spilled[0])} before")
    return "; ".join(texts)


def _fetch(one: StageRun, other: StageRun) -> str:
    waited = [
        its.total("shuffle_fetch_wait_ms") + its.total("shuffle_write_time_ns") // 1_000_000 for its in (one, other)
    ]
    if abs(waited[1] - waited[0]) < 50 or ratio(*waited) < MOVED:
        return ""
    return (
        f"tasks of stage {other.stage_id} waited {duration_text(waited[1])} to read and write shuffle blocks,"
        f" {duration_text(waited[0])} before"
    )


def _driver(one: StageRun, other: StageRun) -> str:
    if abs(other.delay_ms - one.delay_ms) < 50 or ratio(one.delay_ms, other.delay_ms) < MOVED:
        return ""
    return (
        f"tasks of stage {other.stage_id} waited {duration_text(other.delay_ms)} for the driver's scheduler,"
        f" {duration_text(one.delay_ms)} before"
    )


def _contention(one: StageRun, other: StageRun) -> str:
    cpu = [_of_run(its, "cpu_time_ns", 1e6) for its in (one, other)]
    if one.is_threaded or other.is_threaded or abs(cpu[1] - cpu[0]) < 0.05:
        return ""
    return f"tasks of stage {other.stage_id} had the CPU for {cpu[1]:.0%} of their run time, {cpu[0]:.0%} before"


def _skew(one: StageRun, other: StageRun) -> str:
    if ratio(one.longest_to_mean, other.longest_to_mean) < MOVED and abs(one.tail_ms - other.tail_ms) < 100:
        return ""
    return (
        f"the longest task of stage {other.stage_id} took {other.longest_to_mean:,.1f} times the mean,"
        f" {one.longest_to_mean:,.1f} before"
    )


def _partitions(one: StageRun, other: StageRun) -> str:
    return "" if one.tasks == other.tasks else f"stage {other.stage_id} had {other.tasks:,} tasks, {one.tasks:,} before"


def _slots(one: StageRun, other: StageRun) -> str:
    used = [its.run_ms / its.wall_ms if its.wall_ms else 0.0 for its in (one, other)]
    if one.slots == other.slots and (min(used) == 0 or ratio(*used) < MOVED):
        return ""
    return f"stage {other.stage_id} used {used[1]:,.1f} of {other.slots} slots, {used[0]:,.1f} of {one.slots} before"


def _files_moved(one: StageRun, other: StageRun) -> str:
    files = files_of(one, other)
    did = "wrote" if files[1] == _all(other.view, _WRITTEN) else "read"
    return f"stage {other.stage_id} {did} {files[1]:,} files, {files[0]:,} before"


def other_operators(one: StageRun, other: StageRun) -> str:
    new, gone = (
        ", ".join(
            dict.fromkeys(
                x.view.plan.nodes[i].name.strip()
                for i in x.view.breakdown.ran(x.stage_id)
                if x.view.keys.get(i) in x.keys - y.keys
            )
        )
        for x, y in ((other, one), (one, other))
    )
    if not new and not gone:
        return f"stage {other.stage_id} has the same operators in another plan"
    return f"stage {other.stage_id} has {new or 'nothing new'} in place of {gone or 'nothing'}"


_WITNESSES: Mapping[str, Callable[[StageRun, StageRun], str]] = {
    "cpu_per_row": _cpu_per_row,
    "memory": _memory,
    "fetch": _fetch,
    "contention": _contention,
    "driver": _driver,
    "skew": _skew,
    "partitions": _partitions,
    "slots": _slots,
    "files": _files_moved,
    "plan": other_operators,
}


__all__ = ["MOVED", "all_files", "files_of", "has_other_cpu", "has_other_skew", "other_operators", "ratio", "witness"]
