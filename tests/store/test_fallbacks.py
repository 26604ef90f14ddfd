"""Why Spark ran operators, and not a native engine, in the database."""

from __future__ import annotations

from msgspec.structs import replace
from sqlalchemy import Engine
from tests.documents import application, planned

from joinsight.plan.engines import FALLBACK
from joinsight.present.engines import engine_text
from joinsight.queries import reading
from joinsight.store.writer import Writer


def test_reasons_of_an_engine_are_read_with_the_plan(engine: Engine) -> None:
    """They are stored with the nodes; commands and pages read them where the application has the engine."""
    document = planned("\nWindow | [rank()]\n  CometNativeScan parquet t | [k#1]\n", application_id="fell-back")
    window, scan = document.nodes
    document = replace(document, nodes=[replace(window, metadata={FALLBACK: "no such frame"}), scan])
    settings = {"spark.comet.enabled": "true"}
    Writer(engine).write([application(application_id="fell-back", configuration=settings), document])
    with engine.connect() as connection:
        key = reading.find_execution(connection, f"fell-back/{document.execution_id}")
        stored = reading.read_plan(connection, key)
    assert list(stored.fallbacks.values()) == ["no such frame"]
    assert engine_text(stored).endswith("Window is Spark's: no such frame")
