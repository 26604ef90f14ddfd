"""Cached tables in the database: how the executions of an application use each."""

from __future__ import annotations

from sqlalchemy import Engine
from tests.documents import planned
from tests.plan.test_caches import JOINED, scan

from joinsight.queries import reading
from joinsight.store.writer import Writer


def test_each_cached_table_has_its_own_uses(engine: Engine) -> None:
    """Only executions of this application count: one filled both, one the second again, one read both."""
    executions = ((1, "3+4", "3+4", "uses"), (2, "?", "1+1", "uses"), (3, "?", "?", "uses"), (4, "9+9", "9+9", "other"))
    for number, left, right, application in executions:
        drawing = JOINED.format(left=scan(left, level=1), right=scan(right, level=1))
        document = planned(drawing, application_id=application, execution_id=number, root_execution_id=number)
        assert Writer(engine).write([document]).stored == 1
    with engine.connect() as connection:
        found = [reading.read_plan(connection, reading.find_execution(connection, f"uses/{n}")).caches for n in (1, 3)]
    for first, second in found:
        assert first["cache_id"] < second["cache_id"]
        assert (first["filled_by"], first["reads"]) == ([1], 2)
        assert (second["filled_by"], second["reads"]) == ([1, 2], 1)
