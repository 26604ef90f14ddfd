"""The recorded logs, and documents as the rows that the store would have."""

from __future__ import annotations

import atexit
import gzip
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from sqlalchemy import Table
from tests.documents import stored_rows
from tests.exactness.compare import in_ms
from tests.java import LIGHT, compile_java

from joinsight.analysis.rows import application_row
from joinsight.backfill.jvm import Reader
from joinsight.backfill.listing import Local, find
from joinsight.backfill.log_file import ROLLING, LogFile
from joinsight.backfill.tasks import LogDocuments, Outcome
from joinsight.contract.document import Application, Document
from joinsight.tables import Row, application, as_columns, execution, stage
from joinsight.tables.views import node_metric, plan_edge, plan_node, plan_version, segment

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
"""Its events are named as this and more."""
RECORDED = Path(__file__).with_name("recorded")
VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def recorded(version: str, folder: Path) -> tuple[LogFile, dict[str, Any]]:
    """A recorded log, unpacked in `folder` if we compressed it, and the result of Spark's replay."""
    (source,) = (path for path in (RECORDED / version).iterdir() if path.name != "replay.json.gz")
    target = folder / source.name.removesuffix(".gz")
    if source.name.startswith(ROLLING):
        shutil.copytree(source, target)
    elif source.suffix == ".gz":
        target.write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copy(source, target)
    truth: dict[str, Any] = json.loads(gzip.decompress((RECORDED / version / "replay.json.gz").read_bytes()))
    return log_at(target), truth


def log_at(path: Path) -> LogFile:
    """The only log at this path, or below it."""
    (log,) = find(Local(), [str(path)]).logs.values()
    return log


def plain(log: LogFile) -> bytes:
    """The lines of a log, unpacked."""
    content = b""
    for file in log.files:
        with tempfile.NamedTemporaryFile() as target:
            java = _plain()
            assert java.stdin and java.stdout
            java.stdin.write(f"{file.path}\t{target.name}\n".encode())
            java.stdin.flush()
            assert java.stdout.readline() == b"null\n"
            content += Path(target.name).read_bytes()
    return content


def lines(log: LogFile) -> Iterator[bytes]:
    """The plain lines of a log."""
    yield from plain(log).splitlines()


def read(log: LogFile) -> tuple[list[Document], Outcome]:
    """The documents of a log, and its outcome."""
    documents = LogDocuments(log, _reader().read([log.request()]))
    return list(documents), documents.outcome


def read_events(folder: Path, events: Iterable[Mapping[str, Any]]) -> list[Document]:
    """The documents of a log of these events, which is read without problems."""
    log = folder / "local-1"
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    found, outcome = read(log_at(log))
    assert outcome.problems == []
    return found


@cache
def _reader() -> Reader:
    """One JVM for all tests of this process."""
    reader = Reader()
    atexit.register(reader.__exit__, None, None, None)
    return reader


@cache
def _plain() -> subprocess.Popen[bytes]:
    folder = tempfile.TemporaryDirectory()
    path = compile_java(Path(__file__).with_name("Plain.java"), Path(folder.name))
    java = subprocess.Popen(
        ["java", *LIGHT, "-cp", path, "io.joinsight.eventlog.Plain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(folder.cleanup)
    atexit.register(java.communicate)  # runs before the folder goes
    return java


def as_stored(found: Iterable[Document]) -> dict[str, Any]:
    """The rows that the store would have: what `tests.exactness.compare` takes."""
    stored: dict[str, Any] = {"application": None, "executions": {}}
    for document in found:
        if isinstance(document, Application):
            stored["application"] = _whole(application, [as_columns(application_row(document))])[0]
            continue
        rows = stored_rows(document)
        stored["executions"][document.execution_id] = {
            "row": _whole(execution, rows["execution"])[0],
            "metrics": _whole(node_metric, rows["node_metric"]),
            "nodes": _whole(plan_node, rows["plan_node"]),
            "edges": _whole(plan_edge, rows["plan_edge"]),
            "versions": json.loads(json.dumps(_whole(plan_version, rows["plan_version"]))),
            "stages": _whole(stage, rows["stage"]),
            "segments": _whole(segment, rows["segment"]),
            "jobs": to_builtins(document.jobs),
        }
    return stored


def _whole(table: Table, rows: list[Row]) -> list[Row]:
    return [in_ms({column.name: row.get(column.name) for column in table.columns}) for row in rows]
