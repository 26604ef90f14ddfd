"""Measures commands, views, panels and the SQL cookbook on a long history: ``python -m bench.queries --help``.

**Data.** Four weeks of a generated history (`tests.history`) fill every table. Their executions, shuffles,
broadcasts, joins and applications are copied, a day at a time, back to 400 days ago and as often side by side as it
takes for `--rows` shuffles and joins in all; two of three copies are other jobs, with other keys. Stages, plans and
metrics are not copied: commands read them by key. The database is the embedded one with its default settings, vacuumed
and analyzed once as autovacuum would have done, with the baselines that a collector stores every night. With `--data`
it is kept, a fill that was interrupted goes on, and a filled one is only read.

**Measures.** Each case runs `--runs` times, one after the other, each time with other parameters: jobs, queries,
operators, applications and executions are drawn from the data by chance. Commands are the functions that they call
(`queries`), rows fetched and decoded; views and the SQL of docs/sql.md are run unchanged, but with keys and
names of the data in the place of those in the text. p50 and p95 are of these runs; what takes longer than a minute is
cancelled. Nothing is warmed up, but the data fits into the machine's memory where the report says so.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError
from tests.dashboards import grafana
from tests.history import generate

from joinsight import tables
from joinsight.analysis.comparison import compare
from joinsight.base.errors import NotFound
from joinsight.queries import lists, reading
from joinsight.queries.deliveries import read_deliveries
from joinsight.queries.filters import SORTS, Filters
from joinsight.queries.regressions import read_regressions
from joinsight.store import baselines, mark_lost, partitions
from joinsight.store.database import open_database

DAYS = 400
GENERATED_DAYS = 28
JOBS = 200
VARIANTS = 3
COPY_MINUTES = 7
NOT_COPIED = ("execution_plans", "execution_metrics", "stage", "event_log")
_GENERATED = "application_id NOT LIKE '%~%'"
COMMAND_MS, COOKBOOK_MS = 500, 2_000
LONGEST_MS = 60_000
COOKBOOK = Path(__file__).parents[1] / "docs" / "sql.md"
SIZES = ("bytes_written", "size_bytes", "output_rows", "cost", "impact_bytes")
"""Columns by which views are sorted: the first that a view has."""


@dataclass(frozen=True)
class Case:
    """A timed case; `run` is called with a connection and chooses its parameters itself."""

    name: str
    target_ms: int
    run: Callable[[Connection], object]


# Fill


def fill(engine: Engine, rows: int) -> None:
    """Generate and copy until there are `rows` shuffles and joins; resumes an interrupted fill."""
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bench_fill (step text PRIMARY KEY, done_at timestamptz)"))
        done = set(connection.scalars(text("SELECT step FROM bench_fill")))
        if "generated" not in done:
            for table in tables.metadata.sorted_tables:
                connection.execute(text(f"TRUNCATE {table.name}"))
    if "generated" not in done:
        generate(engine, days=GENERATED_DAYS, end=datetime.now(timezone.utc), jobs=JOBS)
        _note(engine, "generated")
    with engine.connect() as connection:
        counts = [f"(SELECT count(*) FROM {name} WHERE {_GENERATED})" for name in ("shuffle", "joins")]
        generated = connection.execute(text(f"SELECT {' + '.join(counts)}")).scalar_one()
        start = connection.execute(text(f"SELECT min(started_at) FROM execution WHERE {_GENERATED}")).scalar_one()
    start -= timedelta(hours=1)  # applications start before their executions
    copies = max(1, round(rows / generated / (DAYS / GENERATED_DAYS)))
    began, progress = time.monotonic(), _progress(f"copying each run {copies} times")
    steps = [step for step in range(DAYS) if f"day {step}" not in done]
    for step in steps:
        day = start + timedelta(days=GENERATED_DAYS - 1 - step)
        partitions.create(engine, {partitions.month_of(day + timedelta(days=days)) for days in (-1, 0, 1)})
        with engine.begin() as connection:
            for table in tables.metadata.sorted_tables:
                if table.name not in NOT_COPIED and table not in tables.ROLLUPS:
                    _copy(connection, table.name, day, step // GENERATED_DAYS, copies)
            _note(connection, f"day {step}")
        progress(step, DAYS - 1)
    if steps:
        say(f"\ncopied {len(steps)} days in {time.monotonic() - began:,.0f} s\n")
    if "vacuumed" not in done or steps:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
        _note(engine, "vacuumed")


def _copy(connection: Connection, table: str, day: datetime, block: int, copies: int) -> None:
    """Copy a generated weekday to `day`, which is `block` times the generated days earlier."""
    variant = f"copy % {VARIANTS}"
    earlier = f" - {block} * interval '{GENERATED_DAYS} days' - copy * interval '{COPY_MINUTES} minutes'"
    columns = tables.metadata.tables[table].columns.keys()
    values = {name: f'"{name}"' for name in columns}
    values["application_id"] = f"application_id || '~{block}.' || copy"
    for name in ("name", "job_name"):
        if name in values:
            values[name] = f"{name} || CASE WHEN {variant} > 0 THEN '-' || {variant} ELSE '' END"
    for name in ("query_shape", "plan_fingerprint", "operator_key"):
        if name in values:
            values[name] = f"CASE WHEN {variant} > 0 THEN left(md5({name} || {variant}), 16) ELSE {name} END"
    for name in ("started_at", "ended_at", "decided_at", "first_heard_at", "last_heard_at", "updated_at"):
        if name in values:
            values[name] += earlier
    time_column = "started_at" if "started_at" in values else "first_heard_at"
    names = ", ".join(f'"{name}"' for name in columns)
    source_day = day + block * timedelta(days=GENERATED_DAYS)
    connection.execute(
        text(
            f'INSERT INTO "{table}" ({names}) SELECT {", ".join(values.values())} FROM "{table}",'
            " generate_series(CAST(:first AS int), CAST(:last AS int)) AS copy"
            f" WHERE {time_column} >= :day AND {time_column} < :day + interval '1 day'"
            f" AND {_GENERATED} ORDER BY {time_column}{earlier}"
        ),
        {
            "first": 1 if block == 0 else 0,  # the generated rows exist already
            "last": copies - 1,
            "day": source_day,
        },
    )


def _note(to: Engine | Connection, step: str) -> None:
    statement = text("INSERT INTO bench_fill VALUES (:step, now())")
    if isinstance(to, Connection):
        to.execute(statement, {"step": step})
        return
    with to.begin() as connection:
        connection.execute(statement, {"step": step})


def _progress(what: str) -> Callable[[int, int], None]:
    def show(done: int, of: int) -> None:
        say(f"\r{what}: day {done} of {of} ")

    return show


def say(message: str) -> None:
    """Print to stderr, because stdout has the report only."""
    sys.stderr.write(message)
    sys.stderr.flush()


# Cases


class Sample:
    """Draws parameters from the data."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self._random = random.Random(seed)
        self._values = {
            "job_name": self._of(connection, "SELECT DISTINCT job_name FROM application"),
            "application_id": self._of(connection, "SELECT application_id FROM application TABLESAMPLE SYSTEM (10)"),
            "query_shape": self._of(connection, "SELECT DISTINCT query_shape FROM execution"),
            "execution": self._of(
                connection, "SELECT application_id || '/' || execution_id FROM execution TABLESAMPLE SYSTEM (0.5)"
            ),
            **{
                f"{table} operator_key": self._of(connection, f"SELECT DISTINCT operator_key FROM {table}")
                for table in ("shuffle", "broadcast", "joins", "finding")
            },
        }

    @staticmethod
    def _of(connection: Connection, statement: str) -> list[str]:
        return sorted(value for value in connection.scalars(text(statement)) if value is not None)

    def one(self, name: str) -> str:
        """A random value; operators are those of `TABLE operator_key`."""
        if name == "operator_key":
            name = self._random.choice(["shuffle", "broadcast", "joins"]) + " operator_key"
        return self._random.choice(self._values[name])

    def ago(self, days: int) -> datetime:
        """About this number of days ago."""
        return datetime.now(timezone.utc) - timedelta(days=days * self._random.uniform(0.8, 1.2))


