"""The verdict on an execution: where its time went, by what mechanism, what proves it, what to do first.

`causes` says how much of the wall time each mechanism explains. The largest one is the verdict. A cause that only says
where the time went (an operator's own work, the driver) counts half: what explains why goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text, first_up
from joinsight.verdict import names
from joinsight.verdict.mechanisms import PLACES, Cause, Code, causes
from joinsight.verdict.view import View

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


def judge(stored: StoredPlan) -> Verdict:
    """The verdict on an execution."""
    view = View(stored)
    found = [each for each in causes(view) if each.wall_ms > 0]
    whole = max(1, view.wall_ms)
    found.sort(key=lambda each: -each.weight)
    best = next((each for each in found if max(each.wall_ms, each.seen_ms) >= each.least_share * whole), None)
    if best is None:
        return _even(view, found)
    wall = min(best.wall_ms, whole)
    keys = tuple(key for i in best.nodes if (key := view.keys.get(i)))
    text = _text(view, best, wall, found)
    return Verdict(
        best.code, round(wall / whole, 4), wall, keys, best.stage_id, best.evidence, text, best.next, best.nodes
    )


def _text(view: View, cause: Cause, wall: int, found: Sequence[Cause]) -> str:
    whole = max(1, view.wall_ms)
    so_far = "" if view.has_ended else " so far"
    amount = f"{100 * wall / whole:.0f} % of {duration_text(whole)}{so_far}"
    if cause.code == "compute" and cause.nodes and cause.stage_id is not None:
        is_guess = cause.evidence.get("is_estimate")
        name = names.operator(view, cause.nodes[0])
        text = (
            f"{amount} went into operators of stage {cause.stage_id} that cannot be told apart; {cause.what} ({name})."
            if is_guess
            else f"{amount} went into {name} in stage {cause.stage_id}: {cause.what}."
        )
    else:
        place = names.place(view, cause.nodes, cause.stage_id, cause.what)
        text = f"{amount} went into {place}: {cause.what}." if place else f"{amount}: {cause.what}."
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
    number = len({each.nodes for each in places if each.nodes})
    text = f"Nothing stands out in {duration_text(whole)}{'' if view.has_ended else ' so far'}"
    if largest is not None:
        text += (
            f": {number} operators share the time, the largest part is {100 * largest.wall_ms / max(1, whole):.0f} %"
        )
        if largest.nodes:
            text += f" ({names.operator(view, largest.nodes[0])})"
    wall = 0 if largest is None else largest.wall_ms
    nodes = () if largest is None else largest.nodes
    keys = tuple(key for i in nodes if (key := view.keys.get(i)))
    evidence = {"operators": number}
    return Verdict(
        "even",
        round(wall / max(1, whole), 4),
        wall,
        keys,
        None,
        evidence,
        f"{text}.",
        "Nothing needs to be done." if view.has_ended else "It is still running.",
        nodes,
    )


__all__ = ["Verdict", "judge"]
