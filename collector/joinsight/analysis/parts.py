"""Which of the executions that two runs of a command started belong together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from joinsight.tables import Row

MOST_PARTS = 20
"""Executions that a command started of which it is shown what they did: the longest."""


class HasExecution(Protocol):
    """An execution with more, or less, of what is stored of it."""

    @property
    def execution(self) -> Row:
        """Its row."""


_Part = TypeVar("_Part", bound=HasExecution)


def matched(a: Sequence[_Part], b: Sequence[_Part]) -> Iterator[tuple[_Part | None, _Part | None]]:
    """Executions of the same query in the same order; then those with the same title but for numbers; then the rest."""
    left = [list(a), list(b)]
    for key_of in (_shape, _title):
        groups: dict[str, tuple[list[_Part], list[_Part]]] = defaultdict(lambda: ([], []))
        for side, its in enumerate(left):
            for each in its:
                groups[key_of(each)][side].append(each)
        left = [[], []]
        for first, last in groups.values():
            both = min(len(first), len(last))
            yield from zip(first, last, strict=False)
            left[0] += first[both:]
            left[1] += last[both:]
    yield from ((each, None) for each in left[0])
    yield from ((None, each) for each in left[1])


def _shape(its: HasExecution) -> str:
    return its.execution["query_shape"] or f"execution {id(its)}"


def _title(its: HasExecution) -> str:
    return re.sub(r"[0-9]+", "?", its.execution["title"] or "")
