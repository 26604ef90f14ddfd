"""What the difference of two simplified plans means, in sentences: causes first, then what they make necessary.

Both plans are texts (`gate.simplified`), so that a golden file is enough to explain what changed since it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from joinsight.gate.simplified import BY_AQE, REUSED, PlanLine
from joinsight.plan import operators

STRATEGIES: Mapping[str, str] = {each.name: each.known_as for each in operators.OPERATORS if each.kind == "join"}
"""What people call the strategies of joins."""

_JOIN = re.compile(
    rf"(?P<strategy>{'|'.join(operators.JOIN_STRATEGIES)})(?: Build(?P<side>Left|Right)|(?P<by_aqe>{BY_AQE}))?"
    r" (?P<type>\w+)(?P<on>.*?)(?: hint: (?P<hint>.*))?"
)
_EQUALITY = re.compile(r"\((.*?) = (.*?)\)(?= |$)")
_CALL = re.compile(r"\b\w+\(| as \w+(?:\([^()]*\))?")
_WORD = re.compile(r"[^\W\d]\w*")
_SCAN = re.compile(
    rf"{operators.SCAN} (?P<source>.*?)(?:\[(?P<columns>.*?)\])?(?: WHERE (?P<where>.*?))?(?P<bucketed> bucketed)?"
)
_EXCHANGE = re.compile(
    rf"(?:{REUSED})?(?:\w*?){operators.EXCHANGE} (?P<how>\w+)(?:\((?P<keys>.*)\))?(?P<origin> [A-Z_]+)?"
)


class Join(NamedTuple):
    """A join, as a line of a simplified plan says it."""

    strategy: str
    side: str | None
    type: str
    on: str
    hint: str | None
    sources: tuple[str, ...]

    @property
    def key(self) -> str:
        """What a person calls it by: the column if both sides have the same name, else the condition."""
        names = [a if a == b else f"{a} = {b}" for a, b in _EQUALITY.findall(self.on)]
        return ", ".join(names) or self.on.strip()

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return f"join on {self.key}" if self.key else f"join of {' and '.join(self.sources) or 'all rows'}"

    @property
    def how(self) -> str:
        """Its strategy, and its hint if it has one."""
        return STRATEGIES[self.strategy] + (f", hint {self.hint}" if self.hint else "")

    @property
    def is_cartesian(self) -> bool:
        """Whether all pairs of rows are in its result."""
        return self.type == "Inner" and not self.on

    @property
    def columns(self) -> frozenset[str]:
        """The names in its condition, without functions and casts."""
        return frozenset(_WORD.findall(_CALL.sub(" ", self.on)))


@dataclass(frozen=True)
class PlanContents:
    """What the sentences compare."""

    joins: Sequence[Join]
    order: str
    shuffles: Counter[str]
    broadcasts: int
    reused: int
    filters: Counter[str]
    scans: Mapping[str, Counter[tuple[str, str, bool]]]
    others: Counter[str]


def joins_of(roots: Sequence[PlanLine]) -> list[Join]:
    """The joins, from top to bottom and from left to right."""
    return [join for root in roots for each in root if (join := _join(each))]


def contents(roots: Sequence[PlanLine]) -> PlanContents:
    """Read a simplified plan."""
    every = [each for root in roots for each in root]
    shuffles: Counter[str] = Counter()
    filters: Counter[str] = Counter()
    others: Counter[str] = Counter()
    scans: dict[str, Counter[tuple[str, str, bool]]] = {}
    broadcasts = reused = 0
    for each in every:
        label = each.label
        if label.startswith(REUSED):
            reused += 1
        elif operators.is_broadcast(label):
            broadcasts += 1
        elif match := _EXCHANGE.fullmatch(label):
            shuffles[_shuffle_text(match)] += 1
        elif match := _SCAN.fullmatch(label):
            kind = (match["columns"] or "", match["where"] or "", bool(match["bucketed"]))
            scans.setdefault(match["source"], Counter())[kind] += 1
        elif label.startswith(f"{operators.FILTER} "):
            filters.update(label.partition(" ")[2].split(" AND "))
        elif match := _JOIN.fullmatch(label):
            broadcasts += match["by_aqe"] is not None
        else:
            others[label] += 1
    order = "; ".join(_order(root) for root in roots)
    return PlanContents(joins_of(roots), order, shuffles, broadcasts, reused, filters, scans, others)


def explained(
    before: Sequence[PlanLine], after: Sequence[PlanLine], settings: Mapping[str, tuple[str | None, str | None]]
) -> list[str]:
    """Sentences, causes first; empty if the plans and the settings are equal. `settings`: those that differ."""
    a, b = contents(before), contents(after)
    sentences = [f"{key} was {_or_unset(old)}, is now {_or_unset(new)}." for key, (old, new) in settings.items()]
    sentences += _gone_and_new(a.filters, b.filters, "The filter ", "A filter ")
    sentences += [*_of_scans(a, b), *_gone_and_new(a.others, b.others), *_of_joins(a, b)]
    made = [*_of_exchanges(a, b)]
    if made:
        sentences.append(f"{made[0][:1].upper()}{'; '.join(made)[1:]}.")
    return sentences


def _of_joins(a: PlanContents, b: PlanContents) -> Iterator[str]:
    pairs, gone, new = _matched(a.joins, b.joins)
    for old, now in pairs:
        name = f"The {old.name}"
        if old.on != now.on:
            yield f"{name} is now a {now.name}."
        if old.type != now.type:
            yield f"{name} was {old.type}, is now {now.type}."
        if old.hint != now.hint:
            lost = f"lost its hint ({old.hint})" if old.hint else ""
            won = f"has a new hint ({now.hint})" if now.hint else ""
            yield f"{name} {' and '.join(filter(None, (lost, won)))}."
        if old.strategy != now.strategy:
            yield f"{name} was {STRATEGIES[old.strategy]}, is now {STRATEGIES[now.strategy]}."
        elif old.side != now.side and old.side and now.side:
            yield f"{name} now builds its {now.side.lower()} side, was its {old.side.lower()} one."
    for join in gone:
        yield f"The {join.name} ({join.how}) is gone."
    for join in new:
        yield f"A {join.name} ({join.how}) is new."
    if a.order != b.order and Counter(_words(a.order)) == Counter(_words(b.order)):
        yield f"The inputs of joins are in another order: {a.order} is now {b.order}."


def _of_scans(a: PlanContents, b: PlanContents) -> Iterator[str]:
    for source in sorted(a.scans.keys() | b.scans.keys()):
        old, now = a.scans.get(source, Counter()), b.scans.get(source, Counter())
        if not old or not now:
            yield f"{source} is {'now' if now else 'no longer'} read."
            continue
        if old.total() != now.total():
            yield f"{source} was read {_times(old.total())}, is now read {_times(now.total())}."
        for position, name in ((1, "partitions"), (2, "buckets")):
            had, has = (sum(n for kind, n in each.items() if kind[position]) for each in (old, now))
            if had != has and (not had or not has):
                yield f"{source} is {'now' if has else 'no longer'} read by {name}."
        columns = [{name for kind in each for name in kind[0].split(",") if name} for each in (old, now)]
        if columns[0] != columns[1]:
            more, less = sorted(columns[1] - columns[0]), sorted(columns[0] - columns[1])
            parts = [
                f"{verb} {', '.join(names)}"
                for verb, names in (("now reads", more), ("no longer reads", less))
                if names
            ]
            yield f"Of {source} it {' and '.join(parts)}."


def _gone_and_new(old: Counter[str], now: Counter[str], the: str = "", a: str = "") -> Iterator[str]:
    """`the` and `a` begin the sentences on what is gone and on what is new."""
    for each in sorted((old - now).elements()):
        yield f"{the}{each} is gone."
    for each in sorted((now - old).elements()):
        yield f"{a}{each} is new."


def _of_exchanges(a: PlanContents, b: PlanContents) -> Iterator[str]:
    for old, now, more in ((a.shuffles, b.shuffles, "more"), (b.shuffles, a.shuffles, "fewer")):
        found = now - old
        if found:
            keys = ", ".join(f"{text} {_times(n)}" if n > 1 else text for text, n in sorted(found.items()))
            yield f"{_count(found.total(), more, 'shuffle')}: {keys}"
    if a.broadcasts != b.broadcasts:
        yield _count(abs(b.broadcasts - a.broadcasts), "more" if b.broadcasts > a.broadcasts else "fewer", "broadcast")
    if a.reused != b.reused:
        verb = "more" if b.reused > a.reused else "fewer"
        yield _count(abs(b.reused - a.reused), verb, "exchange") + " reused"


def _matched(a: Sequence[Join], b: Sequence[Join]) -> tuple[list[tuple[Join, Join]], list[Join], list[Join]]:
    """Pairs of joins that are the same to a person, by the first rule that finds one; then the rest of both."""
    rest = list(b)
    pairs: list[tuple[Join, Join]] = []
    gone = list(a)
    rules: Sequence[Callable[[Join, Join], bool]] = (
        lambda old, now: old[:5] == now[:5] and old.sources == now.sources,
        lambda old, now: (old.type, old.on, old.sources) == (now.type, now.on, now.sources),
        lambda old, now: (old.type, old.on) == (now.type, now.on),
        lambda old, now: old.on == now.on,
        lambda old, now: bool(old.columns & now.columns) and set(old.sources) == set(now.sources),
        lambda old, now: bool(old.columns & now.columns),
        lambda old, now: set(old.sources) == set(now.sources),
    )
    for rule in rules:
        for old in list(gone):
            found = next((now for now in rest if rule(old, now)), None)
            if found is not None:
                pairs.append((old, found))
                gone.remove(old)
                rest.remove(found)
    return pairs, gone, rest


def _join(operator: PlanLine) -> Join | None:
    match = _JOIN.fullmatch(operator.label)
    if match is None:
        return None
    sources = tuple(m["source"] for each in operator if (m := _SCAN.fullmatch(each.label)))
    return Join(match["strategy"], match["side"], match["type"], match["on"], match["hint"], sources)


def _order(root: PlanLine) -> str:
    """``(orders ⋈ customers) ⋈ nation``."""
    texts: dict[int, str] = {}
    for each in reversed(list(root)):
        match = _SCAN.fullmatch(each.label)
        below = [text for text in (texts[id(one)] for one in each.inputs) if text]
        if match:
            texts[id(each)] = match["source"]
        elif _JOIN.fullmatch(each.label) and len(below) > 1:
            texts[id(each)] = " ⋈ ".join(f"({text})" if " ⋈ " in text else text for text in below)
        else:
            texts[id(each)] = ", ".join(below)
    return texts[id(root)]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\s()⋈;,]+", text)


def _shuffle_text(match: re.Match[str]) -> str:
    how, keys, origin = match["how"], match["keys"], match["origin"]
    kinds = {"hashpartitioning": "by", "rangepartitioning": "by range of"}
    text = f"{kinds[how]} {keys}" if how in kinds and keys else {"SinglePartition": "to one partition"}.get(how, how)
    return f"{text}{' (asked for)' if origin else ''}"


def _count(number: int, more: str, what: str) -> str:
    return f"{number} {more} {what}{'s' if number > 1 else ''}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _or_unset(value: str | None) -> str:
    return "not set" if value is None else value
