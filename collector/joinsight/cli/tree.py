"""Draws a plan as a tree in the terminal: operators with rows, bytes, time and skew beside them.

A chain of operators runs straight down; only a node with several inputs branches, so that deep plans stay readable::

    SortMergeJoin [k], [k], Inner                     1,000                 52 ms
    ├─ Sort                                                                 13 ms
    │  ⇄ Exchange hashpartitioning(k, 200)          100,000   1.5 MiB        8 ms   3.2×
    │  Range                                        100,000
    └─ ⇶ BroadcastExchange                            1,000   1.0 MiB       40 ms
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.text import Text

from joinsight.display import bytes_text, duration_text, row_text
from joinsight.reading import StoredPlan
from joinsight.rows import Row
from joinsight.terminal import WIDTH, visible_line
from joinsight.wording import number_text, ratio_text, skewed_nodes
from joinsight.wording.nodes import codegen, describe, kind, numbers

_ROWS, _BYTES, _TIME, _SKEW = 13, 11, 9, 6
_MAX_PREFIX = 36
_MARKS = {
    "broadcast": ("⇶ ", "bold magenta"),
    "shuffle": ("⇄ ", "bold cyan"),
    "join": ("⋈ ", "bold yellow"),
    "": ("", ""),
}


def draw(plan: StoredPlan, version: Row, *, width: int = WIDTH, metrics: bool = False) -> Iterator[Text]:
    """The lines of the tree; with `metrics`, each node is followed by all its metrics as Spark's UI words them."""
    nodes: dict[int, Row] = {node["id"]: node for node in version["nodes"]}
    children: dict[int, list[int]] = defaultdict(list)
    for child, parent in version["edges"]:
        children[parent].append(child)
    fed = {child for child, _ in version["edges"]}
    measured = {row["accumulator_id"]: row for row in plan.metrics}
    skewed = skewed_nodes(plan.findings) if version["is_final"] else set()
    label_width = width - _ROWS - _BYTES - _TIME - _SKEW
    yield Text(
        " " * label_width + "rows".rjust(_ROWS) + "bytes".rjust(_BYTES) + "time".rjust(_TIME) + "skew".rjust(_SKEW),
        style="dim",
    )
    drawn: set[int] = set()
    roots = [i for i, node in nodes.items() if i not in fed and not node["is_cluster"]]
    todo = [(root, "", "") for root in reversed(roots)]
    while todo:
        node_id, first, rest = todo.pop()
        node = nodes[node_id]
        if node_id in drawn:
            name = visible_line(node["name"])
            yield Text(f"{_clip(first)}↑ {name} ({node_id}) is drawn above, reused here", style="dim")
            continue
        drawn.add(node_id)
        yield _line(node, nodes, measured, _clip(first), label_width, node_id in skewed)
        if metrics:
            yield from _all_metrics(node, measured, _clip(rest))
        below = children[node_id]
        if len(below) == 1:
            todo.append((below[0], rest, rest))
        else:
            branches = [(child, rest + "├─ ", rest + "│  ") for child in below[:-1]]
            branches += [(child, rest + "└─ ", rest + "   ") for child in below[-1:]]
            todo.extend(reversed(branches))


def _clip(prefix: str) -> str:
    return prefix if len(prefix) <= _MAX_PREFIX else "… " + prefix[-_MAX_PREFIX + 2 :]


def _line(
    node: Row, nodes: dict[int, Row], measured: dict[int, Row], prefix: str, label_width: int, is_skewed: bool
) -> Text:
    mark, style = _MARKS[kind(node["name"])]
    label = Text(prefix, style="dim")
    if node["cluster"] is not None:
        label.append(_codegen(nodes[node["cluster"]]["name"]), style="dim")
    label.append(mark + visible_line(describe(node)), style=style)
    label.truncate(label_width - 1, overflow="ellipsis")
    label.pad_right(label_width - label.cell_len)
    cost = numbers(node, measured)
    label.append(number_text(cost.rows).rjust(_ROWS))
    label.append(("" if cost.bytes is None else bytes_text(cost.bytes)).rjust(_BYTES))
    label.append(("" if cost.time_ms is None else duration_text(cost.time_ms)).rjust(_TIME))
    label.append(ratio_text(cost.skew).rjust(_SKEW), style="bold red" if is_skewed else "")
    label.rstrip()
    return label


def _codegen(cluster_name: str) -> str:
    """``*(2) `` for an operator of WholeStageCodegen (2), as Spark's explain marks it."""
    return f"*{codegen(cluster_name)} "


def _all_metrics(node: Row, measured: dict[int, Row], prefix: str) -> Iterator[Text]:
    for accumulator, name, _ in node["metrics"]:
        row = measured.get(accumulator)
        if row is not None and row["count"]:
            shown = visible_line((row_text(row) or "").replace("\n", " "))
            yield Text(f"{prefix}     {visible_line(name)}: {shown}", style="dim")
