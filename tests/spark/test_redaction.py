"""What leaves the driver of a job with secrets and literals everywhere that Spark's events show them.

All that is planted starts with ``Zq``, so one search through the bytes that arrived finds whatever was forgotten:
``ZqS...`` are secrets by their key or their surroundings, ``ZqL...`` and some numbers are literals.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from tests.documents import StoredRows, stored_rows, texts
from tests.processes import ran
from tests.spark.sink import Sink, sending_to
from tests.spark_process import JOBS
from tests.versions import NEWEST, SCALA_2_12

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.store.writer import Writer
from joinsight.tables import metadata

pytestmark = [pytest.mark.spark, pytest.mark.matrix]
NUMBERS = (b"918273", b"82371", b"424242")


def run(sink: Sink, environment: dict[str, str], folder: Path, conf: dict[str, str]) -> list[Execution]:
    """Run the script with the listener attached; returns the last document of each execution, by rising id."""
    conf = {
        "spark.app.name": "app password=ZqSapp",
        **sending_to(sink.url),
        "spark.joinsight.spool": str(folder / "spool"),
        "spark.joinsight.tag.note": "https://u:ZqStagged@host",
        "spark.joinsight.tag.token": "ZqStoken",
        "spark.hadoop.fs.s3a.secret.key": "ZqSconf",
        "spark.sql.optimizer.runtime.custom": "a token ZqSvalue",
        "spark.redaction.string.regex": r"Zqcard\d+",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        **conf,
    }
    command = [
        sys.executable,
        str(JOBS / "redacted.py"),
        str(folder),
        *(f"{key}={value}" for key, value in conf.items()),
    ]
    environment = {**environment, "SPARK_USER": "password=ZqSuser"}
    ran(*command, env=environment, cwd=folder)
    last = {d["execution_id"]: d for d in sink.taken() if d["kind"] == "execution"}
    *_, ended = [d for d in sink.taken() if d.get("state") == "ended"]
    assert ended["listener_failures"] == 0
    found = [decode_document(json.dumps(last[number]).encode()) for number in sorted(last)]
    return [document for document in found if isinstance(document, Execution)]


def sent(sink: Sink) -> bytes:
    """All that arrived."""
    return b"\n".join(line for headers, lines, _ in sink.requests for line in (repr(headers).encode(), *lines))


def stored(engine: Engine, sink: Sink) -> bytes:
    """All rows of a database that has stored what arrived."""
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE " + ", ".join(table.name for table in metadata.sorted_tables)))
    Writer(engine).write([decode_document(json.dumps(document).encode()) for document in sink.taken()])
    with engine.connect() as connection:
        rows = [str(row) for table in metadata.sorted_tables for row in connection.execute(select(table))]
    assert len(rows) > 200
    return "\n".join(rows).encode()


def found(pattern: bytes, data: bytes) -> set[bytes]:
    return set(re.findall(rb".{0,80}" + pattern + rb"\w*", data))


@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_nothing_secret_leaves_the_driver(
    spark_environment: Callable[[str], dict[str, str]],
    sink: Sink,
    second_sink: Sink,
    engine: Engine,
    tmp_path: Path,
    version: str,
) -> None:
    """No planted secret arrives, with redactLiterals no literal either; and what is read from the plans is the same.

    The second job's documents go through its spool. What has arrived is all that the store can hold.
    """
    environment = spark_environment(version)
    (tmp_path / "raw").mkdir()
    raw = run(sink, environment, tmp_path / "raw", {})
    (tmp_path / "redacted").mkdir()
    second_sink.answers += [503, 503, 503]
    redacted = run(second_sink, environment, tmp_path / "redacted", {"spark.joinsight.redactLiterals": "true"})

    data = sent(sink)
    assert not found(b"ZqS", data)
    assert not found(b"Zqcard", data) and not found(b"Zqsession", data)
    assert len(found(b"ZqL", data)) > 20, "without redactLiterals literals are sent"
    assert all(number in data for number in NUMBERS)
    data = sent(second_sink)
    assert not found(b"Zq", data)
    data = "\n".join(each for document in second_sink.taken() for each in texts(document)).encode()
    assert not any(found(number, data) for number in NUMBERS)

    assert not found(b"ZqS", stored(engine, sink))
    assert not found(b"Zq", stored(engine, second_sink))

    assert len(raw) == len(redacted) > 15
    assert [e.state for e in raw].count("failed") == 3
    errors = [e.error or "" for e in redacted if e.state == "failed"]
    assert "USER_RAISED_EXCEPTION" in errors[0] or "java.lang.RuntimeException: ?" in errors[0]
    assert "CAST_INVALID_INPUT" in errors[1]
    assert "ValueError: ?" in errors[2]
    assert all(stage.failure for e in redacted[-3:] for stage in e.stages if stage.state == "failed")
    for before, after in zip(raw, redacted, strict=True):
        assert structure(after) == structure(before)
    (scan,) = {
        n.metadata["ReadSchema"] for e in redacted for n in e.nodes if n.metadata.get("PartitionFilters", "[]") != "[]"
    }
    assert scan == "struct<>"


def structure(execution: Execution) -> StoredRows:
    """The graph of an execution, its shuffles, broadcasts and joins, without literals, ids and codegen's numbers."""
    rows = stored_rows(execution)
    columns = {
        "plan_node": ("node_id", "name", "cluster_id"),
        "plan_edge": ("child_id", "parent_id"),
        "shuffle": ("node_id", "partitioning", "keys", "partitions", "origin", "consumers", "aqe_read"),
        "broadcast": ("node_id", "mode", "consumers", "join_nodes"),
        "joins": ("node_id", "strategy", "join_type", "build_side", "left_keys", "right_keys", "is_skew"),
    }
    return {
        table: [{name: plain(row.get(name)) for name in names} for row in rows[table]]
        for table, names in columns.items()
    }


def plain(value: Any) -> Any:
    """A value without what differs from run to run, and its literals as redaction leaves them."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if not isinstance(value, str):
        return value
    value = re.sub(r"#\d+L?|WholeStageCodegen \(\d+\)|JDBCRelation.*", "", value)
    return re.sub(r"\b(?:918273|ZqL\w+)", "?", value)
