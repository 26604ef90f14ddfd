"""Draws the runs of a query through time: places in an SVG, which the template writes down.

The panels have one axis of time. A line across them is a change of the plan, the settings or Spark; below them each
plan has a stripe, with its letter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from joinsight.base.units import bytes_text, duration_text
from joinsight.pages.runs import ListedRun
from joinsight.tables import Row

WIDTH, LEFT, RIGHT, TOP = 960, 76, 16, 26
_HEIGHTS = (180, 72)  # of the first panel, and of the others
_GAP, _LANE, _AXIS = 30, 16, 24
_MAX_MARKERS = 24
"""The most lines of a kind; more would hide the chart."""
_TICKS = 6
_TIME_FORMS = (timedelta(minutes=10), "%H:%M:%S"), (timedelta(hours=20), "%H:%M"), (timedelta(days=4), "%d %b %H:%M")
_FLAG = 18  # CSS pixels from the flag of one change to the next of the same run
_LONG_LABEL, _SHORT_LABEL = 50, 14  # CSS pixels that ``Plan A`` and ``A`` need
_MEASURES: Sequence[tuple[str, str, Callable[[int], str], str]] = (
    ("duration_ms", "Duration", duration_text, "time"),
    ("task_time_ms", "Total task time", duration_text, "time"),
    ("shuffle_write_bytes", "Shuffled", bytes_text, "bytes"),
    ("broadcast_bytes", "Broadcast", bytes_text, "bytes"),
)
_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Point:
    """A run in a panel."""

    x: float
    y: float
    run: ListedRun
    text: str


@dataclass(frozen=True, slots=True)
class Band:
    """The usual duration: the median, its scatter, and from where on it is a regression."""

    median: float
    top: float
    bottom: float
    alarm: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A measure of all runs."""

    title: str
    kind: str
    top: float
    height: float
    line: str
    points: Sequence[Point]
    ticks: Sequence[tuple[float, str]]
    band: Band | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """What changed before a run."""

    x: float
    flag: float
    """Where its letter is: beside that of another change before the same run."""
    letter: str
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class History:
    """The drawing; sizes are in CSS pixels."""

    panels: Sequence[Panel]
    markers: Sequence[Marker] = ()
    lane: Sequence[tuple[float, float, str, str]] = ()
    """Stripes of plans: x, width, letter, and as much text as has room."""
    lane_y: float = 0
    ticks: Sequence[tuple[float, str]] = ()
    worse: tuple[float, float, float] | None = None
    """The regression: from x, to x, and y of the median now."""
    height: float = 0
    label: str = ""
    bottom: float = 0


@dataclass(slots=True)
class _Axis:
    start: datetime
    end: datetime
    width: float = field(default=WIDTH - LEFT - RIGHT)

    def x(self, at: datetime) -> float:
        span = (self.end - self.start) / timedelta(seconds=1)
        return LEFT + (self.width * ((at - self.start) / timedelta(seconds=1)) / span if span else self.width / 2)


def draw_history(runs: Sequence[ListedRun], usual: Row | None, regression: Row | None) -> History:
    """The drawing of runs, the oldest first; `usual` and `regression` are about their duration."""
    axis = _Axis(runs[0].row["started_at"], runs[-1].row["started_at"])
    panels: list[Panel] = []
    top = float(TOP)
    for name, title, show, kind in _MEASURES:
        if any(run.row[name] for run in runs):
            height = _HEIGHTS[bool(panels)]
            panels.append(_panel(runs, axis, name, title, show, kind, top, height, usual if not panels else None))
            top += height + _GAP
    lane_y = top - _GAP + 10
    worse = None
    if regression is not None and panels and panels[0].title == "Duration":
        first = panels[0]
        scale = _scale(runs, "duration_ms", usual)
        y = first.top + first.height * (1 - min(1.0, regression["current"] / scale))
        worse = (max(LEFT, axis.x(regression["first_bad_at"]) - 5), WIDTH - RIGHT + 5, y)
        if worse[0] >= worse[1]:
            worse = None
    return History(
        panels,
        _markers(runs, axis),
        _lane(runs, axis),
        lane_y,
        _time_ticks(axis),
        worse,
        lane_y + _LANE + _AXIS,
        _label(runs, usual),
        lane_y + _LANE,
    )