def command_cases(sample: Sample) -> Iterator[Case]:
    """Every reading command with every sort, without and with filters."""
    operators = {"shuffles": "shuffle", "broadcasts": "broadcast", "joins": "joins", "findings": "finding"}
    for command, sorts in SORTS.items():
        filters: dict[str, Callable[[], Filters]] = {
            "": Filters,
            "--since 1d": lambda: Filters(since=sample.ago(1)),
            "--since 30d": lambda: Filters(since=sample.ago(30)),
            "--until 200d": lambda: Filters(until=sample.ago(200)),
            "--job": lambda: Filters(job=sample.one("job_name")),
            "--job --since 30d": lambda: Filters(job=sample.one("job_name"), since=sample.ago(30)),
            "--application": lambda: Filters(application=sample.one("application_id")),
            "--application NAME": lambda: Filters(application=sample.one("job_name")),
            "--shape": lambda: Filters(shape=sample.one("query_shape")),
            "--shape 8 digits": lambda: Filters(shape=sample.one("query_shape")[:8]),
            "--state failed": lambda: Filters(state="failed"),
            "--state running": lambda: Filters(state="running"),
            "--limit 1000": lambda: Filters(limit=1_000),
        }
        if command in operators:
            of = f"{operators[command]} operator_key"
            filters["--operator"] = lambda of=of: Filters(operator=sample.one(of))  # type: ignore[misc]
            filters["--operator --since 30d"] = lambda of=of: Filters(operator=sample.one(of), since=sample.ago(30))  # type: ignore[misc]
            filters["--execution"] = lambda: Filters(execution=sample.one("execution"))
        if command == "findings":
            filters["--severity critical"] = lambda: Filters(severity="critical")
            filters["--finding skewed-shuffle"] = lambda: Filters(finding="skewed-shuffle")
        for sort in sorts:
            for name, make in filters.items():

                def run(connection: Connection, command: str = command, sort: str = sort, make: Any = make) -> object:
                    return lists.read_list(connection, command, make(), sort)

                yield Case(f"{command} --sort {sort} {name}".strip(), COMMAND_MS, run)

    def plan(named: Callable[[], str]) -> Callable[[Connection], object]:
        return lambda connection: reading.read_plan(connection, reading.find_execution(connection, named()))

    yield Case("plan last", COMMAND_MS, plan(lambda: "last"))
    yield Case("plan APPLICATION/ID", COMMAND_MS, plan(lambda: sample.one("execution")))
    yield Case("plan ID", COMMAND_MS, plan(lambda: sample.one("execution").rsplit("/")[-1]))
    yield Case("plan ID that no execution has", COMMAND_MS, plan(lambda: "987654321"))

    def diff(connection: Connection) -> object:
        after = reading.find_execution(connection, sample.one("execution"))
        before = reading.find_execution(connection, sample.one("execution"))
        return compare(reading.read_run(connection, before), reading.read_run(connection, after))

    yield Case("diff A B", COMMAND_MS, diff)
    for days in (1, 3, 7, 30):
        since = datetime.now(timezone.utc) - timedelta(days=days)
        yield Case(
            f"regressions --since {days}d",
            COMMAND_MS,
            lambda connection, since=since: read_regressions(connection, since, {}),  # type: ignore[misc]
        )
    yield Case("doctor", COMMAND_MS, lambda connection: read_deliveries(connection, None, None, 10))
    yield Case(
        "doctor --application",
        COMMAND_MS,
        lambda connection: read_deliveries(connection, sample.one("application_id"), None, 10),
    )
    yield Case(
        "doctor --since 30d --limit 100",
        COMMAND_MS,
        lambda connection: read_deliveries(connection, None, sample.ago(30), 100),
    )
    times = {"ended_for": timedelta(minutes=1), "lost_after": timedelta(minutes=5)}
    yield Case(
        "the search for lost executions",
        COMMAND_MS,
        lambda connection: connection.execute(text("SELECT count(*) " + mark_lost.SILENT), times).all(),
    )


