"""The recordings of `record.py` by name, and thresholds for plans of this size."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

from joinsight.analysis.rows import execution_rows
from joinsight.contract.decode import decode_request
from joinsight.contract.document import Execution
from joinsight.findings import HEURISTICS, FindingsEngine, Thresholds, causes, streams
from joinsight.findings.finding import NoHistory
from joinsight.tables import ExecutionRow, Row, as_columns

FILE = Path(__file__).parent / "recordings.ndjson.gz"
STARVED = Path(__file__).parent / "starved.ndjson.gz"
"""Small broadcast joins of a Spark at the lowest priority, on a machine whose cores were busy with other programs.

Recorded by hand: when a driver starves is up to the machine. It took up to 63 s for broadcasts of a few kilobytes.
"""

SMALL = Thresholds().overridden(
    ["broadcast_bytes=34m", "nested_loop_pairs=400000", "fetch_wait_share=0.022", "driver_result_bytes=1m"]
)
"""The defaults are made for larger data; those that are not here hold."""
UNLIMITED = tuple(
    replace(heuristic, is_about_time=False)
    for heuristic in HEURISTICS
    if heuristic.waits_for != causes.EXPLAINED and heuristic not in streams.HEURISTICS
)
"""Those that do not go by the verdict or several micro-batches, whatever is at stake: the recordings are short."""


class Earlier(NoHistory):
    """A `History` in which every broadcast had this number of rows."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self, *rows: int) -> None:
        self.rows = rows
        self.asked: list[tuple[str, datetime]] = []

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> tuple[int, ...]:
        """The same for all."""
        self.asked.append((operator_key, run.started_at))
        return self.rows


@cache
def recordings() -> dict[str, Execution]:
    """The executions by their names."""
    return _read(FILE)


@cache
def table_formats() -> dict[str, Execution]:
    """Commands of `formats_workload` with Delta Lake 4.4 and Iceberg 1.12 on Spark 4.1, from its event logs."""
    return _read(Path(__file__).parent / "rewritten.ndjson.gz")


@cache
def starved() -> dict[str, Execution]:
    """The same of those on the starved machine."""
    return _read(STARVED)


def _read(file: Path) -> dict[str, Execution]:
    batch = decode_request(file.read_bytes())
    assert not batch.refused
    return {document.description: document for _, document in batch.documents if isinstance(document, Execution)}


def look(execution: Execution, thresholds: Thresholds = SMALL, *earlier: int) -> list[Row]:
    """The findings of an execution."""
    return [
        as_columns(row)
        for row in FindingsEngine(thresholds, UNLIMITED).rows(execution_rows(execution), Earlier(*earlier))
    ]
