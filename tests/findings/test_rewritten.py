"""Rows that a MERGE, UPDATE or DELETE copied: real commands of Delta Lake and Iceberg, which changed few of 8,000."""

from __future__ import annotations

import pytest
from tests.documents import execution, read_back
from tests.findings.recorded import table_formats

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution
from joinsight.findings import FindingsEngine, Thresholds
from joinsight.findings.finding import Finding, PlanContext
from joinsight.findings.rewritten_rows import HEURISTIC
from joinsight.verdict import judge

COPIED = {
    "delta merge": (3900, 3900 + 98 + 100, 2, 39_338),
    "delta update": (3908, 3908 + 164, 0, 39_142),
    "delta delete": (3922, 3922, 164, 37_500),
    "iceberg merge": (7900, 7900 + 98 + 100, 2, 23_700),
    "iceberg delete": (3934, 3934, 164, 13_520),
}
"""Copied, written and deleted rows, and bytes added: what the formats say, which the statements confirm."""
SMALL = Thresholds().overridden(["rewritten_rows=3900", "wall_ms=100", "wall_share=0.01"])


def found(document: Execution, limits: Thresholds = SMALL) -> list[Finding]:
    return list(HEURISTIC.evaluate(PlanContext(execution_rows(document), limits)))


@pytest.mark.parametrize("name", COPIED)
def test_copied_rows_are_found(name: str) -> None:
    """With the numbers of the format, the bytes that they are of the files, and the time that writing took."""
    (finding,) = found(table_formats()[name])
    copied, written, deleted, size = COPIED[name]
    assert finding.evidence == {
        "copied_rows": copied,
        "written_rows": written,
        "deleted_rows": deleted,
        "share": copied / written,
        "added_bytes": size,
    }
    assert f"were copied without change: {copied:,} of {written:,}, in files of" in finding.title
    assert finding.impact_bytes == round(size * copied / written)
    assert finding.waited.wall_ms is not None and finding.waited.wall_ms > 100
    row = next(each for each in FindingsEngine(SMALL).rows(execution_rows(table_formats()[name])))
    assert row.node_id == finding.node_id >= 0


@pytest.mark.parametrize(
    "name", ["delta merge, deletion vectors", "iceberg merge, merge-on-read", "iceberg update", "delta query"]
)
def test_what_copies_nothing_or_does_not_tell_has_none(name: str) -> None:
    """Deletion vectors and merge-on-read copy no rows; Iceberg does not count what an UPDATE changed."""
    assert found(table_formats()[name]) == []


def test_few_rows_are_no_finding() -> None:
    """By number and by share; nor is a query without such a command."""
    merge = table_formats()["delta merge"]
    assert found(merge, Thresholds()) == []
    assert found(merge, SMALL.overridden(["rewritten_rows=3901"])) == []
    assert found(merge, SMALL.overridden(["rewritten_share=0.96"])) == []
    assert found(execution()) == []


@pytest.mark.parametrize("name", COPIED)
def test_the_verdict_has_their_numbers(name: str) -> None:
    """As evidence, whatever took the time."""
    evidence = judge(read_back(table_formats()[name])).evidence
    assert (evidence["copied_rows"], evidence["written_rows"]) == COPIED[name][:2]
