"""The settings that are kept of a log."""

from __future__ import annotations

import re
from pathlib import Path

from joinsight.eventlog import settings

JAVA = Path(__file__).parents[2] / "listener/src/io/joinsight/Settings.java"


def test_the_listener_keeps_the_same() -> None:
    """Its list and ours have the same entries."""
    [listed] = re.findall(r"ALLOWED =(.*?);", JAVA.read_text(), re.DOTALL)
    assert set(re.findall(r'"(.*?)"', listed)) == settings.ALLOWED
