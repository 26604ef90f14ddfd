"""Small charts as paths of SVG: numbers to coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SPARK_WIDTH, SPARK_HEIGHT = 132, 30
"""CSS pixels."""
_EDGE = 3.0


@dataclass(frozen=True, slots=True)
class Spark:
    """A line through numbers, the last one marked."""

    line: str
    area: str
    x: float
    y: float
    label: str


def spark(values: Sequence[int], what: str, show: Callable[[int], str]) -> Spark | None:
    """The line, from 0 up to the largest; None without numbers. `what` and `show` are for those who do not see it."""
    if not values or not any(values):
        return None
    largest, step = max(values), (SPARK_WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    points = [
        (_EDGE + i * step, SPARK_HEIGHT - _EDGE - (SPARK_HEIGHT - 2 * _EDGE) * value / largest)
        for i, value in enumerate(values)
    ]
    if len(points) == 1:
        points = [(SPARK_WIDTH - _EDGE, points[0][1])]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"{line}L{points[-1][0]:.1f} {SPARK_HEIGHT}L{points[0][0]:.1f} {SPARK_HEIGHT}Z"
    runs = f"last {len(values)} runs" if len(values) > 1 else "last run"
    label = f"{what}, {runs}: {show(min(values))} to {show(largest)}, now {show(values[-1])}"
    return Spark(line, area, *points[-1], label)
