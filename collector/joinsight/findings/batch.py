"""A micro-batch of a streaming query, as the findings of a later one see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

STATE_ROWS = "number of total state rows"
"""Spark's name of the metric."""
STATE_BYTES = "memory used by state"


@dataclass(frozen=True, slots=True)
class CompletedBatch:
    """A micro-batch that succeeded, as far as it is compared with others; times in milliseconds."""

    started_at: datetime
    """With what is around the execution that did the work."""
    duration_ms: int
    task_time_ms: int = 0
    state_rows: int | None = None
    sides: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """By the operator key of a join, the rows of its left and right side."""
    made_ms: Mapping[str, int] = field(default_factory=dict)
    """By the operator key of a shuffle or broadcast, how long it waited for its rows to be made, and for it."""
