"""Turns a plan version into boxes, edges and stages with coordinates, which the template renders.

The root is at the top, as in `joinsight plan`; rows flow upwards. A wide plan that is fitted to the page has its boxes
below each other. A node is drawn once, and each further use of a
reused exchange is a small box that links to it, so that the drawing is always a tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from joinsight.analysis.stored import StoredPlan
from joinsight.pages.boxes import WIDTH, Box, box_of, fold_of, reuse_of, short_number
from joinsight.pages.folding import chains
from joinsight.pages.layout import Place, outline, place
from joinsight.pages.view import FIT, ViewOptions
from joinsight.plan import operators
from joinsight.present.tree import PlanTree, TreeNode, plan_tree
from joinsight.tables import Row

GAP = 22
LEVEL_GAP = 44
MARGIN = 14
_LABEL_HEIGHT = 19
_LEAST_SHARE = 0.01
"""The share of the time from which on operators that cannot be told apart get a frame."""
_MOST_BESIDE = 20
"""Characters that fit next to an edge's label."""
_FAR = 560  # CSS pixels: a root further to the right is outside the initial view
_READABLE = 1_800  # CSS pixels: a wider drawing could not be read when it is fitted to a page
INDENT = 24
_OUTLINE_GAP = 28
_UNFOLDED = ViewOptions(opens_all=True)
_WIDEST_EDGE, _THINNEST_EDGE = 16.0, 1.5


