"""What pages are made of, without a database: an execution as the store would give it."""

from __future__ import annotations

from datetime import datetime, timezone

from joinsight.compare import Run
from joinsight.document import Execution
from joinsight.findings import SEVERITIES, Finder, Thresholds
from joinsight.reading import StoredPlan
from joinsight.rows import execution_rows
from joinsight.store.models import metadata


def stored(execution: Execution, thresholds: Thresholds | None = None) -> tuple[StoredPlan, Run]:
    """As `read_plan` and `read_run` have it."""
    made = execution_rows(execution)
    rows = {
        table: [{column.name: row.get(column.name) for column in metadata.tables[table].columns} for row in each]
        for table, each in made.items()
    }
    [e] = rows["execution"]
    e["updated_at"] = datetime.now(timezone.utc)
    found = sorted(Finder(thresholds).rows(made), key=lambda row: SEVERITIES.index(row["severity"]))
    plan = StoredPlan(e, rows["plan_version"], rows["aqe_decision"], rows["node_metric"], found)
    return plan, Run(e, {}, rows["joins"], rows["shuffle"], rows["broadcast"], rows["stage"])
