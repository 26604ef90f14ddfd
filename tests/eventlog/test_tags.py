"""Tags of an execution, of which a session may collect any number."""

from __future__ import annotations

import json
from pathlib import Path

from tests.eventlog.recorded import log_at, read
from tests.eventlog.test_late import CANCELLED

from joinsight.contract.document import Execution


def test_the_first_hundred_tags_are_kept(tmp_path: Path) -> None:
    """A session that adds a tag for each of its queries does not make each document longer than the one before."""
    tags = [f"query-{number:04}" for number in range(5_000)]
    log = tmp_path / "local-1"
    events = ({**event, "jobTags": tags} if "executionId" in event else event for event in CANCELLED)
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    found, outcome = read(log_at(log))
    assert outcome.problems == []
    last = [document for document in found if isinstance(document, Execution)][-1]
    assert (last.user_tags, last.job_tags) == (tags[:100], tags[:100])
