"""Draws a plan as a tree in the terminal: operators with rows, bytes, time and skew beside them.

A chain of operators runs straight down; only a node with several inputs branches, so that deep plans stay readable::

    SortMergeJoin [k], [k], Inner                     1,000                 52 ms
    ├─ Sort                                                                 13 ms
    │  ⇄ Exchange hashpartitioning(k, 200)          100,000   1.5 MiB        8 ms   3.2×
    │  Range                                        100,000
    └─ ⇶ BroadcastExchange                            1,000   1.0 MiB       40 ms
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from rich.text import Text

from joinsight.display import bytes_text, duration_text, row_text
from joinsight.plan import operators
from joinsight.reading import StoredPlan
from joinsight.rows import Row

WIDTH = 100
_ROWS, _BYTES, _TIME, _SKEW = 13, 11, 9, 6
_MAX_PREFIX = 36
EXPRESSION_ID = re.compile(r"#\d+L?")
# What says nothing about the query: ids, the standard reason of a shuffle, the standard catalog
_NOISE = re.compile(r",? ?\[plan_id=\d+\]|,? ?\[id=#\d+\]|, ENSURE_REQUIREMENTS\b|\bspark_catalog\.")

# The first of these metrics that a node has is shown
_ROW_METRICS = ("shuffle records written", "number of output rows")
_BYTE_METRICS = (
    "shuffle bytes written",
    "data size of build side",
    "data size",
    "partition data size",
    "size of files read",
    "written output",
)
# All of these that a node has are added up, in the unit of their type
_TIME_METRICS = frozenset(
    {
        "shuffle write time",
        "fetch wait time",
        "time to collect",
        "time to build",
        "time to broadcast",
        "time to build hash map",
        "sort time",
        "scan time",
        "time in aggregation build",
        "task commit time",
        "job commit time",
    }
)


def draw(plan: StoredPlan, version: Row, *, width: int = WIDTH, metrics: bool = False) -> Iterator[Text]:
    """The lines of the tree; with `metrics`, each node is followed by all its metrics as Spark's UI words them."""
    nodes: dict[int, Row] = {node["id"]: node for node in version["nodes"]}
    children: dict[int, list[int]] = defaultdict(list)
    for child, parent in version["edges"]:
        children[parent].append(child)
    fed = {child for child, _ in version["edges"]}
    measured = {row["accumulator_id"]: row for row in plan.metrics}
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
            yield Text(f"{_clip(first)}↑ {node['name']} ({node_id}) is drawn above, reused here", style="dim")
            continue
        drawn.add(node_id)
        yield _line(node, nodes, measured, _clip(first), label_width)
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


def _line(node: Row, nodes: dict[int, Row], measured: dict[int, Row], prefix: str, label_width: int) -> Text:
    by_name = {name: measured[i] for i, name, _ in node["metrics"] if i in measured}
    mark, style = _mark(node["name"])
    label = Text(prefix, style="dim")
    if node["cluster"] is not None:
        label.append(_codegen(nodes[node["cluster"]]["name"]), style="dim")
    label.append(mark + _describe(node), style=style)
    label.truncate(label_width - 1, overflow="ellipsis")
    label.pad_right(label_width - len(label))
    rows = next((by_name[name]["total"] for name in _ROW_METRICS if name in by_name), None)
    size = next((by_name[name]["total"] for name in _BYTE_METRICS if name in by_name), None)
    times = [row for name, row in by_name.items() if name in _TIME_METRICS and row["total"] is not None]
    time = sum(row["total"] // 1_000_000 if row["type"] == "nsTiming" else row["total"] for row in times)
    skew = _skew(by_name.get("records read"))
    label.append(("" if rows is None else f"{rows:,}").rjust(_ROWS))
    label.append(("" if size is None else bytes_text(size)).rjust(_BYTES))
    label.append((duration_text(time) if times else "").rjust(_TIME))
    label.append(("" if skew is None else f"{skew:.1f}×").rjust(_SKEW), style="bold red" if (skew or 0) >= 5 else "")
    label.rstrip()
    return label


def _mark(name: str) -> tuple[str, str]:
    if operators.is_broadcast(name):
        return "⇶ ", "bold magenta"
    if operators.is_shuffle(name):
        return "⇄ ", "bold cyan"
    if operators.join_strategy(name):
        return "⋈ ", "bold yellow"
    return "", ""


def _codegen(cluster_name: str) -> str:
    """``*(2) `` for an operator of WholeStageCodegen (2), as Spark's explain marks it."""
    found = re.search(r"\(\d+\)", cluster_name)
    return f"*{found[0]} " if found else "* "


def _describe(node: Row) -> str:
    text = _NOISE.sub("", EXPRESSION_ID.sub("", node["simple"])) or node["name"] or "(no plan)"
    return " ".join(text.split())


def _skew(read: Row | None) -> float | None:
    if read is None or not read["median"] or not read["max"] or (read["count"] or 0) < 2:
        return None
    return float(read["max"] / read["median"])


def _all_metrics(node: Row, measured: dict[int, Row], prefix: str) -> Iterator[Text]:
    for accumulator, name, _ in node["metrics"]:
        row = measured.get(accumulator)
        if row is not None and row["count"]:
            shown = (row_text(row) or "").replace("\n", " ")
            yield Text(f"{prefix}     {name}: {shown}", style="dim")