def view_cases(connection: Connection, sample: Sample) -> Iterator[Case]:
    """Every view, as in dashboards: the newest and the largest, for a time range, a job, an operator, a query."""
    views: dict[str, list[str]] = {}
    for view, column in connection.execute(
        text(
            "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.views"
            " USING (table_schema, table_name) WHERE table_schema = current_schema() ORDER BY 1, ordinal_position"
        )
    ):
        views.setdefault(view, []).append(column)
    for view, columns in views.items():
        size = next((name for name in SIZES if name in columns), None)
        if "started_at" not in columns:
            for name, statement in (
                ("newest 20", f"SELECT * FROM {view} ORDER BY last_used_at DESC LIMIT 20"),
                ("of application_id", f"SELECT * FROM {view} WHERE application_id = 'x'"),
            ):
                yield Case(f"{view}: {name}", COMMAND_MS, _sql(statement, {}, sample))
            continue
        recent = "started_at >= :since"
        asked = {
            "newest 20": "SELECT * FROM {} ORDER BY started_at DESC LIMIT 20",
            "newest 100 in 7d": f"SELECT * FROM {{}} WHERE {recent} ORDER BY started_at DESC LIMIT 100",
        }
        if "job_name" in columns:
            asked["per job in 7d"] = f"SELECT job_name, count(*) FROM {{}} WHERE {recent} GROUP BY 1"
        if size and "job_name" in columns:
            asked["largest 20"] = f"SELECT * FROM {{}} ORDER BY {size} DESC NULLS LAST LIMIT 20"
            asked["largest 20 in 7d"] = f"SELECT * FROM {{}} WHERE {recent} ORDER BY {size} DESC NULLS LAST LIMIT 20"
            asked["per day of a job in 30d"] = (
                f"SELECT date_trunc('day', started_at), sum({size}) FROM {{}}"
                " WHERE job_name = 'x' AND started_at >= :month GROUP BY 1"
            )
        for key in ("operator_key", "query_shape", "application_id"):
            if key in columns:
                asked[f"of {key}"] = f"SELECT * FROM {{}} WHERE {key} = 'x' ORDER BY started_at DESC LIMIT 100"
        for name, statement in asked.items():
            yield Case(f"{view}: {name}", COMMAND_MS, _sql(statement.format(view), {"since": 7, "month": 30}, sample))


