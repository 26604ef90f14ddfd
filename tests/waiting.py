"""Waits for other threads, processes and sessions, on machines of any speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tests.pace import TEST_SECONDS

SECONDS = round(0.8 * TEST_SECONDS)
"""Until a test gives up, before its own timeout: what it waits for takes a moment on a quiet machine."""

DEADLINES = (
    "joinsight.cli.check.ANSWER_SECONDS",
    "joinsight.cli.spark_check._START_SECONDS",
    "joinsight.cli.spark_check._STORED_SECONDS",
    "joinsight.demo.runner._START_SECONDS",
    "joinsight.serve.app.BODY_SECONDS",
    "joinsight.serve.app.SLOT_SECONDS",
    "joinsight.serve.background.STOP_SECONDS",
    "joinsight.serve.ingest.LOCK_SECONDS",
    "joinsight.serve.pages.STATEMENT_SECONDS",
    "joinsight.serve.pages.TURN_SECONDS",
    "joinsight.serve.protocol.GOODBYE_SECONDS",
    "joinsight.serve.protocol.HEAD_SECONDS",
    "joinsight.serve.protocol.IDLE_SECONDS",
    "joinsight.serve.protocol.READ_SECONDS",
    "joinsight.serve.server.IDLE_SECONDS",
    "joinsight.serve.server.SHUTDOWN_SECONDS",
    "joinsight.serve.summaries.STATEMENT_SECONDS",
    "joinsight.serve.writers.END_SECONDS",
    "joinsight.serve.writers.START_SECONDS",
    "joinsight.serve.writers.STILL_SECONDS",
    "joinsight.store.database.LOCK_SECONDS",
    "joinsight.store.partitions.LOCK_SECONDS",
)
"""Deadlines of services and commands. In tests they are `LATE_SECONDS`, so that nothing is late because the machine is
slow, and a test that waits for a deadline by mistake fails. A test of a deadline sets it."""
LATE_SECONDS = 60 * math.ceil(2 * SECONDS / 60)


def until(true: Callable[[], object], what: str, seconds: int = SECONDS) -> None:
    """Wait until the condition is true; fails with `what`."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
