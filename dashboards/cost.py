"""Cost: what joins, shuffles, broadcasts and other kinds of work cost each job, in time and in money."""

from __future__ import annotations

from typing import Literal

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import LAST, RUNS, Column, of_job, of_operator
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Panel, Sql, dashboard, number, rows, series
from dashboards.sql import EXECUTION, EXECUTION_KEY, JOB, TAG, TAGGED_APPLICATION, TIME, first_fifty, in_words
from dashboards.style import GROUPS
from joinsight.timing.cost_kinds import KINDS, WITH_TASKS

JOB_COLUMN = of_job("cost")
COSTS = f"FROM execution_costs WHERE {TIME} AND {JOB} AND {TAGGED_APPLICATION}"
"""Not `v_costs`, whose rows take several times as long to add up (docs/decisions/020-times-in-one-row.md)."""
JOINS = f"""FROM (SELECT * FROM joins WHERE {TIME}) AS joins
                        JOIN (SELECT * FROM execution WHERE {TIME}) AS execution USING ({EXECUTION_KEY})
                    WHERE {JOB} AND {TAG}"""
"""Not `v_joins`: PostgreSQL cannot tell that its executions are of that time, too, and reads whole months of them."""
HOUR = "3600000.0"
CORE_HOURS = f"(sum(task_ms) / {HOUR})::float8"
WEEKS = """generate_series(
                    date_trunc('week', $__timeFrom()::timestamptz AT TIME ZONE 'UTC'),
                    $__timeTo()::timestamptz AT TIME ZONE 'UTC', interval '7 days'
                ) AS week"""
OF_WEEK = "AND started_at >= week AT TIME ZONE 'UTC' AND started_at < (week + interval '7 days') AT TIME ZONE 'UTC'"
"""Each week by itself, because PostgreSQL cannot tell how many weeks there are, and would sort all rows by week."""
PRICE = r"coalesce(substring('${price}' FROM '\A *([0-9]*[.]?[0-9]+) *\Z')::float8, 0)"
"""0 for what is not a number."""
NAMED = (*GROUPS["operators"], *GROUPS["kinds"])


def cost() -> dashboard.Dashboard:
    """To see what a kind of work costs, which jobs pay for it, and whether it becomes more."""
    return page(
        "cost",
        "Joinsight: Cost",
        "What joins, shuffles, broadcasts and other work cost: core-hours of tasks, hours of waiting, and money.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("price", "Price of a core-hour", "In any currency, e.g. 0.05. 0: no prices.", "0"),
        ],
        [
            ("All jobs", [*_numbers(), _weeks("task"), _weeks("wall")]),
            ("Which jobs and joins?", [_jobs(), JOINS_PANEL]),
        ],
        annotations=[failures(), plan_changes(is_on=False), deployments()],
        time="now-28d",
    )


def _numbers() -> list[Panel]:
    def total(title: str, description: str, what: str) -> Panel:
        return number(title, description, Sql(f"SELECT {what} AS total {COSTS}"), span=6)

    return [
        total(
            "Core-hours",
            "Time of all tasks: what the cluster worked. A task takes one core, or spark.task.cpus of them. Idle cores"
            " are not in it.",
            CORE_HOURS,
        ),
        total(
            "Price",
            "Core-hours times the price of a core-hour at the top. 0: no price is set there.",
            f"{CORE_HOURS} * {PRICE}",
        ),
        total(
            "Core-hours of joins, shuffles, broadcasts",
            "The part of them that joins, shuffles and broadcasts took by themselves. Where tasks are not sampled, some"
            " of it is in shared.",
            _hours("task", "join", "shuffle", "broadcast"),
        ),
        total(
            "Hours waiting for slots",
            "How long executions waited for free cores. More cores, or another hour of the day, would save it.",
            _hours("wall", "waiting"),
        ),
    ]


def _weeks(of: Literal["task", "wall"]) -> Panel:
    texts = {
        "task": (
            "Core-hours by week",
            "Time of tasks, by kind of work and by the week (from Monday, UTC) in which executions started. Shared is"
            " what cannot be told apart without samples: task-time.md.",
        ),
        "wall": (
            "Hours of waiting by week",
            "How long executions waited for each kind of work. Waiting: for free cores. Driver: planning, and between"
            " stages. Work that nothing waited for is not in it, so it differs from core-hours.",
        ),
    }
    title, description = texts[of]
    kinds = [kind for kind in KINDS if kind != "nested"] if of == "wall" else WITH_TASKS
    sums = ", ".join(f"sum({kind}_{of}_ms) AS {kind}_ms" for kind in kinds)
    values = ", ".join(f"('{kind}', {kind}_ms)" for kind in kinds)
    return series(
        title,
        description,
        f"""
        SELECT extract(epoch FROM week) AS time, metric, (ms / {HOUR})::float8 AS hours
        FROM {WEEKS}
        CROSS JOIN LATERAL (SELECT {sums} {COSTS} {OF_WEEK}) AS spent
        CROSS JOIN LATERAL (VALUES {values}) AS kinds (metric, ms)
        WHERE ms > 0 ORDER BY time, metric
        """,
        "short",
        Drawn(named=NAMED, interval="1d"),
    )