def panel_cases(sample: Sample) -> Iterator[Case]:
    """Every panel that asks PostgreSQL, with the time and variables that its dashboard begins with."""
    for dashboard, panel, target in grafana.targets(grafana.SQL):
        days = int(dashboard["time"]["from"].removeprefix("now-").removesuffix("d"))

        def run(connection: Connection, of: Any = (dashboard, panel, target), days: int = days) -> object:
            dashboard, panel, target = of
            application, execution = sample.one("execution").rsplit("/", 1)
            chosen = (
                {"application_id": application, "execution_id": execution} if dashboard["uid"].endswith("query") else {}
            )
            shown = grafana.last(days, datetime.now(timezone.utc))
            values = grafana.values_of(dashboard, chosen)
            query = grafana.sql(target["rawSql"], dashboard, panel, values, shown)
            connection.execute(text("SET LOCAL enable_partitionwise_join = on"))
            return connection.exec_driver_sql(query.replace("%", "%%")).all()

        yield Case(f"{dashboard['uid'].removeprefix('joinsight-')}.panel: {panel['title']}", COMMAND_MS, run)


def cookbook_cases(sample: Sample) -> Iterator[Case]:
    """The SQL of docs/sql.md, named by its headings."""
    if not COOKBOOK.exists():
        return
    heading = ""
    for found in re.finditer(r"^#+ ([^\n]+)$|^```sql\n(.*?)^```", COOKBOOK.read_text(), re.M | re.S):
        if found[1]:
            heading = found[1]
        elif found[2].lstrip().upper().startswith(("SELECT", "WITH")):
            yield Case(f"sql.md: {heading}", COOKBOOK_MS, _sql(found[2], {}, sample))


_COMPARED = re.compile(r"\b(\w*\.)?(job_name|application_id|query_shape|operator_key) = '[^']*'")


