"""`joinsight_regressions` on a real PostgreSQL finds and names planted regressions, and ignores noise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from joinsight import tables
from joinsight.present.regressions import MEASURES
from joinsight.queries.regressions import read_regressions
from joinsight.store import partitions
from joinsight.store.activity import count_regressions
from joinsight.tables import Row

END = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
SINCE = END - timedelta(days=7)
NIGHT = timedelta(days=1)
BEFORE = [60_000, 61_000, 59_000, 63_000, 58_000, 60_500, 59_500, 62_000, 60_000, 57_000] * 2
MIB = 1 << 20


def plant(
    engine: Engine,
    job: str,
    durations: Sequence[float],
    *,
    every: timedelta = NIGHT,
    end: datetime = END,
    shape: str = "0123456789abcdef",
    operator: str = "shuffle",
    operators: Sequence[Row] = (),
    each: Sequence[Row] = (),
    is_sampled: bool = True,
    **standard: Any,
) -> None:
    """Runs of a query, the last one just before `end`; `each` has columns of single runs, `operators` their rows."""
    rows: list[Row] = []
    of_operator: list[Row] = []
    for number, duration in enumerate(durations):
        started_at = end - (len(durations) - number) * every + timedelta(minutes=1)
        key: Row = {"started_at": started_at, "application_id": f"{job}-{number}", "attempt_id": "", "execution_id": 7}
        row = _execution(job, shape, round(duration)) | {"is_sampled": is_sampled} | key
        rows.append(row | standard | (each[number] if each else {}))
        if operators:
            of_operator.append({"node_id": 3, "operator_key": f"key of {operator}"} | key | operators[number])
    table = tables.metadata.tables["joins" if operator == "join" else operator]
    partitions.create(engine, {partitions.month_of(row["started_at"]) for row in rows})
    with engine.begin() as connection:
        connection.execute(insert(tables.application), [_application(row) for row in rows])
        connection.execute(insert(tables.execution), rows)
        if operators:
            connection.execute(insert(table), of_operator)


def _execution(job: str, shape: str, duration_ms: int) -> Row:
    return {
        "root_execution_id": 7,
        "job_name": job,
        "query_shape": shape,
        "plan_fingerprint": "the usual plan",
        "state": "succeeded",
        "duration_ms": duration_ms,
        "title": f"query of {job}",
        "description": "",
        "call_site": "",
        "input_bytes": 1000 * MIB,
        "is_outer": False,
        "is_adaptive": True,
        "plan_versions": 1,
        "incomplete": None,
        "origin": "live",
        "listener_id": "",
        "sequence": 1,
        "updated_at": END,
    }


def _application(of: Row) -> Row:
    return {
        "application_id": of["application_id"],
        "attempt_id": "",
        "name": of["job_name"],
        "job_name": of["job_name"],
        "state": "ended",
        "spark_version": "4.3.0",
        "origin": of["origin"],
        "listener_id": "",
        "listener_version": "0.1.0",
        "sequence": 1,
        "updated_at": END,
    }


def found(engine: Engine, job: str, since: datetime = SINCE, **thresholds: float) -> list[Row]:
    """What is found in a job."""
    arguments = "".join(f", {name} => :{name}" for name in thresholds)
    sql = f"SELECT * FROM joinsight_regressions(:since{arguments}) WHERE job_name = :job ORDER BY subject, measure"
    with engine.connect() as connection:
        rows = connection.execute(text(sql), {"since": since, "job": job, **thresholds}).mappings()
        return [dict(row) for row in rows]


def test_a_slower_query_is_found_with_its_cost(engine: Engine) -> None:
    """The third run of the window is the first slow one: since when, by how much, and which two runs to compare."""
    plant(engine, "slower", [*BEFORE, 60_000, 61_000, *[120_000, 118_000, 122_000, 120_500, 119_000]])
    [row] = found(engine, "slower")
    assert (row["subject"], row["measure"], row["kind"]) == ("query", "duration_ms", "same_plan")
    assert (row["baseline"], row["current"], row["factor"]) == (60_000, 120_000, 2.0)
    assert row["baseline_spread"] == pytest.approx(1.4826 * 1_000)
    assert (row["baseline_runs_found"], row["alarm_above"], row["data_factor"]) == (20, 78_000, 1.0)
    assert (row["first_bad_at"], row["bad_runs"]) == (END - 5 * NIGHT + timedelta(minutes=1), 5)
    assert row["cost_ms"] == 60_000 + 58_000 + 62_000 + 60_500 + 59_000
    assert row["application_id"] == "slower-22"
    assert row["baseline_application_id"] in {f"slower-{number}" for number in (0, 8, 10, 18)}
    assert row["title"] == "query of slower"


def test_one_job_or_query_can_be_asked_for(engine: Engine) -> None:
    """`job` and `shape` leave out all others; what they leave is as among all."""
    for number, (job, shape) in enumerate((("asked", "a1"), ("asked", "a2"), ("not asked", "a1"))):
        plant(engine, f"selected {number}", [*BEFORE, *[150_000] * 7], job_name=job, shape=shape)
    with engine.connect() as connection:

        def regressions(**of: str) -> list[Row]:
            return read_regressions(connection, SINCE, {}, limit=1_000, **of)

        whole = [row for row in regressions() if row["job_name"] == "asked"]
        assert {row["query_shape"] for row in whole} == {"a1", "a2"}
        assert regressions(job="asked") == whole
        assert regressions(job="asked", shape="a1") == [row for row in whole if row["query_shape"] == "a1"]
        assert {row["job_name"] for row in regressions(shape="a1")} == {"asked", "not asked"}


def test_a_slower_query_with_another_plan_has_another_plan(engine: Engine) -> None:
    """The plan takes precedence over growing data."""
    plans: list[Row] = [{}] * 20 + [{"plan_fingerprint": "another plan", "input_bytes": 2000 * MIB}] * 7
    plant(engine, "flipped", [*BEFORE, *[120_000] * 7], each=plans)
    [row] = found(engine, "flipped")
    assert row["kind"] == "plan_changed"
    assert (row["baseline_plan_fingerprint"], row["plan_fingerprint"]) == ("the usual plan", "another plan")


def test_a_plan_that_was_no_rarity_did_not_change(engine: Engine) -> None:
    """Where AQE takes one plan or another by the day, the plan explains nothing."""
    plans = [{"plan_fingerprint": f"plan {number % 3}"} for number in range(20)]
    plant(engine, "flipping", [*BEFORE, *[120_000] * 7], each=[*plans, *[{"plan_fingerprint": "plan 2"}] * 7])
    assert [row["kind"] for row in found(engine, "flipping")] == ["same_plan"]


@pytest.mark.parametrize(("factor", "kind"), [(2.0, "data_grew"), (1.7, "data_grew"), (1.6, "same_plan")])
def test_growth_of_the_data_explains_growth_of_the_time(engine: Engine, factor: float, kind: str) -> None:
    """If the input grew by two thirds as much or more."""
    job = f"data grew {factor}"
    sizes = [{"input_bytes": 1000 * MIB}] * 20 + [{"input_bytes": round(factor * 1000 * MIB)}] * 7
    plant(engine, job, [*BEFORE, *[120_000] * 7], each=sizes)
    [row] = found(engine, job)
    assert (row["kind"], round(row["data_factor"], 3)) == (kind, factor)


def test_shuffled_bytes_stand_for_an_input_that_was_not_measured(engine: Engine) -> None:
    """For example tables that are not files."""
    sizes = [{"input_bytes": 0, "shuffle_write_bytes": MIB}] * 20 + [
        {"input_bytes": 0, "shuffle_write_bytes": 2 * MIB}
    ] * 7
    plant(engine, "no files", [*BEFORE, *[120_000] * 7], each=sizes)
    assert [(row["kind"], row["data_factor"]) for row in found(engine, "no files")] == [("data_grew", 2.0)]


OPERATORS: list[tuple[str, str, Row, Row, float | None]] = [
    ("join", "spill_bytes", {"spill_bytes": 0}, {"spill_bytes": 500 * MIB}, None),
    (
        "join",
        "output_ratio",
        {"output_rows": 1_000_000, "left_rows": 1_000_000, "right_rows": 100},
        {"output_rows": 3_000_000, "left_rows": 1_000_000, "right_rows": 100},
        3.0,
    ),
    ("shuffle", "bytes_written", {"bytes_written": 100 * MIB}, {"bytes_written": 250 * MIB}, 2.5),
    ("shuffle", "skew_ratio", {"skew_ratio": 1.25}, {"skew_ratio": 10.0}, 8.0),
    ("shuffle", "fetch_wait_ms", {"fetch_wait_ms": 5_000}, {"fetch_wait_ms": 50_000}, 10.0),
    ("broadcast", "size_bytes", {"size_bytes": 6 * MIB}, {"size_bytes": 9 * MIB}, 1.5),
    (
        "broadcast",
        "driver_ms",
        {"collect_ms": 500, "build_ms": 300, "broadcast_ms": 200},
        {"collect_ms": 4_500, "build_ms": 300, "broadcast_ms": 200},
        5.0,
    ),
    *(
        (operator, measure, {measure: 20_000}, {measure: 50_000}, 2.5)
        for operator in ("join", "shuffle", "broadcast")
        for measure in ("cost_wall_ms", "cost_task_ms")
    ),
]
NEEDED: dict[str, Row] = {
    "join": {"strategy": "SortMergeJoin", "is_skew": False},
    "shuffle": {},
    "broadcast": {"outcome": "succeeded"},
}


@pytest.mark.parametrize(
    ("operator", "measure", "before", "after", "factor"), OPERATORS, ids=lambda value: str(value)[:20]
)
def test_operators_are_compared_too(
    engine: Engine, operator: str, measure: str, before: Row, after: Row, factor: float | None
) -> None:
    """Each measure of each kind of operator, also where the query takes as long as ever."""
    job = f"{operator} {measure}"
    rows = [NEEDED[operator] | row for row in [before] * 22 + [after] * 5]
    plant(engine, job, [*BEFORE, *[60_000] * 7], operator=operator, operators=rows)
    [row] = found(engine, job)
    assert (row["subject"], row["operator_key"], row["measure"]) == (operator, f"key of {operator}", measure)
    assert (row["kind"], row["factor"], row["cost_ms"]) == ("same_plan", factor, 0)
    assert (row["bad_runs"], row["first_bad_at"]) == (5, END - 5 * NIGHT + timedelta(minutes=1))


@pytest.mark.parametrize(("cost", "is_found"), [(104_000, False), (106_000, True)])
def test_an_operator_of_a_slower_query_costs_more_than_that(engine: Engine, cost: int, is_found: bool) -> None:
    """The query takes twice the time, and so do all its operators; what costs 2.6 times as much did more than that."""
    job = f"costs {cost}"
    rows: list[Row] = [NEEDED["join"] | {"cost_wall_ms": 40_000}] * 20
    rows += [NEEDED["join"] | {"cost_wall_ms": cost}] * 7
    plant(engine, job, [*BEFORE, *[120_000] * 7], operator="join", operators=rows)
    query, *joins = sorted(found(engine, job), key=lambda row: row["subject"] != "query")
    assert (query["measure"], query["factor"]) == ("duration_ms", 2.0)
    assert [(row["measure"], row["alarm_above"]) for row in joins] == [("cost_wall_ms", 104_000)] * is_found
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO baseline SELECT * FROM joinsight_baselines(:since)"), {"since": SINCE})
    stored = sorted(found(engine, job), key=lambda row: row["subject"] != "query")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM baseline"))
    assert stored == [query, *joins]


def test_costs_without_samples_are_not_compared(engine: Engine) -> None:
    """They are known in part: with the plugin, all would seem to cost more."""
    rows: list[Row] = [{"cost_wall_ms": 20_000, "cost_task_ms": 20_000}] * 20
    rows += [{"cost_wall_ms": 60_000, "cost_task_ms": 90_000}] * 7
    plant(engine, "not sampled", [*BEFORE, *[60_000] * 7], operators=rows, is_sampled=False)
    assert found(engine, "not sampled") == []


def test_each_measure_has_a_title_a_row_in_the_docs_and_a_case_above(engine: Engine) -> None:
    """The database declares them."""
    page = (Path(__file__).parents[2] / "docs/regressions.md").read_text()
    with engine.connect() as connection:
        measures = connection.execute(text("SELECT subject, measure FROM joinsight_measure_names()")).all()
    assert {(operator, measure) for operator, measure, *_ in OPERATORS} | {("query", "duration_ms")} == set(measures)
    assert [measure for _, measure in measures if f"| `{measure}`" not in page] == []
    assert {measure for _, measure in measures} | {"failed", "cancelled"} == MEASURES.keys()


def test_an_operator_costs_what_its_query_takes_longer(engine: Engine) -> None:
    """And its rows tell whether the data grew."""
    rows: list[Row] = [{"bytes_written": 100 * MIB, "rows_written": 1_000_000}] * 20
    rows += [{"bytes_written": 200 * MIB, "rows_written": 2_000_000}] * 7
    plant(engine, "costly", [*BEFORE, *[90_000] * 7], operators=rows)
    query, shuffle = found(engine, "costly")
    assert (query["subject"], query["kind"], query["cost_ms"]) == ("query", "same_plan", 7 * 30_000)
    assert (shuffle["subject"], shuffle["kind"], shuffle["cost_ms"]) == ("shuffle", "data_grew", 7 * 30_000)


def test_baselines_change_nothing(engine: Engine) -> None:
    """What is stored of the time before a window is what would be worked out: of the query and of each operator."""
    rows: list[Row] = [{"bytes_written": 100 * MIB, "rows_written": 1_000_000, "skew_ratio": 1.0}] * 22
    rows += [{"bytes_written": 250 * MIB, "rows_written": 2_000_000, "skew_ratio": 9.0}] * 5
    plant(engine, "stored", [*BEFORE, 60_000, 61_000, *[120_000] * 5], operators=rows)
    without = found(engine, "stored")
    assert [row["measure"] for row in without] == ["duration_ms", "bytes_written", "skew_ratio"]
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO baseline SELECT * FROM joinsight_baselines(:since)"), {"since": SINCE})
        stored = text("SELECT measure, runs, median FROM baseline WHERE job_name = 'stored' ORDER BY measure")
        assert connection.execute(stored).all() == [
            ("bytes_written", 20, 100 * MIB),
            ("duration_ms", 20, 60_000),
            ("skew_ratio", 20, 1),
        ]
        connection.commit()
        assert found(engine, "stored") == without
        connection.execute(text("UPDATE baseline SET median = 1e12 WHERE measure = 'duration_ms'"))
        connection.commit()
        assert [row["measure"] for row in found(engine, "stored")] == ["bytes_written", "skew_ratio"]
        assert found(engine, "stored", baseline_runs=19)[0]["measure"] == "duration_ms"
        connection.execute(text("DELETE FROM baseline"))
        connection.commit()


QUIET = {
    "as ever": [*BEFORE, *[60_000] * 7],
    "faster": [*BEFORE, *[20_000] * 7],
    "a little slower": [*BEFORE, *[77_000] * 7],
    "much slower, but by half a second": [*[300] * 20, *[800] * 7],
    "a few outliers": [*BEFORE, 60_000, 900_000, 61_000, 60_000, 58_000, 900_000, 60_000],
    "recovered": [*BEFORE, *[180_000] * 4, *[60_000] * 3],
    "few runs before": [60_000] * 4 + [180_000] * 7,
    "few runs now": [*BEFORE, *[60_000] * 5, *[180_000] * 2],
    "it scattered before": [*[20_000, 100_000, 40_000, 80_000, 60_000] * 4, *[100_000] * 7],
}


@pytest.mark.parametrize("what", QUIET)
def test_small_or_uncertain_differences_raise_no_alarm(engine: Engine, what: str) -> None:
    """Unchanged, small, single, recovered or uncertain differences are not reported."""
    plant(engine, what, QUIET[what])
    assert found(engine, what) == []


def test_three_of_the_last_five_runs_are_enough(engine: Engine) -> None:
    """A query that became slow two days ago is not hidden by the good days of the window."""
    plant(engine, "lately", [*BEFORE, *[60_000] * 4, *[120_000] * 3])
    [row] = found(engine, "lately")
    assert (row["bad_runs"], row["first_bad_at"]) == (3, END - 3 * NIGHT + timedelta(minutes=1))


def test_an_outlier_before_does_not_move_the_beginning(engine: Engine) -> None:
    """The beginning is where slow runs prevail from, not the first slow run ever."""
    plant(engine, "outlier", [*BEFORE, 150_000, 60_000, 61_000, 120_000, 120_000, 61_000, 120_000, 120_000, 120_000])
    [row] = found(engine, "outlier")
    assert (row["bad_runs"], row["first_bad_at"]) == (6, END - 6 * NIGHT + timedelta(minutes=1))


NOT_COUNTED: list[Row] = [
    {"incomplete": ["3 of 9 task ends of stage 4 were not seen"]},
    {"state": "failed"},
    {"state": "lost", "duration_ms": None},
    {"origin": "event_log"},
    {"query_shape": "another shape"},
]


@pytest.mark.parametrize("changed", NOT_COUNTED, ids=lambda row: next(iter(row)))
def test_only_what_can_be_compared_counts(engine: Engine, changed: Row) -> None:
    """Slow runs that are incomplete, did not succeed, or are of another origin or query, say nothing."""
    job = f"not counted: {next(iter(changed.items()))}"
    plant(engine, job, [*BEFORE, *[60_000] * 3, *[180_000] * 4], each=[{}] * 23 + [changed] * 4)
    assert found(engine, job) == []


def test_the_same_query_in_two_jobs_has_two_baselines(engine: Engine) -> None:
    """A job on more data is no regression of the other."""
    shape = "the same in both"
    plant(engine, "small", [*BEFORE, *[60_000] * 7], shape=shape)
    plant(engine, "large", [duration * 10 for duration in [*BEFORE, *[60_000] * 7]], shape=shape)
    assert found(engine, "small") == found(engine, "large") == []


def test_a_query_that_runs_often_is_compared_with_a_whole_week(engine: Engine) -> None:
    """Each hour, slower by day and at the weekdays: neither the hour nor the day is an alarm; twice the time is one."""
    start = END - timedelta(days=16)

    def duration(hour: int) -> float:
        at = start + timedelta(hours=hour)
        return 60_000 * (2 if 8 <= at.hour < 18 else 1) * (0.5 if at.weekday() >= 5 else 1)

    hours = range(16 * 24)
    usual = [duration(hour) for hour in hours]
    plant(engine, "hourly", usual, every=timedelta(hours=1))
    for days in range(1, 8):
        assert found(engine, "hourly", END - timedelta(days=days)) == []
    slow = [value * (4 if hour >= hours[-1] - 40 else 1) for hour, value in zip(hours, usual, strict=True)]
    plant(engine, "hourly and slow", slow, every=timedelta(hours=1), shape="other")
    [row] = found(engine, "hourly and slow")
    assert abs(row["bad_runs"] - 41) <= 8


def test_thresholds_can_be_set(engine: Engine) -> None:
    """Each of them, upwards and downwards."""
    plant(engine, "set", [*BEFORE[:12], *[72_000] * 7])
    assert found(engine, "set") == []
    assert len(found(engine, "set", minimum_change=0.1)) == 1
    assert found(engine, "set", minimum_change=0.1, mads=10) == []
    assert found(engine, "set", minimum_change=0.1, minimum_runs=13) == []
    assert found(engine, "set", minimum_change=0.1, baseline_runs=4) == []


@pytest.mark.parametrize(
    ("sigma", "seed", "alarms"),
    [
        (0.1, 1, 0),
        *(
            pytest.param(*each, marks=pytest.mark.matrix)
            for each in ((0.1, 2, 0), (0.2, 3, 1), (0.2, 4, 1), (0.2, 5, 1))
        ),
    ],
)
def test_noise_raises_no_alarm(engine: Engine, sigma: float, seed: int, alarms: int) -> None:
    """Log-normal noise in each of 1,600 measures, of 200 queries with 40 runs: at 0.2, one in 1,600 at most."""
    job = f"noise {sigma} {seed}"
    with engine.begin() as connection:
        partitions.create(engine, {partitions.month_of(END - timedelta(days=days)) for days in range(0, 50, 10)})
        connection.execute(text("SELECT setseed(:seed)"), {"seed": seed / 10})
        for statement in NOISE:
            connection.execute(text(statement), {"end": END, "job": job, "sigma": sigma})
    assert len(found(engine, job)) <= alarms
    if sigma > 0.1:
        assert len(found(engine, job, minimum_change=0.15, mads=0)) > 50, "with lower thresholds noise is an alarm"


_NOISE = "exp(:sigma * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()))"
_KEY = "started_at, application_id, attempt_id, execution_id"
NOISE = [
    f"""
    INSERT INTO execution ({_KEY}, root_execution_id, job_name, query_shape, plan_fingerprint, state, duration_ms,
        description, call_site, input_bytes, is_sampled, is_outer, is_adaptive, plan_versions, origin, listener_id,
        sequence, updated_at)
    SELECT CAST(:end AS timestamptz) - run * interval '12 hours', CAST(:job AS text) || shape, '', run, run, :job,
        :job || shape, 'plan', 'succeeded', 600000 * {_NOISE}, '', '', 1e9 * {_NOISE}, false, false, true, 1, 'live',
        '', 1, now()
    FROM generate_series(1, 200) shape, generate_series(1, 40) run""",
    f"""
    INSERT INTO shuffle ({_KEY}, node_id, operator_key, bytes_written, rows_written, skew_ratio, fetch_wait_ms)
    SELECT {_KEY}, 1, 'noise', 1e10 * {_NOISE}, 1e7, 4 * {_NOISE}, 1e6 * {_NOISE}
    FROM execution WHERE job_name = :job""",
    f"""
    INSERT INTO joins ({_KEY}, node_id, operator_key, strategy, is_skew, spill_bytes, output_rows, left_rows)
    SELECT {_KEY}, 2, 'noise of join', 'SortMergeJoin', false, 1e10 * {_NOISE}, 1e8 * {_NOISE}, 1e7
    FROM execution WHERE job_name = :job""",
    f"""
    INSERT INTO broadcast ({_KEY}, node_id, operator_key, outcome, size_bytes, rows, collect_ms, build_ms, broadcast_ms)
    SELECT {_KEY}, 3, 'noise of broadcast', 'succeeded', 1e8 * {_NOISE}, 1e5, 1e5 * {_NOISE}, 0, 0
    FROM execution WHERE job_name = :job""",
]


def test_the_view_is_the_function_over_a_week(engine: Engine) -> None:
    """With the same columns, each of which is commented."""
    random = Random(1)
    now = datetime.now(timezone.utc)
    plant(engine, "viewed", [60_000 * random.uniform(0.9, 1.1) * (3 if n >= 20 else 1) for n in range(26)], end=now)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM v_regressions WHERE job_name = 'viewed'")).mappings().all()
        of_function = "SELECT * FROM joinsight_regressions(now() - interval '7 days') WHERE job_name = 'viewed'"
        assert rows == connection.execute(text(of_function)).mappings().all()
        assert len(rows) == 1
        uncommented = """SELECT attname FROM pg_attribute WHERE attrelid = CAST('v_regressions' AS regclass)
            AND attnum > 0 AND col_description(attrelid, attnum) IS NULL"""
        assert connection.execute(text(uncommented)).all() == []


def test_they_are_counted(engine: Engine) -> None:
    """By kind and subject."""
    now = datetime.now(timezone.utc)
    plant(engine, "counted", [*BEFORE, *[150_000] * 7], end=now, shape="counted")
    with engine.connect() as connection:
        number = connection.scalar(
            text("SELECT count(*) FROM v_regressions WHERE subject = 'query' AND kind = 'same_plan'")
        )
    assert number >= 1
    assert count_regressions(engine)["same_plan", "query"] == number
