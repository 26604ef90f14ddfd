"""Why one execution took longer or shorter than another: causes whose amounts add up to the difference.

::

    two executions ──► places: stages matched by their operators' keys, broadcasts, the driver's causes
    a matched stage: wall time = rows x time a row (CPU, GC, spilling, waiting) x imbalance / slots
        ──► the difference divided over these factors (`division`), without a rest
    a place of one execution only ──► another plan
    a cause without a number that moved, and what is too small ──► not explained

docs/why.md has the rules and the codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError
from joinsight.base.units import duration_text
from joinsight.contract.document import ENDED
from joinsight.present.values import execution_name
from joinsight.why.amounts import Amount, Amounts
from joinsight.why.compared import Compared
from joinsight.why.division import rounded
from joinsight.why.normal import Scatter
from joinsight.why.parts import parts
from joinsight.why.places import RunPlaces

NOT_EXPLAINED = "not_explained"
_ADVICE: Mapping[str, str] = {
    "data": "There was more or less to do: see which source brought it, and whether that was expected.",
    "plan": "Spark ran another plan: look at the settings, hints and sizes that changed (joinsight diff A B).",
    "cpu_per_row": "The same rows took more or less CPU: look at expressions, functions, casts and file formats.",
    "skew": "Look at the most frequent values of the key that this stage reads.",
    "partitions": "There were more or fewer tasks: look at spark.sql.shuffle.partitions, repartition and AQE.",
    "memory": "Look at spark.executor.memory, spark.memory.fraction, and at how much each task keeps.",
    "fetch": "Look at the network and disks of the executors that served these blocks.",
    "contention": "Look at what else used the CPUs and disks of these hosts.",
    "slots": "Look at what else ran in the application, and at how many executors it had.",
    "retry": "Look at why tasks failed, or why executors or their shuffle files were lost.",
    "files": "Compact the files that it reads.",
    "broadcast": "Look at the size of the broadcast and at the driver's memory and network.",
    "driver": "Look at what the driver did: planning, listing files, collecting results, other threads.",
    "commit": "Look at the number of files written, and at the storage.",
    "nested": "Look at the executions that it started.",
    NOT_EXPLAINED: "",
}
"""By code, what to do first."""
CODES = tuple(_ADVICE)
_LEAST_SHARE = 0.03
"""Share of the difference below which a cause is not named."""
_KNOWN = ("plan", "data", "files", "retry", "partitions", "skew")
"""Causes that are known from numbers without scatter: plans, rows, files, attempts, tasks."""
_NO_EFFECTS = ("driver", "broadcast", "commit", "nested")
"""Causes that have no effects which other codes name: their time is the driver's own."""
_EFFECTS = ("memory", "fetch", "contention", "cpu_per_row", "slots", "skew", "partitions", "driver", "broadcast")
_LEAST_NAMED = 0.2
"""Share of the difference that all causes must explain, for them to be named."""
_OF_DRIVER = ("driver", "broadcast")
_LEAD = 0.3
"""Share of the difference from which on a known cause comes before all others."""
_MOST_EFFECT, _MOST_KNOWN = 0.35, 0.8
"""How large an effect may be, compared with its cause; what is larger is a cause of its own."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the difference; above 0: it made the second execution slower."""

    code: str
    wall_ms: int
    task_ms: int
    place: Mapping[str, object]
    """`operators`: their keys; `stage`: where most of it happened, in the second execution if it is there."""
    evidence: Sequence[str]
    """What moved, a line each; of what is not explained, how much longer tasks waited, if that is scatter."""
    advice: str


@dataclass(frozen=True, slots=True)
class Why:
    """The fields are those of ``joinsight why --json``: docs/why.md."""

    a: str
    b: str
    difference_ms: int
    """How much longer the second took."""
    task_difference_ms: int
    scatter_ms: int
    """How much runs of this query differ without a cause."""
    runs: int
    """Runs from which that is known; 0: it is a guess."""
    is_normal: bool
    """Whether the difference is within the scatter: then nothing is explained."""
    causes: Sequence[Cause]
    """The largest first; their `wall_ms` add up to `difference_ms`, their `task_ms` to `task_difference_ms`."""
    text: str
    limits: Sequence[str]
    """What could not be divided, and why."""


def explain(a: StoredPlan, b: StoredPlan) -> Why:
    """Why `b` took longer or shorter than `a`. Raises `JoinsightError` unless both have ended."""
    for each in (a, b):
        if each.execution["state"] not in ENDED or each.execution["duration_ms"] is None:
            name = execution_name(each.execution)
            raise JoinsightError(f"Execution {name} is {each.execution['state']}: its time cannot be divided.")
    both = Compared(RunPlaces(a), RunPlaces(b))
    found = Amounts(both).found
    lead = _fold(both, found)
    scatter = Scatter(both, found, lead)
    why = Why(
        a=execution_name(a.execution),
        b=execution_name(b.execution),
        difference_ms=both.difference,
        task_difference_ms=both.tasks,
        scatter_ms=round(scatter.ms),
        runs=scatter.runs,
        is_normal=scatter.is_normal,
        causes=_causes(both, found, lead, is_named=not scatter.is_normal and not scatter.is_of_busy_hosts()),
        text="",
        limits=_limits(both),
    )
    why = replace(why, causes=[_by_parts(each, a, b) if each.code == "nested" else each for each in why.causes])
    return replace(why, text=_text(why))


