"""The verdict on an execution: where its time went, by what mechanism, what proves it, what to do first.

`causes` says how much of the wall time each mechanism explains. The largest one is the verdict. A cause that only says
where the time went (an operator's own work, the driver) counts half: what explains why goes before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from joinsight.analysis.micro_batches import computed_again
from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text, first_up
from joinsight.contract.micro_batch import is_stop
from joinsight.plan.rewritten import rewritten
from joinsight.verdict import names
from joinsight.verdict.cause import PLACES, Cause, Code
from joinsight.verdict.failure import failed_at, failure_of, first_words, readable
from joinsight.verdict.mechanisms import TOGETHER, causes
from joinsight.verdict.view import View

_LEAST_TOGETHER = 0.5
"""The same of the wall time that several executions of a command must have spent in one kind of place."""
LARGEST_PART_SHARE = 0.33
"""Share of the wall time from which on the largest part is worth advice, though no mechanism stands out."""
_SHORT_MS = 1_000
_SHORT = "Nothing needs to be done, unless it runs very often: it took less than a second."
_FIXED: tuple[Code, ...] = ("compute", "scan", "shuffle", "python", "few_tasks", "tiny_tasks")
"""Codes of what takes some time in each query."""
_ALSO_SHARE = 0.15
"""Share of the wall time from which on a second cause is named."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The largest cause. The fields are those of ``joinsight verdict --json``: docs/verdict.md."""

    code: Code
    share: float
    """The part of the wall time, 0 to 1."""
    wall_ms: int
    operators: tuple[str, ...]
    """Keys, the one to look at first."""
    stage: int | None
    evidence: Mapping[str, Any]
    text: str
    """One to three sentences."""
    next: str
    """What to do first."""
    nodes: tuple[int, ...] = ()
    """The operators' nodes in the final plan."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A cause with the execution in which it is: the one that is judged, or one that it started."""

    view: View
    cause: Cause
    started: int | None = None
    """The id of the execution that it started."""
    executions: int = 1
    """In how many executions together; this is the largest."""

    @property
    def inside(self) -> str:
        return "" if self.started is None else f" of execution {self.started}"


def judge(stored: StoredPlan) -> Verdict:
    """The verdict on an execution. What it started counts as its own, for the time that it waited for it.

    Its evidence has the rows that a command of a table format wrote, and those of them that it did not change.
    """
    if stored.execution["state"] in ("failed", "cancelled"):
        return _ended_early(stored)
    verdict, rows = _judge(stored), rewritten(stored.plan)
    if rows is None:
        return verdict
    copied = {"copied_rows": rows.copied_rows, "written_rows": rows.written_rows}
    return replace(verdict, evidence={**verdict.evidence, **copied})


def _ended_early(stored: StoredPlan) -> Verdict:
    """Why it failed, which no advice about its speed fixes; of one that was cancelled, what took so long."""
    error = readable(stored.execution["error"] or "")
    inner = _failed_inside(stored, error) or stored
    error = error or readable(inner.execution["error"] or "")
    whole = View(stored).wall_ms
    if stored.execution["state"] == "cancelled" or is_stop(error):
        verdict = _judge(stored)
        return replace(verdict, text=f"Cancelled after {duration_text(whole)}. {verdict.text}")
    view, failure, words = View(inner), failure_of(error), first_words(error)
    stage, nodes = failed_at(view, failure, error)
    stop = "" if words.endswith("…") else "."
    evidence: dict[str, Any] = {"error": words}
    place = "" if stage is None else f" in stage {stage}"
    if inner is not stored:
        evidence["execution"] = inner.execution["execution_id"]
        place += f" of execution {evidence['execution']}" if place else f" in execution {evidence['execution']}"
    operators = f" ({', '.join(dict.fromkeys(names.operator(view, i) for i in nodes[:2]))})" if nodes else ""
    text, advice = f"It failed after {duration_text(whole)}{place}{operators}: {words}{stop}", failure.advice
    needs = [
        each for each in causes(view) if each.code in failure.needed_by and each.stage_id == stage and each.wall_ms
    ]
    if needs:
        largest = min(needs, key=lambda each: -each.weight)
        nodes = largest.nodes
        text, advice = f"{text} {first_up(largest.what)}.", largest.next
    keys = tuple(key for i in nodes if (key := view.keys.get(i)))
    is_own = inner is stored and view.is_final
    return Verdict("failed", 1.0, whole, keys, stage, evidence, text, advice, nodes if is_own else ())


