"""How much less time an execution would have taken without an operator, as far as its critical path tells.

Without it, the stages that it is in would have been shorter by what the execution waited for it, but not by more than
the slack of what ran beside them: the execution would then have waited for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from joinsight.timing.cost import Bill


@dataclass(frozen=True, slots=True)
class Ran:
    """A stage attempt that has ended; its times are milliseconds since any moment."""

    stage_id: int
    attempt: int
    start_ms: int
    end_ms: int
    slack_ms: int | None
    """None: the execution did not wait for it at all."""


class Savings:
    """Those of the operators of an execution."""

    def __init__(self, bill: Bill, stages: Iterable[Ran]) -> None:
        self._waits = bill.waits
        self._ran = sorted(stages, key=lambda each: each.end_ms)
        off_path = (each for each in self._ran if (each.stage_id, each.attempt) not in bill.waits)
        self._beside = [(each, each.slack_ms) for each in off_path if each.slack_ms is not None]

    def of(self, node_id: int) -> int:
        """Milliseconds; 0 where the execution did not wait for the operator, or where that is not known."""
        total = 0
        left = [slack for _, slack in self._beside]
        for its in self._ran:
            saved = self._waits.get((its.stage_id, its.attempt), {}).get(node_id, 0)
            if saved:
                limited = [
                    i
                    for i, (each, slack) in enumerate(self._beside)
                    if each.start_ms < its.end_ms <= each.end_ms + slack
                ]
                saved = min([saved, *(left[i] for i in limited)])
                for i in limited:
                    left[i] -= saved
                total += saved
        return total
