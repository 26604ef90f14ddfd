"""The input of pages without a database: an execution as the store returns it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from msgspec import structs

from joinsight.analysis.comparison import Run
from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.document import Execution
from joinsight.findings import Finder, Thresholds
from joinsight.tables import as_columns


def stored(execution: Execution, thresholds: Thresholds | None = None) -> tuple[StoredPlan, Run]:
    """The execution in the form of `read_plan` and `read_run`."""
    made = execution_rows(execution)
    made = replace(made, execution=structs.replace(made.execution, updated_at=datetime.now(timezone.utc)))
    made = replace(made, finding=Finder(thresholds).rows(made))
    plan = stored_plan(made)
    joins, shuffles, broadcasts, stages = (
        [as_columns(row) for row in rows] for rows in (made.joins, made.shuffle, made.broadcast, made.stage)
    )
    return plan, Run(plan.execution, {}, joins, shuffles, broadcasts, stages)
