"""The panel of one operator: its metrics as tables of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import value_text
from joinsight.present.caches import use
from joinsight.tables import Row

STATISTICS = ("min", "median", "p95", "max")


@dataclass(frozen=True, slots=True)
class ShownMetric:
    """A measured metric, its numbers as texts with their unit."""

    name: str
    total: str
    """Empty if a total means nothing, as for averages."""
    spread: Sequence[str]
    """`STATISTICS` over tasks; empty if there is a single value, or the driver measured it."""
    stage: tuple[int, int] | None
    """Stage and attempt of the largest value; None: the driver."""
    task: int | None


@dataclass(frozen=True, slots=True)
class OperatorPanel:
    """An operator of a plan version with all that was measured."""

    id: int
    name: str
    simple: str
    metrics: Sequence[ShownMetric]
    zero: Sequence[str]
    """The names of the metrics whose total is 0."""
    stages: Sequence[int]
    """The stages that ran it."""
    cached: str
    """Who filled and read the cached table that it reads; empty if it reads none."""

    @property
    def spread(self) -> list[ShownMetric]:
        """The metrics of several tasks."""
        return [metric for metric in self.metrics if metric.spread]

    @property
    def single(self) -> list[ShownMetric]:
        """The other metrics."""
        return [metric for metric in self.metrics if not metric.spread]


def panels_of(
    stored: StoredPlan, version: Row, nodes: Iterable[Row], stages_of: Mapping[int, Sequence[int]]
) -> Iterator[OperatorPanel]:
    """The panels of nodes of a plan version. `stages_of`: the stages that ran each, known of the final plan."""
    did_not_run = stored.not_run(version)
    measured = {row["accumulator_id"]: row for row in stored.metrics}
    caches = {row["node_id"]: row for row in reversed(stored.caches)} if version["is_final"] else {}
    for node in nodes:
        shown, zero = [], []
        for accumulator, name, _ in node["metrics"] if node["id"] not in did_not_run else ():
            row = measured.get(accumulator)
            if row is None or not row["count"]:
                continue
            if row["total"] == 0 and row["text"] is None:
                zero.append(name)
            else:
                shown.append(_metric(name, row))
        cached = use(caches[node["id"]]) if node["id"] in caches else ""
        stages = stages_of.get(node["id"], ()) if version["is_final"] else ()
        yield OperatorPanel(node["id"], node["name"], node["simple"], shown, zero, stages, cached)


def _metric(name: str, row: Row) -> ShownMetric:
    if row["text"] is not None:
        return ShownMetric(name, row["text"], (), None, None)
    kind = row["type"]
    values = [row[statistic] for statistic in STATISTICS]
    has_spread = row["count"] > 1 and row["max_stage_id"] is not None and None not in values
    total = "" if kind == "average" and has_spread else value_text(kind, row["total"] or 0)
    stage = None if row["max_stage_id"] is None else (row["max_stage_id"], row["max_stage_attempt"] or 0)
    spread = [value_text(kind, value) for value in values] if has_spread else []
    return ShownMetric(name, total, spread, stage, row["max_task_id"])
