"""The mechanisms by which an execution spends its time, each with the wall time that it explains.

A mechanism looks at an execution and yields causes. What a cause explains is what the execution would be spared if the
mechanism were absent and all else the same; docs/verdict.md has the rule of each. `PLACES` only say where the time
went; the others say why, and go before these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from joinsight.base.units import duration_text
from joinsight.verdict.cause import BESIDE_SKEW, MUCH_OF_STAGE, PLACES, Cause, Code
from joinsight.verdict.driver import caches, commit, contention, driver, nested, waiting
from joinsight.verdict.exchanges import exchanges, small_sides
from joinsight.verdict.memory import collecting, memory
from joinsight.verdict.sources import files_written, scans
from joinsight.verdict.tasks import imbalance
from joinsight.verdict.view import Ran, View
from joinsight.verdict.work import exploding, join_output, python, work

_LEAST_TOGETHER = 0.5
_GC_COUNTS = 2
"""How often what garbage collection explains is left out of the time of operators: to make garbage takes time, too."""
_SAY_WHY: tuple[Code, ...] = ("data_skew", "output_skew", "slow_host")
"""What these and garbage collection explain of a stage does not count as the time of its operators."""


def causes(view: View) -> Iterator[Cause]:
    """Those of all mechanisms, in no order; with several of a code that add up, also all of them together."""
    uneven = list(imbalance(view))
    explained = _explained(view, uneven, collecting(view))
    skewed = {stage for stage, share in _explained(view, uneven, ()).items() if share >= MUCH_OF_STAGE}
    for made in (uneven, *(mechanism(view) for mechanism in MECHANISMS)):
        found = [replace(each, certainty=_certainty(each, explained, skewed)) for each in made]
        yield from found
        for code, call in TOGETHER.items():
            its = sorted((each for each in found if each.code == code and each.wall_ms), key=lambda each: -each.wall_ms)
            for only_says_where in (True, False):
                alike = [each for each in its if each.only_says_where == only_says_where]
                if len(alike) > 1:
                    yield _together(alike, call)


def _certainty(cause: Cause, explained: Mapping[int | None, float], skewed: Collection[int | None]) -> float:
    is_place = cause.only_says_where or cause.code == "compute"
    certainty = BESIDE_SKEW * cause.certainty if any(stage in skewed for stage in cause.beside) else cause.certainty
    return (1 - explained.get(cause.stage_id, 0.0)) * certainty if is_place else certainty


def _explained(
    view: View, imbalances: Iterable[Cause], collected: Iterable[tuple[int, Ran]]
) -> Mapping[int | None, float]:
    """By stage, the share of its time that unequal tasks or garbage collection explain, the larger one."""
    walls = {ran.stage_id: ran.wall_ms for ran in view.ran}
    found: dict[int | None, float] = defaultdict(float)
    uneven = ((each.stage_id, each.weight) for each in imbalances if each.code in _SAY_WHY)
    for stage, explained in (*uneven, *((ran.stage_id, _GC_COUNTS * ms) for ms, ran in collected)):
        if stage is not None and walls[stage]:
            found[stage] = max(found[stage], min(1.0, explained / walls[stage]))
    return found


TOGETHER: Mapping[Code, str] = {
    "shuffle": "shuffles",
    "broadcast": "broadcasts",
    "scan": "scans",
    "python": "Python functions",
    "slow_host": "stages of which one task ran much longer without more data",
    "tiny_tasks": "stages of many short tasks",
    "few_tasks": "stages of fewer tasks than could run",
}
"""Codes whose causes happen one after the other, and what they are called together."""


def _together(its: Sequence[Cause], call: str) -> Cause:
    wall, first = sum(each.wall_ms for each in its), its[0]
    nodes = tuple(dict.fromkeys(i for each in its for i in each.nodes))
    took = "took" if first.only_says_where else "cost"
    what = f"{len(its)} {call} {took} {duration_text(wall)}; in the largest, {first.what}"
    evidence = {**first.evidence, "number": len(its)}
    seen = sum(each.seen_ms for each in its)
    least = _LEAST_TOGETHER if first.code in PLACES else first.least_share
    return replace(
        first, least_share=least, seen_ms=seen, wall_ms=wall, nodes=nodes, what=what, evidence=evidence, stage_id=None
    )


MECHANISMS: tuple[Callable[[View], Iterator[Cause]], ...] = (  # beside `imbalance`
    join_output,
    memory,
    python,
    scans,
    exchanges,
    small_sides,
    waiting,
    driver,
    commit,
    files_written,
    nested,
    caches,
    contention,
    exploding,
    work,
)
