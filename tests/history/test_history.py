"""The generated history is reproducible and consistent, and has the planted events where they were planted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, func, make_url, select, text
from tests.history import END, Planted, generate
from tests.history.jobs import CALM, make_jobs

from joinsight import tables
from joinsight.analysis.rows import execution_rows
from joinsight.cli import cli
from joinsight.store.database import connect, upgrade

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine(generated_engine: Engine) -> Engine:
    """A database with the history, once for all tests."""
    return generated_engine


@pytest.fixture(scope="module")
def planted(generated: tuple[str, Planted]) -> Planted:
    """What is in it."""
    return generated[1]


@pytest.fixture
def other_engine(make_database: Callable[[], str]) -> Iterator[Engine]:
    """An empty database beside it."""
    with connect(make_database()) as engine:
        upgrade(engine)
        yield engine


def ask(engine: Engine, sql: str, **values: Any) -> list[Any]:
    """The rows of a query."""
    with engine.connect() as connection:
        return list(connection.execute(text(sql), values))


def digests(engine: Engine, since: datetime) -> dict[str, Any]:
    """What the tables hold of executions from `since` on, as a hash each."""
    digest = "SELECT count(*), md5(string_agg(t::text, '' ORDER BY t::text)) FROM {} t WHERE started_at >= :since"
    return {table.name: ask(engine, digest.format(table.name), since=since)[0] for table in tables.PARTITIONED}


@pytest.mark.matrix
@pytest.mark.nightly
def test_the_same_arguments_give_the_same_rows(other_engine: Engine, make_database: Callable[[], str]) -> None:
    arguments: dict[str, Any] = {"days": 14, "end": END, "jobs": 14, "tables": {"execution", "joins", "stage"}}
    with connect(make_database()) as engine, connect(make_database()) as third:
        upgrade(engine)
        upgrade(third)
        first = generate(engine, **arguments)
        assert first == generate(other_engine, **arguments)
        generate(third, **arguments, seed=1)
        one, same, other = (digests(each, first.start) for each in (engine, other_engine, third))
    assert one == same
    assert one["execution"] != other["execution"]
    assert one["execution_metrics"][0] == 0, "a table that was not named"


def test_every_table_is_filled(engine: Engine, planted: Planted) -> None:
    """Each table has the number of rows that `generate` returns, all within the history's time."""
    with engine.connect() as connection:
        for table in tables.metadata.sorted_tables:
            there = connection.scalar(select(func.count()).select_from(table))
            assert there == planted.rows.get(table.name, 0), table.name
    assert set(planted.rows) >= {"application", "delivery", "execution", "stage", *map(str, tables.PACKED)}
    assert ask(engine, "SELECT count(*) FROM execution WHERE started_at NOT BETWEEN :start AND :end",
               start=planted.start, end=planted.end)[0][0] == 0  # fmt: skip
    assert ask(engine, "SELECT count(*) FROM execution_default")[0][0] == 0