def _sql(statement: str, days: dict[str, int], sample: Sample) -> Callable[[Connection], object]:
    """Run SQL with names and keys from the data, and past times for its parameters."""

    def run(connection: Connection) -> object:
        varied = _COMPARED.sub(lambda m: f"{m[1] or ''}{m[2]} = '{sample.one(m[2])}'", statement)
        if not days:
            return connection.exec_driver_sql(varied.replace("%", "%%")).all()
        return connection.execute(text(varied), {name: sample.ago(ago) for name, ago in days.items()}).all()

    return run


# Measures and the report


def measure(engine: Engine, case: Case, runs: int) -> list[float] | None:
    """Milliseconds of each run; None if one was cancelled."""
    times = []
    for _ in range(runs):
        with engine.connect() as connection:
            connection.execute(text(f"SET LOCAL statement_timeout = {LONGEST_MS}"))
            started = time.perf_counter()
            try:
                case.run(connection)
            except NotFound:
                pass
            except OperationalError as error:
                if "statement timeout" not in str(error):
                    raise
                return None
            times.append((time.perf_counter() - started) * 1000)
    return times


def percentiles(times: list[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
    return statistics.median(times), p95


def line(name: str, p50: str, p95: str, target: str, verdict: str) -> str:
    return f"{name:<60.60}  {p50:>9}  {p95:>9}  {target:>9}  {verdict}".rstrip()


def report(engine: Engine, cases: Sequence[Case], runs: int) -> None:
    """Print a line for each case, in milliseconds, then one for each command and view, over all of its cases."""
    print(line("", "p50 ms", "p95 ms", "target ms", ""))
    good = 0
    subjects: dict[str, list[float]] = {}
    for case in cases:
        times = measure(engine, case, runs)
        if times is None:
            print(line(case.name, "", f"> {LONGEST_MS:,}", f"{case.target_ms:,}", "MISSED"), flush=True)
            continue
        subjects.setdefault(case.name.split()[0].rstrip(":"), []).extend(times)
        p50, p95 = percentiles(times)
        good += p95 < case.target_ms
        verdict = "ok" if p95 < case.target_ms else "MISSED"
        print(line(case.name, f"{p50:,.1f}", f"{p95:,.1f}", f"{case.target_ms:,}", verdict), flush=True)
    print()
    for subject, times in subjects.items():
        p50, p95 = percentiles(times)
        print(line(f"{subject}, {len(times):,} runs of all cases", f"{p50:,.1f}", f"{p95:,.1f}", "", ""))
    print(f"\n{good} of {len(cases)} within their target")


def describe(connection: Connection) -> None:
    """Print the size of the database and its tables."""
    version = connection.scalar(text("SHOW server_version"))
    size = connection.scalar(text("SELECT pg_size_pretty(pg_database_size(current_database()))"))
    print(f"PostgreSQL {version}, {size}")
    for table in tables.metadata.sorted_tables:
        name = table.name
        estimate = (
            "SELECT sum(reltuples)::bigint FROM pg_class WHERE relkind = 'r' AND (relname = :t OR relname LIKE :p)"
        )
        rows = connection.scalar(text(estimate), {"t": name, "p": rf"{name}\_2%"})
        print(f"  {name:<16}{rows or 0:>14,} rows")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="shuffles and joins (default: 10,000,000)")
    parser.add_argument("--data", type=Path, help="folder of the database, kept (default: a temporary one)")
    parser.add_argument("--runs", type=int, default=20, help="of each case (default: 20)")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--seed", type=int, default=0, help="of the parameters")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_database(None, options.data or Path(folder), create=True) as engine,
    ):
        fill(engine, options.rows)
        now = datetime.now(timezone.utc)
        baselines.replace(engine, baselines.moment(now, 30))
        baselines.store_nightly(engine, now)
        with engine.connect() as connection:
            describe(connection)
            sample = Sample(connection, options.seed)
            cases = [
                *command_cases(sample),
                *view_cases(connection, sample),
                *panel_cases(sample),
                *cookbook_cases(sample),
            ]
        report(engine, [case for case in cases if options.only in case.name], options.runs)


if __name__ == "__main__":
    main()
