"""A shuffle of which one task reads many times what the median task does, so that the others wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from joinsight.display import bytes_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.phrases import rows, shuffle, times
from joinsight.tables import ShuffleRow, StageRow


@dataclass(frozen=True, slots=True)
class _Spread:
    unit: str
    max: int
    median: int

    @property
    def ratio(self) -> float:
        """The largest to the median task; a median of nothing counts as 1."""
        return self.max / max(self.median, 1)

    def text(self, amount: int) -> str:
        return rows(amount) if self.unit == "rows" else bytes_text(amount)


def look(case: Case) -> Iterator[Finding]:
    """By rows and by bytes, as the tasks of a stage read them after AQE has coalesced and split.

    Not by the shuffle's own metric, which `skew_ratio` is made of: where Spark hands it to tasks that read nothing, its
    median is too low. Where a stage reads several shuffles, the one of which a task read most is named.
    """
    for stage, row, shuffles in _longest(case):
        spread = _worst(case, stage)
        assert spread is not None
        median = (
            f"{times(spread.ratio)} the median ({spread.text(spread.median)})" if spread.median else "half of them none"
        )
        together = f" of the {shuffles} shuffles of its stage" if shuffles > 1 else ""
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"Of {stage.tasks} tasks that read {shuffle(row)}, one read {spread.text(spread.max)}{together}, {median}.",
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
            | {"ratio": spread.ratio, "tasks": stage.tasks}
            | ({} if row.skew_ratio is None else {"skew_ratio": row.skew_ratio}),
            _advice(case, row),
            row.node_id,
            row.operator_key,
            impact_ms=_waited(stage),
        )


def _longest(case: Case) -> Iterable[tuple[StageRow, ShuffleRow, int]]:
    """Of the stages that are skewed the one with the longest wait, for each shuffle that it can be put down to.

    With the shuffle, and how many the stage reads.
    """
    read: dict[int, ShuffleRow] = {}  # by stage, the shuffle of which a task read most
    number: Counter[int] = Counter()
    for row in case.rows.shuffle:
        number.update(set(row.reduce_stages or ()))
        for stage_id in row.reduce_stages or ():
            if stage_id not in read or _most_read(read[stage_id]) < _most_read(row):
                read[stage_id] = row
    found: dict[int, tuple[StageRow, ShuffleRow, int]] = {}
    for stage in case.rows.stage:
        shuffled = read.get(stage.stage_id)
        # Read as its map tasks wrote it, a shuffle is skewed whatever its keys are
        if shuffled is None or "local" in (shuffled.aqe_read or ()) or _worst(case, stage) is None:
            continue
        known = found.get(shuffled.node_id)
        if known is None or (_waited(known[0]) or 0) <= (_waited(stage) or 0):
            found[shuffled.node_id] = stage, shuffled, number[stage.stage_id]
    return found.values()


def _most_read(row: ShuffleRow) -> int:
    return row.rows_read_max or row.rows_read or 0


def _worst(case: Case, stage: StageRow) -> _Spread | None:
    """The more skewed of rows and bytes, if it is skewed enough."""
    found = []
    for unit, least, spread in (
        ("rows", case.limits.skew_rows, stage.shuffle_read_rows),
        ("bytes", case.limits.skew_bytes, stage.shuffle_read_bytes),
    ):
        if spread is not None and spread.max >= least:
            found.append(_Spread(unit, spread.max, spread.median))
    worst = max(found, key=lambda spread: spread.ratio, default=None)
    return worst if worst is not None and worst.ratio >= case.limits.skew_ratio else None


def _waited(stage: StageRow) -> int | None:
    """How much longer the longest task ran than the median one."""
    return None if stage.run_time_ms is None else stage.run_time_ms.max - stage.run_time_ms.median


def _advice(case: Case, row: ShuffleRow) -> str:
    keys = "Find the key value that most rows have; NULL and a default are the usual ones."
    if not row.join_nodes:
        return f"{keys} Aggregate such rows in two steps: by the key and a random number, then by the key."
    if not case.execution.is_adaptive:
        return f"{keys} Set spark.sql.adaptive.enabled=true: AQE splits skewed partitions of joins."
    return (
        f"{keys} Join such rows separately. AQE splits partitions of joins over"
        " spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes and skewedPartitionFactor times the median,"
        " unless that would need another shuffle (spark.sql.adaptive.forceOptimizeSkewedJoin=true)."
    )


HEURISTIC = Heuristic("skewed-shuffle", look)
