"""A cause of wall time, as the mechanisms make them, and what several of them say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from joinsight.verdict.view import View

Code = Literal[
    "join_output",
    "data_skew",
    "output_skew",
    "slow_host",
    "python",
    "scan",
    "small_files",
    "shuffle",
    "spill",
    "gc",
    "broadcast",
    "waiting",
    "few_tasks",
    "tiny_tasks",
    "driver",
    "commit",
    "contention",
    "cache",
    "nested",
    "compute",
    "even",
    "failed",
]
PLACES: tuple[Code, ...] = ("compute", "scan", "shuffle", "driver", "python")
"""Codes that say where the time went; how much of it a repair would save is not known."""
LEAST_SHARE = 0.2
"""Share of the wall time that a cause must explain to be the verdict, unless it says another."""
_PLACE_WEIGHT = 0.5
_SEEN_WEIGHT = 0.75
MB = 1 << 20
SMALL_FILE = 4 * MB
"""Spark's spark.sql.files.openCostInBytes: opening a file costs as much as reading this."""
MUCH_OF_STAGE = 0.3
BESIDE_SKEW = 0.5
"""What else there is in the stage of a skew: without it, the task that spills would have less to keep, and a join that
the session is told to shuffle might be fast."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a part of the wall time went into."""

    code: Code
    wall_ms: int
    nodes: tuple[int, ...]
    """The operators concerned, the one to look at first."""
    what: str
    """What happened, as a clause after the place: ``one of 3 tasks made 98 % of ...``."""
    next: str
    """What to do first."""
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)
    stage_id: int | None = None
    seen_ms: int = 0
    """How long it could be seen: for skew, how much longer the longest task ran than the mean one. On few slots, even
    tasks would take as long, but the cause is the same."""
    is_place: bool | None = None
    """Whether it only says where the time went; by default, what its code is."""
    least_share: float = LEAST_SHARE
    """Share of the wall time that it must explain to be the verdict."""
    certainty: float = 1.0
    """What it counts of its weight, where another cause says more about the same time."""
    beside: Collection[int | None] = ()
    """Stages: if a task of one of them ran much longer than the others, it counts `BESIDE_SKEW`."""

    @property
    def only_says_where(self) -> bool:
        """Whether it only says where the time went."""
        return self.code in PLACES if self.is_place is None else self.is_place

    @property
    def is_together(self) -> bool:
        """Whether it is all causes of a code, which add up."""
        return "number" in self.evidence

    @property
    def weight(self) -> float:
        """By this, causes are compared."""
        wall = self.wall_ms * (_PLACE_WEIGHT if self.only_says_where else 1)
        return self.certainty * max(wall, self.seen_ms * _SEEN_WEIGHT)


def stage_of(view: View, node_id: int) -> int | None:
    """The stage on the critical path in which an operator took longest."""
    return next((ran.stage_id for ran in view.ran if node_id in ran.nodes), None)


def rows_text(number: int) -> str:
    """``1 row``, ``2.5 M rows``, ``5.2 billion rows``."""
    if number >= 1_000_000_000:
        return f"{number / 1e9:,.1f} billion rows"
    return f"{number:,} row{'s' * (number != 1)}" if number < 1_000_000 else f"{number / 1e6:,.1f} M rows"


def percent(part: int, whole: int) -> str:
    """``98 %``."""
    return f"{100 * part / max(1, whole):.0f} %"
