"""Stages of which one task reads many times what the median task does, and whether AQE could see it.

Of a shuffle with more partitions than `spark.shuffle.minNumPartitionsToHighlyCompress`, Spark
keeps the size of a block only if it is at least `spark.shuffle.accurateBlockThreshold`, else the mean of the map task's
blocks (``HighlyCompressedMapStatus``). AQE adds these up, and a skewed partition looks like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from joinsight.analysis.rows import byte_size
from joinsight.base.units import bytes_text, times
from joinsight.findings.finding import PlanContext
from joinsight.findings.phrases import rows, shuffle
from joinsight.tables import JoinRow, ShuffleRow, StageRow

_SKEW_JOIN = "spark.sql.adaptive.skewJoin."
_MB = 1 << 20
_THRESHOLD_BYTES = 256 * _MB
_FACTOR = 5.0
_ACCURATE_BLOCK_BYTES = 100 * _MB
_SPLITTABLE = {
    "left": ("Inner", "Cross", "LeftSemi", "LeftAnti", "LeftOuter"),
    "right": ("Inner", "Cross", "RightOuter"),
}
"""Types of joins of which AQE splits a side: OptimizeSkewedJoin."""


@dataclass(frozen=True, slots=True)
class ReadSkew:
    """What the largest and the median task of a stage read, in rows or bytes."""

    unit: str
    max: int
    median: int

    @property
    def ratio(self) -> float:
        """The largest to the median task; a median of nothing counts as 1."""
        return self.max / max(self.median, 1)

    def text(self, amount: int) -> str:
        """``1,000 rows``, ``1.0 KiB``."""
        return rows(amount) if self.unit == "rows" else bytes_text(amount)


@dataclass(frozen=True, slots=True)
class Skew:
    """A skewed stage, and the shuffle of which one of its tasks read most."""

    stage: StageRow
    shuffle: ShuffleRow
    shuffles: int
    """How many shuffles the stage reads."""
    spread: ReadSkew


def skews(context: PlanContext) -> Iterable[Skew]:
    """The skewed stage with the longest wait, for each shuffle that may have caused it.

    Skew is measured by the rows and bytes that the tasks of a stage read after AQE has coalesced and split, not by the
    shuffle's own metric, the source of `skew_ratio`: its median is too low where tasks that read nothing report it.
    """
    read: dict[int, ShuffleRow] = {}  # by stage, the shuffle of which a task read most
    number: Counter[int] = Counter()
    for row in context.rows.shuffle:
        number.update(set(row.reduce_stages or ()))
        for stage_id in row.reduce_stages or ():
            if stage_id not in read or _most_read(read[stage_id]) < _most_read(row):
                read[stage_id] = row
    found: dict[int, Skew] = {}
    for stage in context.rows.stage:
        shuffled, spread = read.get(stage.stage_id), _worst(context, stage)
        # Read as its map tasks wrote it, a shuffle is skewed whatever its keys are
        if shuffled is None or "local" in (shuffled.aqe_read or ()) or spread is None:
            continue
        known = found.get(shuffled.node_id)
        if known is None or (waited_ms(known.stage) or 0) <= (waited_ms(stage) or 0):
            found[shuffled.node_id] = Skew(stage, shuffled, number[stage.stage_id], spread)
    return found.values()


def _most_read(row: ShuffleRow) -> int:
    return row.rows_read_max or row.rows_read or 0


def _worst(context: PlanContext, stage: StageRow) -> ReadSkew | None:
    """The more skewed of rows and bytes, if it is skewed enough."""
    found = [
        ReadSkew(unit, spread.max, spread.median)
        for unit, spread in (("rows", stage.shuffle_read_rows), ("bytes", stage.shuffle_read_bytes))
        if spread is not None
    ]
    worst = max(found, key=lambda spread: spread.ratio, default=None)
    return worst if worst is not None and worst.ratio >= context.limits.skew_ratio else None


def waited_ms(stage: StageRow) -> int | None:
    """How much longer the longest task ran than the median one."""
    return None if stage.run_time_ms is None else stage.run_time_ms.max - stage.run_time_ms.median


def evidence(skew: Skew) -> dict[str, float]:
    """The numbers of the stage and its shuffle."""
    stage = skew.stage
    return (
        {
            f"{name}_{statistic}": getattr(over_tasks, statistic)
            for name, over_tasks in (
                ("shuffle_read_rows", stage.shuffle_read_rows),
                ("shuffle_read_bytes", stage.shuffle_read_bytes),
                ("run_time_ms", stage.run_time_ms),
            )
            if over_tasks is not None
            for statistic in ("max", "median")
        }
        | {"waited_ms": waited_ms(stage) or 0, "ratio": skew.spread.ratio, "tasks": stage.tasks}
        | ({} if skew.shuffle.skew_ratio is None else {"skew_ratio": skew.shuffle.skew_ratio})
    )


def is_hidden(context: PlanContext, skew: Skew) -> bool:
    """Whether AQE would have split the partition, had it known its size."""
    row, read = skew.shuffle, skew.stage.shuffle_read_bytes
    if not context.execution.is_adaptive or "skewed" in (row.aqe_read or ()) or read is None:
        return False
    settings = context.execution.configuration or {}
    if settings.get(f"{_SKEW_JOIN}enabled", "true").lower() == "false":
        return False
    least = byte_size(settings.get(f"{_SKEW_JOIN}skewedPartitionThresholdInBytes"), None) or _THRESHOLD_BYTES
    if read.max <= max(least, _factor(settings) * read.median):
        return False
    if (row.partitions or 0) <= context.limits.hidden_skew_partitions:
        return False
    believed = row.aqe_partition_bytes_max
    if believed is not None and believed > least:
        return False  # it knew, and had another reason
    blocks = sum(stage.tasks for stage in context.stages(row.map_stages or ()))
    if not blocks or read.max / blocks >= _ACCURATE_BLOCK_BYTES:
        return False
    joins = [join for node in row.join_nodes or () if (join := context.joins.get(node))]
    return any(_can_split(join, row) for join in joins)


def _factor(settings: object) -> float:
    try:
        return float(settings.get(f"{_SKEW_JOIN}skewedPartitionFactor", _FACTOR))  # type: ignore[attr-defined]
    except ValueError:
        return _FACTOR


def _can_split(join: JoinRow, row: ShuffleRow) -> bool:
    sides = {"left": join.left_exchange, "right": join.right_exchange}
    return any(sides[side] == row.node_id and join.join_type in types for side, types in _SPLITTABLE.items())


def title(skew: Skew) -> str:
    """``Of 16 tasks that read the shuffle by customer_id, one read ...``."""
    spread = skew.spread
    median = "half of them none"
    if spread.median:
        median = f"{times(spread.ratio)} the median ({spread.text(spread.median)})"
    read = spread.text(spread.max) + (f" of the {skew.shuffles} shuffles of its stage" if skew.shuffles > 1 else "")
    return f"Of {skew.stage.tasks:,} tasks that read {shuffle(skew.shuffle)}, one read {read}, {median}"
