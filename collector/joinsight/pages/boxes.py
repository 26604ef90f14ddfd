"""The boxes of a plan's drawing: their texts, shortened to the space, and their heights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from joinsight.base.units import duration_text, percent_text
from joinsight.plan import operators, texts
from joinsight.present.tree import TreeNode, clean, file_source

WIDTH = 256
"""Width of every box, in CSS pixels."""
_HEAD, _LINE, _SPREAD, _FOOT = 27, 17, 13, 8
_REUSED_HEIGHT, _FOLD_HEIGHT = 44, 26
_NAME_CHARACTERS, _TEXT_CHARACTERS = 28, 36
_TITLE_CHARACTERS = 600
_TIME_CHARACTERS = 8  # that a time takes from the name on the same line
_SKEW_CHARACTERS = 14  # that the skew takes from the figures on the same line
_WALL_CHARACTERS = 10  # that the share of the wall time takes from the text on the same line
_LEAST_SHARE = 0.005
_MIN_VISIBLE = 1.28  # CSS pixels

_KEYS, _FUNCTIONS, _END = "(keys=[", "], functions=[", "])"
"""What Spark writes around the arguments of an aggregation."""
_BROADCAST_MODES = {"HashedRelationBroadcastMode": "for a hash join", "IdentityBroadcastMode": "for a nested-loop join"}


@dataclass(slots=True)
class Box:
    """A node, or a further use of one that is drawn elsewhere (`reuses`), which has no costs."""

    id: str
    node: TreeNode
    name: str
    text: str
    figures: str
    height: int
    wall: str = ""
    """Its share of the wall time: ``31 % wall``."""
    reuses: bool = False
    folded: Sequence[TreeNode] = ()
    """The operators of a chain that is drawn as one line; `node` is the topmost one."""
    is_match: bool = False
    """Whether it is what the reader searches for."""
    in_stage: bool = False
    """Whether it is an operator of the selected stage."""
    in_verdict: bool = False
    """Whether the verdict is about it."""
    x: float = 0.0
    y: float = 0.0

    @property
    def kind(self) -> str:
        """The kind of the node; empty for a chain."""
        return "" if self.folded else self.node.kind

    @property
    def holds(self) -> int:
        """The operators that filled a cached table, which are not drawn."""
        return 0 if self.folded or self.reuses else self.node.holds

    @property
    def has_share(self) -> bool:
        """Whether the bar of its share of the time is wide enough to be visible."""
        return self.node.share * WIDTH >= _MIN_VISIBLE

    @property
    def spread(self) -> tuple[float, float] | None:
        """The median and the 95th percentile of the rows that tasks read, as shares of the maximum."""
        read = self.node.read
        return None if read is None else (read["median"] / read["max"], read["p95"] / read["max"])

    @property
    def title(self) -> str:
        """The full text, for tooltips and screen readers."""
        node = self.node
        if self.folded:
            texts = (f"{each.name} ({each.id})" for each in self.folded)
            return _cut("Show these operators:\n" + "\n".join(texts), _TITLE_CHARACTERS)
        lines = [f"{node.name} ({node.id})"]
        if self.reuses:
            lines.append("is drawn at its other use; its rows are used here once more")
        lines += [f"{node.rows:,} rows"] if node.rows is not None else []
        lines += [_size(node)] if node.bytes is not None else []
        share = "" if node.wall_ms or node.share < _LEAST_SHARE else f", {percent_text(node.share)} of the task time"
        lines += [f"{node.time}{share}"] if node.time else []
        lines += [f"{duration_text(node.wall_ms)} of wall time, {percent_text(node.wall_share)}"] if self.wall else []
        if node.read is not None:
            median, largest = node.read["median"], node.read["max"]
            lines.append(f"tasks read {median:,} rows in the median and {largest:,} at most, {node.skew} as many")
        lines += [f"Show the {node.holds} operators that filled it"] if node.holds else []
        lines += [f"{finding['severity']}: {finding['title']}" for finding in node.findings]
        return "\n".join([*lines, _cut(node.text, _TITLE_CHARACTERS)])


def short_name(name: str) -> str:
    """A node's name without the table or file that a scan reads, cut to a few words."""
    words = clean(name)
    return _cut(" ".join(words.split()[:2]) if operators.is_scan(name) else words, _NAME_CHARACTERS) or "(no name)"


