"""The input of pages without a database: an execution as the store returns it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from msgspec import structs
from tests.findings.recorded import UNLIMITED, recordings

from joinsight.analysis.comparison import ComparedExecution
from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.document import Execution
from joinsight.findings import FindingsEngine, Thresholds
from joinsight.findings.causes import SKEWED_SHUFFLE
from joinsight.tables import EXECUTION_KEY, FindingRow, as_columns


def skewed() -> tuple[StoredPlan, ComparedExecution]:
    """The recording of that name, with the finding that it would have if it had taken longer."""
    plan, run = stored(recordings()["skewed"])
    key = {name: plan.execution[name] for name in EXECUTION_KEY}
    node = next(node for node in plan.versions[-1]["nodes"] if node["id"] == 11)
    assert node["name"] == "Exchange"
    row = FindingRow(
        **key,
        finding=SKEWED_SHUFFLE,
        severity="warning",
        node_id=11,
        title="Skewed",
        advice="Find the key.",
        evidence={},
        wall_is_partial=False,
    )
    plan.findings[:] = [as_columns(row)]
    return plan, run


def stored(execution: Execution, thresholds: Thresholds | None = None) -> tuple[StoredPlan, ComparedExecution]:
    """The execution in the form of `read_plan` and `read_run`."""
    made = execution_rows(execution)
    made = replace(made, execution=structs.replace(made.execution, updated_at=datetime.now(timezone.utc)))
    found = FindingsEngine() if thresholds is None else FindingsEngine(thresholds, UNLIMITED)
    made = replace(made, finding=found.rows(made))
    plan = stored_plan(made)
    joins, shuffles, broadcasts, stages = (
        [as_columns(row) for row in rows] for rows in (made.joins, made.shuffle, made.broadcast, made.stage)
    )
    return plan, ComparedExecution(plan.execution, {}, joins, shuffles, broadcasts, stages)
