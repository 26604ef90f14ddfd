"""A guard against time that grows faster than its input, on machines of any speed, which others may use too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = 0.1
"""CPU seconds that the yardstick takes where nothing else runs."""


def _yardstick() -> float:
    """CPU seconds for what our code mostly does: making many small objects."""
    started = time.process_time()
    made = [{"number": number, "text": str(number)} for number in range(200_000)]
    seconds = time.process_time() - started
    assert len(made) == 200_000
    return seconds


@contextmanager
def quick(seconds: float) -> Iterator[None]:
    """Fails if the body takes more CPU time than this; in proportion more where the machine is slower just then."""
    before = _yardstick()
    started = time.process_time()
    yield
    took = time.process_time() - started
    allowed = seconds * max(1, before / _USUAL, _yardstick() / _USUAL)
    assert took < allowed, f"it took {took:.2f} s of CPU time, of at most {allowed:.2f}"
