"""Commands that read all files of their table: real ones of Delta Lake and Iceberg, whose tables have few files."""

from __future__ import annotations

import pytest
from tests.documents import execution, planned, read_back
from tests.findings.recorded import table_formats

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution
from joinsight.findings import Thresholds
from joinsight.findings.finding import Finding, PlanContext
from joinsight.findings.unpruned_files import HEURISTIC
from joinsight.present.engines import changed_text, files_text

FILES = {
    "delta merge": (16, 4, "16 of 16 files read (87.0 KiB), 4 files added (38.4 KiB), 4 files removed (37.6 KiB)"),
    "delta delete": (14, 5, "14 of 14 files read (84.9 KiB), 4 files added (36.6 KiB), 5 files removed (39.7 KiB)"),
    "iceberg merge": (8, 4, "8 of 8 files read (28.5 KiB), 4 files added (23.1 KiB), 4 files removed (22.8 KiB)"),
    "iceberg delete": (6, 2, "6 of 6 files read (28.6 KiB), 2 files added (13.2 KiB), 2 files removed (13.9 KiB)"),
}
"""Files that were read, and removed, and how they are shown, in the numbers of the formats."""
SMALL = Thresholds().overridden(["unpruned_files=6", "unpruned_share=0.5"])
MERGE = (
    "Execute MergeIntoCommand | | number of target files before skipping={before},"
    " number of target files after skipping={after}, number of files removed to target={removed}"
)


def found(document: Execution, limits: Thresholds = SMALL) -> list[Finding]:
    return list(HEURISTIC.evaluate(PlanContext(execution_rows(document), limits)))


@pytest.mark.parametrize("name", FILES)
def test_commands_that_read_all_files_are_found(name: str) -> None:
    """With the numbers of the format, which are also shown by themselves, and the time that looking for rows took."""
    document = table_formats()[name]
    (finding,) = found(document)
    read, removed, text = FILES[name]
    assert (finding.evidence["read_files"], finding.evidence["removed_files"]) == (read, removed)
    assert finding.title.startswith(f"All {read} files of the table, ")
    assert finding.waited.wall_ms is not None and finding.waited.wall_ms > 100
    assert files_text(read_back(document).plan) == text


@pytest.mark.parametrize(
    ("before", "after", "removed", "is_found"),
    [
        (400, 400, 40, True),
        (400, 400, 41, False),
        (401, 400, 40, False),
        (99, 99, 1, False),
        (100, 100, 1, True),
        (100, 100, 0, False),
    ],
)
def test_files_that_were_left_out_or_changed_are_no_finding(
    before: int, after: int, removed: int, is_found: bool
) -> None:
    """By default, from 100 files on, of which at most a tenth had such rows."""
    document = planned(MERGE.format(before=before, after=after, removed=removed))
    assert bool(found(document, Thresholds())) == is_found


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((1, 1, 0, 1), "1 file removed"),  # known by the log alone
        ((9, 9, 0, 9), "9 files removed"),
        ((9, 1, 1, 1), "1 of 9 files read, 1 file added, 1 file removed"),
        ((0, 0, 0, 0), ""),
        ((1, 1, 2, 0), "1 of 1 file read, 2 files added, 0 files removed"),
    ],
)
def test_numbers_of_files_are_words(counts: tuple[int, int, int, int], text: str) -> None:
    """Files that a command removed whole need not have been read."""
    names = ("number of files before skipping", "number of files after skipping", "number of files added.")
    metrics = ", ".join(
        f"{name}={count}" for name, count in zip((*names, "number of files removed."), counts, strict=True)
    )
    document = planned(f"Execute DeleteCommand | | {metrics}")
    assert files_text(read_back(document).plan) == text


def test_what_does_not_tell_is_no_finding() -> None:
    """Delta Lake does not count what files an UPDATE left out; a query changes none; other sources count none."""
    assert found(table_formats()["delta update"]) == []
    assert found(table_formats()["delta query"]) == []
    assert found(execution()) == []
    assert files_text(read_back(execution()).plan) == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("delta merge", "rows: 98 updated, 100 inserted, 2 deleted, 3,900 copied without change"),
        ("delta update", "rows: 164 updated, 3,908 copied without change"),
        ("delta delete", "rows: 164 deleted, 3,922 copied without change"),
        ("delta merge, deletion vectors", "rows: 98 updated, 100 inserted, 2 deleted, 0 copied without change"),
        ("delta query", ""),
        ("iceberg merge", "rows: 98 updated, 100 inserted, 2 deleted, 7,900 copied without change"),
        ("iceberg update", ""),
        ("iceberg delete", "rows: 164 deleted, 3,934 copied without change"),
        ("iceberg merge, merge-on-read", "rows: 98 updated, 100 inserted, 2 deleted"),
    ],
)
def test_what_a_command_did_to_rows_is_shown(name: str, text: str) -> None:
    """As far as the format counts it; both formats count the same of the same MERGE."""
    assert changed_text(read_back(table_formats()[name]).plan) == text