WRONG = {
    "a join's exchange is no shuffle or broadcast": """
        SELECT * FROM joins j, unnest(ARRAY[left_exchange, right_exchange]) exchange WHERE exchange IS NOT NULL
        AND NOT EXISTS (SELECT FROM shuffle s WHERE (s.application_id, s.execution_id, s.node_id)
            = (j.application_id, j.execution_id, exchange))
        AND NOT EXISTS (SELECT FROM broadcast b WHERE (b.application_id, b.execution_id, b.node_id)
            = (j.application_id, j.execution_id, exchange))""",
    "a join takes in more rows than its shuffle wrote": """
        SELECT * FROM joins j JOIN shuffle s USING (application_id, execution_id)
        WHERE s.node_id = j.left_exchange AND j.left_rows > s.rows_written""",
    "an edge leads to no node": """
        SELECT * FROM plan_edge e, unnest(ARRAY[child_id, parent_id]) end_id WHERE NOT EXISTS (SELECT FROM plan_node n
            WHERE (n.application_id, n.execution_id, n.node_id) = (e.application_id, e.execution_id, end_id))""",
    "a metric is of no node": """
        SELECT * FROM node_metric m WHERE node_id >= 0 AND NOT EXISTS (SELECT FROM plan_node n
            WHERE (n.application_id, n.execution_id, n.node_id) = (m.application_id, m.execution_id, m.node_id))""",
    "a metric's values are not in order": """
        SELECT * FROM node_metric WHERE NOT (min <= median AND median <= p95 AND p95 <= max AND max <= total)
        AND type <> 'average'""",
    "a key is missing": """
        SELECT 1 FROM execution WHERE query_shape IS NULL OR plan_fingerprint IS NULL
        UNION ALL SELECT 1 FROM joins WHERE operator_key IS NULL
        UNION ALL SELECT 1 FROM shuffle WHERE operator_key IS NULL
        UNION ALL SELECT 1 FROM broadcast WHERE operator_key IS NULL""",
    "stages do not sum up to their execution": """
        SELECT * FROM execution e JOIN (
            SELECT application_id, execution_id, sum(shuffle_write_bytes) AS written, sum(run_time_ms) AS time,
                sum(disk_spilled_bytes) AS spilled FROM stage GROUP BY application_id, execution_id
        ) s USING (application_id, execution_id)
        WHERE (e.shuffle_write_bytes, e.task_time_ms, e.disk_spilled_bytes) <> (written, time, spilled)""",
    "stages write more or less than shuffles": """
        SELECT * FROM execution e JOIN (SELECT application_id, execution_id, sum(bytes_written) AS written
            FROM shuffle GROUP BY application_id, execution_id) s USING (application_id, execution_id)
        WHERE e.shuffle_write_bytes <> written""",
    # but for rounding
    "stages read more or less than what is read of shuffles": """
        SELECT * FROM execution JOIN (SELECT application_id, execution_id, sum(shuffle_read_rows) AS stage_rows
            FROM stage GROUP BY application_id, execution_id) t USING (application_id, execution_id)
        JOIN (SELECT application_id, execution_id, sum(rows_read) AS rows, sum(local_bytes_read + remote_bytes_read)
            AS bytes FROM shuffle GROUP BY application_id, execution_id) s USING (application_id, execution_id)
        WHERE abs(stage_rows - rows) > 3 OR abs(shuffle_read_bytes - bytes) > 3""",
    "a stage ran outside of its execution": """
        SELECT * FROM stage s JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
        WHERE submitted_at < started_at OR completed_at > ended_at OR completed_at < submitted_at""",
    "an execution ran outside of its application": """
        SELECT * FROM execution e JOIN application a USING (application_id)
        WHERE e.started_at < a.started_at OR e.ended_at > a.ended_at""",
    "an execution without its application or delivery": """
        SELECT * FROM execution e LEFT JOIN application a USING (application_id, listener_id)
        LEFT JOIN delivery d USING (application_id, listener_id)
        WHERE a.name IS NULL OR a.tags ->> 'generated' <> 'true' OR e.tags ->> 'generated' <> 'true'
            OR documents_missing <> 0 OR e.sequence > d.documents_arrived""",
    "two jobs with the same query": """
        SELECT query_shape FROM execution GROUP BY query_shape HAVING count(DISTINCT job_name) > 1""",
}


@pytest.mark.parametrize("sql", WRONG.values(), ids=WRONG)
def test_the_rows_fit_together(engine: Engine, planted: Planted, sql: str) -> None:
    """Nothing of this is there."""
    assert ask(engine, f"SELECT count(*) FROM ({sql}) wrong")[0][0] == 0


@pytest.mark.matrix
def test_two_hundred_jobs_have_names_and_queries_of_their_own() -> None:
    """The names and queries of two hundred jobs are distinct, so a shape or a name identifies one job."""
    jobs = make_jobs(200, 90, 0)
    assert len({job.name for job in jobs}) == 200
    shapes = [{t.plans.keys.query_shape for t in q.templates.values()} for job in jobs for q in job.queries]
    assert all(len(each) == 1 for each in shapes), "a query whose variants are of different shapes"
    assert len(set.union(*shapes)) == len(shapes)
    assert {job.schedule for job in jobs} == {"daily", "weekly", "hourly", "stream", "notebook"}
    assert len({q.title for job in jobs for q in job.queries if job.schedule == "daily"}) > len(CALM)


def test_variants_keep_the_keys_of_what_they_share() -> None:
    """A flipped join is the same join."""
    for job in make_jobs(14, 90, 0):
        for query in job.queries:
            keys = [{row.operator_key for row in execution_rows(t.execution).joins} for t in query.templates.values()]
            assert keys.count(keys[0]) == len(keys)


# What was planted: where it is, and nowhere else


def found(engine: Engine, sql: str) -> dict[str, list[Any]]:
    """Job name -> times at which `sql` (job_name, started_at) finds something, in order."""
    times: dict[str, list[Any]] = {}
    for name, started_at in ask(engine, f"SELECT job_name, started_at FROM ({sql}) f ORDER BY started_at"):
        times.setdefault(name, []).append(started_at)
    return times


