"""A real Spark: each cached table is linked to all executions that filled it or read it, in every version."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from tests.spark import cache_workload
from tests.spark.sink import listening
from tests.spark_process import SparkRun
from tests.versions import SUPPORTED

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution
from joinsight.tables import CacheRow

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

WORKLOAD = Path(cache_workload.__file__)


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("aqe", ["true", "false"])
def test_cached_tables_are_linked(version: str, aqe: str, spark_run: SparkRun, tmp_path: Path) -> None:
    """Exactly as the descriptions say: filled at once or in parts, by name, from each other, and cached again."""
    found: dict[str, dict[int, CacheRow]] = defaultdict(dict)  # by description, then by cached table
    for e in ran(spark_run, version, tmp_path, f"spark.sql.adaptive.enabled={aqe}"):
        found[e.description] |= {row.cache_id: row for row in execution_rows(e).cache}
    names: dict[int, str] = {}
    for description in found:
        its = {name: verb for name, _, verb in (part.partition(": ") for part in description.split(", ")) if verb}
        rows = found[description]
        assert len(rows) == len(its), (description, rows)
        for cache_id, row in rows.items():  # the first one that has a table names it
            if cache_id not in names:
                names[cache_id] = next(name for name in its if name not in names.values())
            verb = its[names[cache_id]]
            assert (row.fill_stages is not None) == verb.startswith("fill"), (description, row)
            assert (row.fill_wall_ms is None, row.fill_task_ms is None) == (not row.fill_stages, not row.fill_stages)
            assert row.scans == (2 if verb == "read twice" else 1), description
            assert row.table_name == (names[cache_id] if names[cache_id] in ("named", "lazy") else None)
    assert sorted(names.values()) == ["again", "grouped", "lazy", "named", "nested", "plain"]
    [row] = found["plain: read"].values()
    assert row.rows_read == sum(number % 7 < 5 for number in range(4_000))


def ran(spark_run: SparkRun, version: str, folder: Path, *settings: str) -> list[Execution]:
    """The executions of the workload as they ended, in their order."""
    with listening() as sink:
        options = [*(f"{key}={value}" for key, value in sink.conf.items()), *settings]
        spark_run(version, WORKLOAD, str(folder), *options)
        return [each for _, each in sorted(sink.newest().items())]
