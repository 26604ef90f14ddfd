"""Two runs of a command: which of the executions that it started took longer, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.documents import STARTED_AT_MS, planned, read_back

from joinsight.analysis.stored import StoredPlan
from joinsight.contract.document import Nested
from joinsight.why import explain
from joinsight.why.parts import parts


def command(application_id: str, *took: int) -> StoredPlan:
    """A MERGE that waited for two executions, one after the other, for so many milliseconds."""
    at, nested = STARTED_AT_MS, []
    for number, ms in enumerate(took, 5):
        nested.append(Nested(number, at, at + ms))
        at += ms
    e = planned("Execute MergeIntoCommand", application_id=application_id, nested=nested, ended_at_ms=at + 100)
    its = []
    for number, ms in enumerate(took, 5):
        part = planned(f"Scan parquet {'t' if number == 5 else 'u'} | [k#1]", application_id=application_id)
        row = read_back(part)
        row.execution.update(
            execution_id=number, duration_ms=ms, ended_at=row.execution["started_at"] + timedelta(milliseconds=ms)
        )
        row.execution["title"] = f"part {number} of it" if number > 5 else "t"
        its.append(row)
    return replace(read_back(e), nested=its)


def test_executions_of_a_command_that_took_longer_are_named() -> None:
    """The one that moved most first, with how to ask for more; they belong together by their query, then by title."""
    a, b = command("app-a", 1_000, 2_000), command("app-b", 1_050, 9_000)
    (cause,) = (each for each in explain(a, b).causes if each.code == "nested")
    assert cause.wall_ms == 7_050
    assert any(text.startswith("execution 6, part 6 of it: 9.0 s, 2.0 s before") for text in cause.evidence)
    assert not any(text.startswith("execution 5") for text in cause.evidence)
    assert cause.advice.endswith(" joinsight why app-a/6 app-b/6")
    (faster,) = parts(b, a, -7_050)
    assert (faster.before_ms, faster.after_ms) == (9_000, 2_000)


def test_an_execution_that_only_one_run_of_a_command_started() -> None:
    """It took nothing before; nothing can be compared with it."""
    a, b = command("app-a", 1_000), command("app-b", 1_000, 3_000)
    (cause,) = (each for each in explain(a, b).causes if each.code == "nested")
    assert cause.evidence[-1] == "execution 6, part 6 of it: 3.0 s, 0 ms before"
    assert cause.advice == "Look at the executions that it started."
