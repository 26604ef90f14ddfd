"""What an execution would have saved without an operator: what it waited for, if it had nothing else to wait for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from joinsight.timing.cost import Attempt, Bill
from joinsight.timing.savings import Ran, Savings

WRITES, JOINS = Ran(1, 0, 0, 500, 0), Ran(3, 0, 500, 1_000, 0)
"""Two stages on the critical path, one after the other."""
WAITS: Mapping[Attempt, Mapping[int, int]] = {(1, 0): {7: 200, 8: 300}, (3, 0): {7: 100, 9: 400}}
"""Shuffle 7 is written by the one and read by the other."""


@pytest.mark.parametrize(
    ("beside", "saved"),
    [
        ([], 300),
        ([Ran(2, 0, 0, 450, 50)], 150),  # the other side of the join: reading is saved all the same
        ([Ran(2, 0, 0, 100, 400)], 300),
        ([Ran(2, 0, 0, 750, 250)], 250),
        ([Ran(2, 0, 0, 750, 250), Ran(4, 0, 0, 880, 120)], 120),  # needed at the end: all together
        ([Ran(2, 0, 0, 450, 50), Ran(4, 0, 0, 880, 120)], 120),
        ([Ran(2, 0, 500, 900, 100)], 300),  # it would have begun earlier, too
        ([Ran(2, 0, 600, 970, 30)], 230),
        ([Ran(2, 0, 0, 450, None)], 300),  # nobody waited for it
        ([Ran(2, 0, 0, 500, 0)], 100),  # as late as the other side
    ],
)
def test_what_ran_beside_it_limits_it(beside: list[Ran], saved: int) -> None:
    """By its slack, until when it was needed."""
    assert Savings(Bill((), (), WAITS), [JOINS, *beside, WRITES]).of(7) == saved


def test_nothing_is_saved_that_nobody_waited_for() -> None:
    """Neither by an operator off the path, nor by one of a stage whose end is unknown."""
    found = Savings(Bill((), (), WAITS), [WRITES])
    assert [found.of(node_id) for node_id in (7, 8, 9, 10)] == [200, 300, 0, 0]