def _scale(runs: Sequence[ListedRun], name: str, usual: Row | None) -> float:
    """The value at the top of a panel."""
    largest = max(run.row[name] or 0 for run in runs)
    if usual is not None:
        largest = max(largest, usual["alarm_above"])
    if name.endswith("_ms"):
        seconds = largest / 1000
        step = next((each for each in _SECONDS if 4 * each >= seconds), 3600 * ceil(seconds / 4 / 3600))
        return float(1000 * step * max(1, ceil(seconds / step)))
    unit = 1
    while unit * 1024 * 2 <= largest:
        unit *= 1024
    step = next((each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500) if 4 * each * unit >= largest), 1000) * unit
    return float(step * max(1, ceil(largest / step)))


def _panel(
    runs: Sequence[ListedRun],
    axis: _Axis,
    name: str,
    title: str,
    show: Callable[[int], str],
    kind: str,
    top: float,
    height: float,
    usual: Row | None,
) -> Panel:
    scale = _scale(runs, name, usual)

    def y(value: float) -> float:
        return top + height * (1 - min(1.0, value / scale))

    points = [
        Point(axis.x(run.row["started_at"]), y(run.row[name]), run, show(run.row[name]))
        for run in runs
        if run.row[name] is not None
    ]
    line = "M" + "L".join(f"{point.x:.1f} {point.y:.1f}" for point in points) if len(points) > 1 else ""
    shares = (0.5, 1) if height > 100 else (1,)
    ticks = [(y(0), "0"), *((y(share * scale), show(round(share * scale))) for share in shares)]
    band = None
    if usual is not None:
        low, high = usual["median"] - usual["spread"], usual["median"] + usual["spread"]
        label = f"median of {usual['runs']} runs before: {show(round(usual['median']))}"
        band = Band(y(usual["median"]), y(high), y(max(0.0, low)), y(usual["alarm_above"]), label)
    return Panel(title, kind, top, height, line, points, ticks, band)


def _markers(runs: Sequence[ListedRun], axis: _Axis) -> list[Marker]:
    markers: list[Marker] = []
    for kind, letter in (("plan", "P"), ("settings", "S"), ("spark", "V")):
        changed = [(run, text) for run in runs if (text := getattr(run, f"{kind}_changed"))]
        for run, text in changed if len(changed) <= _MAX_MARKERS else ():
            x = axis.x(run.row["started_at"])
            flag = x - _FLAG * sum(each.x == x for each in markers)
            markers.append(Marker(x, flag, letter, kind, text))
    return sorted(markers, key=lambda marker: marker.x)


def _lane(runs: Sequence[ListedRun], axis: _Axis) -> list[tuple[float, float, str, str]]:
    """Consecutive runs with one plan make a stripe, up to the first run with another one."""
    stripes: list[tuple[float, str]] = []
    for run in runs:
        if not stripes or stripes[-1][1] != run.plan:
            stripes.append((axis.x(run.row["started_at"]), run.plan))
    # The last run may be the first one with its plan
    ends = [x for x, _ in stripes[1:]] + [max(float(WIDTH - RIGHT), min(float(WIDTH), stripes[-1][0] + _LANE))]
    lane = []
    for (x, plan), end in zip(stripes, ends, strict=True):
        width = max(1.0, end - x)
        lane.append((x, width, plan, f"Plan {plan}" if width > _LONG_LABEL else plan if width > _SHORT_LABEL else ""))
    return lane


def _time_ticks(axis: _Axis) -> list[tuple[float, str]]:
    span = axis.end - axis.start
    if not span:
        return [(axis.x(axis.start), axis.start.strftime("%Y-%m-%d %H:%M"))]
    form = next((form for longest, form in _TIME_FORMS if span < longest), "%d %b")
    times = (axis.start + span * i / (_TICKS - 1) for i in range(_TICKS))
    return [(axis.x(at), at.strftime(form)) for at in times]


def _label(runs: Sequence[ListedRun], usual: Row | None) -> str:
    known = sorted(run.row["duration_ms"] for run in runs if run.row["duration_ms"] is not None)
    text = f"{len(runs)} runs from {runs[0].row['started_at']:%Y-%m-%d} to {runs[-1].row['started_at']:%Y-%m-%d}"
    if known:
        text += f", {duration_text(known[0])} to {duration_text(known[-1])} long"
    if usual is not None:
        text += f", {duration_text(round(usual['median']))} usually"
    return f"{text}. The table below has all numbers."