def box_of(node: TreeNode) -> Box:
    """The box of a node."""
    title, text = _name_and_text(node)
    figures = _figures(node, "" if node.rows is None else f"{node.rows:,}")
    if node.read is not None and len(figures) > _TEXT_CHARACTERS - _SKEW_CHARACTERS and node.rows is not None:
        figures = _figures(node, short_number(node.rows))
    wall = f"{percent_text(node.wall_share)} wall" if node.wall_share >= _LEAST_SHARE else ""
    height = (
        _HEAD + _LINE * (bool(text or wall) + bool(figures or node.read)) + _SPREAD * (node.read is not None) + _FOOT
    )
    title = _cut(title, _NAME_CHARACTERS - _TIME_CHARACTERS * (node.time_ms is not None))
    text = _cut_parts(text, _TEXT_CHARACTERS - _WALL_CHARACTERS * bool(wall))
    return Box(f"n{node.id}", node, title, text, figures, height, wall)


def _figures(node: TreeNode, rows: str) -> str:
    """Rows, in this text, bytes, and the operators that a cached table holds."""
    figures = [f"{rows} row{'s' * (node.rows != 1)}"] if rows else []
    figures += [] if node.bytes is None else [_size(node)]
    figures += [f"{node.holds} operator{'s' * (node.holds != 1)}"] if node.holds else []
    return " · ".join(figures)


def reuse_of(use: int, node: TreeNode) -> Box:
    """The small box of a further use of a node; `use` counts down from -1."""
    name = _cut(f"{node.name} ({node.id})", _NAME_CHARACTERS)
    text = "reused: drawn at its other use"
    return Box(f"u{-use}", TreeNode(node.row), name, text, "", _REUSED_HEIGHT, reuses=True)


def fold_of(nodes: Sequence[TreeNode]) -> Box:
    """The line of a chain of operators, the topmost first."""
    names = list(dict.fromkeys(clean(node.name) for node in nodes))
    name = _cut(" · ".join(names), _TEXT_CHARACTERS)
    return Box(f"n{nodes[0].id}", nodes[0], name, "", str(len(nodes)), _FOLD_HEIGHT, folded=nodes)


def _name_and_text(node: TreeNode) -> tuple[str, str]:
    """The operator's name and a short description of what it does."""
    name, simple = node.name, node.row["simple"]
    join = texts.join_text(name, simple)
    if join is not None and join.join_type:
        on = texts.join_on(join.left_keys, join.right_keys, join.condition)
        return name, f"{join.join_type} on {on}" if on else join.join_type
    if operators.is_shuffle(name):
        shuffle = texts.shuffle_text(simple)
        by, made = ", ".join(map(texts.without_ids, shuffle.keys)), shuffle.partitions
        parts = [f"by {by}"] if by else []
        parts += [] if made is None else [f"{made:,} partition{'s' * (made != 1)}"]
        parts += node.read_as
        if parts:
            return name, " · ".join(parts)
    if operators.is_broadcast(name):
        mode = (texts.broadcast_mode(simple) or "").partition("(")[0]
        if mode in _BROADCAST_MODES:
            return name, _BROADCAST_MODES[mode]
    short = clean(name) or "(no plan)"
    if node.cached:
        return short, node.cached
    text = node.text
    if operators.is_scan(name):
        text = text.removeprefix("File").partition(" Batched: ")[0]
        if text.startswith(short):  # Scan parquet db.sales: the table goes with the columns
            short = " ".join(short.split()[:2])
        source, columns = file_source(name, simple), text.removeprefix(short).strip()
        return short, f"{source} {columns}".strip()
    text = text.removeprefix(short).strip()
    keys, is_aggregate, functions = text.removeprefix(_KEYS).removesuffix(_END).rpartition(_FUNCTIONS)
    if is_aggregate and text.startswith(_KEYS) and text.endswith(_END):
        text = " · ".join(filter(None, (keys and f"by {keys}", functions)))
    return short.removeprefix("Execute ").removesuffix("Command"), text


def short_number(value: int) -> str:
    """``999``, ``1.5k``, ``24.7M``, ``3G``."""
    for unit, letter in ((1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + letter
    return str(value)


def _size(node: TreeNode) -> str:
    return f"{node.size} {node.bytes_are}".strip()


def _cut_parts(text: str, characters: int) -> str:
    """Without the last of the parts between dots, if they do not fit."""
    return text if len(text) <= characters else text[:characters].rpartition(" · ")[0] or _cut(text, characters)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
