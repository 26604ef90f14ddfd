"""Which of the executions that a command started took more or less, and why: of two runs of the command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from joinsight.analysis.parts import matched
from joinsight.analysis.stored import StoredPlan
from joinsight.contract.document import ENDED
from joinsight.plan.outline import shortened

_LEAST_SHARE = 0.1
"""Share of the difference below which an execution is not named."""
_MOST = 3
_MOST_TITLE = 60


class Part(NamedTuple):
    """An execution that a command started, in one of its runs or in both."""

    a: StoredPlan | None
    b: StoredPlan | None
    before_ms: int
    """How long the command waited for it."""
    after_ms: int

    @property
    def title(self) -> str:
        """With its number, in the second run if it is there."""
        its = self.b or self.a
        if its is None:
            return ""
        name = shortened(its.execution["title"] or "", _MOST_TITLE)
        return f"execution {its.execution['execution_id']}{f', {name}' if name else ''}"


def parts(a: StoredPlan, b: StoredPlan, difference_ms: int) -> list[Part]:
    """Those that moved in the direction of the difference, the most first; the same query in the same order."""
    moved = sorted(_matched(a, b), key=lambda each: -abs(each.after_ms - each.before_ms))
    least = _LEAST_SHARE * difference_ms**2
    return [each for each in moved if (each.after_ms - each.before_ms) * difference_ms >= max(least, 1)][:_MOST]


def _matched(a: StoredPlan, b: StoredPlan) -> Iterator[Part]:
    sides = [
        [each for each in run.nested if each.execution["state"] in ENDED and each.execution["duration_ms"] is not None]
        for run in (a, b)
    ]
    for one, other in matched(*sides):
        yield Part(one, other, _ms(a.waited, one), _ms(b.waited, other))


def _ms(waited: Mapping[int, int], its: StoredPlan | None) -> int:
    return 0 if its is None else waited.get(its.execution["execution_id"], 0)
