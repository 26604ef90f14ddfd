"""How slow this machine is now: all waits and timeouts of the tests are multiples of it.

A test takes at most some 30 s on a quiet machine. What takes four times as long there hangs; on a machine that is
twenty times slower, or as busy, it has twenty times as long. The first process of a run measures once, for
all of them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

NAME = "JOINSIGHT_TEST_PACE"
_PROGRAM = "import sqlalchemy, pandas, rich.console"
_QUIET_SECONDS = 0.45
"""What the program took on a quiet machine of two cores, on which no test took more than 30 s."""


def measure() -> float:
    """How much slower than there a Python starts here: a factor, at least 1."""
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
        seconds.append(time.monotonic() - started)
    return max(1.0, statistics.median(seconds) / _QUIET_SECONDS)


PACE = float(os.environ.get(NAME) or os.environ.setdefault(NAME, f"{measure():.2f}"))
TEST_SECONDS = 120 * PACE
"""The timeout of a test."""
LONG = 5
"""How many times as long a test has that `make test` leaves out, or that generates a year of history first."""
