"""The lines of a real PySpark job's actions, from `attach` to the column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.documents import stored_rows
from tests.spark.sink import Sink
from tests.spark.test_listener import run
from tests.spark_process import JOBS, SparkRun
from tests.versions import SUPPORTED

pytestmark = [pytest.mark.spark]


@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
def test_each_query_has_its_line(sink: Sink, spark_run: SparkRun, tmp_path: Path, version: str) -> None:
    """In functions, threads and cells, described or not; a user's call site stays, and nothing is left behind."""
    more = {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    done = run(sink, spark_run, version, "lines.py", **more)
    for line in ("total 20", "raised ", "kept mine", "left None None"):
        assert line in done.stdout
    expected: set[tuple[str | None, str]] = {("<cell>:1", "count"), (None, "mine"), (None, "count")}
    for number, text in enumerate((JOBS / "lines.py").read_text().splitlines(), 1):
        marked = re.search("#: (.*)", text)
        expected |= {(f"lines.py:{number}", action) for action in marked[1].split()} if marked else set()
    rows = [stored_rows(each)["execution"][0] for each in sink.executions()]
    found = {(row["called_from"], row["description"].partition(" at ")[0]) for row in rows}
    (described,) = {(line, name) for line, name in found if name == "Described"}
    assert described[0] in {line for line, _ in expected}
    assert found - {described} == expected
