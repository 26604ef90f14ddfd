"""The kind of work inside of an operator, of real queries that do mostly one."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import BOTH_SCALA

from joinsight.analysis.rows import Rows, execution_rows
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution

pytestmark = pytest.mark.spark


def by_work(rows: Rows) -> Counter[tuple[str | None, str]]:
    """Samples by kind of work and name of the operator, or codegen stage."""
    names = {node.node_id: node.name for node in rows.plan_node}
    found: Counter[tuple[str | None, str]] = Counter()
    for row in rows.task_time:
        found[row.work, "" if row.node_id is None else names[row.node_id]] += row.samples or 0
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("version", BOTH_SCALA)
def test_the_kind_of_work_is_named(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """It is the most frequent one, and the operator's that does it, also where that shares its code with others."""
    spark_run(version, JOBS / "work.py", sink.url)
    last: dict[str, Execution] = {}
    for each in sink.taken():
        document = decode_document(msgspec.json.encode(each))
        if isinstance(document, Execution) and document.state == "succeeded":
            last[document.description] = document
    found = {name: by_work(execution_rows(document)) for name, document in last.items()}
    assert found.keys() == {"regex", "json", "decimal", "python"}
    for name, samples in found.items():
        (work, operator), _ = max(((key, n) for key, n in samples.items() if key[0]), key=lambda each: each[1])
        assert (work, bool(operator)) == (name, True), samples
        assert operator == {"regex": "Filter", "python": "BatchEvalPython"}.get(name, operator), samples
