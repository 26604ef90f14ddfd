"""A task that runs far longer than the others of its stage took, as seen while it still runs.

What it reads and makes is known from the metrics that executors report with their heartbeats, ten seconds apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from joinsight.base.units import duration_text
from joinsight.plan import operators
from joinsight.plan.operators import OUTPUT_ROWS, ROWS_READ
from joinsight.verdict.view import Ran, View

_LEAST_MS = 20_000
"""By then, an executor has sent two heartbeats: the task's metrics are known."""
_LEAST_RATIO = 3.0
"""To the median of the tasks that ended."""
_MOST_LEFT = 4
"""At most one of so many tasks still runs."""
_MUCH = 2.0
"""What it handled, to the mean of the others."""


@dataclass(frozen=True, slots=True)
class Handled:
    """Rows that the task read or made in an operator, of which it has far more than the others."""

    node_id: int
    is_read: bool
    """Whether it read them; else it made them."""
    rows: int
    of: int
    """Rows of all tasks so far."""
    ratio: float
    """To the mean of the others."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """The oldest of the few tasks of a stage that still run."""

    left: int
    """Tasks that still run."""
    tasks: int
    elapsed_ms: int
    median_ms: int
    """What the tasks that ended took."""
    spared_ms: int
    """How much earlier the stage would have ended if the slots had been used evenly so far."""
    handled: Handled | None
    """None: as far as it has reported, it had no more than the others."""

    @property
    def text(self) -> str:
        """``1 of 200 tasks still runs, for 4 min against a median of 3 s``."""
        runs = "runs" if self.left == 1 else "run, the oldest"
        took = f"for {duration_text(self.elapsed_ms)} against a median of {duration_text(self.median_ms)}"
        return f"{self.left:,} of {self.tasks:,} tasks still {runs}{',' if self.left == 1 else ''} {took}"


def straggler(view: View, ran: Ran, usable: int) -> Straggler | None:
    """That of a stage that runs; None if there is none. `usable`: how many tasks could run at once."""
    launched, median = ran.row["oldest_launch_at"], ran.row["run_time_ms_median"]
    left = ran.tasks - ran.number("succeeded_tasks")
    if launched is None or median is None or not 0 < left <= max(1, ran.tasks // _MOST_LEFT) or left >= usable:
        return None
    elapsed = view.ms_since(launched)
    if elapsed < max(_LEAST_MS, _LEAST_RATIO * median, ran.number("run_time_ms_max")):
        return None
    evenly = round((ran.run_ms + left * elapsed) / usable)
    spared = min(ran.wall_ms - evenly, elapsed - median)
    found = sorted(_handled(view, ran, ran.number("oldest_task_id")), key=lambda each: (each.is_read, each.ratio))
    return Straggler(left, ran.tasks, elapsed, median, max(0, spared), found[-1] if found else None)


def _handled(view: View, ran: Ran, task: int) -> Iterator[Handled]:
    """Where the task has more rows than all others: in the shuffles that the stage reads, and in its operators."""
    read = [s["node_id"] for s in view.stored.shuffles if ran.stage_id in (s["reduce_stages"] or ())]
    for name, nodes in ((ROWS_READ, read), (OUTPUT_ROWS, ran.nodes)):
        for node_id in nodes:
            node = view.plan.nodes[node_id]
            its = view.plan.metrics(node).get(name)
            if its is None or its.max_stage != ran.stage_id or its.max_task != task or not its.max:
                continue
            ratio = its.max / max(1.0, ((its.sum or 0) - its.max) / max(1, ran.tasks - 1))
            if ratio >= _MUCH:
                is_read = name == ROWS_READ or operators.of(node.name).kind == "scan"
                yield Handled(node_id, is_read, its.max, its.sum or 0, ratio)