def _failed_inside(stored: StoredPlan, error: str) -> StoredPlan | None:
    """The last execution that failed with that error, if it started any; one with a failed stage rather than others."""
    failed = [each for each in reversed(stored.nested) if each.execution["state"] == "failed"]
    its = [each for each in failed if not error or first_words(each.execution["error"] or "").rstrip("…") in error]
    return max(its, key=lambda each: any(row["state"] == "failed" for row in each.stages), default=None)


def _judge(stored: StoredPlan) -> Verdict:
    view = View(stored)
    own = [_Place(view, each) for each in causes(view) if each.wall_ms > 0]
    inner = [] if computed_again(stored) else [each for each in _nested(stored) if each.cause.wall_ms > 0]
    whole = max(1, view.wall_ms)
    all_causes = [each for each in (*own, *inner) if not (inner and each.cause.code == "nested")]
    found = sorted((*all_causes, *(_together(all_causes) if inner else ())), key=_first)
    best = next((each for each in found if _explains(each.cause, whole)), None)
    if best is None:
        best = next((each for each in own if each.cause.code == "nested" and _explains(each.cause, whole)), None)
    if best is None:
        return _even(view, [each.cause for each in found])
    cause = best.cause
    wall = min(cause.wall_ms, whole)
    keys = tuple(key for i in cause.nodes if (key := best.view.keys.get(i)))
    text = _text(best, wall, whole, [each.cause for each in found])
    evidence = cause.evidence if best.started is None else {**cause.evidence, "execution": best.started}
    evidence = evidence if best.executions == 1 else {**evidence, "executions": best.executions}
    nodes = cause.nodes if best.started is None and view.is_final else ()
    stage = _stage(best, found)
    is_short = view.has_ended and whole < _SHORT_MS and cause.code in _FIXED
    advice = _SHORT if is_short else cause.next
    verdict = Verdict(cause.code, round(wall / whole, 4), wall, keys, stage, evidence, text, advice, nodes)
    return _with_longest(verdict, stored) if cause.code == "nested" else verdict


def _stage(best: _Place, found: Sequence[_Place]) -> int | None:
    """Its stage; of several together, the one that has half of it."""
    its = [each.cause for each in found if each.cause.code == best.cause.code and each.started == best.started]
    staged = (each for each in its if each.stage_id is not None)
    largest = max(staged, key=lambda each: each.wall_ms, default=best.cause)
    is_most = best.cause.is_together and 2 * largest.wall_ms >= best.cause.wall_ms
    return largest.stage_id if is_most else best.cause.stage_id


def _with_longest(verdict: Verdict, stored: StoredPlan) -> Verdict:
    """The verdict on an execution that waited for others, which continues with that on the longest of these."""
    number = verdict.evidence.get("longest_execution")
    inner = next((judge(each) for each in stored.nested if each.execution["execution_id"] == number), None)
    if inner is None:
        return verdict
    advice = verdict.next if computed_again(stored) else inner.next
    return replace(verdict, text=f"{verdict.text} In execution {number}: {inner.text}", next=advice)


def _nested(stored: StoredPlan) -> Iterator[_Place]:
    """The causes in the executions that this one started, with the time for which it waited."""
    for each in stored.nested:
        view, number = View(each), each.execution["execution_id"]
        part = stored.waited.get(number, 0) / max(1, view.wall_ms)
        for cause in causes(view) if part else ():
            wall, seen = (round(ms * min(1, part)) for ms in (cause.wall_ms, cause.seen_ms))
            yield _Place(view, replace(cause, wall_ms=wall, seen_ms=seen), number)


