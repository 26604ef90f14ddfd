"""Tags of an execution, of which a session may collect any number."""

from __future__ import annotations

from pathlib import Path

from tests.eventlog.recorded import read_events
from tests.eventlog.test_late import CANCELLED

from joinsight.contract.document import Execution


def test_the_first_hundred_tags_are_kept(tmp_path: Path) -> None:
    """A session that adds a tag for each of its queries does not make each document longer than the one before."""
    tags = [f"query-{number:04}" for number in range(5_000)]
    events = ({**event, "jobTags": tags} if "executionId" in event else event for event in CANCELLED)
    found = read_events(tmp_path, events)
    last = [document for document in found if isinstance(document, Execution)][-1]
    assert (last.user_tags, last.job_tags) == (tags[:100], tags[:100])
