"""Waits for other threads, processes and sessions, on machines of any speed."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 600
"""Until a test gives up: what it waits for takes a moment, on a machine that is twenty times slower some minutes."""


def until(true: Callable[[], object], what: str) -> None:
    """Wait until the condition is true; fails with `what`."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.01)