def _together(found: Sequence[_Place]) -> Iterator[_Place]:
    """What a code explains in several executions, which ran one after the other, as a cause of the command."""
    by_code: dict[Code, dict[int | None, _Place]] = defaultdict(dict)
    for each in sorted(found, key=_first):
        by_code[each.cause.code].setdefault(each.started, each)
    for code, of_executions in by_code.items():
        largest, *others = of_executions.values()
        if others:
            its = [each.cause for each in of_executions.values()]
            wall, seen = sum(each.wall_ms for each in its), sum(each.seen_ms for each in its)
            least = _LEAST_TOGETHER if code in PLACES and code != "driver" else largest.cause.least_share
            cause = replace(largest.cause, wall_ms=wall, seen_ms=seen, least_share=least)
            yield replace(largest, cause=cause, executions=len(of_executions))


def _first(place: _Place) -> float:
    return -place.cause.weight


def _explains(cause: Cause, whole: int) -> bool:
    return max(cause.wall_ms, cause.seen_ms) >= cause.least_share * whole


def _text(best: _Place, wall: int, whole: int, found: Sequence[Cause]) -> str:
    view, cause = best.view, best.cause
    so_far = "" if view.has_ended else " so far"
    amount = f"{100 * wall / whole:.0f} % of {duration_text(whole)}{so_far}"
    if best.executions > 1:
        largest = "this one" if best.started is None else f"execution {best.started}"
        text = f"{amount} in {best.executions} executions, the largest part in {largest}: {cause.what}."
    elif cause.code == "compute" and cause.nodes and cause.stage_id is not None:
        is_guess = cause.evidence.get("is_estimate")
        name = names.operator(view, cause.nodes[0])
        text = (
            f"{amount} went into operators of stage {cause.stage_id}{best.inside} that cannot be told apart;"
            f" {cause.what} ({name})."
            if is_guess
            else f"{amount} went into {name} in stage {cause.stage_id}{best.inside}: {cause.what}."
        )
    elif cause.seen_ms and cause.stage_id is not None and wall < cause.least_share * whole:
        place = first_up(names.place(view, cause.nodes, cause.stage_id, cause.what))
        saved = f"{duration_text(wall)} of {duration_text(whole)}{so_far}"
        text = f"{place}{best.inside}: {cause.what}. With as many slots and processors, even tasks would save {saved}."
    else:
        place = names.place(view, cause.nodes, cause.stage_id, cause.what)
        inside = best.inside if place else best.inside.replace(" of", " in")
        text = f"{amount} went into {place}{inside}: {cause.what}." if place else f"{amount}{inside}: {cause.what}."
    second = next(
        (
            each
            for each in found
            if each.code != cause.code
            and each.code not in PLACES
            and max(each.wall_ms, each.seen_ms) >= _ALSO_SHARE * whole
            and each.what not in text
        ),
        None,
    )
    return text if second is None else f"{text} {first_up(second.what)}."


def _even(view: View, found: list[Cause]) -> Verdict:
    whole = view.wall_ms
    places = [each for each in found if each.code in PLACES]
    largest = max(places, key=lambda each: each.wall_ms, default=None)
    number = len({i for each in places for i in each.nodes})
    text = f"Nothing stands out in {duration_text(whole)}{'' if view.has_ended else ' so far'}"
    if largest is not None:
        shared = f" {number} operators share the time," if number > 1 else ""
        text += f":{shared} the largest part is {100 * largest.wall_ms / max(1, whole):.0f} %"
        together = largest.evidence.get("number")
        if together:
            text += f" ({together} {TOGETHER[largest.code]})"
        elif largest.nodes:
            text += f" ({names.operator(view, largest.nodes[0])})"
        elif largest.code == "driver":
            text += " (the driver)"
    wall = 0 if largest is None else largest.wall_ms
    nodes = () if largest is None else largest.nodes
    keys = tuple(key for i in nodes if (key := view.keys.get(i)))
    evidence = {"operators": number}
    advice = "Nothing needs to be done."
    if largest is not None and largest.wall_ms >= LARGEST_PART_SHARE * whole and whole >= _SHORT_MS:
        advice = largest.next
    return Verdict(
        "even",
        round(wall / max(1, whole), 4),
        wall,
        keys,
        None,
        evidence,
        f"{text}.",
        advice if view.has_ended else "It is still running.",
        nodes if view.is_final else (),
    )


__all__ = ["LARGEST_PART_SHARE", "Verdict", "judge"]
