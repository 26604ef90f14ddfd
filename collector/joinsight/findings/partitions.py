"""How many partitions of a shuffle are read, and how large they are; used by two heuristics."""

from __future__ import annotations

from dataclasses import dataclass

from joinsight.tables import ShuffleRow


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of one shuffle."""

    number: int
    """As tasks read them, after AQE has coalesced and split."""
    bytes_written: int

    @property
    def mean_bytes(self) -> float:
        """Mean size of a partition."""
        return self.bytes_written / self.number


def partitions(row: ShuffleRow) -> Partitions | None:
    """None where they were not measured or not read."""
    number = row.partitions if row.aqe_partitions is None else row.aqe_partitions
    if not number or row.bytes_written is None or not row.reduce_stages:
        return None
    return Partitions(number, row.bytes_written)
