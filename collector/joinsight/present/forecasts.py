"""How a forecast reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from joinsight.base.units import bytes_text

if TYPE_CHECKING:
    from joinsight.tables import Row

WHAT: Mapping[str, str] = {
    "broadcast_threshold": "a broadcast crosses its threshold: its join is shuffled",
    "broadcast_limit": "a broadcast is larger than Spark allows: the query fails",
    "join_spill": "a join begins to spill",
    "shuffle_partitions": "a shuffle has more than 2,000 partitions: AQE sees only averages",
}
"""By kind, what happens then."""


def value(row: Row, name: str) -> str:
    """A number of a row of table `forecast`, in its unit."""
    if row["kind"] == "shuffle_partitions":
        return f"{row[name]:,.0f}"
    return bytes_text(round(row[name]))


def interval(row: Row) -> str:
    """``2026-12-01 to 2026-12-20``."""
    last = f"{row['latest_at']:%Y-%m-%d}" if row["latest_at"] else "later than in half a year"
    return f"{row['earliest_at']:%Y-%m-%d} to {last}"
