"""Places the boxes of a tree without overlaps: the root at the top, a parent above the middle of its children.

Reingold and Tilford's algorithm, for boxes of different heights: a subtree is placed next to its
left sibling, as near as the two outlines allow. Outlines are stacks, their top last, so that the work is about
proportional to the number of boxes; no recursion, as plans can be thousands of levels deep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """The upper left corner of a box."""

    x: float
    y: float


@dataclass(slots=True)
class _Side:
    """One side of a subtree's outline: segments ``(top, bottom, x)``, the lowest first, all moved by `moved`."""

    segments: list[tuple[float, float, float]] = field(default_factory=list)
    moved: float = 0

    def push(self, top: float, bottom: float, x: float) -> None:
        self.segments.append((top, bottom, x - self.moved))


@dataclass(slots=True)
class _Outline:
    left: _Side
    right: _Side

    def move(self, by: float) -> None:
        self.left.moved += by
        self.right.moved += by


def place(
    roots: Sequence[int],
    children: Mapping[int, Sequence[int]],
    heights: Mapping[int, float],
    *,
    width: float,
    gap: float,
    level_gap: float,
    is_centred: bool = True,
) -> dict[int, Place]:
    """The place of each box of the trees under `roots`, which are side by side.

    All boxes are `width` wide; `gap` is the minimum horizontal distance of boxes, `level_gap` the distance of a parent
    from its children. The leftmost box is at x = 0, a root at y = 0. If not `is_centred`, a parent is above its first
    child: the root of a very wide tree is then at its left.
    """
    order, tops = _downwards(roots, children, heights, level_gap)
    offsets: dict[int, float] = {}  # horizontal, from the parent
    outlines: dict[int, _Outline] = {}
    for node in reversed(order):
        below = children.get(node, ())
        outline, xs = _join_side_by_side([outlines.pop(child) for child in below], gap)
        middle = (xs[0] + xs[-1]) / 2 if xs and is_centred else 0.0
        for child, x in zip(below, xs, strict=True):
            offsets[child] = x - middle
        outline.move(-middle)
        bottom = (
            tops[node] + heights[node] + level_gap
        )  # a box of another subtree comes no nearer to edges than to boxes
        outline.left.push(tops[node], bottom, 0)
        outline.right.push(tops[node], bottom, width)
        outlines[node] = outline
    _, xs = _join_side_by_side([outlines.pop(root) for root in roots], gap)
    offsets.update(zip(roots, xs, strict=True))
    return _absolute(order, children, offsets, tops, roots)


def outline(
    roots: Sequence[int],
    children: Mapping[int, Sequence[int]],
    heights: Mapping[int, float],
    *,
    indent: float,
    gap: float,
) -> dict[int, Place]:
    """The places of boxes below each other, each before its inputs, which are indented where there are several."""
    places: dict[int, Place] = {}
    y = 0.0
    todo = [(root, 0.0) for root in reversed(roots)]
    while todo:
        node, x = todo.pop()
        places[node] = Place(x, y)
        y += heights[node] + gap
        below = children.get(node, ())
        todo += [(child, x + indent * (len(below) > 1)) for child in reversed(below)]
    return places


def _downwards(
    roots: Sequence[int], children: Mapping[int, Sequence[int]], heights: Mapping[int, float], level_gap: float
) -> tuple[list[int], dict[int, float]]:
    """All boxes, a parent before its children, and the y of each."""
    order, tops = list(roots), dict.fromkeys(roots, 0.0)
    for node in order:
        for child in children.get(node, ()):
            tops[child] = tops[node] + heights[node] + level_gap
            order.append(child)
    return order, tops


def _join_side_by_side(outlines: list[_Outline], gap: float) -> tuple[_Outline, list[float]]:
    """The outline of subtrees side by side, and the x of each subtree's root; the first one stays in place."""
    if not outlines:
        return _Outline(_Side(), _Side()), []
    joined, *rest = outlines
    xs = [0.0]
    for outline in rest:
        shift = _distance(joined.right, outline.left) + gap
        outline.move(shift)
        xs.append(shift)
        joined = _Outline(_cover(joined.left, outline.left), _cover(outline.right, joined.right))
    return joined, xs


def _distance(right: _Side, left: _Side) -> float:
    """How far the subtree with the left side `left` must move to touch the one with the right side `right`."""
    i, j = len(right.segments) - 1, len(left.segments) - 1
    furthest = float("-inf")
    while i >= 0 and j >= 0:
        top_i, bottom_i, x_i = right.segments[i]
        top_j, bottom_j, x_j = left.segments[j]
        if top_i < bottom_j and top_j < bottom_i:
            furthest = max(furthest, x_i + right.moved - x_j - left.moved)
        if bottom_i <= bottom_j:
            i -= 1
        if bottom_j <= bottom_i:
            j -= 1
    return furthest


def _cover(near: _Side, far: _Side) -> _Side:
    """The combined side: `near`, and what of `far` is below it. Takes time proportional to the smaller of the two."""
    if not far.segments or far.segments[0][1] <= near.segments[0][1]:
        return near
    end = near.segments[0][1]
    while far.segments[-1][1] <= end:
        far.segments.pop()
    top, bottom, x = far.segments.pop()
    far.segments.append((max(top, end), bottom, x))
    for top, bottom, x in near.segments:
        far.push(top, bottom, x + near.moved)
    return far


def _absolute(
    order: list[int],
    children: Mapping[int, Sequence[int]],
    offsets: Mapping[int, float],
    tops: Mapping[int, float],
    roots: Sequence[int],
) -> dict[int, Place]:
    xs = {root: offsets[root] for root in roots}
    for node in order:
        for child in children.get(node, ()):
            xs[child] = xs[node] + offsets[child]
    leftmost = min(xs.values(), default=0.0)
    return {node: Place(xs[node] - leftmost, tops[node]) for node in order}
