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
    """The line, from 0 up to the largest; None for fewer than two numbers. `what` and `show` are for its label."""
    if len(values) < 2 or not any(values):
        return None
    largest, step = max(values), (SPARK_WIDTH - 2 * _EDGE) / (len(values) - 1)
    points = [
        (_EDGE + i * step, SPARK_HEIGHT - _EDGE - (SPARK_HEIGHT - 2 * _EDGE) * value / largest)
        for i, value in enumerate(values)
    ]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    area = f"{line}L{points[-1][0]:.1f} {SPARK_HEIGHT}L{points[0][0]:.1f} {SPARK_HEIGHT}Z"
    label = f"{what}, last {len(values)} runs: {show(min(values))} to {show(largest)}, now {show(values[-1])}"
    return Spark(line, area, *points[-1], label)
