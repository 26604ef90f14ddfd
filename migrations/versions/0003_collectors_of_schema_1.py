"""Let collectors of schema 1 write until they have been upgraded, too; more numbers of a stage and of joins; comments.

Schema 2 added a required column without a default, so PostgreSQL refused all executions of a collector that did not know
the column.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None

STAGE = {
    "slots": (sa.Integer(), "most tasks that the executors could run at once while it ran; NULL: unknown"),
    "executors": (sa.Integer(), "number of executors with successful tasks; NULL: none, unknown, or more than 64"),
    "hosts": (sa.Integer(), "number of the hosts of these executors; NULL: as executors"),
    "slowest_host": (sa.Text(), "slowest executor or host for its work: host"),
    "slowest_tasks": (sa.BigInteger(), "slowest executor or host for its work: successful tasks"),
    "slowest_run_time_ms": (sa.BigInteger(), "slowest executor or host for its work: their run time"),
    "slowest_cpu_time_ms": (sa.BigInteger(), "slowest executor or host for its work: their CPU time"),
    "slowest_median_ms": (sa.BigInteger(), "slowest executor or host for its work: their median run time"),
    "slowest_others_median_ms": (
        sa.BigInteger(),
        "slowest executor or host for its work: median run time of all other tasks",
    ),
    "slowest_excess_ms": (
        sa.BigInteger(),
        "slowest executor or host for its work: run time beyond what the others took for the same work; at most the"
        " difference of the medians for each of its tasks",
    ),
    "slowest_executor": (
        sa.Text(),
        "slowest executor or host for its work: executor id; none: all executors of the host",
    ),
    "result_serialization_time_ms": (sa.BigInteger(), "time to serialize the results of tasks"),
    "getting_result_time_ms": (sa.BigInteger(), "time the driver took to fetch results from executors"),
    "scheduler_delay_ms": (sa.BigInteger(), "scheduler delay: the rest of the tasks' durations, such as sending tasks"),
    "task_duration_ms": (sa.BigInteger(), "time from the launch to the finish of tasks"),
    "run_time_ms_p25": (sa.BigInteger(), "run time of a task: p25"),
    "run_time_ms_p75": (sa.BigInteger(), "run time of a task: p75"),
    "cpu_time_ms_min": (sa.BigInteger(), "executor CPU time of a task: min"),
    "cpu_time_ms_median": (sa.BigInteger(), "executor CPU time of a task: median"),
    "cpu_time_ms_p95": (sa.BigInteger(), "executor CPU time of a task: p95"),
    "cpu_time_ms_max": (sa.BigInteger(), "executor CPU time of a task: max"),
    "waits_for": (
        sa.ARRAY(sa.Integer()),
        "stages for whose results it waited before it was submitted, as far as known; NULL: unknown, or it did not run",
    ),
    "broadcast_ms": (
        sa.BigInteger(),
        "how long the driver took to build and send its rows as a broadcast; NULL: they became none",
    ),
}

COMMENTS = {
    "execution.is_outer": (
        "whether its work is in another execution: a micro-batch in those nested in it, the result of a command in that"
        " which ran the command; or whether it is the query of joinsight doctor: tables of operators have nothing of it,"
        " and lists and totals leave it out"
    ),
    "broadcast.outcome": (
        "succeeded, failed (its execution failed before it was ready, and worked on it or says so), running, or unknown"
        " (not measured here: AQE did not need it, or an earlier execution of the same DataFrame made it)"
    ),
    "shuffle.rows_read_median": (
        "rows that the median task read; where tasks of other branches of a UNION are in its stages, the median of the"
        " tasks that read any"
    ),
    "shuffle.skew_ratio": (
        "rows_read_max / rows_read_median; NULL: not read by several tasks, or the median is 0 or unknown"
    ),
    "joins.left_rows": (
        "rows of the left input, from the nearest operator below that counts them; NULL: not measured, or counted"
        " repeatedly (cartesian product without a shuffle)"
    ),
    "joins.cost_task_ms": "the same in time of tasks, summed; NULL: unknown, or only its broadcast is known",
    "joins.cost_is_partial": (
        "whether the costs are a lower bound: operators of its stage could not be told apart, or no sample saw the join"
    ),
}

MOST = (
    "what it can have cost at most: cost_wall_ms, and all the wall time that it shares with other operators of its"
    " stages, which could not be told apart; NULL: unknown"
)


def upgrade() -> None:
    op.execute("ALTER TABLE execution ALTER COLUMN is_sampled SET DEFAULT false")
    for name, (kind, comment) in STAGE.items():
        op.add_column("stage", sa.Column(name, kind, comment=comment))
    for column, comment in COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN {column} IS '{comment}'")
    op.add_column("joins", sa.Column("cost_most_wall_ms", sa.BigInteger(), comment=MOST))
    op.execute("DROP INDEX ix_joins_cost_wall_ms_largest")
    op.execute(
        "CREATE INDEX ix_joins_cost_largest"
        " ON joins (COALESCE(cost_most_wall_ms, cost_wall_ms) DESC NULLS LAST, started_at DESC)"
    )
    op.execute("DROP INDEX ix_joins_application_id_attempt_id_execution_id")
    op.execute("""
        CREATE INDEX ix_joins_application_id_attempt_id_execution_id ON joins (application_id, attempt_id, execution_id)
            INCLUDE (started_at, node_id, output_rows, spill_bytes, cost_wall_ms, cost_most_wall_ms)
    """)
