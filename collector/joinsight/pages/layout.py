"""Places the boxes of a tree so that none overlaps another: the root on top, a parent above the middle of its children.

Reingold and Tilford's way, for boxes of different heights: a subtree's outline is known when it is placed beside its
left sibling, as near as the two outlines allow. Outlines are kept as stacks, their top last, so that the work is about
that of the number of boxes; nothing recurses, as plans are thousands of levels deep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box's upper left corner is."""

    x: float
    y: float


@dataclass(slots=True)
class _Side:
    """One side of a subtree's outline: pieces ``(top, bottom, x)``, the lowest first, all moved by `moved`."""

    pieces: list[tuple[float, float, float]] = field(default_factory=list)
    moved: float = 0

    def push(self, top: float, bottom: float, x: float) -> None:
        self.pieces.append((top, bottom, x - self.moved))


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
    """A place for each box of the trees under `roots`, which stand side by side.

    All boxes are `width` wide; `gap` is the least distance of boxes beside each other, `level_gap` that of a parent
    above its children. The leftmost box is at x = 0, a root at y = 0. If not `is_centred`, a parent is above its first
    child: the root of a very wide tree is then where one begins to look.
    """
    order, tops = _downwards(roots, children, heights, level_gap)
    offsets: dict[int, float] = {}  # of a box from its parent
    outlines: dict[int, _Outline] = {}
    for node in reversed(order):
        below = children.get(node, ())
        outline, xs = _beside([outlines.pop(child) for child in below], width, gap)
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
    _, xs = _beside([outlines.pop(root) for root in roots], width, gap)
    offsets.update(zip(roots, xs, strict=True))
    return _absolute(order, children, offsets, tops, roots)


def _downwards(
    roots: Sequence[int], children: Mapping[int, Sequence[int]], heights: Mapping[int, float], level_gap: float
) -> tuple[list[int], dict[int, float]]:
    """All boxes, a parent before its children, and where each begins."""
    order, tops = list(roots), dict.fromkeys(roots, 0.0)
    for node in order:
        for child in children.get(node, ()):
            tops[child] = tops[node] + heights[node] + level_gap
            order.append(child)
    return order, tops


def _beside(outlines: list[_Outline], width: float, gap: float) -> tuple[_Outline, list[float]]:
    """The outline of subtrees put side by side, and where the box on top of each begins; the first one's stays."""
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
    """How far the subtree with the outline `left` must move to touch the one with the outline `right`."""
    i, j = len(right.pieces) - 1, len(left.pieces) - 1
    furthest = float("-inf")
    while i >= 0 and j >= 0:
        top_i, bottom_i, x_i = right.pieces[i]
        top_j, bottom_j, x_j = left.pieces[j]
        if top_i < bottom_j and top_j < bottom_i:
            furthest = max(furthest, x_i + right.moved - x_j - left.moved)
        if bottom_i <= bottom_j:
            i -= 1
        if bottom_j <= bottom_i:
            j -= 1
    return furthest


def _cover(near: _Side, far: _Side) -> _Side:
    """The side as seen from where `near` is: `far` is seen only beneath it. Takes time by the smaller of the two."""
    if not far.pieces or far.pieces[0][1] <= near.pieces[0][1]:
        return near
    end = near.pieces[0][1]
    while far.pieces[-1][1] <= end:
        far.pieces.pop()
    top, bottom, x = far.pieces.pop()
    far.pieces.append((max(top, end), bottom, x))
    for top, bottom, x in near.pieces:
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
