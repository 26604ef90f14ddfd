"""Which operators `measured.keys` asks, and which keys it takes for hot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from joinsight.base.errors import JoinsightError
from joinsight.measuring.key_counts import KeyCounts
from joinsight.measuring.key_values import _collected, _plain
from joinsight.measuring.keys import HotKeys, NotInPlan, _is_hot, hottest
from joinsight.measuring.logical import _name


def answers(*given: bool | None) -> tuple[list[int], list[Callable[[], HotKeys]]]:
    """Operators with a hot key, without one, or (None) that are not in the plan; and which of them were asked."""
    asked: list[int] = []

    def answer(number: int, is_hot: bool | None) -> HotKeys:
        asked.append(number)
        if is_hot is None:
            raise NotInPlan(f"operator {number}")
        return HotKeys("", number, [], [], {}, [], is_hot)

    return asked, [lambda number=i, is_hot=each: answer(number, is_hot) for i, each in enumerate(given)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "node", "asked"),
    [
        ((True, True), 0, [0]),
        ((False, None, True, True), 2, [0, 1, 2]),
        ((None, False, False, False, True), 1, [0, 1, 2, 3]),
        ((False,), 0, [0]),
    ],
)
def test_the_first_hot_key_of_three_answers(given: Sequence[bool | None], node: int, asked: Sequence[int]) -> None:
    """The first answer, if none of three has a hot key; what is not in the plan is no answer."""
    its, asks = answers(*given)
    assert hottest(asks, JoinsightError("none")).node_id == node
    assert its == asked


def test_nothing_to_ask() -> None:
    """The last reason is raised."""
    with pytest.raises(JoinsightError, match="none"):
        hottest([], JoinsightError("none"))
    with pytest.raises(JoinsightError, match="operator 1"):
        hottest(answers(None, None)[1], JoinsightError("none"))


@pytest.mark.parametrize(
    ("named", "rows", "keys", "is_hot"),
    [
        ([60, 1, 1], 100, 41, True),
        ([10] * 10, 100_000, 10_000, False),
        ([1500] * 10, 100_000, 1000, True),
        ([900, 10], 100_000, 10_000, False),
        ([34, 33, 33], 100, 3, False),
        ([100], 100, 1, True),
        ([], 0, 0, False),
    ],
    ids=["half", "even", "ten hot ones", "below 1 %", "three keys", "one key", "no rows"],
)
def test_a_hot_key(named: Sequence[int], rows: int, keys: int, is_hot: bool) -> None:
    """Half of the rows, or 1 % and three times those of another."""
    its = [{"side": "left", "rows": each} for each in named]
    assert _is_hot("left", its, KeyCounts([], {"left": rows}, {"left": keys}, ())) is is_hot


def test_types_that_python_may_not_have_are_texts() -> None:
    """Also inside of other types; a map whose keys are lists or dicts is a text as a whole."""
    array: dict[str, Any] = {"type": "array", "elementType": "date", "containsNull": True}
    assert _collected("interval year to month") == _collected("timestamp_ntz") == "string"
    assert _collected("interval day to second") == "interval day to second"
    assert _collected(array)["elementType"] == "string"
    assert _collected({"type": "map", "keyType": "date", "valueType": array})["valueType"]["elementType"] == "string"
    assert _collected({"type": "map", "keyType": array, "valueType": "long"}) == "string"
    assert _plain({"a": [bytearray(b"x")]}) == {"a": [b"x"]}


class ScalaSequence(list[Any]):
    """As of Scala."""

    def size(self) -> int:
        return len(self)

    def apply(self, i: int) -> Any:
        return self[i]


class Projection:
    """A node of a plan, which counts calls."""

    calls = 0

    def __init__(self, columns: str, *inputs: Projection) -> None:
        self._columns, self._inputs = columns, inputs

    def children(self) -> ScalaSequence:
        return ScalaSequence(self._inputs)

    def subqueriesAll(self) -> ScalaSequence:
        return ScalaSequence()

    def simpleString(self, fields: int) -> str:
        Projection.calls += 1
        return f"Project [{self._columns}]"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: its columns are not asked one by one")


class Key:
    """An expression."""

    def nodeName(self) -> str:
        return "Multiply"

    def toString(self) -> str:
        return "(k#1L * 2)"


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ("v#2, (k#1L * 2) AS twice, 2x#7L, v#3", "twice, 2x"),
        ("_x#1, (k#1L * 2) AS _internal#7L", "(k * 2)"),
        ("(j#1L + (k#1L * 2)) AS other#7L", "(k * 2)"),
    ],
)
def test_a_computed_key_has_the_name_that_the_query_gives_it(columns: str, name: str) -> None:
    """A node is one call to the JVM, however many columns it has; names of Spark's own are none."""
    root = Projection(columns)
    for _ in range(20):
        root = Projection(", ".join(f"c#{i}" for i in range(1000)), root)
    Projection.calls = 0
    assert _name(Key(), root) == name
    assert Projection.calls == 21
