"""Let collectors of schema 1 write until they have been upgraded, too; and more numbers of a stage.

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
    "result_serialization_time_ms": (sa.BigInteger(), "time to serialize the results of tasks"),
    "getting_result_time_ms": (sa.BigInteger(), "time the driver took to fetch results from executors"),
    "scheduler_delay_ms": (
        sa.BigInteger(),
        "scheduler delay: the rest of the tasks' durations, such as sending tasks",
    ),
    "task_duration_ms": (sa.BigInteger(), "time from the launch to the finish of tasks"),
    **{f"run_time_ms_{p}": (sa.BigInteger(), f"run time of a task: {p}") for p in ("p25", "p75")},
    **{
        f"cpu_time_ms_{name}": (sa.BigInteger(), f"executor CPU time of a task: {name}")
        for name in ("min", "median", "p95", "max")
    },
}


def upgrade() -> None:
    op.execute("ALTER TABLE execution ALTER COLUMN is_sampled SET DEFAULT false")
    for name, (kind, comment) in STAGE.items():
        op.add_column("stage", sa.Column(name, kind, comment=comment))
