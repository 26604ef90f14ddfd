"""Draws a plan as a tree in the terminal: operators with rows, bytes, time, share of the wall time, and skew.

A chain of operators runs straight down; only a node with several inputs branches, so that deep plans stay readable::

    SortMergeJoin [k], [k], Inner                     1,000                 52 ms     9.1
    ├─ Sort                                                                 13 ms     3.0
    │  ⇄ Exchange hashpartitioning(k, 200)          100,000   1.5 MiB        8 ms    20.7   3.2×
    │  Range                                        100,000
    └─ ⇶ BroadcastExchange                            1,000   1.0 MiB       40 ms    11.3
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from joinsight.analysis.stored import StoredPlan
from joinsight.present.display import row_text
from joinsight.present.tree import HOT, Group, PlanTree, TreeNode, plan_tree
from joinsight.present.values import number_text
from joinsight.tables import Row
from joinsight.terminal.escaping import visible_line

_ROWS, _BYTES, _TIME, _WALL, _SKEW = 13, 11, 9, 8, 6
_NUMBERS = _ROWS + _BYTES + _TIME + _SKEW
_LEAST_LABEL = 20
_MOST_PADDED = 80
"""Where nothing is cut, longer labels are not padded to: one long text would push the numbers out of sight."""
_LEAST_SHARE = 0.01
"""The share of the time from which on operators that cannot be told apart get a line."""
_MAX_PREFIX = 36
_MARKS = {
    "broadcast": ("⇶ ", "bold magenta"),
    "shuffle": ("⇄ ", "bold cyan"),
    "join": ("⋈ ", "bold yellow"),
    "": ("", ""),
}


def draw(
    stored: StoredPlan, version: Row, *, width: int | None, metrics: bool = False, whole_ms: float | None = None
) -> Iterator[Text]:
    """The lines of the tree, cut to fit `width`, whole for None. `whole_ms`: see `plan_tree`.

    With `metrics`, each node is followed by all its metrics as Spark's UI words them.
    """
    shown = plan_tree(stored, version, whole_ms=whole_ms)
    drawn = list(_drawn(shown))
    wall = _WALL if any(node.wall for node in shown.nodes.values()) else 0
    natural = max((label.cell_len for label, *_ in drawn), default=0) + 1
    label_width = min(natural, _MOST_PADDED if width is None else max(_LEAST_LABEL, width - _NUMBERS - wall))
    yield Text(
        " " * label_width
        + "rows".rjust(_ROWS)
        + "bytes".rjust(_BYTES)
        + "time".rjust(_TIME)
        + ("% wall".rjust(wall) if wall else "")
        + "skew".rjust(_SKEW),
        style="dim",
    )
    for label, node, rest in drawn:
        if node is None:
            yield label
            continue
        yield _line(label, node, label_width, wall, is_cut=width is not None)
        if metrics:
            yield from _metrics(shown.all_metrics(node), rest)
    for group in shown.groups:
        if group.share >= _LEAST_SHARE:
            yield _together(group, shown)


def _together(group: Group, shown: PlanTree) -> Text:
    """What is known of several operators only: ``stage 59: 43.0 s, 88 % wall: HashAggregate (1), Project (2)``."""
    inside = [f"{visible_line(shown.nodes[i].name)} ({i})" for i in sorted(group.operators) if i in shown.nodes]
    place = group.place or next(
        (f"codegen {each.cluster.number}" for i, each in shown.nodes.items() if i in group.operators and each.cluster),
        "",
    )
    text = Text(f"{place}: {group.amount}".removeprefix(": "), style="bold" if group.is_hot else "")
    return text.append(f" for {', '.join(inside)}", style="dim")


def _drawn(shown: PlanTree) -> Iterator[tuple[Text, TreeNode | None, str]]:
    """The label of each line from the roots down, its node, and the prefix of lines below it.

    The node is None where a reused one is only referred to.
    """
    drawn: set[int] = set()
    todo = [(root, "", "") for root in reversed(shown.roots)]
    while todo:
        node_id, first, rest = todo.pop()
        node = shown.nodes[node_id]
        if node_id in drawn:
            name = visible_line(node.name)
            yield Text(f"{_clip(first)}↑ {name} ({node_id}) is drawn above, reused here", style="dim"), None, ""
            continue
        drawn.add(node_id)
        yield _label(node, _clip(first)), node, _clip(rest)
        below = shown.inputs.get(node_id, ())
        if len(below) == 1:
            todo.append((below[0], rest, rest))
        else:
            branches = [(child, rest + "├─ ", rest + "│  ") for child in below[:-1]]
            branches += [(child, rest + "└─ ", rest + "   ") for child in below[-1:]]
            todo.extend(reversed(branches))


def _clip(prefix: str) -> str:
    return prefix if len(prefix) <= _MAX_PREFIX else "… " + prefix[-_MAX_PREFIX + 2 :]


def _label(node: TreeNode, prefix: str) -> Text:
    mark, style = _MARKS[node.kind]
    label = Text(prefix, style="dim")
    if node.cluster is not None:
        label.append(f"*{node.cluster.number} ", style="dim")  # as Spark's explain marks it
    return label.append(mark + visible_line(node.text), style=style)


def _line(label: Text, node: TreeNode, label_width: int, wall: int, *, is_cut: bool) -> Text:
    if is_cut:
        label.truncate(label_width - 1, overflow="ellipsis")
    label.pad_right(max(1, label_width - label.cell_len))
    label.append(number_text(node.rows).rjust(_ROWS))
    label.append(node.size.rjust(_BYTES))
    label.append(node.time.rjust(_TIME))
    label.append(node.wall.rjust(wall), style="bold" if node.wall_share >= HOT else "")
    label.append(node.skew.rjust(_SKEW), style="bold red" if node.is_skewed else "")
    label.rstrip()
    return label


def _metrics(measured: Iterable[tuple[str, Row]], prefix: str) -> Iterator[Text]:
    for name, row in measured:
        if row["count"]:
            shown = visible_line((row_text(row) or "").replace("\n", " "))
            yield Text(f"{prefix}     {visible_line(name)}: {shown}", style="dim")
