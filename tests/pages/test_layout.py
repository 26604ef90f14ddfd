"""The layout of trees: boxes do not overlap, and children are below their parent, in order."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from joinsight.pages.layout import Place, place

WIDTH, GAP, LEVEL = 100.0, 10.0, 30.0


def laid_out(parents: list[int], heights: list[float]) -> tuple[dict[int, Place], dict[int, list[int]]]:
    """The layout of a tree whose nodes follow their parents; -1: a root."""
    children: dict[int, list[int]] = defaultdict(list)
    for node, parent in enumerate(parents):
        children[parent].append(node)
    roots = children.pop(-1)
    return place(roots, children, dict(enumerate(heights)), width=WIDTH, gap=GAP, level_gap=LEVEL), children


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Up to forty nodes, of heights as pages have them, also several trees."""
    parents = [-1]
    for node in range(1, draw(st.integers(1, 40))):
        parents.append(draw(st.integers(max(-1, node - 8), node - 1)))
    return parents, [draw(st.sampled_from([20.0, 55.0, 130.0])) for _ in parents]


@given(trees())
@settings(max_examples=300)
def test_no_boxes_overlap(tree: tuple[list[int], list[float]]) -> None:
    """Adjacent boxes keep a distance, the leftmost is at 0, and a parent is centered above its children."""
    parents, heights = tree
    places, children = laid_out(parents, heights)
    assert min(p.x for p in places.values()) == 0
    for i, a in places.items():
        for j, b in places.items():
            beside = abs(a.x - b.x) >= WIDTH + GAP - 1e-6
            above = a.y + heights[i] + LEVEL <= b.y + 1e-6 or b.y + heights[j] + LEVEL <= a.y + 1e-6
            assert i == j or beside or above, (i, a, j, b)
    for parent, below in children.items():
        xs = [places[child].x for child in below]
        assert xs == sorted(xs)
        assert abs(places[parent].x - (xs[0] + xs[-1]) / 2) < 1e-6
        assert all(places[child].y == places[parent].y + heights[parent] + LEVEL for child in below)


def test_what_is_below_a_short_branch_is_used() -> None:
    """A subtree is as near to its sibling as their outlines allow, not their widths."""
    #   0          1 is a leaf, so that 4 and 5 may stand partly beneath it
    #  1 2
    #   4 5
    places, _ = laid_out([-1, 0, 0, 2, 2], [50.0] * 5)
    assert places[3].x < places[1].x + WIDTH + GAP
    assert max(p.x for p in places.values()) == 1.5 * (WIDTH + GAP)


def test_depth_is_no_matter() -> None:
    """A chain of 20,000 boxes, and a join at each of 2,000 levels, are placed in a moment."""
    chain, _ = laid_out(list(range(-1, 19_999)), [20.0] * 20_000)
    assert len(chain) == 20_000
    assert {p.x for p in chain.values()} == {0.0}
    left_deep = [-1]
    for level in range(2_000):
        left_deep += [2 * level, 2 * level]
        left_deep[-2:] = [max(0, 2 * level - 1)] * 2
    places, _ = laid_out(left_deep, [20.0] * len(left_deep))
    assert len(places) == len(left_deep)


def test_nothing_is_placed_of_nothing() -> None:
    """A plan without nodes has no boxes."""
    assert place([], {}, {}, width=WIDTH, gap=GAP, level_gap=LEVEL) == {}
