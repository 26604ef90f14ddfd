"""What `joinsight cost` prints: the operators of an execution, and each join with what it made necessary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.contract.document import ENDED
from joinsight.plan.operators import PYTHON_TIME
from joinsight.present.cost import Labels, between
from joinsight.present.values import query_title
from joinsight.queries import reading
from joinsight.store.database import open_store
from joinsight.terminal import table
from joinsight.terminal.console import console, print_text
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.terminal.execution import print_caches, print_header
from joinsight.terminal.table import Column
from joinsight.timing.cost import Item, JoinCost
from joinsight.timing.task_time import divide

_MOST = 20
"""Lines of operators; the rest is summed up."""
_LEAST_SAVING = 0.01
"""Share of the wall time from which on a line says what a shuffle would have saved."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a table; an empty text is an empty cell."""

    what: Text
    node: str = ""
    wall: str = ""
    wall_share: str = ""
    tasks: str = ""
    error: str = ""
    task_share: str = ""
    task_time_ms: int | None = None


def print_stored(
    execution: str, *, database_url: str | None, data: Path | None, core_hour_price: float | None, as_json: bool
) -> None:
    """Print the breakdown of the execution of this name."""
    with open_store(database_url, data) as connection:
        stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    if as_json:
        click.echo(to_json(_named(stored, core_hour_price)))
        return
    print_breakdown(console(), stored, core_hour_price)


def _named(stored: StoredPlan, core_hour_price: float | None) -> dict[str, Any]:
    """The cost breakdown with the texts of its lines."""
    labels = Labels(stored)

    def line(label: str, each: Item | JoinCost) -> dict[str, Any]:
        price = {} if core_hour_price is None else {"price": _price(each.task_time_ms, core_hour_price)}
        return {"label": label, **asdict(each), **price}

    return {
        "execution": stored.execution,
        "items": [{**line(labels.item(item), item), "work": labels.work(item)} for item in stored.breakdown.items],
        "joins": [
            {
                **line(labels.operator(join.node_id), join),
                "most_wall_ms": join.most_wall_ms,
                "most_task_time_ms": join.most_task_time_ms,
                "savings_ms": _savings(join, stored, labels),
            }
            for join in stored.breakdown.joins
        ],
        "caches": stored.caches,
        "nested": [
            {
                "execution_id": each.execution["execution_id"],
                "title": each.execution["title"],
                "waited_ms": stored.waited.get(each.execution["execution_id"], 0),
                **{name: value for name, value in _named(each, core_hour_price).items() if name in ("items", "joins")},
            }
            for each in stored.nested
        ],
    }


def _savings(join: JoinCost, stored: StoredPlan, labels: Labels) -> dict[int, int]:
    """What each shuffle that the join needed would have saved, by node; the execution waited for these."""
    shuffles = [node_id for node_id in join.needed if labels.is_shuffle(node_id)]
    return {node_id: ms for node_id in shuffles if (ms := stored.savings.of(node_id))}


def _price(task_time_ms: int | None, core_hour_price: float) -> float | None:
    """A task occupies one core."""
    return None if task_time_ms is None else task_time_ms * core_hour_price / 3_600_000


def print_breakdown(out: Console, stored: StoredPlan, core_hour_price: float | None = None) -> None:
    """Print the operators, then the joins, the largest first."""
    print_header(out, stored)
    labels = Labels(stored)
    if stored.execution["state"] not in ENDED:
        note = (
            "So far, as of its last report."
            if stored.breakdown.wall_ms
            else "Only task time: what an execution waited for is known when it has ended."
        )
        out.print(Text(note, "yellow"))
    _print_table(out, "Cost:", list(_items(stored)), core_hour_price)
    joins = [line for join in stored.breakdown.joins for line in _join(join, stored, labels)]
    if joins:
        _print_table(
            out, "Joins, each with the sorts, shuffles and broadcasts that only it needed:", joins, core_hour_price
        )
    for each in stored.nested:
        its = Labels(each)
        lines = [line for join in each.breakdown.joins for line in _join(join, each, its)]
        if lines:
            title = f"Joins of execution {each.execution['execution_id']}, {visible_line(query_title(each.execution))}:"
            _print_table(out, title, lines, core_hour_price)
    if stored.caches:
        out.print()
        print_caches(out, stored)
    print_text(out, Text(f"\n{_footnote(stored)}", "dim"))


def _print_table(out: Console, title: str, rows: Sequence[_Line], core_hour_price: float | None) -> None:
    out.print(Text(f"\n{title}", "bold"))
    columns = [
        Column("wall time", [line.wall for line in rows], right=True),
        Column("% wall", [line.wall_share for line in rows], right=True),
        Column("task time", [line.tasks for line in rows], right=True),
        Column("error", [line.error for line in rows], drop=2),
        Column("% tasks", [line.task_share for line in rows], right=True),
        Column("price", [_price_text(line.task_time_ms, core_hour_price) for line in rows], right=True),
        Column("node", [line.node for line in rows], right=True, drop=1),
        Column("what", [line.what for line in rows], flexible=True),
    ]
    table.print_columns(out, columns)