def test_a_join_flips_on_the_day_that_is_planted(engine: Engine, planted: Planted) -> None:
    """Before it broadcasts a side under the threshold, from then on it shuffles one over it; two jobs do."""
    flips = ask(
        engine,
        """SELECT job_name, operator_key, query_shape, strategy, min(started_at), max(started_at),
            max(CASE strategy WHEN 'SortMergeJoin' THEN -right_bytes ELSE right_bytes END) AS bytes, threshold_bytes
        FROM joins JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
        WHERE operator_key IN (SELECT operator_key FROM joins GROUP BY 1 HAVING count(DISTINCT strategy) > 1)
            AND e.job_name LIKE '%daily' AND e.state = 'succeeded'
        GROUP BY 1, 2, 3, 4, 8 ORDER BY 1, 5""",
    )
    events = [planted.of(kind) for kind in ("join_flip", "plan_changed")]
    expected = {(e.job_name, e.operator_key, e.query_shape) for e in events}
    assert {tuple(row[:3]) for row in flips} == expected
    for event in events:
        before, after = (row for row in flips if row.job_name == event.job_name)
        assert (before.strategy, after.strategy) == ("BroadcastHashJoin", "SortMergeJoin")
        assert before.max < event.day <= after.min < event.day + timedelta(days=1)
        assert before.bytes < before.threshold_bytes < -after.bytes


def test_what_was_planted_is_found(engine: Engine, planted: Planted) -> None:
    """From its day on, in each run, at its operator; and nothing of these kinds elsewhere."""
    key = "(started_at, application_id, attempt_id, execution_id)"
    for kind, finding in (("skew", "skewed-shuffle"), ("spill", "spill"), ("broadcast_failed", "broadcast-failed")):
        event = planted.of(kind)
        rows = ask(
            engine,
            f"""SELECT e.job_name, e.started_at, f.operator_key FROM finding f JOIN execution e USING {key}
            WHERE finding = :finding ORDER BY e.started_at""",
            finding=finding,
        )
        assert {row.job_name for row in rows} == {event.job_name}
        days = 3 if kind == "broadcast_failed" else (END - event.day).days + 1
        expected = [event.day.date() + timedelta(days=day) for day in range(days)]
        assert [row.started_at.date() for row in rows] == expected
        assert kind == "spill" or {row.operator_key for row in rows} == {event.operator_key}


def test_a_broadcast_outgrows_its_threshold(engine: Engine, planted: Planted) -> None:
    """On the day, and every day after it."""
    event = planted.of("broadcast_over_threshold")
    over = found(
        engine,
        """SELECT job_name, started_at FROM broadcast b JOIN execution USING
        (started_at, application_id, attempt_id, execution_id) WHERE size_bytes > b.threshold_bytes""",
    )
    assert set(over) == {event.job_name}
    assert event.day <= over[event.job_name][0] < event.day + timedelta(days=1)
    assert len(over[event.job_name]) >= (END - event.day).days


def test_a_skew_appears(engine: Engine, planted: Planted) -> None:
    """In one shuffle, with the share of rows that was planted; its stage agrees."""
    event = planted.of("skew")
    skewed = ask(
        engine,
        """SELECT job_name, operator_key, started_at, rows_read_max::float / rows_read AS share, skew_ratio,
            (SELECT max(shuffle_read_rows_max) FROM stage s WHERE (s.application_id, s.execution_id)
                = (e.application_id, e.execution_id)) AS stage_max, rows_read_max
        FROM shuffle JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
        WHERE skew_ratio > 5 ORDER BY started_at""",
    )
    assert {(row.job_name, row.operator_key) for row in skewed} == {(event.job_name, event.operator_key)}
    assert event.day <= skewed[0].started_at < event.day + timedelta(days=1)
    assert all(row.share == pytest.approx(event.numbers["largest_share"], rel=0.06) for row in skewed)
    assert all(row.stage_max >= row.rows_read_max for row in skewed)


def test_a_job_starts_to_spill(engine: Engine, planted: Planted) -> None:
    """In the sorts of one join, in its stage and its execution."""
    event = planted.of("spill")
    spilled = found(
        engine,
        """SELECT job_name, started_at FROM joins JOIN execution USING
        (started_at, application_id, attempt_id, execution_id) WHERE spill_bytes > 0 OR disk_spilled_bytes > 0""",
    )
    assert set(spilled) == {event.job_name}
    assert event.day <= spilled[event.job_name][0] < event.day + timedelta(days=1)
    sizes = """SELECT DISTINCT operator_key, spill_bytes = disk_spilled_bytes FROM joins JOIN execution USING
        (started_at, application_id, attempt_id, execution_id) WHERE spill_bytes > 0"""
    assert ask(engine, sizes) == [(event.operator_key, True)]


