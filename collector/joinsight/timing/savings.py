"""How much less time an execution would have taken without an operator.

Its tasks are shortened by the operator's share of their time, in all stages in which it ran, and the execution is
scheduled again: something else may be the longest then, and slots are free for others. Stages, tasks and delays stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from joinsight.timing.cost import Attempt, CostBreakdown, CostSubject
from joinsight.timing.replay import Replay


class Savings:
    """Those of the operators of an execution."""

    def __init__(self, breakdown: CostBreakdown, replay: Replay, attempts: Sequence[Attempt]) -> None:
        """`attempts`: those of the replay's stages, whose ids are positions here."""
        self._breakdown, self._replay, self._attempts = breakdown, replay, attempts
        self._wall_ms = replay.wall_ms()

    def of(self, node_id: int) -> int:
        """Milliseconds; 0 where the execution did not wait for the operator, or where that is not known."""
        if not any(node_id in waits for waits in self._breakdown.waits.values()):
            return 0
        without = self._replay.with_tasks(self._shortened(node_id))
        return max(0, round(self._wall_ms - without.wall_ms()))

    def _shortened(self, node_id: int) -> Mapping[int, tuple[float, ...]]:
        found = {}
        for i, attempt in enumerate(self._attempts):
            weights = self._breakdown.weights.get(attempt, {})
            its = weights.get(CostSubject("operator", node_id=node_id), 0)
            if its:
                left = 1 - its / sum(weights.values())
                found[i] = tuple(task * left for task in self._replay.stages[i].tasks)
        return found
