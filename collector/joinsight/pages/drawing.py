"""Turns a plan version into boxes, edges and stages with their places: what the template has only to write down.

The root is on top, as in `joinsight plan`; rows flow upwards. A node is drawn once, and each further use of a
reused exchange is a small box that leads there, so that the drawing is a tree whatever the plan shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joinsight.display import bytes_text, duration_text
from joinsight.pages.boxes import WIDTH, Box, box_of, reuse_of
from joinsight.pages.layout import Place, place
from joinsight.plan import operators
from joinsight.reading import StoredPlan
from joinsight.rows import Row
from joinsight.wording.nodes import Numbers, codegen, numbers

GAP = 22
LEVEL_GAP = 44
MARGIN = 14
_LABEL_HEIGHT = 19
_LEAST_SHARE = 0.01
_FAR = 560  # to the right: a root there is not seen at first
_WIDEST_EDGE, _THINNEST_EDGE = 16.0, 1.5

# Rows that go in come out, though these operators do not count them
_KEEP_ROWS = frozenset(
    {
        "AQEShuffleRead",
        "AdaptiveSparkPlan",
        "ColumnarToRow",
        "CustomShuffleReader",
        "Project",
        "ResultQueryStage",
        "RowToColumnar",
        "Sort",
        "Union",
    }
)


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows on their way from a box up to the next."""

    path: str
    width: float
    label: str
    x: float
    """Of the label, like `y`."""
    y: float
    title: str
    is_exchanged: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """The operators of a whole-stage-codegen stage: what lies behind their boxes."""

    boxes: tuple[Box, ...]
    links: tuple[str, ...]
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plan version; sizes are in CSS pixels."""

    boxes: list[Box]
    edges: list[Edge]
    stages: list[Stage]
    width: float
    height: float

    @property
    def expensive(self) -> list[Box]:
        """The nodes that took most of the time that Spark measures at operators, at most five."""
        worth_a_look = [box for box in self.boxes if box.time_share >= _LEAST_SHARE]
        return sorted(worth_a_look, key=lambda box: -box.time_share)[:5]


def draw(plan: StoredPlan, version: Row) -> Drawing:
    """A version of a plan; findings are about nodes of the final one, and are at no other's."""
    measured = {row["accumulator_id"]: row for row in plan.metrics}
    nodes: dict[int, Row] = {node["id"]: node for node in version["nodes"]}
    costs = {i: numbers(node, measured) for i, node in nodes.items()}
    inputs: dict[int, list[int]] = defaultdict(list)
    for child, parent in version["edges"]:
        inputs[parent].append(child)
    roots, tree, uses = _tree(nodes, inputs)
    boxes = {i: box_of(f"n{i}", nodes[i], costs[i]) for i in nodes if not nodes[i]["is_cluster"]}
    for use, of in uses.items():
        boxes[use] = reuse_of(use, nodes[of])
    _share_time(boxes.values())
    if version["is_final"]:
        for finding in plan.findings:
            if finding["node_id"] in boxes:
                boxes[finding["node_id"]].findings.append(finding)
    heights = {i: box.height for i, box in boxes.items()}
    for i, at in _places(roots, tree, heights).items():
        boxes[i].x, boxes[i].y = at.x + MARGIN, at.y + MARGIN + LEVEL_GAP / 2
    rows = _rows(roots, tree, uses, nodes, costs)
    return Drawing(
        list(boxes.values()),
        _edges(tree, boxes, rows),
        _stages(nodes, tree, boxes, measured),
        max((box.x for box in boxes.values()), default=0) + WIDTH + MARGIN,
        max((box.y + box.height for box in boxes.values()), default=0) + MARGIN,
    )


def _tree(
    nodes: Mapping[int, Row], inputs: Mapping[int, list[int]]
) -> tuple[list[int], dict[int, list[int]], dict[int, int]]:
    """The roots; the children of each node in the drawing; and further uses, which get numbers below 0 there."""
    fed = {child for below in inputs.values() for child in below}
    roots = [i for i, node in nodes.items() if i not in fed and not node["is_cluster"]]
    tree: dict[int, list[int]] = defaultdict(list)
    uses: dict[int, int] = {}
    drawn = set(roots)
    order = list(roots)
    for parent in order:  # level by level, so that what is shared stands at its use nearest to the root
        for child in inputs.get(parent, ()):
            if child in drawn:
                uses[-len(uses) - 1] = child
                tree[parent].append(-len(uses))
            else:
                drawn.add(child)
                order.append(child)
                tree[parent].append(child)
    return roots, tree, uses


def _places(roots: list[int], tree: Mapping[int, list[int]], heights: Mapping[int, float]) -> dict[int, Place]:
    places = place(roots, tree, heights, width=WIDTH, gap=GAP, level_gap=LEVEL_GAP)
    if all(places[root].x <= _FAR for root in roots[:1]):
        return places
    return place(roots, tree, heights, width=WIDTH, gap=GAP, level_gap=LEVEL_GAP, is_centred=False)


