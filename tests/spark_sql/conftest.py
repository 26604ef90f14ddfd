"""A Spark for each module, and one history for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.documents import application, planned
from tests.history import Planted, generate
from tests.java import end_java

from joinsight.contract.document import Document, Stage
from joinsight.demo.workload import settings
from joinsight.findings import Finding, FindingsEngine, Heuristic, PlanContext
from joinsight.store.database import connect, upgrade
from joinsight.store.writer import Writer

MASTER = os.environ.get("JOINSIGHT_TEST_SPARK_MASTER", "local[2]")
"""`test_matrix.py` runs these tests again on another Spark, whose executors are processes of their own."""
LONG = () if "JOINSIGHT_TEST_SPARK_MASTER" in os.environ else (pytest.mark.matrix,)
"""Marks of a module that the normal run leaves out, and `test_matrix.py` does not."""
TABLES = {"execution", "joins", "shuffle", "broadcast"}
"""Those that are filled with the generated history; what is odd is in all."""
END = datetime(2026, 11, 5, 12, tzinfo=timezone.utc)
"""The history goes over the end of a month."""
ODD = """
SortMergeJoin | [k#1], [k#2], Inner | number of output rows=3
  Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=9
  Exchange | hashpartitioning(k#2, 8), [plan_id=3] | shuffle bytes written=9
"""
TEXTS = ("", "\\N", 'say "no", \r\nthen;\tgo', "ünï→😀", "{a,NULL}", "x" * 5_000_000)
BESIDE = (
    "INSERT INTO rollup_day VALUES (:moment, 'j', '', 'live', 'd', 1, 1, 0, 0, 0, 0, 1, 5, 0.1, NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL, NULL, :moment)",
    "INSERT INTO rollup_operator_day VALUES (:moment, 'j', 'k', 'live', 'join', 1, 2, 3, 3, 4, 6, 7, 5, NULL, '{a,b}')",
    "INSERT INTO baseline VALUES (:moment, 'j', 'q', 'live', '', 'duration_ms', 'query', 5, 0.1, 0.2, NULL, '{p,NULL}',"
    " :moment, 'a', '', 7)",
    "INSERT INTO event_log VALUES ('file:/a', 'a', '', 9, :moment, true, 'partial', '{x,y}', false, 1, 2, 3, 4,"
    " '0', :moment)",
)
MOMENTS = (
    END - timedelta(hours=15, microseconds=-1000),
    datetime(1970, 1, 1, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc),
)
"""The months of the second and third have no partition."""


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this Spark's event logs."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(event_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session in a time zone with half an hour in its offset."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(MASTER)
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", event_log.as_uri())
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.compress", "false")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("local")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.session.timeZone", "America/St_Johns")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    end_java()


@pytest.fixture
def ours(spark: Any) -> Iterator[Any]:
    """The session as our commands set it up."""
    from joinsight.spark.session import _SETTINGS

    with settings(spark, _SETTINGS):
        yield spark


@pytest.fixture(scope="session")
def engine(make_database: Callable[[], str]) -> Iterator[Engine]:
    """A database for all tests of this folder: none of them changes what `planted` has written."""
    with connect(make_database()) as engine:
        upgrade(engine)
        yield engine


@pytest.fixture(scope="session")
def planted(engine: Engine) -> Planted:
    """Two weeks of fourteen jobs, and executions that are odd: texts, times and lists that are hard to write down."""
    planted = generate(engine, days=14, end=END, jobs=14, tables=TABLES)
    documents: list[Document] = [application(application_id="odd")]
    for number, (moment, words) in enumerate((moment, words) for moment in MOMENTS for words in TEXTS):
        start = round(moment.timestamp() * 1000)
        changes = {"state": "running", "ended_at_ms": None} if number % 2 else {"ended_at_ms": start}
        documents.append(
            planned(
                ODD,
                application_id="odd",
                execution_id=number,
                job_name=words[:50],
                started_at_ms=start,
                description=words,
                tags={"text": words[:100]},
                job_tags=[words[:9], "b,{}"] if number % 3 else [],
                stages=[Stage(1, 0, words[:9], 3, "succeeded", 3, run_time_ms=62_000)],
                incomplete=[words[:9]] if number % 4 else [],
                **changes,
            )
        )
    findings = FindingsEngine(heuristics=(Heuristic("found", _found, is_about_time=False),))
    assert Writer(engine, findings).write(documents).refused == []
    with engine.begin() as connection:
        for statement in BESIDE:
            connection.execute(text(statement), {"moment": END})
    return planted


def _found(context: PlanContext) -> Iterator[Finding]:
    yield Finding("found", "info", "It is odd.", {"n": 0.1}, "", context.rows.joins[0].node_id, "key", 5, 9)
