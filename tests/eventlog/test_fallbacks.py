"""Why Spark ran operators, and not Comet, as plans in a log describe it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.eventlog.recorded import read_events
from tests.eventlog.test_late import CANCELLED, PLAN

from joinsight.contract.document import Execution

REASON = 'say "no" to \\u00e9'
TREE = f"== Physical Plan ==\n...\n== Extended Information (Comet) ==\n{PLAN['nodeName']} [COMET: {REASON}]\n"


@pytest.mark.parametrize(
    ("described", "metadata"),
    [(TREE, {"Fallback": REASON}), (TREE.replace("[COMET:", ""), {}), ("", {}), (7, {}), (None, {})],
)
def test_reasons_come_from_the_description(described: object, metadata: dict[str, str], tmp_path: Path) -> None:
    """They are metadata of the nodes; a description without any is skipped."""
    events = ({**each, "physicalPlanDescription": described} if "sparkPlanInfo" in each else each for each in CANCELLED)
    found = read_events(tmp_path, events)
    last = [document for document in found if isinstance(document, Execution)][-1]
    assert last.nodes[0].metadata == metadata
