"""Show that work grows no faster than its input, on machines of any speed, which others may use too."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from joinsight.plan import texts

TIMES = 8
ATTEMPTS = 10


def steps(work: Callable[[], object]) -> int:
    """The number of Python bytecode instructions that the work takes, the same on any machine.

    Short texts are not cached, so that earlier work does not make this work cheaper.
    """
    counted = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_SHORT", -1)
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
    return counted


def check_cpu_time(prepare: Callable[[int], Callable[[], object]], size: int) -> None:
    """Fail if `TIMES` the input always takes far more than `TIMES` the CPU time.

    Meant for code in C, such as regular expressions. `prepare` gives the work for an input of that size. Other load can
    only make an attempt look worse than the code is, so one good attempt suffices.
    """
    small, large = prepare(size // TIMES), prepare(size)
    limit = TIMES**1.5  # between linear and quadratic
    ratios = []
    for _ in range(ATTEMPTS):
        before = _cpu_seconds(small)
        ratios.append(_cpu_seconds(large) / min(before, _cpu_seconds(small)))
        if ratios[-1] < limit:
            return
    raise AssertionError(f"{TIMES} times the input took {min(ratios):.0f} times the CPU time, or more")


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started
