"""The recorded logs, and documents as the rows that the store would have."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from sqlalchemy import Table
from tests.exactness.compare import in_ms

from joinsight.document import Application, Document
from joinsight.eventlog import framing
from joinsight.eventlog.files import ROLLING, Log, find, log_of_file
from joinsight.eventlog.read import Outcome, documents, open_local
from joinsight.rows import Row, application_row, execution_rows
from joinsight.store.models import application, execution, node_metric, plan_edge, plan_node, plan_version, stage

RECORDED = Path(__file__).with_name("recorded")
VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def recorded(version: str, folder: Path) -> tuple[Log, dict[str, Any]]:
    """A recorded log, unpacked in `folder` where it was packed by us, and what Spark's replay said of it."""
    (source,) = (path for path in (RECORDED / version).iterdir() if path.name != "replay.json.gz")
    target = folder / source.name.removesuffix(".gz")
    if source.name.startswith(ROLLING):
        shutil.copytree(source, target)
    elif source.suffix == ".gz":
        target.write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copy(source, target)
    (log,) = find(target) if target.is_dir() else [log_of_file(str(target))]
    truth: dict[str, Any] = json.loads(gzip.decompress((RECORDED / version / "replay.json.gz").read_bytes()))
    return log, truth


def lines(log: Log) -> Iterator[bytes]:
    """The plain lines of a log."""
    for path in log.files:
        with open_local(path) as file:
            yield from framing.lines(file, Path(path).name)


def read(log: Log) -> tuple[list[Document], Outcome]:
    outcome = Outcome()
    return list(documents(log, outcome)), outcome


def as_stored(found: Iterable[Document]) -> dict[str, Any]:
    """The rows that the store would have: what `tests.exactness.compare` takes."""
    stored: dict[str, Any] = {"application": None, "executions": {}}
    for document in found:
        if isinstance(document, Application):
            stored["application"] = _whole(application, [application_row(document)])[0]
            continue
        rows = execution_rows(document)
        stored["executions"][document.execution_id] = {
            "row": _whole(execution, rows["execution"])[0],
            "metrics": _whole(node_metric, rows["node_metric"]),
            "nodes": _whole(plan_node, rows["plan_node"]),
            "edges": _whole(plan_edge, rows["plan_edge"]),
            "versions": json.loads(json.dumps(_whole(plan_version, rows["plan_version"]))),
            "stages": _whole(stage, rows["stage"]),
            "jobs": to_builtins(document.jobs),
        }
    return stored


def _whole(table: Table, rows: list[Row]) -> list[Row]:
    return [in_ms({column.name: row.get(column.name) for column in table.columns}) for row in rows]
