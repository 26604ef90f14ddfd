"""Work that grows with a document and not faster, counted in Python's own steps: whatever the machine, they are the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests import hostile
from tests.findings.recorded import SMALL

from joinsight.document import Execution
from joinsight.findings import Finder
from joinsight.rows import execution_rows

SIZE = 200


class Compared(int):
    """A number whose comparisons are steps, so that a search in a list of them is as many."""

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    __hash__ = int.__hash__


def steps(work: Callable[[], object]) -> int:
    """How many instructions of Python's machine the work takes."""
    counted = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def with_compared(e: Execution) -> Execution:
    """The same, with the ids of its stages as `Compared`."""
    for job in e.jobs:
        job.stages[:] = map(Compared, job.stages)
    for accumulator in e.accumulators:
        accumulator.stages[:] = map(Compared, accumulator.stages)
    return e


def read(e: Execution) -> None:
    """What becomes of a document before it is written."""
    Finder(SMALL).rows(execution_rows(e))


def work(shape: Callable[[int], Execution], size: int) -> int:
    e = with_compared(shape(size))
    return steps(lambda: read(e))


@pytest.mark.parametrize("shape", hostile.SHAPES, ids=lambda shape: shape.__name__)
def test_work_grows_with_the_document(shape: Callable[[int], Execution]) -> None:
    """Twice the document takes twice the work, whatever its shape."""
    read(shape(1))  # what is done once
    assert work(shape, 2 * SIZE) < 2.1 * work(shape, SIZE)