@dataclass(frozen=True, slots=True)
class Edge:
    """The flow of rows from a box up to its parent."""

    path: str
    width: float
    label: str
    x: float
    """Position of the label, like `y`."""
    y: float
    title: str
    is_exchanged: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """The background of operators of which the time is known only together, or of a whole-stage-codegen stage."""

    boxes: tuple[Box, ...]
    links: tuple[str, ...]
    label: str
    x: float
    """That of its topmost box, like `y`."""
    y: float
    is_stage: bool = False
    """Whether it is around whole codegen stages."""
    is_hot: bool = False
    """Whether its operators took much of the time."""

    @property
    def is_wide(self) -> bool:
        """Whether its label would reach the label of the edge above it."""
        return len(self.label) > _MOST_BESIDE


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plan version; sizes are in CSS pixels."""

    boxes: list[Box]
    edges: list[Edge]
    frames: list[Frame]
    """Those around others first."""
    width: float
    height: float

    @property
    def folded(self) -> int:
        """The number of operators in folded chains and closed cached tables."""
        return sum(len(box.folded) + box.holds for box in self.boxes)

    @property
    def operators(self) -> int:
        """The number of operators, drawn or folded."""
        return sum((len(box.folded) or 1) + box.holds for box in self.boxes if not box.reuses)

    def holds(self, node_id: int) -> bool:
        """Whether it has a box of this operator."""
        return any(box.node.id == node_id and not box.reuses for box in self.boxes)

    @property
    def matches(self) -> list[Box]:
        """The boxes of the operators that the reader searches for."""
        return [box for box in self.boxes if box.is_match]


def draw(
    stored: StoredPlan,
    version: Row,
    view: ViewOptions = _UNFOLDED,
    in_stage: Collection[int] = (),
    in_verdict: Collection[int] = (),
    whole_ms: float | None = None,
) -> Drawing:
    """Draw a plan version; `in_stage` are the operators of the view's stage, `in_verdict` those of the verdict.

    `whole_ms`: see `plan_tree`.
    """
    everything = {node["id"] for node in version["nodes"]} if view.opens_all else view.opened
    shown = plan_tree(stored, version, everything, whole_ms)
    tree, uses = _tree(shown)
    found = {i for i, node in shown.nodes.items() if _is_match(node, view)} if view.search else set()
    rows = _rows(shown, tree, uses)
    boxes = {}
    if not view.opens_all:
        keep = {*found, *uses.values(), *in_verdict, *([] if view.node is None else [view.node])}
        for top, chain in chains(shown.roots, tree, shown.nodes, keep).items():
            if view.opened.isdisjoint(chain):
                boxes[top] = fold_of([shown.nodes[i] for i in chain])
                tree[top] = tree[chain[-1]]
                for i in chain[1:]:
                    del tree[i]
    folded = {node.id for box in boxes.values() for node in box.folded}
    boxes |= {i: box_of(node) for i, node in shown.nodes.items() if i not in folded}
    boxes |= {use: reuse_of(use, shown.nodes[i]) for use, i in uses.items()}
    for i, box in boxes.items():
        box.is_match, box.in_stage, box.in_verdict = i in found, i in in_stage, i in in_verdict
    heights = {i: box.height for i, box in boxes.items()}
    places = _place(shown.roots, tree, heights)
    is_outline = view.zoom == FIT and max((each.x for each in places.values()), default=0.0) > _READABLE
    if is_outline:
        places = outline(shown.roots, tree, heights, indent=INDENT, gap=_OUTLINE_GAP)
    for i, position in places.items():
        boxes[i].x, boxes[i].y = position.x + MARGIN, position.y + MARGIN + LEVEL_GAP / 2
    frames = [] if is_outline else [*_groups(shown, tree, boxes), *_codegen(shown, tree, boxes)]
    return Drawing(
        list(boxes.values()),
        _edges(tree, boxes, rows, is_outline=is_outline),
        frames,
        max((box.x for box in boxes.values()), default=0) + WIDTH + MARGIN,
        max((box.y + box.height for box in boxes.values()), default=0) + MARGIN,
    )


def _is_match(node: TreeNode, view: ViewOptions) -> bool:
    return str(node.id) == view.search or view.matches(node.name) or view.matches(node.text)


def _tree(shown: PlanTree) -> tuple[dict[int, list[int]], dict[int, int]]:
    """The children of each box, and the node of each further use; further uses have negative ids."""
    tree: dict[int, list[int]] = defaultdict(list)
    uses: dict[int, int] = {}
    drawn = set(shown.roots)
    order = list(shown.roots)
    for parent in order:  # level by level, so that a shared node is drawn at its use nearest to the root
        for child in shown.inputs.get(parent, ()):
            if child in drawn:
                uses[-len(uses) - 1] = child
                tree[parent].append(-len(uses))
            else:
                drawn.add(child)
                order.append(child)
                tree[parent].append(child)
    return tree, uses


def _place(roots: Sequence[int], tree: Mapping[int, list[int]], heights: Mapping[int, float]) -> dict[int, Place]:
    places = place(roots, tree, heights, width=WIDTH, gap=GAP, level_gap=LEVEL_GAP)
    if all(places[root].x <= _FAR for root in roots[:1]):
        return places
    return place(roots, tree, heights, width=WIDTH, gap=GAP, level_gap=LEVEL_GAP, is_centred=False)


def _rows(shown: PlanTree, tree: Mapping[int, list[int]], uses: Mapping[int, int]) -> dict[int, int | None]:
    """The output rows of each box: as counted there, else below, as long as no operator changes their number."""
    order = list(shown.roots)
    for i in order:
        order += tree.get(i, ())
    rows: dict[int, int | None] = {}
    for i in reversed(order):
        node = shown.nodes[uses.get(i, i)]
        rows[i] = node.rows
        if rows[i] is None and i not in uses and operators.of(node.name).keeps_rows:
            inputs = [child for child in tree.get(i, ()) if not _is_subquery(shown.nodes[uses.get(child, child)])]
            below = [rows[child] for child in inputs]
            rows[i] = sum(each or 0 for each in below) if below and None not in below else None
    return rows


def _is_subquery(node: TreeNode) -> bool:
    return operators.is_subquery(node.name)


def _edges(
    tree: Mapping[int, list[int]], boxes: Mapping[int, Box], rows: Mapping[int, int | None], *, is_outline: bool
) -> list[Edge]:
    maximum = max((each for each in rows.values() if each), default=1)
    edges = []
    for parent, below in tree.items():
        for position, child in enumerate(below, 1):
            flow, box = rows[child], boxes[child]
            width = _THINNEST_EDGE + (_WIDEST_EDGE - _THINNEST_EDGE) * ((flow or 0) / maximum) ** 0.5
            end_x = boxes[parent].x + WIDTH * position / (len(below) + 1)
            start_x, end_y = box.x + WIDTH / 2, boxes[parent].y + boxes[parent].height
            size = box.node.size if box.node.kind else ""
            label = " · ".join(
                filter(None, ["" if flow is None else f"{short_number(flow)} row{'s' * (flow != 1)}", size])
            )
            title = "" if flow is None else f"{flow:,} rows" + (f", {size}" if size else "")
            if is_outline:  # a rail at the left, below the parent
                end_x, start_x = boxes[parent].x + INDENT / 2, box.x + (0 if len(below) > 1 else INDENT / 2)
                way = f"V{end_y:g}" if len(below) == 1 else f"H{end_x:g}V{end_y:g}"
                path = f"M{start_x:g} {box.y if len(below) == 1 else box.y + box.height / 2:g}{way}"
                width = min(width, INDENT / 2)
            else:
                path = _curve(start_x, box.y, end_x, end_y)
            x = start_x + width / 2 + 5
            edges.append(
                Edge(path, round(width, 1), label, x, box.y - 7, title, box.node.kind in ("broadcast", "shuffle"))
            )
    return edges


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    """A path straight up past the label, then over to the parent."""
    if abs(x - to_x) < 0.5:
        return f"M{x:g} {y:g}V{to_y:g}"
    bend = y - _LABEL_HEIGHT
    middle = (bend + to_y) / 2
    if abs(x - to_x) > 2 * WIDTH:  # a curve would be too flat to see
        return f"M{x:g} {y:g}V{middle:g}H{to_x:g}V{to_y:g}"
    return f"M{x:g} {y:g}V{bend:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"


def _codegen(shown: PlanTree, tree: Mapping[int, list[int]], boxes: Mapping[int, Box]) -> Iterator[Frame]:
    """The frames of codegen stages, with what is known of all their operators only."""
    members: dict[int, list[int]] = defaultdict(list)
    for i, node in shown.nodes.items():
        if node.cluster is not None and i in boxes:  # others are in a chain, whose topmost operator stands for it
            members[node.row["cluster"]].append(i)
    groups = {group.cluster: group for group in shown.groups if group.cluster is not None}
    for cluster, inside in members.items():
        what, group = shown.nodes[inside[0]].cluster, groups.get(cluster)
        label = f"codegen {what.number}".rstrip() if what else ""
        if group is not None and group.share >= _LEAST_SHARE:
            label += f": {group.amount}"
        yield _frame(inside, tree, boxes, label, is_hot=group is not None and group.is_hot)


def _groups(shown: PlanTree, tree: Mapping[int, list[int]], boxes: Mapping[int, Box]) -> Iterator[Frame]:
    """The frames of operators of a stage of which the time is known only together."""
    for group in shown.groups:
        inside = [i for i in boxes if i in group.operators and i in shown.nodes]
        if group.cluster is None and inside and group.share >= _LEAST_SHARE:
            yield _frame(inside, tree, boxes, f"{group.place}: {group.amount}", is_stage=True, is_hot=group.is_hot)


def _frame(
    inside: Sequence[int],
    tree: Mapping[int, list[int]],
    boxes: Mapping[int, Box],
    label: str,
    *,
    is_stage: bool = False,
    is_hot: bool,
) -> Frame:
    known = set(inside)
    links = []
    for i in inside:
        below = tree.get(i, ())
        for position, child in enumerate(below, 1):
            if child in known:
                upper, lower = boxes[i], boxes[child]
                end = upper.x + WIDTH * position / (len(below) + 1)
                links.append(_curve(lower.x + WIDTH / 2, lower.y, end, upper.y + upper.height))
    top = min((boxes[i] for i in inside), key=lambda box: box.y)
    return Frame(tuple(boxes[i] for i in inside), tuple(links), label, top.x, top.y, is_stage, is_hot)
