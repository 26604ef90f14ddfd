"""Where the wall time of an execution went, by cause: what its segments add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from joinsight.tables import Row
from joinsight.timing.critical_path import shown


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """The time of one cause; `places` says in which stages or executions most of it went."""

    cause: str
    shown: str
    ms: int
    share: float
    places: str


def by_cause(segments: Iterable[Row]) -> list[TimeSpent]:
    """The largest first."""
    total: dict[str, int] = defaultdict(int)
    places: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in segments:
        ms = row["end_ms"] - row["start_ms"]
        total[row["cause"]] += ms
        if place := _place(row):
            places[row["cause"]][place] += ms
    whole = sum(total.values())
    return [
        TimeSpent(cause, shown(cause), ms, ms / whole, _largest(places[cause]))
        for cause, ms in sorted(total.items(), key=lambda item: -item[1])
    ]


def _place(row: Row) -> str:
    if row["nested_execution_id"] is not None:
        return f"execution {row['nested_execution_id']}"
    if row["cause"] == "broadcast":
        return f"node {row['node_id']}"
    return "" if row["stage_id"] is None or row["cause"] == "driver" else f"stage {row['stage_id']}"


def _largest(places: dict[str, int], most: int = 3) -> str:
    largest = sorted(places, key=lambda place: -places[place])
    more = f" and {len(largest) - most} more" if len(largest) > most else ""
    return ", ".join(largest[:most]) + more
