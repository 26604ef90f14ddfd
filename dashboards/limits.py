"""The thresholds from which on dashboards highlight values: those of findings, in SQL and in words.

They are those of a collector without `--finding-threshold`: a dashboard knows nothing of its options.
"""

from __future__ import annotations

from joinsight.base.units import bytes_text
from joinsight.findings.thresholds import Thresholds
from joinsight.plan.broadcastable import DEFAULT_MAX_BYTES
from joinsight.plan.operators import PAIRWISE_JOINS

LIMITS = Thresholds()
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
    unit = Thresholds.__dataclass_fields__[name].metadata["unit"]
    if unit == "share":
        return f"{value * 100:.0f} %"
    return bytes_text(value) if unit == "bytes" else f"{value:,.15g}"