def test_a_broadcast_fails_for_some_days(engine: Engine, planted: Planted) -> None:
    event = planted.of("broadcast_failed")
    failed = found(engine, "SELECT job_name, started_at FROM execution WHERE state = 'failed'")
    days = [event.day.date() + timedelta(days=n) for n in range(int(event.numbers["days"]))]
    assert {name: [at.date() for at in times] for name, times in failed.items()} == {event.job_name: days}
    assert ask(engine, "SELECT DISTINCT operator_key FROM broadcast WHERE outcome = 'failed'") == [
        (event.operator_key,)
    ]
    assert ask(engine, "SELECT DISTINCT query_shape FROM execution WHERE state = 'failed'") == [(event.query_shape,)]


def test_a_driver_is_lost(engine: Engine, planted: Planted) -> None:
    event = planted.of("driver_lost")
    lost = ask(engine, "SELECT job_name, date(started_at), ended_at, incomplete FROM execution WHERE state = 'lost'")
    assert [tuple(row)[:3] for row in lost] == [(event.job_name, event.day.date(), None)]
    assert "the driver was lost" in lost[0].incomplete[0]


def test_only_planted_jobs_become_slower(engine: Engine, planted: Planted) -> None:
    """The medians before and after the day say by how much; all other jobs stay where they are."""
    medians = """
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE started_at >= :day)
            / percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) FILTER (WHERE started_at < :day)
        FROM execution WHERE query_shape = :shape AND extract(isodow FROM started_at) < 6"""
    for kind in ("slower", "plan_changed", "data_grew"):
        event = planted.of(kind)
        (ratio,) = ask(engine, medians, day=event.day, shape=event.query_shape)[0]
        assert ratio == pytest.approx(event.numbers["time_factor"], rel=0.15), kind
    for kind in ("join_flip", "skew", "spill", "broadcast_over_threshold"):
        event = planted.of(kind)
        (ratio,) = ask(engine, medians, day=event.day, shape=event.query_shape)[0]
        assert ratio == pytest.approx(1, rel=0.15), kind
    slow = {planted.of(kind).query_shape for kind in ("slower", "plan_changed", "data_grew", "data_growth")}
    others = ask(
        engine,
        """SELECT query_shape, max(duration_ms) / percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms)
        FROM execution WHERE state = 'succeeded' GROUP BY 1""",
    )
    assert [shape for shape, ratio in others if ratio > 1.5 and shape not in slow] == []


def test_data_grows_where_it_is_planted(engine: Engine, planted: Planted) -> None:
    """By its factor a month; and by its step on the day."""
    event = planted.of("data_growth")
    sizes = ask(
        engine,
        """SELECT exp(regr_slope(ln(input_bytes), extract(epoch FROM started_at) / 86400) * 30) FROM execution
        WHERE job_name = :job""",
        job=event.job_name,
    )
    assert float(sizes[0][0]) == pytest.approx(event.numbers["factor_per_month"], rel=0.2)
    event = planted.of("data_grew")
    (step,) = ask(
        engine,
        """SELECT avg(shuffle_write_bytes) FILTER (WHERE started_at >= :day)
        / avg(shuffle_write_bytes) FILTER (WHERE started_at < :day) FROM execution WHERE query_shape = :shape""",
        day=event.day,
        shape=event.query_shape,
    )[0]
    assert float(step) == pytest.approx(event.numbers["data_factor"], rel=0.15)


# Commands


def run(url: str, *arguments: str) -> Any:
    """A command on the database."""
    return CliRunner().invoke(cli, [*arguments, "--database-url", url], catch_exceptions=False)


def url_of(engine: Engine) -> str:
    return make_url(engine.url).render_as_string(hide_password=False)


def test_the_reading_commands_read_it(engine: Engine, planted: Planted) -> None:
    event = planted.of("join_flip")
    out = run(url_of(engine), "queries", "--job", event.job_name).output
    assert f"{event.query_shape[:8]}" in out
    lines = run(url_of(engine), "joins", "--operator", event.operator_key or "", "--limit", "1000", "--json").output
    assert {json.loads(line)["strategy"] for line in lines.splitlines()} == {"BroadcastHashJoin", "SortMergeJoin"}
    assert "SortMergeJoin" in run(url_of(engine), "plan", _newest(engine, event.job_name), "--metrics").output


def _newest(engine: Engine, job: str) -> str:
    sql = "SELECT application_id, execution_id FROM execution WHERE job_name = :job ORDER BY started_at DESC LIMIT 1"
    return "/".join(str(part) for part in ask(engine, sql, job=job)[0])


@pytest.mark.matrix
def test_a_command_generates_it(tmp_path: Path) -> None:
    """It prints what was planted."""
    command = [sys.executable, "-m", "tests.history", "--data", str(tmp_path), "--days", "14", "--jobs", "14"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "orders/revenue_daily" in out
