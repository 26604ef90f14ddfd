"""The input of pages without a database: an execution as the store returns it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from joinsight.compare import Run
from joinsight.document import Execution
from joinsight.findings import SEVERITIES, Finder, Thresholds
from joinsight.reading import StoredPlan
from joinsight.rows import execution_rows
from joinsight.tables import as_columns


def stored(execution: Execution, thresholds: Thresholds | None = None) -> tuple[StoredPlan, Run]:
    """The execution in the form of `read_plan` and `read_run`."""
    made = execution_rows(execution)
    made = replace(made, execution=replace(made.execution, updated_at=datetime.now(timezone.utc)))
    made = replace(made, finding=Finder(thresholds).rows(made))
    rows = {table: [as_columns(row) for row in each] for table, each in made.by_table().items()}
    [e] = rows["execution"]
    found = sorted(rows["finding"], key=lambda row: SEVERITIES.index(row["severity"]))
    plan = StoredPlan(e, rows["plan_version"], rows["aqe_decision"], rows["node_metric"], found, rows["segment"])
    return plan, Run(e, {}, rows["joins"], rows["shuffle"], rows["broadcast"], rows["stage"])
