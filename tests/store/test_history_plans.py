"""Queries on a long history use an index, and read only the requested months.

A table of a month that is read from end to end would be read so in each of them, for all the years that are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from tests.documents import application, planned

from joinsight import tables
from joinsight.alarms import forecasts, watch
from joinsight.analysis.search import query
from joinsight.base.errors import NotFound
from joinsight.findings import Finding, FindingsEngine, Heuristic, PlanContext
from joinsight.queries import browse, lists, reading, report, trends
from joinsight.queries.deliveries import read_deliveries
from joinsight.queries.filters import SORTS, Filters, User
from joinsight.queries.regressions import read_regressions
from joinsight.store import mark_lost
from joinsight.store.database import connect
from joinsight.store.writer import Writer

PLAN = """
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=3
      SortMergeJoin | [k#1], [k#2], Inner | number of output rows=3, spill size=1
        Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=9, fetch wait time=1
        Exchange | hashpartitioning(k#2, 8), [plan_id=3] | shuffle bytes written=9, fetch wait time=1
      BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=9, time to collect=1, time to build=1
"""
ENDS = [datetime(2025, *day, 23, tzinfo=timezone.utc) for day in ((9, 30), (10, 31), (11, 30), (12, 31))]
EACH = 4_000
"""Executions in a month."""
SINCE = ENDS[-1] - timedelta(days=2)
OPERATORS = {"shuffles": "shuffle", "broadcasts": "broadcast", "joins": "joins", "findings": "finding"}


@pytest.fixture(scope="module")
def engine(make_store: Callable[[], str]) -> Iterator[Engine]:
    """Four months of an execution, copied with other applications, jobs, keys and numbers, and analyzed."""
    with connect(make_store()) as engine:
        for month, end in enumerate(ENDS):
            started = int(end.timestamp() * 1000)
            app = application(application_id=f"m{month}", started_at_ms=started)
            run = planned(PLAN, application_id=f"m{month}", started_at_ms=started)
            Writer(engine, FindingsEngine(heuristics=(Heuristic("found", found, is_about_time=False),))).write(
                [app, run]
            )
        for table in ("application", "delivery", "execution", *OPERATORS.values()):
            _multiply(engine, table, tables.metadata.tables[table].columns.keys())
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("UPDATE execution SET state = 'failed' WHERE execution_id = 0"))
            connection.execute(text("VACUUM ANALYZE"))
        yield engine


def found(context: PlanContext) -> Iterator[Finding]:
    """One of each severity."""
    for join in context.rows.joins:
        severity = "critical" if join.strategy == "SortMergeJoin" else "warning"
        yield Finding("found", severity, "It is slow.", {}, "", join.node_id, join.operator_key, 5, 9)


def _multiply(engine: Engine, table: str, columns: Iterable[str]) -> None:
    values = {name: f'"{name}"' for name in columns}
    values["application_id"] = "application_id || '-' || n / 2"
    for name, many in (("name", 2_000), ("job_name", 200)):
        if name in values:
            values[name] = f"{name} || n % {many}"
    for name in ("query_shape", "operator_key"):
        if name in values:
            values[name] = f"left(md5({name} || n % 200), 16)"
    if "user_name" in values:
        values |= {
            "user_name": "CASE WHEN n % 2 = 1 THEN 'u' || n % 200 END",
            "session_id": "'s' || n % 200",
            "user_tags": "ARRAY['t' || n % 200]",
        }
    if "words" in values:
        values["words"] = "words || ('w' || n % 200)"
    if "spark_user" in values:
        values["spark_user"] = "CASE WHEN n % 3 = 0 THEN 'r' || n % 200 ELSE 'etl' END"
    for name in ("started_at", "last_heard_at"):
        if name in values:
            values[name] = f"{name} - n * interval '10 minutes'"
    if "execution_id" in values:
        values["execution_id"] = "n"
    if "root_execution_id" in values:
        values["root_execution_id"] = "n"
    for name in (
        "duration_ms",
        "shuffle_write_bytes",
        "bytes_written",
        "size_bytes",
        "output_rows",
        "spill_bytes",
        "cost_wall_ms",
        "cost_most_wall_ms",
        "impact_ms",
    ):
        if name in values:
            values[name] = "n * 7919 % 4001"
    if table in ("application", "delivery"):
        values["application_id"] = "application_id || '-' || n"
    with engine.begin() as connection:
        connection.execute(
            text(
                f'INSERT INTO "{table}" ({", ".join(values)}) SELECT {", ".join(values.values())}'
                f' FROM "{table}", generate_series(1, {EACH}) AS n'
            )
        )


def plans_of(engine: Engine, ask: Callable[[Connection], object]) -> list[str]:
    """The plans, as carried out, of all statements that `ask` makes."""
    statements: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        with engine.connect() as connection:
            ask(connection)
    finally:
        event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        return [
            "\n".join(connection.exec_driver_sql(f"EXPLAIN (ANALYZE) {statement}", parameters).scalars())
            for statement, parameters in statements
            if statement.startswith(("SELECT", "WITH"))
        ]


def scanned(plan: str) -> set[str]:
    """Tables that a plan reads from end to end, if they have more than a page or two."""
    scan = r"Seq Scan on (\S+) .*\(actual time=\S+ rows=(\d+)[^)]*\)(?:\n\s+(?!->).*?(?:Removed by Filter: (\d+))?)*"
    return {found[1] for found in re.finditer(scan, plan) if int(found[2]) + int(found[3] or 0) > EACH // 10}


def months(plan: str) -> set[str]:
    """Months that a plan reads anything of."""
    lines = [line for line in plan.splitlines() if "Scan" in line and "never executed" not in line]
    return {month for line in lines for month in re.findall(r" on \w+?_(\d{4}_\d{2})\b", line)}


def _cases() -> Iterator[Any]:
    for command, sorts in SORTS.items():
        filters = {
            "all": Filters(),
            "since": Filters(since=SINCE),
            "until": Filters(until=SINCE),
            "job": Filters(job="test7"),
            "application": Filters(application="m1-77"),
            "name": Filters(application="test7"),
            "user": Filters(user=User("u7")),
            "spark-user": Filters(user=User("r8")),
            "common-user": Filters(user=User("etl")),
            "session": Filters(session="s7"),
            "tag": Filters(tag="t7"),
            "failed": Filters(state="failed"),
            "succeeded": Filters(state="succeeded"),
            "running": Filters(state="running"),
        }
        if command == "queries":
            filters |= {"rare": Filters(search=query("w77")), "common": Filters(search=query("join exch"))}
        if command == "findings":
            filters |= {"critical": Filters(severity="critical"), "kind": Filters(finding="found")}
        for sort in sorts:
            for name, asked in filters.items():
                yield pytest.param(command, sort, asked, id=f"{command}-{sort}-{name}")


@pytest.mark.parametrize(("command", "sort", "filters"), list(_cases()))
def test_every_list_finds_its_rows_by_an_index(engine: Engine, command: str, sort: str, filters: Filters) -> None:
    """Every sort with every filter finds its rows by an index; with --since only in these months."""
    *looked_up, plan = plans_of(engine, lambda connection: lists.read_list(connection, command, filters, sort))
    assert not any(map(scanned, [*looked_up, plan])), plan
    if filters.since is not None:
        assert months(plan) == {"2025_12"}, plan


@pytest.mark.parametrize("is_before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("sort", SORTS["queries"])
def test_further_pages_are_found_by_the_index_of_their_order(engine: Engine, sort: str, is_before: bool) -> None:
    by = SORTS["queries"][sort].column.name
    with engine.connect() as connection:
        row = lists.read_queries(connection, Filters(until=SINCE, limit=200), sort)[-1]
    key = (row["started_at"], row["application_id"], row["attempt_id"], row["execution_id"])
    cursor = lists.Cursor(row[by], key, is_before)
    (plan,) = plans_of(engine, lambda c: lists.read_queries(c, Filters(limit=51), sort, cursor))
    assert not scanned(plan), plan


def test_what_a_list_leaves_out_is_counted_by_an_index(engine: Engine) -> None:
    with engine.connect() as connection:
        row = lists.read_queries(connection, Filters(limit=50), "recent")[-1]
    end = lists.cursor_at(row, "recent", is_before=True)
    for filters, bound in ((Filters(), end), (Filters(job="test7"), None), (Filters(search=query("w77")), None)):
        (plan,) = plans_of(engine, lambda c: lists.count_hidden(c, filters, None, bound))  # noqa: B023
        assert not scanned(plan), plan


def test_the_home_page_reads_by_indexes(engine: Engine) -> None:
    """Its jobs, their last runs and its failures are read by indexes, in the months of their time."""
    with engine.connect() as connection:
        jobs = trends.read_jobs(connection, SINCE)
        trended = trends.read_trends(connection, jobs[:15], SINCE)
    assert len(jobs) >= 200 and len(trended) == 15 and all(trend.duration_ms for trend in trended)
    for ask in (
        lambda c: trends.read_jobs(c, SINCE),
        lambda c: trends.read_trends(c, jobs[:15], SINCE),
        lambda c: trends.read_failures(c, SINCE, 7),
    ):
        (plan,) = plans_of(engine, ask)
        assert not scanned(plan), plan
        assert months(plan) <= {"2025_12"}, plan


def test_the_lists_of_queries_jobs_and_streams(engine: Engine) -> None:
    """They read the months of their window only, by indexes; the window is found by one."""
    [window] = plans_of(engine, lambda c: browse.read_window(c, ENDS[-1] + timedelta(days=300)))
    assert not scanned(window), window
    stream = {"application_id": "m3-7", "attempt_id": "", "streaming_query_id": "s", "streaming_run_id": None}
    for ask in (
        lambda c: browse.read_query_groups(c, SINCE, Filters(limit=50)),
        lambda c: browse.read_query_groups(c, SINCE, Filters(job="test7", limit=50)),
        lambda c: browse.read_query_groups(c, SINCE, Filters(user=User("r8"), limit=50)),
        lambda c: trends.read_jobs(c, SINCE, Filters(user=User("u7"), limit=50)),
        lambda c: browse.read_owners(c, ["test7", "test8"], SINCE),
        lambda c: lists.read_streams(c, SINCE),
        lambda c: browse.read_pace(c, stream, SINCE),
    ):
        *looked_up, plan = plans_of(engine, ask)
        assert not any(map(scanned, [*looked_up, plan])), plan
        assert months(plan) <= {"2025_12"}, plan
        if looked_up:
            assert "_user_name_started_at_idx" in plan, plan


def test_until_there_are_enough_runs(engine: Engine) -> None:
    """Runs slower than the one before, and what the checks came nearest to, are found by indexes."""
    for ask in (
        lambda c: trends.read_slower_than_last(c, SINCE),
        lambda c: trends.read_slower_than_last(c, SINCE, "test7"),
        lambda c: lists.read_checked(c, Filters(since=SINCE)),
    ):
        for plan in plans_of(engine, ask):
            assert not scanned(plan), plan


def test_runs_of_a_query_are_read_by_its_key(engine: Engine) -> None:
    """Its runs, its jobs and what is usual are found by the indexes on its key."""
    with engine.connect() as connection:
        [run] = lists.read_queries(connection, Filters(until=SINCE, state="succeeded", limit=1), "recent")
    for ask in (
        lambda c: trends.read_jobs_of_query(c, run["query_shape"]),
        lambda c: trends.read_runs(c, run["query_shape"], run["job_name"], SINCE, 100),
        lambda c: trends.read_usual(c, run, SINCE),
    ):
        (plan,) = plans_of(engine, ask)
        assert not scanned(plan), plan


@pytest.mark.parametrize("command", list(OPERATORS))
def test_an_operator_or_a_query_through_its_runs(engine: Engine, command: str) -> None:
    """By the indexes on their keys, be it a whole key or how it begins, in whichever order."""
    with engine.connect() as connection:
        operator = connection.scalar(text(f"SELECT max(operator_key) FROM {OPERATORS[command]}"))
        shape = connection.scalar(text("SELECT max(query_shape) FROM execution"))
    for sort in SORTS[command]:
        for filters in (
            Filters(operator=operator),
            Filters(operator=operator[:8]),
            Filters(shape=shape),
            Filters(shape=shape[:8]),
        ):
            (plan,) = plans_of(engine, lambda connection: lists.read_list(connection, command, filters, sort))  # noqa: B023
            assert not scanned(plan), plan


@pytest.mark.parametrize(("command", "sort"), [("joins", "time"), *((command, "recent") for command in OPERATORS)])
def test_operators_of_a_job_end_with_the_limit(engine: Engine, command: str, sort: str) -> None:
    """In the order of its executions, operators are looked up in the first of these, not in all 80."""
    (plan,) = plans_of(engine, lambda c: lists.read_list(c, command, Filters(job="test7", limit=5), sort))
    looked_up = re.findall(rf" on {OPERATORS[command]}_2025_\d\d .*\(actual .* loops=(\d+)\)", plan)
    assert 0 < sum(map(int, looked_up)) < 40, plan


@pytest.mark.parametrize("command", ["queries", "shuffles", "broadcasts", "joins"])
def test_runs_are_sorted_without_their_rows(engine: Engine, command: str) -> None:
    """Indexes have all that sorts the 80 runs of a job or query, and their operators."""
    with engine.connect() as connection:
        shape = connection.scalar(text("SELECT max(query_shape) FROM execution"))
    for sort in SORTS[command].keys() - {"recent"}:
        for filters in (Filters(job="test7", limit=5), Filters(shape=shape, limit=5)):
            (plan,) = plans_of(engine, lambda connection: lists.read_list(connection, command, filters, sort))  # noqa: B023
            read = re.findall(r"(?:Index|Heap|Seq) Scan .*on \w+_2025_\d\d .*rows=([\d.]+) loops=(\d+)\)", plan)
            assert 5 <= round(sum(float(rows) * int(loops) for rows, loops in read)) <= 20, plan


@pytest.mark.parametrize("named", ["last", "77", "987654321", "m1-77/154"])
def test_an_execution_is_found(engine: Engine, named: str) -> None:
    """By whatever names it, also one that is not there; its rows and its application by key, earlier runs by index.

    The last query is for what ran for it before it began.
    """

    def ask(connection: Connection) -> None:
        with suppress(NotFound):
            reading.read_plan(connection, reading.find_execution(connection, named))

    plans = plans_of(engine, ask)
    assert len(plans) == (1 if named == "987654321" else 14)
    for plan in plans:
        assert not scanned(plan), plan
    for plan in (*plans[1:-2], *plans[2:][-1:]):
        assert len(months(plan)) == (0 if " on application " in plan else 1), plan


@pytest.mark.parametrize("sort", ["severity", "impact", "recent"])
@pytest.mark.parametrize("asked", [{}, {"job": "test7"}, {"finding": "spill"}, {"severity": "critical"}], ids=str)
def test_groups_of_findings_read_the_months_of_the_window(engine: Engine, sort: str, asked: dict[str, Any]) -> None:
    """Only the months of the window are read, by indexes; of other jobs no more than their findings."""
    filters = Filters(since=SINCE, **asked)
    (plan,) = plans_of(engine, lambda connection: lists.read_finding_groups(connection, filters, sort))
    assert not scanned(plan), plan
    assert months(plan) == {"2025_12"}, plan
    assert "Function Scan" not in plan, plan


def test_the_worst_findings_of_a_list(engine: Engine) -> None:
    """They are looked up by each execution's key, in its month only; executions without findings are omitted."""
    with engine.connect() as connection:
        listed = lists.read_queries(connection, Filters(since=SINCE, limit=50), "recent")
        worst = lists.worst_findings(connection, listed)
    assert set(worst.values()) == {"critical"}
    assert set(worst) <= set(range(50))
    (plan,) = plans_of(engine, lambda connection: lists.worst_findings(connection, listed))
    assert not scanned(plan), plan
    assert months(plan) == {"2025_12"}, plan


@pytest.mark.parametrize(
    ("view", "table"), [("v_shuffles", "shuffle"), ("v_broadcasts", "broadcast"), ("v_joins", "joins")]
)
@pytest.mark.parametrize("column", ["application_id", "operator_key", "query_shape"])
def test_views_followed_through_time_have_an_index(engine: Engine, view: str, table: str, column: str) -> None:
    """What is followed through time, without a time, has an index of its own: to skip through the key is slow."""
    with engine.connect() as connection:
        value = connection.scalar(text(f"SELECT min({column}) FROM {view}"))
    asked = f"SELECT * FROM {view} WHERE {column} = '{value}' ORDER BY started_at DESC LIMIT 100"
    (plan,) = plans_of(engine, lambda c: c.execute(text(asked)).all())
    assert not scanned(plan), plan
    read = "execution" if column == "query_shape" else table
    assert re.search(rf"Scan (Backward )?(using|on) {read}_2025_\d\d_{column}\w*_idx", plan), plan


@pytest.mark.parametrize(
    ("view", "table"), [("v_shuffles", "shuffle"), ("v_broadcasts", "broadcast"), ("v_joins", "joins")]
)
def test_newest_operators_are_of_the_newest_runs(engine: Engine, view: str, table: str) -> None:
    """They are looked up in the newest runs of the query, not in all 80."""
    with engine.connect() as connection:
        shape = connection.scalar(text("SELECT max(query_shape) FROM execution"))
    asked = f"SELECT * FROM {view} WHERE query_shape = '{shape}' ORDER BY started_at DESC LIMIT 5"
    (plan,) = plans_of(engine, lambda c: c.execute(text(asked)).all())
    looked_up = re.findall(rf" on {table}_2025_\d\d .*\(actual .* loops=(\d+)\)", plan)
    assert 0 < sum(map(int, looked_up)) < 40, plan


def test_regressions_read_no_month_from_end_to_end(engine: Engine) -> None:
    """The run to name for a slower query is looked up: no month is read from end to end but the window's."""
    since = ENDS[-1] - timedelta(days=7)
    scans = text(r"SELECT sum(seq_scan) FROM pg_stat_xact_user_tables WHERE relname ~ '^execution_2025_(09|10|11)$'")
    with engine.connect() as connection:
        slower = (
            "UPDATE execution SET duration_ms = 60000 + duration_ms WHERE job_name = 'test7' AND started_at >= :since"
        )
        connection.execute(text(slower), {"since": since})
        before = connection.scalar(scans)
        found = read_regressions(connection, since, {})
        assert connection.scalar(scans) == before
        connection.rollback()
    assert found[0]["job_name"] == "test7" and found[0]["title"]


def test_alarms_read_only_the_days_that_they_take(engine: Engine) -> None:
    day = {"start": ENDS[-1] - timedelta(days=3), "end": ENDS[-1] - timedelta(days=2)}
    (plan,) = plans_of(engine, lambda c: c.execute(text(watch.POINTS.strip()), day).all())
    assert not scanned(plan), plan
    assert months(plan) == {"2025_12"}, plan


@pytest.mark.parametrize("kind", forecasts.KINDS)
def test_forecasts_look_up_operators(engine: Engine, kind: str) -> None:
    """The latest runs are those of the last days; the past of an operator is found by its key."""
    latest = {"recent": SINCE, "near": 0.0, "most": 10}
    (plan,) = plans_of(engine, lambda c: c.execute(text(forecasts.LATEST[kind].strip()), latest).all())
    assert not scanned(plan), plan
    assert months(plan) <= {"2025_12"}, plan
    table = forecasts.KINDS[kind].source.split()[0]
    with engine.connect() as connection:
        found = connection.execute(
            text(
                f"SELECT o.operator_key, e.job_name FROM {table} o JOIN execution e USING"
                " (started_at, application_id, attempt_id, execution_id) LIMIT 1"
            )
        ).one()
    past = {"operator_key": found[0], "job_name": found[1], "origin": "live", "earliest": ENDS[0], "now": ENDS[-1]}
    (plan,) = plans_of(engine, lambda c: c.execute(text(forecasts.PAST[kind].strip()), past).all())
    assert not scanned(plan), plan


def test_a_report_reads_its_window(engine: Engine) -> None:
    """What costs most is read by the key, in the months of the window, what is usual by the index on queries."""
    (costly,) = plans_of(engine, lambda c: report.read_costly(c, SINCE, None, 10))
    assert months(costly) == {"2025_12"}, costly
    (faster,) = plans_of(engine, lambda c: report.read_faster(c, SINCE, None, 10))
    for plan in (costly, faster):
        assert not scanned(plan), plan


def test_deliveries_are_found_by_an_index(engine: Engine) -> None:
    """What doctor shows of the last ones, and of one by its name."""
    for named, since in ((None, None), (None, SINCE), ("test7", None), ("m1-77", None)):
        for plan in plans_of(engine, lambda c: read_deliveries(c, named, since, 10)):  # noqa: B023
            assert not scanned(plan), plan


def test_running_executions_are_found_by_an_index(engine: Engine) -> None:
    """What runs is found among all that has run."""
    times = {"ended_for": timedelta(minutes=1), "lost_after": timedelta(0), "restarted_for": timedelta(0)}
    for statement in (mark_lost.CANDIDATES, f"SELECT count(*) {mark_lost.SILENT}"):
        (plan,) = plans_of(engine, lambda c: c.execute(text(statement.strip()), times).all())  # noqa: B023
        assert not scanned(plan), plan
