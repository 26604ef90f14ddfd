"""All that was measured for one accumulator in one execution, and the numbers that are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from joinsight.document import Accumulator
from joinsight.eventlog.stages import Sorted, StageValues

CUSTOM = "v2Custom"


@dataclass(slots=True)
class Measured:
    id: int
    type: str
    stages: list[StageValues] = field(default_factory=list)
    """Those whose tasks reported it."""
    driver: list[int] = field(default_factory=list)
    made: Accumulator | None = None

    def accumulator(self) -> Accumulator:
        """Made once; what it was made of is then dropped."""
        if self.made is None:
            self.made = self._make()
            self.stages, self.driver = [], []
        return self.made

    def _make(self) -> Accumulator:
        values: list[int] = []
        zeros = 0
        touched: set[int] = set()
        for stage in self.stages:
            written = 0
            for _, column in stage.columns[self.id]:
                values += column
                written += len(column)
            zeros += stage.tasks - written
            if stage.largest[self.id][0] > 0:
                touched.add(stage.stage)
        values += self.driver
        if self.type == "sum" or self.type.startswith(CUSTOM):
            counting = Sorted(values, zeros)
        elif self.type == "average":
            counting = Sorted((value for value in values if value > 0), 0)
        else:
            counting = Sorted((value for value in values if value >= 0), zeros)
        largest = self._largest()
        max_stage, attempt, task = largest if largest else (None, None, None)
        some = counting.count > 0
        return Accumulator(
            id=self.id,
            type=self.type,
            count=counting.count,
            sum=counting.sum() if some else None,
            min=counting.at(0) if some else None,
            median=counting.median if some else None,
            p95=counting.p95 if some else None,
            max=counting.max if some else None,
            max_stage=max_stage,
            max_stage_attempt=attempt,
            max_task=task,
            stages=sorted(touched),
            # Only the driver has the class that says how its values are added up; so says Spark where it is missing
            text="N/A" if self.type.startswith(CUSTOM) else None,
        )

    def _largest(self) -> tuple[int, int, int] | None:
        """Stage, attempt and task of the largest value; None: the driver."""
        if not self.stages:
            return None
        stage = max(self.stages, key=lambda stage: stage.largest[self.id][0])  # the first of equal ones
        value, task = stage.largest[self.id]
        if any(update > value for update in self.driver):
            return None
        return stage.stage, stage.attempt, task