def _by_parts(cause: Cause, a: StoredPlan, b: StoredPlan) -> Cause:
    """With the executions that took more or less, and why the one did that moved most."""
    found = parts(a, b, cause.wall_ms)
    evidence = [
        f"{each.title}: {duration_text(each.after_ms)}, {duration_text(each.before_ms)} before" for each in found
    ]
    advice = cause.advice
    if found and found[0].a is not None and found[0].b is not None:
        inner = explain(found[0].a, found[0].b)
        first = next((each for each in inner.causes if each.code != NOT_EXPLAINED), None)
        if first is not None:
            why = first.evidence[0] if first.evidence else duration_text(abs(first.wall_ms))
            evidence[0] += f": {first.code}, {why}"
            advice = first.advice
        advice += f" joinsight why {inner.a} {inner.b}"
    return replace(cause, evidence=[*cause.evidence, *evidence], advice=advice)


def _fold(both: Compared, found: dict[str, Amount]) -> str:
    """Count the side effects of the first cause with it: amounts that are small next to its own. Returns it."""
    amounts = {code: abs(its.wall) for code, its in found.items() if its.wall}
    named = [code for code in amounts if found[code].moved and code not in both.of_warming]
    if not named:
        return NOT_EXPLAINED
    possible = [*_KNOWN, *["cpu_per_row"] * both.is_edited, *["memory"] * bool(both.memory_settings)]
    possible += ["slots"] * (both.has_other_slots or both.has_other_use)
    known = [code for code in named if code in possible and amounts[code] >= _LEAD * abs(both.difference)]
    lead = max(known or named, key=lambda code: amounts[code])
    effects = _EFFECTS if lead in ("data", *_NO_EFFECTS) or both.is_more_data else ("data", *_EFFECTS)
    for code in () if lead in _NO_EFFECTS else effects:
        is_driver = code in _OF_DRIVER and lead != "contention"
        most = amounts[lead] * (_MOST_EFFECT if is_driver or not (known or lead == "contention") else _MOST_KNOWN)
        if code != lead and amounts.get(code, most + 1) <= most:
            its = found.pop(code)
            found[lead].wall += its.wall
            found[lead].task += its.task
    return lead


def _limits(both: Compared) -> list[str]:
    found = []
    for each in (both.a, both.b):
        e = each.stored.execution
        name = execution_name(e)
        if not each.stored.segments:
            found.append(f"{name} has no critical path: its stages are unknown")
        found += [f"{name} is partial: {reason}" for reason in e["incomplete"] or ()]
        if e["state"] != "succeeded":
            found.append(f"{name} {e['state']}")
    if both.is_edited:
        seconds = sum(x.wall_ms for x, y in both.pairs if x and y)
        whole = sum(s.wall_ms for s in both.a.stages)
        share = seconds / whole if whole else 0.0
        found.append(f"these are different queries: {share:.0%} of the stages' time was matched")
    if both.is_warming:
        name = execution_name((both.b if both.difference > 0 else both.a).stored.execution)
        found.append(f"{name} was the first run of the query in its application, which takes longer")
    if both.versions:
        found.append(f"{both.versions}: keys of operators, and what is measured at them, may differ")
    return found


def _causes(both: Compared, found: Mapping[str, Amount], lead: str, is_named: bool) -> list[Cause]:
    kept: dict[str, Amount] = {}
    is_partial = any(each.stored.execution["incomplete"] or not each.stored.segments for each in (both.a, both.b))
    for code, its in found.items():
        is_small = abs(its.wall) < max(_LEAST_SHARE * abs(both.difference), 1)
        is_left = is_small or is_partial or code in (NOT_EXPLAINED, *both.of_warming)
        if is_named and not is_left and its.moved:
            kept[code] = its
    if sum(its.wall for its in kept.values()) * both.difference < _LEAST_NAMED * both.difference**2:
        kept = {}
    walls = rounded({code: its.wall for code, its in kept.items()}, both.difference, NOT_EXPLAINED)
    tasks = rounded({code: its.task for code, its in kept.items()}, both.tasks, NOT_EXPLAINED)
    causes = [
        Cause(code, wall, tasks[code], its.place, its.moved, _ADVICE[code])
        for code, wall in walls.items()
        for its in [kept.get(code, Amount())]
        if code != NOT_EXPLAINED or wall or tasks[code]
    ]
    if not kept and not is_partial and both.difference > 0 and lead == "contention" and not both.is_other_work:
        causes = [replace(each, evidence=found[lead].moved[:1]) for each in causes]
    return sorted(causes, key=lambda each: (each.code == NOT_EXPLAINED, -abs(each.wall_ms)))


def _text(why: Why) -> str:
    """One or two sentences."""
    amount = duration_text(abs(why.difference_ms))
    how = "longer" if why.difference_ms >= 0 else "less"
    known = f"from {why.runs} runs" if why.runs else "a guess, since too few earlier runs are known"
    if why.is_normal:
        busy = [text for each in why.causes for text in each.evidence[:1]]
        return f"{why.b} took {amount} {how} than {why.a}: normal scatter, no cause. " + (
            f"Its hosts were busier, which may be chance: {busy[0]}."
            if busy
            else f"Runs of this query differ by up to {duration_text(why.scatter_ms)} ({known})."
        )
    named = [each for each in why.causes if each.code != NOT_EXPLAINED and each.wall_ms * why.difference_ms > 0]
    if not named:
        return f"{why.b} took {amount} {how} than {why.a}, and nothing that moved explains it."
    first = named[0]
    more = f" ({first.evidence[0]})" if first.evidence else ""
    sign = "" if first.wall_ms >= 0 else "-"
    return (
        f"{why.b} took {amount} {how} than {why.a}. The largest cause is {first.code}:"
        f" {sign}{duration_text(abs(first.wall_ms))}{more}."
    )


__all__ = ["CODES", "Cause", "Why", "explain"]
