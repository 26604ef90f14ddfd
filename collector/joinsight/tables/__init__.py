"""The tables, each declared once (see `declare`). The migrations create them in PostgreSQL.

Keys are natural: an application attempt is ``(application_id, attempt_id)``; a delivery adds the listener's id, an
execution its start and Spark's execution id. Every row of an execution has the execution's whole key, is partitioned by
the month of its start, and is replaced when a newer document of the execution arrives. Unmeasured values are NULL,
never 0.
"""

from __future__ import annotations

from joinsight.base.severity import SEVERITIES
from joinsight.tables.alarm import (
    CANCELLED,
    DURATION,
    FAILED,
    FORECAST_KINDS,
    MEASURES,
    AlarmRow,
    ForecastRow,
    NotificationRow,
    WatchedQueryRow,
    alarm,
    cause,
    forecast,
    notification,
    watched_query,
)
from joinsight.tables.application import ApplicationRow, application, owner
from joinsight.tables.broadcast import DRIVER_MS, DRIVER_PHASES, BroadcastRow, broadcast, driver_ms
from joinsight.tables.cache import CacheRow, cache
from joinsight.tables.cost import CostRow
from joinsight.tables.declare import (
    EXECUTION_KEY,
    ExecutionKey,
    Row,
    TableRow,
    as_columns,
    as_json,
    from_metrics,
    metadata,
    total,
    values_of,
)
from joinsight.tables.delivery import DeliveryRow, delivery
from joinsight.tables.event_log import EventLogRow, event_log
from joinsight.tables.execution import IS_PART, ExecutionRow, execution, has_work, is_part
from joinsight.tables.finding import IMPACT, SEVERITY_RANK, FindingRow, finding
from joinsight.tables.join import JoinRow, joins
from joinsight.tables.packed import (
    PACKED,
    UNPACKED,
    ExecutionCostsRow,
    ExecutionMetricsRow,
    ExecutionPlansRow,
    ExecutionTimesRow,
    execution_costs,
    execution_metrics,
    execution_plans,
    execution_times,
    pack_costs,
    pack_metrics,
    pack_plans,
    pack_times,
)
from joinsight.tables.plan import AqeDecisionRow, NodeMetricRow, PlanEdgeRow, PlanNodeRow, PlanVersionRow, aqe_decision
from joinsight.tables.rollup import ROLLUPS, baseline, rollup_day, rollup_operator_day
from joinsight.tables.segment import SegmentRow
from joinsight.tables.shuffle import ShuffleRow, shuffle
from joinsight.tables.stage import StageRow, stage
from joinsight.tables.task_time import TaskTimeRow

TABLES = (
    application,
    delivery,
    execution,
    shuffle,
    broadcast,
    joins,
    finding,
    cache,
    stage,
    aqe_decision,
    execution_plans,
    execution_metrics,
    execution_times,
    execution_costs,
    rollup_day,
    rollup_operator_day,
    baseline,
    watched_query,
    alarm,
    forecast,
    notification,
    cause,
    event_log,
)
"""All tables, in the order of the data dictionary."""

PARTITIONED = tuple(table for table in metadata.sorted_tables if table.info["partitioned"])
"""Tables that are partitioned by the month of the execution's start."""

CHILDREN = tuple(table for table in PARTITIONED if table is not execution)
"""Tables whose rows belong to an execution and are replaced with it."""