def _share_time(boxes: Iterable[Box]) -> None:
    every = [box for box in boxes if box.numbers.time_ms]
    total = sum(box.numbers.time_ms or 0 for box in every)
    for box in every:
        box.time_share = (box.numbers.time_ms or 0) / total


def _rows(
    roots: list[int],
    tree: Mapping[int, list[int]],
    uses: Mapping[int, int],
    nodes: Mapping[int, Row],
    costs: Mapping[int, Numbers],
) -> dict[int, int | None]:
    """The rows that come out of each box: as counted there, else beneath, as long as no operator changes them."""
    order = list(roots)
    for node in order:
        order += tree.get(node, ())
    rows: dict[int, int | None] = {}
    for i in reversed(order):
        if i in uses:
            rows[i] = costs[uses[i]].rows
            continue
        rows[i] = costs[i].rows
        if rows[i] is None and nodes[i]["name"].partition(" ")[0] in _KEEP_ROWS:
            below = [rows[child] for child in tree.get(i, ()) if not _is_subquery(child, uses, nodes)]
            rows[i] = sum(each or 0 for each in below) if below and None not in below else None
    return rows


def _is_subquery(i: int, uses: Mapping[int, int], nodes: Mapping[int, Row]) -> bool:
    return operators.is_subquery(nodes[uses.get(i, i)]["name"])


def _edges(tree: Mapping[int, list[int]], boxes: Mapping[int, Box], rows: Mapping[int, int | None]) -> list[Edge]:
    most = max((each for each in rows.values() if each), default=1)
    edges = []
    for parent, below in tree.items():
        for position, child in enumerate(below, 1):
            flow, box = rows[child], boxes[child]
            width = _THINNEST_EDGE + (_WIDEST_EDGE - _THINNEST_EDGE) * ((flow or 0) / most) ** 0.5
            end_x = boxes[parent].x + WIDTH * position / (len(below) + 1)
            start_x, end_y = box.x + WIDTH / 2, boxes[parent].y + boxes[parent].height
            size = bytes_text(box.numbers.bytes) if box.kind and box.numbers.bytes is not None else ""
            label = " · ".join(
                filter(None, ["" if flow is None else f"{short_number(flow)} row{'s' * (flow != 1)}", size])
            )
            title = "" if flow is None else f"{flow:,} rows" + (f", {size}" if size else "")
            path = _curve(start_x, box.y, end_x, end_y)
            x = start_x + width / 2 + 5
            edges.append(Edge(path, round(width, 1), label, x, box.y - 7, title, bool(box.kind) and box.kind != "join"))
    return edges


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """Straight up from a box as far as its label goes, then over to where the parent is."""
    if abs(x - to_x) < 0.5:
        return f"M{x:g} {y:g}V{to_y:g}"
    bend = y - _LABEL_HEIGHT
    middle = (bend + to_y) / 2
    if abs(x - to_x) > 2 * WIDTH:  # a curve would be so flat that it seems to break off
        return f"M{x:g} {y:g}V{middle:g}H{to_x:g}V{to_y:g}"
    return f"M{x:g} {y:g}V{bend:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"


def _stages(
    nodes: Mapping[int, Row], tree: Mapping[int, list[int]], boxes: Mapping[int, Box], measured: Mapping[int, Row]
) -> list[Stage]:
    members: dict[int, list[Box]] = defaultdict(list)
    links: dict[int, list[str]] = defaultdict(list)
    for i, node in nodes.items():
        cluster = node["cluster"]
        if cluster is None or i not in boxes:
            continue
        members[cluster].append(boxes[i])
        for child in tree.get(i, ()):
            if child in nodes and nodes[child]["cluster"] == cluster:
                upper, lower = boxes[i], boxes[child]
                end = upper.x + WIDTH * (tree[i].index(child) + 1) / (len(tree[i]) + 1)
                links[cluster].append(_curve(lower.x + WIDTH / 2, lower.y, end, upper.y + upper.height))
    stages = []
    for cluster, inside in members.items():
        top = min(inside, key=lambda box: box.y)
        spent = next(
            (measured[i] for i, name, _ in nodes[cluster]["metrics"] if name == "duration" and i in measured), None
        )
        took = "" if spent is None or spent["total"] is None else f" {duration_text(spent['total'])}"
        label = f"codegen {codegen(nodes[cluster]['name'])}{took}"
        stages.append(Stage(tuple(inside), tuple(links[cluster]), label, top.x, top.y - 6))
    return stages


def short_number(value: int) -> str:
    """``999``, ``1.5k``, ``24.7M``, ``3G``."""
    for unit, letter in ((1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + letter
    return str(value)
