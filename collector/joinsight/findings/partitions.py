"""How many partitions of a shuffle are read, and how large they are; used by two heuristics."""

from __future__ import annotations

from dataclasses import dataclass

from joinsight.rows import Row


@dataclass(frozen=True, slots=True)
class Partitions:
    """Of one shuffle."""

    number: int
    """As tasks read them, after AQE has coalesced and split."""
    mean_bytes: float


def partitions(row: Row) -> Partitions | None:
    """None where they were not measured or not read."""
    number = row["partitions"] if row.get("aqe_partitions") is None else row["aqe_partitions"]
    if not number or row["bytes_written"] is None or not row["reduce_stages"]:
        return None
    return Partitions(number, row["bytes_written"] / number)