def _hours(of: Literal["task", "wall"], *kinds: str) -> str:
    """SQL: 0 where there is nothing of these kinds, NULL where no time is known."""
    sums = " + ".join(f"coalesce(sum({kind}_{of}_ms), 0 * sum({of}_ms))" for kind in kinds)
    return f"(({sums}) / {HOUR})::float8"


def _jobs() -> Panel:
    kinds = ("join", "shuffle", "broadcast", "scan", "python", "shared")
    others = [kind for kind in WITH_TASKS if kind not in kinds]
    return rows(
        "What does each job cost by week?",
        "Core-hours of each job in each week, the most costly first, their price, and what they went into. Hours:"
        " what its executions waited for, of which some for slots and for the driver.",
        f"""
        SELECT week AT TIME ZONE 'UTC' AS week, spent.*
        FROM {WEEKS}
        CROSS JOIN LATERAL (
            SELECT job_name, count(*) FILTER (WHERE wall_ms IS NOT NULL OR task_ms IS NOT NULL) AS runs,
                {CORE_HOURS} AS core_hours, {CORE_HOURS} * {PRICE} AS price,
                {", ".join(f"{_hours('task', kind)} AS {kind}_core_hours" for kind in kinds)},
                {_hours("task", *others)} AS other_core_hours, (sum(wall_ms) / {HOUR})::float8 AS hours,
                {_hours("wall", "waiting")} AS waiting_hours, {_hours("wall", "driver")} AS driver_hours
            {COSTS} {OF_WEEK}
            GROUP BY job_name
        ) AS spent
        ORDER BY core_hours DESC NULLS LAST, week, job_name LIMIT 200
        """,
        {
            "week": Column("Week from", "dateTimeAsIso", width=165),
            "job_name": JOB_COLUMN,
            "runs": RUNS,
            "core_hours": Column("Core-hours", "short", bar=True, width=150),
            "price": Column("Price", "short", width=80),
            **{f"{kind}_core_hours": Column(kind.capitalize(), "short", width=85) for kind in (*kinds, "other")},
            "hours": Column("Hours", "short", width=75),
            "waiting_hours": Column("Waiting", "short", width=80),
            "driver_hours": Column("Driver", "short", width=75),
        },
        height=10,
    )


JOINS_PANEL = rows(
    "Which joins cost most?",
    "Joins with the sorts, shuffles and broadcasts that only they needed, summed over their runs. At most: with all"
    " that they share with other operators of their stages, where tasks were not sampled; the first ones are those"
    " that can have cost most. `joinsight cost` divides one execution.",
    first_fifty(
        f"""
        SELECT job_name, operator_key,
            string_agg(strategy, ', ' ORDER BY strategy) AS strategies, sum(runs)::bigint AS runs,
            (sum(task_ms) / {HOUR})::float8 AS core_hours, (sum(task_ms) / {HOUR})::float8 * {PRICE} AS price,
            sum(wall_ms)::bigint AS wall_ms, sum(most_ms)::bigint AS most_ms, max(last_run) AS last_run
        FROM (
            SELECT job_name, operator_key, strategy, count(*) AS runs, sum(cost_task_ms) AS task_ms,
                sum(cost_wall_ms) AS wall_ms, sum(coalesce(cost_most_wall_ms, cost_wall_ms)) AS most_ms,
                max(started_at) AS last_run
            {JOINS}
            GROUP BY job_name, operator_key, strategy
        ) AS of_strategy
        GROUP BY job_name, operator_key
        """,
        "most_ms DESC NULLS LAST, core_hours DESC NULLS LAST",
        of="v_joins",
        shown=f"job_name, operator_key, {in_words('left_keys')} AS keys, strategies, runs, core_hours, price,"
        " wall_ms, most_ms, last_run",
        run=f"{EXECUTION}, left_keys",
    ),
    {
        "job_name": JOB_COLUMN,
        "operator_key": of_operator("join", "joins"),
        "keys": Column("On"),
        "strategies": Column("Strategies", width=190),
        "runs": RUNS,
        "core_hours": Column("Core-hours", "short", bar=True, width=150),
        "price": Column("Price", "short", width=80),
        "wall_ms": Column("Waited for", "ms", width=100),
        "most_ms": Column("At most", "ms", width=100),
        **LAST,
    },
)
