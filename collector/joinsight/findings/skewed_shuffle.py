"""A shuffle of which one task reads many times what the median task does, so that the others wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from joinsight.display import bytes_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.wording import rows, shuffle, times
from joinsight.rows import Row


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
            f"Of {stage['tasks']} tasks that read {shuffle(row)}, one read {spread.text(spread.max)}{together},"
            f" {median}.",
            {
                name: stage[name]
                for name in (
                    "shuffle_read_rows_max",
                    "shuffle_read_rows_median",
                    "shuffle_read_bytes_max",
                    "shuffle_read_bytes_median",
                    "run_time_ms_max",
                    "run_time_ms_median",
                )
                if stage.get(name) is not None
            }
            | {"ratio": spread.ratio, "tasks": stage["tasks"]}
            | ({} if row.get("skew_ratio") is None else {"skew_ratio": row["skew_ratio"]}),
            _advice(case, row),
            row["node_id"],
            row["operator_key"],
            impact_ms=_waited(stage),
        )


def _longest(case: Case) -> Iterable[tuple[Row, Row, int]]:
    """Of the stages that are skewed the one with the longest wait, for each shuffle that it can be put down to.

    With the shuffle, and how many the stage reads.
    """
    read: dict[int, Row] = {}  # by stage, the shuffle of which a task read most
    number: Counter[int] = Counter()
    for row in case.rows["shuffle"]:
        number.update(set(row["reduce_stages"]))
        for stage_id in row["reduce_stages"]:
            if stage_id not in read or _most_read(read[stage_id]) < _most_read(row):
                read[stage_id] = row
    found: dict[int, tuple[Row, Row, int]] = {}
    for stage in case.rows["stage"]:
        shuffled = read.get(stage["stage_id"])
        # Read as its map tasks wrote it, a shuffle is skewed whatever its keys are
        if shuffled is None or "local" in (shuffled.get("aqe_read") or ()) or _worst(case, stage) is None:
            continue
        known = found.get(shuffled["node_id"])
        if known is None or (_waited(known[0]) or 0) <= (_waited(stage) or 0):
            found[shuffled["node_id"]] = stage, shuffled, number[stage["stage_id"]]
    return found.values()


def _most_read(row: Row) -> int:
    return row.get("rows_read_max") or row["rows_read"] or 0


def _worst(case: Case, stage: Row) -> _Spread | None:
    """The more skewed of rows and bytes, if it is skewed enough."""
    found = []
    for unit, least in (("rows", case.limits.skew_rows), ("bytes", case.limits.skew_bytes)):
        most, median = stage.get(f"shuffle_read_{unit}_max"), stage.get(f"shuffle_read_{unit}_median")
        if most is not None and median is not None and most >= least:
            found.append(_Spread(unit, most, median))
    worst = max(found, key=lambda spread: spread.ratio, default=None)
    return worst if worst is not None and worst.ratio >= case.limits.skew_ratio else None


def _waited(stage: Row) -> int | None:
    """How much longer the longest task ran than the median one."""
    if stage.get("run_time_ms_max") is None or stage.get("run_time_ms_median") is None:
        return None
    return int(stage["run_time_ms_max"] - stage["run_time_ms_median"])


def _advice(case: Case, row: Row) -> str:
    keys = "Look for the value of the key that most rows have; NULL and a default are the usual ones."
    if not row["join_nodes"]:
        return f"{keys} Aggregate such rows in two steps: by the key and a random number, then by the key."
    if not case.execution["is_adaptive"]:
        return f"{keys} Set spark.sql.adaptive.enabled=true: AQE splits skewed partitions of joins."
    return (
        f"{keys} Join such rows on their own. AQE splits partitions of joins over"
        " spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes and skewedPartitionFactor times the median,"
        " unless that would need another shuffle (spark.sql.adaptive.forceOptimizeSkewedJoin=true)."
    )


HEURISTIC = Heuristic("skewed-shuffle", look)
