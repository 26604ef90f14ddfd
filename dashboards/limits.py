"""The thresholds from which on dashboards highlight values, in SQL and in words.

Dashboards highlight large values wherever they are; a finding is made where the execution waited for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from joinsight.base.units import bytes_text
from joinsight.findings.thresholds import Thresholds
from joinsight.plan.broadcastable import DEFAULT_MAX_BYTES
from joinsight.plan.operators import PAIRWISE_JOINS

_MB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Two are thresholds of findings; no finding judges the others by themselves."""

    skew_ratio: float = Thresholds().skew_ratio
    skew_rows: float = 1_000_000
    tiny_partitions: float = 1_000
    tiny_partition_bytes: float = _MB
    huge_partition_bytes: float = 512 * _MB
    spill_bytes: float = 1 << 30
    exploding_ratio: float = 10
    exploding_rows: float = 100_000_000
    nested_loop_pairs: float = 1e10
    broadcast_near_share: float = Thresholds().broadcast_near_share


LIMITS = Limits()
NEAR = f"threshold_share >= {LIMITS.broadcast_near_share}"
NEAR_MAX_BYTES = LIMITS.broadcast_near_share * DEFAULT_MAX_BYTES
LARGE = f"rows_read_max >= {LIMITS.skew_rows:.0f}"
"""SQL: a shuffle with enough rows for a skew to matter; those that are large in bytes only are among the findings."""
SKEWED = f"skew_ratio >= {LIMITS.skew_ratio} AND {LARGE}"
TINY = f"(bytes_per_partition <= {LIMITS.tiny_partition_bytes:.0f} AND read_partitions >= {LIMITS.tiny_partitions:.0f})"
HUGE = f"bytes_per_partition >= {LIMITS.huge_partition_bytes:.0f}"
EXPLODING = f"output_ratio >= {LIMITS.exploding_ratio} AND output_rows >= {LIMITS.exploding_rows:.0f}"
PAIRWISE = f"strategy IN {PAIRWISE_JOINS}"
PAIRS = "greatest(left_rows::float8 * right_rows, output_rows)"
"""SQL: the pairs of rows that a pairwise join compared; at least, where the rows of its sides are unknown."""
MANY_PAIRS = f"{PAIRWISE} AND {PAIRS} >= {LIMITS.nested_loop_pairs:.0f}"


def in_words(name: str) -> str:
    """A threshold as text for descriptions: ``1,000,000``, ``512.0 MiB``, ``80 %``."""
    value = getattr(LIMITS, name)
    if name.endswith("_share"):
        return f"{value * 100:.0f} %"
    return bytes_text(round(value)) if name.endswith("_bytes") else f"{value:,.15g}"
