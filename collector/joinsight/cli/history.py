"""`joinsight demo --history`: months of generated runs instead of one real one, and where to look in them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from rich.console import Console
from rich.rule import Rule
from sqlalchemy import Engine, func, select

from joinsight.cli import table
from joinsight.cli.table import Column
from joinsight.demo.history import GENERATED, Event, Planted, generate
from joinsight.errors import JoinsightError
from joinsight.store.models import application
from joinsight.terminal import progress

_MEANINGS = {
    "data_growth": "its data grows by {factor_per_month} a month",
    "broadcast_over_threshold": "a broadcast grows past its threshold",
    "join_flip": "a join is no longer broadcast: SortMergeJoin",
    "plan_changed": "the same, and {time_factor} times as slow",
    "slower": "{time_factor} times as slow, same plan and data",
    "data_grew": "{data_factor} times the data, and slower",
    "skew": "one task reads {largest_share} of a shuffle",
    "spill": "the sorts of a join spill",
    "broadcast_failed": "a broadcast fails, for {days:.0f} days",
    "driver_lost": "the driver is lost",
}


def fill(out: Console, engine: Engine, length: timedelta, jobs: int, force: bool, where: str) -> None:
    """Generate the history up to now and say what is in it; `where` are the options that name this database."""
    _check_room(engine, force)
    with progress() as bar:
        task = bar.add_task("Days of history", total=length.days)

        def on_day(day: int, days: int) -> None:
            bar.update(task, completed=day, total=days)

        planted = generate(engine, days=length.days, end=datetime.now(timezone.utc), jobs=jobs, progress=on_day)
    report(out, planted, where)


def _check_room(engine: Engine, force: bool) -> None:
    """Raise `JoinsightError` where the history is already there, or, without `force`, anything else."""
    c = application.c
    generated = func.count().filter(c.tags.contains(GENERATED))
    with engine.connect() as connection:
        there, all_of_them = connection.execute(select(generated, func.count())).one()
    another = "Name another folder (--data) or database (--database-url)"
    if there:
        raise JoinsightError(f"A generated history is there already, of {there} applications. {another}.")
    if all_of_them and not force:
        raise JoinsightError(
            f"The database holds {all_of_them} applications, and generated ones would stand among them."
            f" {another}, or add --force."
        )


def report(out: Console, planted: Planted, where: str) -> None:
    """What was generated, what was planted in it, and the commands that show it."""
    rows = planted.rows
    out.print(Rule("History"))
    out.print(
        f"{rows['execution']:,} executions in {rows['application']:,} applications of {planted.jobs} jobs,"
        f" {planted.start:%Y-%m-%d} to {planted.end:%Y-%m-%d}: {rows['shuffle']:,} shuffles, {rows['broadcast']:,}"
        f" broadcasts, {rows['joins']:,} joins. All are generated; their tags say so."
    )
    out.print(Rule("Planted"))
    events = sorted(planted.events, key=lambda event: event.day)
    columns = [
        Column("from (UTC)", [f"{event.day:%Y-%m-%d}" for event in events]),
        Column("job", [event.job_name for event in events]),
        Column("what", [_MEANINGS[event.kind].format(**_shown(event)) for event in events], flexible=True),
        Column("query", [event.query_shape[:8] for event in events]),
        Column("operator", [(event.operator_key or "")[:8] for event in events]),
    ]
    for line in table.lines(columns, out.width):
        out.print(line, soft_wrap=True)
    out.print(Rule("More"))
    flip = (planted.of("join_flip").operator_key or "")[:8]
    commands = {
        f"joinsight joins --operator {flip} --sort recent{where}": "a join before and after its plan flips",
        f"joinsight queries --job {planted.of('slower').job_name}{where}": "the runs of a job",
        f"joinsight shuffles --sort skew --since 7d{where}": "what is skewed",
        f"joinsight queries --state failed{where}": "what failed",
    }
    for command, meaning in commands.items():
        out.print(f"  {command:<{max(map(len, commands))}}  {meaning}", soft_wrap=True)


def _shown(event: Event) -> dict[str, str | float]:
    """The event's numbers as `_MEANINGS` writes them."""
    shown: dict[str, str | float] = dict(event.numbers)
    for name, one in (("factor_per_month", 1), ("largest_share", 0)):
        if name in shown:
            shown[name] = f"{event.numbers[name] - one:.0%}"
    return shown
