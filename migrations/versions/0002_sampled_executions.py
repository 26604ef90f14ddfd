"""Column `execution.is_sampled`, in the index by which regressions find runs: they looked it up in `execution_times`.

It is false in rows that exist: to look it up for all of them rewrites the table and its indexes, which took more than ten
minutes for four million. So regressions compare costs of operators of runs since the upgrade, and baselines of before.
"""

from __future__ import annotations

from alembic import op

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE execution ADD COLUMN is_sampled boolean NOT NULL DEFAULT false")
    op.execute(
        "COMMENT ON COLUMN execution.is_sampled IS"
        " 'whether tasks of it were sampled (docs/task-time.md); false in rows of before schema 2'"
    )
    op.execute("ALTER TABLE execution ALTER COLUMN is_sampled DROP DEFAULT")
    op.execute("DROP INDEX ix_execution_comparable")
    op.execute("""
        CREATE INDEX ix_execution_comparable ON execution (query_shape, started_at)
            INCLUDE (job_name, origin, application_id, attempt_id, execution_id, plan_fingerprint, duration_ms,
                input_bytes, shuffle_write_bytes, is_sampled)
            WHERE state = 'succeeded' AND incomplete IS NULL
    """)
