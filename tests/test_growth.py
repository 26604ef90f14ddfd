"""Work grows linearly with a document, counted in Python's own steps, which do not depend on the machine."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests import hostile
from tests.documents import execution, request
from tests.findings.recorded import SMALL
from tests.growth import steps

from joinsight.analysis.rows import execution_rows
from joinsight.contract.decode import decode_request
from joinsight.contract.document import Execution
from joinsight.findings import FindingsEngine

SIZE: dict[Callable[[int], Execution], int] = {hostile.aggregates: 100, hostile.versions: 100}
"""How large a document is, if not 30: the first few dozen of these are cheaper than those that follow."""


class Compared(int):
    """A number whose comparisons are steps, so that a search in a list of them is as many."""

    def __eq__(self, other: object) -> bool:
        return int(self) == other

    __hash__ = int.__hash__


def with_compared(e: Execution) -> Execution:
    """The same, with the ids of its stages as `Compared`."""
    for job in e.jobs:
        job.stages[:] = map(Compared, job.stages)
    for accumulator in e.accumulators:
        accumulator.stages[:] = map(Compared, accumulator.stages)
    return e


def read(e: Execution) -> None:
    """The processing of a document before it is written."""
    FindingsEngine(SMALL).rows(execution_rows(e))


def work(shape: Callable[[int], Execution], size: int) -> int:
    e = with_compared(shape(size))
    return steps(lambda: read(e))


@pytest.mark.parametrize("shape", hostile.SHAPES, ids=lambda shape: shape.__name__)
def test_work_grows_with_the_document(shape: Callable[[int], Execution]) -> None:
    """Twice the document takes twice the work, whatever its shape."""
    read(shape(1))  # what is done once
    size = SIZE.get(shape, 30)
    assert work(shape, 2 * size) < 2.05 * work(shape, size)


@pytest.mark.parametrize(("shape", "what"), hostile.TOO_MUCH, ids=lambda each: getattr(each, "__name__", each))
def test_what_is_named_again_and_again_has_a_limit(shape: Callable[[int], Execution], what: str) -> None:
    """A document whose rows would be as large as its square is refused by its line, and the others are kept."""
    good = execution()
    batch = decode_request(request(good, shape(5_000 if what == "characters" else 1_100), good))
    assert [number for number, _ in batch.documents] == [1, 3]
    ((number, reason),) = batch.refused
    assert number == 2
    assert re.fullmatch(rf"the document has \d+ {what}( up to \$\.plans\[0\])?; \d+ are allowed", reason)
    assert batch.refused_by_kind == {"size": 1}
