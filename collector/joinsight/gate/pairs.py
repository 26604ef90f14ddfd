"""Pairs the queries of two sides, and says what changed."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from joinsight.analysis.followed import not_followed
from joinsight.base.units import bytes_text
from joinsight.contract.accepted_advice import AcceptedAdvice
from joinsight.gate.golden import meanings
from joinsight.gate.runs import QueryRun

MIN_GROWTH_BYTES = 1 << 20
"""Less growth of shuffled bytes does not count."""
_ALIKE = 0.3
"""Share of lines that two plans have in common, from which on they may be of the same query."""


@dataclass(frozen=True)
class QueryPair:
    """The same query of both sides, or a query of one side only."""

    base: QueryRun | None
    head: QueryRun | None

    @property
    def run(self) -> QueryRun:
        """The newer side that there is."""
        run = self.head or self.base
        assert run is not None
        return run

    @property
    def job(self) -> str:
        return self.run.job

    @property
    def title(self) -> str:
        return self.run.section.title

    @property
    def plans(self) -> str:
        """A key of both plans."""
        lines = [each.section.compared if each else [] for each in (self.base, self.head)]
        return hashlib.sha256("\0".join("\n".join(each) for each in lines).encode()).hexdigest()[:16]

    def without(self, advice: Iterable[AcceptedAdvice]) -> list[str]:
        """The accepted advice that the newer side does not follow, in sentences."""
        if self.head is None:
            return []
        found = not_followed(advice, self.head.strategies, self.head.settings)
        return [f"It runs without accepted advice: {each.text}." for each in found]

    def changes(self, growth: float) -> list[str]:
        """What changed and matters, in sentences; empty for a query of one side.

        `growth`: the factor from which on more shuffled bytes matter.
        """
        if self.base is None or self.head is None:
            return []
        if self.head.error is not None and self.base.error is None:
            return [f"It fails: {self.head.error.splitlines()[0]}"]
        if self.base.error is not None:
            return []  # the plan of a failed query is not its final one
        found = meanings(self.base.section, self.head.section)
        old, new = (each.numbers["shuffle_write_bytes"] for each in (self.base, self.head))
        if old is not None and new is not None and _grew(max(old, *self.base.earlier_shuffled, 0), new, growth):
            found.append(f"Shuffled bytes grew from {bytes_text(old)} to {bytes_text(new)}.")
        return found

    def doubts(self, growth: float) -> list[str]:
        """Why it can't be said whether something changed, in sentences; empty for a query of one side.

        `growth`: as for `changes`.
        """
        if self.base is None or self.head is None or self.base.error is not None or self.head.error is not None:
            return []
        found = [
            f"Numbers of its run in {side} are missing, as not all events arrived."
            for side, run in (("BASE", self.base), ("HEAD", self.head))
            if run.is_partial
        ]
        old, new = (each.numbers["shuffle_write_bytes"] for each in (self.base, self.head))
        if old is None or new is None or not _grew(old, new, growth):
            return found
        known = (*self.base.earlier_shuffled, old)
        if not _grew(max(known), new, growth):
            found.append(
                f"It shuffled {bytes_text(new)}. {len(known)} runs of BASE shuffled between {bytes_text(min(known))}"
                f" and {bytes_text(max(known))}: too much scatter to say that it grew."
            )
        return found


def _grew(old: int, new: int, growth: float) -> bool:
    return new > old * growth and new - old >= MIN_GROWTH_BYTES


def pairs(base: Sequence[QueryRun], head: Sequence[QueryRun]) -> list[QueryPair]:
    """All queries of both sides, by job.

    In a job, runs of the same shape are paired in their order, then those left over that have the most lines in common.
    """
    found = []
    for job in dict.fromkeys(run.job for run in (*base, *head)):
        olds, news = ([run for run in side if run.job == job] for side in (base, head))
        new_of = _same_shape(olds, news)
        rest_old, rest_new = _rest(olds, new_of), _rest(news, new_of.values())
        new_of |= {
            rest_old[a]: rest_new[b] for a, b in _alike([olds[i] for i in rest_old], [news[i] for i in rest_new])
        }
        found += [QueryPair(old, news[new_of[i]] if i in new_of else None) for i, old in enumerate(olds)]
        found += [QueryPair(None, news[i]) for i in _rest(news, new_of.values())]
    return found


def _rest(runs: Sequence[QueryRun], taken: Collection[int]) -> list[int]:
    return [i for i in range(len(runs)) if i not in taken]


def _same_shape(olds: Sequence[QueryRun], news: Sequence[QueryRun]) -> dict[int, int]:
    """Positions of runs of the same query, the first with the first."""
    waiting: dict[str | None, deque[int]] = defaultdict(deque)
    for i, new in enumerate(news):
        waiting[new.shape].append(i)
    return {i: waiting[old.shape].popleft() for i, old in enumerate(olds) if waiting[old.shape]}


def _alike(olds: Sequence[QueryRun], news: Sequence[QueryRun]) -> Iterator[tuple[int, int]]:
    """Positions of runs that may be of the same query, which was changed: those that are most alike first."""
    lines = [[Counter(run.section.lines) for run in side] for side in (olds, news)]
    likeness = [
        ((old & new).total() / max(old.total(), new.total()), -a, -b)
        for a, old in enumerate(lines[0])
        for b, new in enumerate(lines[1])
    ]
    taken: tuple[set[int], set[int]] = set(), set()
    for share, a, b in sorted(likeness, reverse=True):
        if share >= _ALIKE and -a not in taken[0] and -b not in taken[1]:
            taken[0].add(-a)
            taken[1].add(-b)
            yield -a, -b
