"""The map of a large drawing: every box as a dot, and links to its regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joinsight.pages.boxes import WIDTH, Box
from joinsight.pages.drawing import Drawing

MAP_WIDTH = 320
_MIN_HEIGHT, _MAX_HEIGHT = 56, 200
_LARGE = 1_400  # CSS pixels: smaller drawings need no map
_MIN_BOXES = 40
_COLUMNS, _ROWS = 20, 8
_DOT = 1.5


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the map, which links to its most notable box."""

    x: float
    y: float
    width: float
    height: float
    box: Box
    others: int


@dataclass(frozen=True, slots=True)
class PlanMap:
    """A map of a drawing; sizes are in CSS pixels."""

    height: int
    dots: Mapping[str, str]
    """The paths of all boxes by their look: an operator's kind, ``hot`` or a finding's severity."""
    regions: Sequence[Region]


def plan_map(drawing: Drawing) -> PlanMap | None:
    """The map of a drawing; None if it is small. Its size is bounded, however many boxes there are."""
    if max(drawing.width, drawing.height) <= _LARGE or len(drawing.boxes) < _MIN_BOXES:
        return None
    height = round(min(_MAX_HEIGHT, max(_MIN_HEIGHT, MAP_WIDTH * drawing.height / drawing.width)))
    across, down = MAP_WIDTH / drawing.width, height / drawing.height
    dots: dict[str, set[tuple[float, float]]] = defaultdict(set)
    inside: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in drawing.boxes:
        x, y = box.x * across, box.y * down
        dots[_look(box)].add((round(x), round(y)))
        inside[int(x * _COLUMNS / MAP_WIDTH), int(y * _ROWS / height)].append(box)
    wide = max(_DOT, WIDTH * across)
    paths = {look: "".join(f"M{x} {y}h{wide:.1f}v{_DOT}h-{wide:.1f}z" for x, y in sorted(dots[look])) for look in dots}
    region_width, region_height = MAP_WIDTH / _COLUMNS, height / _ROWS
    regions = [
        Region(x * region_width, y * region_height, region_width, region_height, max(boxes, key=_rank), len(boxes) - 1)
        for (x, y), boxes in sorted(inside.items())
    ]
    return PlanMap(height, paths, regions)


def _look(box: Box) -> str:
    if box.is_match or box.node.severity:
        return "match" if box.is_match else box.node.severity
    return "hot" if box.node.is_hot else box.kind


def _rank(box: Box) -> tuple[bool, bool, float, bool]:
    return box.is_match, bool(box.node.severity), box.node.share, bool(box.kind)
