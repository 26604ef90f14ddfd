"""Garbage collection and spilling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from joinsight.base.units import bytes_text
from joinsight.verdict.cause import BESIDE_SKEW, MB, Cause
from joinsight.verdict.view import Ran, View
from joinsight.verdict.work import multiplying

_SPILL_PER_SECOND = 20 * MB
"""Bytes of deserialized data that a task spills, and reads again, in a second."""
_MOST_SPILL = 0.7
"""The largest share of a stage, and of what spilled in it, that spilling can have taken: the rest is its work."""
SPILL_SIZE = "spill size"
_MUCH_GC = 0.15
"""Share of the run time of tasks."""


def memory(view: View) -> Iterator[Cause]:
    """Garbage collection and spilling, in all stages on the path."""
    collected = collecting(view)
    if collected:
        _, worst = max(collected, key=lambda each: each[0])
        took, run = (sum(ran.number(name) for _, ran in collected) for name in ("gc_time_ms", "run_time_ms"))
        yield Cause(
            "gc",
            sum(ms for ms, _ in collected),
            worst.nodes[:3],
            f"garbage collection took {100 * min(1.0, took / run):.0f} % of the run time of {_stages(collected)}",
            "Give executors (in local mode, the driver) more memory or fewer cores; avoid collect_list, large arrays"
            " and caches of objects.",
            {"gc_time_ms": took, "run_time_ms": run},
            worst.stage_id,
        )
    spilling = [(ms, ran) for ran in view.ran if (ms := spilling_ms(view, ran)) > 0]
    if spilling:
        _, worst = max(spilling, key=lambda each: each[0])
        spillers = _spillers(view, worst)
        is_half = worst.tasks < (view.slots or 1) or any(set(spillers) & set(its) for its in multiplying(view))
        size, on_disk = (sum(ran.number(f"{name}_spilled_bytes") for _, ran in spilling) for name in ("memory", "disk"))
        seen = sum(ms for ms, _ in spilling)
        wall = sum(min(ms, round(_MOST_SPILL * _most_spill(view, ran))) for ms, ran in spilling)
        sure = seen / max(1, wall)
        yield Cause(
            "spill",
            wall,
            spillers or worst.nodes[:3],
            f"{_stages(spilling)} spilled {bytes_text(size)} of data, {bytes_text(on_disk)} on disk",
            "Use more partitions (spark.sql.shuffle.partitions), so that each task has less to keep, or give"
            " executors more memory (spark.executor.memory, spark.memory.fraction) for each core.",
            {"memory_spilled_bytes": size, "disk_spilled_bytes": on_disk},
            worst.stage_id,
            certainty=BESIDE_SKEW * sure if is_half else sure,
            beside=() if is_half else (worst.stage_id,),
        )


def collecting(view: View) -> list[tuple[int, Ran]]:
    """Stages of which garbage collection took much, and how much of the wall time of each."""
    return [
        (min(round(ran.wall_ms * min(1.0, share)), ran.number("gc_time_ms")), ran)
        for ran in view.ran
        if ran.run_ms and (share := ran.number("gc_time_ms") / ran.run_ms) >= _MUCH_GC
    ]


def spilling_ms(view: View, ran: Ran) -> int:
    """How much of the wall time of a stage spilling takes: longer on busy hosts, as all else does."""
    size = ran.number("memory_spilled_bytes")
    if not size or not ran.run_ms:
        return 0
    share = 1_000 * size * view.stretch(ran) / _SPILL_PER_SECOND / ran.run_ms
    return min(round(ran.wall_ms * min(_MOST_SPILL, share)), _most_spill(view, ran))


def _most_spill(view: View, ran: Ran) -> int:
    """The wall time of what may have spilled in a stage: the operators that did, and shuffles if that is not all."""
    its = set(_spillers(view, ran))
    known = sum(view.plan.total(view.plan.nodes[i], SPILL_SIZE) or 0 for i in its)
    if known < _MOST_SPILL * ran.number("memory_spilled_bytes"):
        its |= {row["node_id"] for row in view.stored.shuffles if ran.stage_id in (row["map_stages"] or ())}
    if not its:
        return ran.wall_ms
    return sum(
        ms
        for subject, ms in ran.parts.items()
        if subject.node_id in its or (subject.kind == "shared" and its & set(view.breakdown.holds(subject)))
    )


def _stages(concerned: Sequence[tuple[int, Ran]]) -> str:
    return "its tasks" if len(concerned) == 1 else f"{len(concerned)} stages"


def _spillers(view: View, ran: Ran) -> tuple[int, ...]:
    spilled = {i: view.plan.total(view.plan.nodes[i], SPILL_SIZE) or 0 for i in ran.nodes if view.plan.nodes[i].metrics}
    return tuple(sorted((i for i, size in spilled.items() if size), key=lambda i: -spilled[i]))