def _items(stored: StoredPlan) -> Iterator[_Line]:
    """A line for each item, of the executions that this one started as well, and the sums."""
    items = stored.command_items
    wall = [item.wall_ms for _, item in items]
    tasks = [item.task_time_ms for _, item in items]
    wall_shares, task_shares = _shares(wall), _shares(tasks)
    labels = {id(each): Labels(each) for each in (stored, *stored.nested)}

    def line(items: slice, what: Text, node: str = "", error_ms: int | None = None) -> _Line:
        return _Line(
            what,
            node,
            _duration(sum(wall[items])),
            _percent(sum(wall_shares[items])),
            _duration(sum(tasks[items])),
            _error(error_ms),
            _percent(sum(task_shares[items])),
            sum(tasks[items]),
        )

    for i, (each, item) in enumerate(items[:_MOST]):
        its = labels[id(each)]
        work = f" ({text})" if (text := its.work(item)) else ""
        number = "" if each is stored else f"{each.execution['execution_id']}/"
        of = f"execution {number[:-1]}: " if number and item.kind != "operator" else ""
        what = Text(visible_line(of + its.item(item) + work), "dim" if item.kind == "rest" else "")
        node = f"{number}{item.node_id}" if item.kind == "operator" else ""
        yield line(slice(i, i + 1), what, node, item.task_time_error_ms)
    if len(wall) > _MOST:
        yield line(slice(_MOST, None), Text(f"{len(wall) - _MOST} more", "dim"))
    yield line(slice(None), Text("total", "bold"))


def _shares(values: Sequence[int]) -> list[int]:
    """In thousandths, rounded so that they add up."""
    return list(divide(1_000, dict(enumerate(values))).values()) if any(values) else [0] * len(values)


def _percent(thousandths: int) -> str:
    return f"{thousandths / 10:.1f}" if thousandths else ""


def _duration(ms: int) -> str:
    return duration_text(ms) if ms else ""


def _error(ms: int | None) -> str:
    return "" if ms is None else f"± {duration_text(ms)}"


def _join(join: JoinCost, stored: StoredPlan, labels: Labels) -> Iterator[_Line]:
    """The join with all that it made necessary, then each part of it that is known."""
    breakdown = stored.breakdown
    wall, tasks = breakdown.wall_ms, breakdown.task_time_ms
    yield _Line(
        Text(visible_line(labels.operator(join.node_id)), "bold"),
        str(join.node_id),
        _between(join.wall_ms, join.most_wall_ms, join) if wall else "",
        _share(join.wall_ms, join.most_wall_ms, wall),
        _between(join.task_time_ms, join.most_task_time_ms, join),
        _error(join.task_time_error_ms),
        task_share=_share(join.task_time_ms, join.most_task_time_ms, tasks),
        task_time_ms=join.task_time_ms,
    )
    items = {item.node_id: item for item in breakdown.items if item.kind == "operator"}
    for node_id in (join.node_id, *join.needed):
        item = items.get(node_id)
        if item is not None:
            yield _Line(
                Text("  the join itself" if node_id == join.node_id else f"  {visible_line(labels.name(node_id))}"),
                str(node_id),
                _duration(item.wall_ms),
                tasks=_duration(item.task_time_ms),
                error=_error(item.task_time_error_ms),
                task_time_ms=item.task_time_ms,
            )
    for item in join.shared:
        times = ((item.wall_ms, "wall time"), (item.task_time_ms, "task time"))
        amounts = ", ".join(f"{duration_text(ms)} {name}" for ms, name in times if ms)
        yield _Line(Text(f"  and an unknown part of {visible_line(labels.place(item))} ({amounts})", "dim"))
    for node_id, ms in _savings(join, stored, labels).items():
        if ms >= _LEAST_SAVING * wall:
            what = f"  without shuffle {node_id}, the query would have taken about {duration_text(ms)} less"
            yield _Line(Text(what, "dim"), str(node_id))
    if not join.is_seen:
        yield _Line(Text("  the join itself: not measured", "dim"))
    for node_id in join.not_its_own:
        name = visible_line(labels.name(node_id))
        yield _Line(Text(f"  not counted: {name}, asked for by the query or read by others", "dim"), str(node_id))


def _price_text(task_time_ms: int | None, core_hour_price: float | None) -> str:
    """Two decimal places, or enough for two significant digits."""
    price = None if core_hour_price is None else _price(task_time_ms, core_hour_price)
    return f"{price:,.{max(2, 1 - math.floor(math.log10(price)))}f}" if price else ""


def _between(known: int | None, most: int | None, join: JoinCost) -> str:
    return between(known, most, is_partial=join.is_partial) or "?"


def _share(known: int | None, most: int | None, whole: int) -> str:
    """The largest that it can be."""
    if not whole or not most:
        return ""
    return f"{'to ' if most > (known or 0) else ''}{100 * most / whole:.1f}"


def _footnote(stored: StoredPlan) -> str:
    text = "Wall time: how long the execution waited for it. Task time: summed over tasks. See joinsight docs cost."
    if any(row["samples"] is not None for row in stored.task_times) or not stored.task_times:
        return text
    told = stored.breakdown.operators()
    python = (row for row in stored.metrics if row["name"] == PYTHON_TIME and row["node_id"] >= 0 and row["total"])
    ran = [row for row in python if row["node_id"] not in told]
    workers = [f"{duration_text(row['total'])} (node {row['node_id']})" for row in ran]
    return (
        f"{text}\nThe operators of a stage cannot be told apart, because tasks were not sampled. Where they are:"
        " joinsight docs task-time."
        + (f"\nPython workers ran for {', '.join(workers)}, with waiting for rows." if workers else "")
    )
