"""A box of a plan's drawing: what it says of its node, in the room that it has."""

from __future__ import annotations

from dataclasses import dataclass, field

from joinsight.display import bytes_text, duration_text
from joinsight.findings.wording import plain
from joinsight.plan import operators
from joinsight.rows import Row
from joinsight.wording import ratio_text, skewed_nodes
from joinsight.wording.nodes import Numbers, clean, describe, kind

WIDTH = 256
"""Of every box, in CSS pixels."""
_HEAD, _LINE, _SPREAD, _FOOT = 27, 17, 13, 8
_REUSED_HEIGHT = 44
_NAME_CHARACTERS, _TEXT_CHARACTERS = 28, 36
_TITLE_CHARACTERS = 600
_TIME_CHARACTERS = 8  # of a name that shares its line with a time
_SEEN = 1.28
_HOT = 0.2
"""From this share of the time of all nodes on, a node is among the expensive ones."""

_BROADCAST_MODES = {
    "HashedRelationBroadcastMode": "for a hash join",
    "IdentityBroadcastMode": "for a nested-loop join",
}


@dataclass(slots=True)
class Box:
    """A node, or a further use of one that is drawn elsewhere (`reuses`)."""

    id: str
    node: Row
    kind: str
    numbers: Numbers
    name: str
    text: str
    figures: str
    height: int
    reuses: bool = False
    time_share: float = 0.0
    findings: list[Row] = field(default_factory=list)
    """The worst first."""
    x: float = 0.0
    y: float = 0.0

    @property
    def time(self) -> str:
        """Of its own."""
        return "" if self.numbers.time_ms is None else duration_text(self.numbers.time_ms)

    @property
    def has_share(self) -> bool:
        """Its share of the time is wide enough to be seen."""
        return self.time_share * WIDTH >= _SEEN

    @property
    def is_hot(self) -> bool:
        """It took much of the time."""
        return self.time_share >= _HOT

    @property
    def skew(self) -> str:
        """``6.3×``."""
        return ratio_text(self.numbers.skew)

    @property
    def is_skewed(self) -> bool:
        """Its skew is among the findings."""
        return bool(skewed_nodes(self.findings))

    @property
    def severity(self) -> str:
        """Of the worst finding about it; empty if there is none."""
        return str(self.findings[0]["severity"]) if self.findings else ""

    @property
    def spread(self) -> tuple[float, float] | None:
        """Of the rows that tasks read: the median and the 95th percentile, as shares of the largest."""
        read = self.numbers.read
        return None if read is None else (read["median"] / read["max"], read["p95"] / read["max"])

    @property
    def title(self) -> str:
        """All that the box may have cut, for those who point at it or hear it."""
        cost = self.numbers
        said = [f"{self.node['name']} ({self.node['id']})"]
        said += [f"{cost.rows:,} rows"] if cost.rows is not None else []
        said += [_size(cost)] if cost.bytes is not None else []
        said += [f"{self.time}, {self.time_share:.0%} of the time of all operators"] if self.time else []
        if cost.read is not None:
            median, largest = cost.read["median"], cost.read["max"]
            said.append(f"tasks read {median:,} rows in the median and {largest:,} at most, {self.skew} as many")
        if self.reuses:
            said = [*said[:1], "is drawn at its other use; its rows are used here once more"]
        said += [f"{finding['severity']}: {finding['title']}" for finding in self.findings]
        return "\n".join([*said, _cut(describe(self.node), _TITLE_CHARACTERS)])


def box_of(name: str, node: Row, cost: Numbers) -> Box:
    """The box of a node."""
    what, (title, text) = kind(node["name"]), _said(node)
    figures = [] if cost.rows is None else [f"{cost.rows:,} row{'s' * (cost.rows != 1)}"]
    figures += [] if cost.bytes is None else [_size(cost)]
    height = _HEAD + _LINE * (bool(text) + bool(figures or cost.read)) + _SPREAD * (cost.read is not None) + _FOOT
    title = _cut(title, _NAME_CHARACTERS - _TIME_CHARACTERS * (cost.time_ms is not None))
    return Box(name, node, what, cost, title, _cut(text, _TEXT_CHARACTERS), " · ".join(figures), height)


def reuse_of(use: int, node: Row) -> Box:
    """The small box of a further use of a node; `use` counts down from -1."""
    name = _cut(f"{node['name']} ({node['id']})", _NAME_CHARACTERS)
    text = "reused: drawn at its other use"
    return Box(f"u{-use}", node, kind(node["name"]), Numbers(), name, text, "", _REUSED_HEIGHT, reuses=True)


def _said(node: Row) -> tuple[str, str]:
    """The operator's name, and what it does, as short as these can be said."""
    name, simple = node["name"], node["simple"]
    join = operators.join_text(name, simple)
    if join is not None and join.join_type:
        pairs = zip(map(plain, join.left_keys), map(plain, join.right_keys), strict=False)
        on = ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs) or plain(join.condition or "")
        return name, f"{join.join_type} on {on}" if on else join.join_type
    if operators.is_shuffle(name):
        shuffle = operators.shuffle_text(simple)
        by, made = ", ".join(map(plain, shuffle.keys)), shuffle.partitions
        parts = [f"by {by}"] if by else []
        parts += [] if made is None else [f"{made:,} partition{'s' * (made != 1)}"]
        if parts:
            return name, " · ".join(parts)
    if operators.is_broadcast(name):
        mode = (operators.broadcast_mode(simple) or "").partition("(")[0]
        if mode in _BROADCAST_MODES:
            return name, _BROADCAST_MODES[mode]
    short = clean(name) or "(no plan)"
    text = describe(node).removeprefix("File" if short.startswith("Scan ") else "")
    if operators.is_scan(name) and text.startswith(short):  # Scan parquet db.sales: the table goes with the columns
        short = " ".join(short.split()[:2])
    return short, text.removeprefix(short).strip()


def _size(cost: Numbers) -> str:
    return f"{bytes_text(cost.bytes or 0)} {cost.bytes_are}".strip()


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
