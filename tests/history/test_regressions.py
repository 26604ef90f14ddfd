"""Regressions in the generated history are found where they were planted, and nowhere else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine
from tests.history import END, Planted

from joinsight.queries.regressions import read_regressions
from joinsight.queries.trends import read_usual
from joinsight.tables import Row


@pytest.fixture(scope="module")
def engine(generated_engine: Engine) -> Engine:
    """A month of twenty jobs."""
    return generated_engine


@pytest.fixture(scope="module")
def planted(generated: tuple[str, Planted]) -> Planted:
    """What is in it."""
    return generated[1]


def found(engine: Engine, days: int) -> list[Row]:
    """The regressions in this number of days before the end."""
    with engine.connect() as connection:
        return read_regressions(connection, END - timedelta(days=days), {}, limit=1_000)


@pytest.mark.parametrize("days", [6, 7, 9])
def test_the_page_draws_the_same_baseline(engine: Engine, days: int) -> None:
    """The median, scatter and alarm that a query's page draws are those that a regression was found by."""
    durations = [row for row in found(engine, days) if row["measure"] == "duration_ms"]
    assert durations
    with engine.connect() as connection:
        for row in durations:
            usual = read_usual(connection, row, END - timedelta(days=days))
            assert usual == {
                "runs": row["baseline_runs_found"],
                "median": row["baseline"],
                "spread": row["baseline_spread"],
                "alarm_above": row["alarm_above"],
            }


QUERIES = {"plan_changed": "plan_changed", "slower": "same_plan", "data_grew": "data_grew"}
OPERATORS = {"skew": ("shuffle", "skew_ratio"), "spill": ("join", "spill_bytes")}


@pytest.mark.parametrize("days", [6, 7, 8, 9, 10])
def test_what_is_planted_is_found_and_nothing_else(engine: Engine, planted: Planted, days: int) -> None:
    """Each event that makes something worse, as what it is; neither those that do not nor what drifts."""
    rows = found(engine, days)
    expected = {(planted.of(event).query_shape, None, "duration_ms", kind) for event, kind in QUERIES.items()} | {
        (planted.of(event).query_shape, planted.of(event).operator_key, measure, "same_plan")
        for event, (_, measure) in OPERATORS.items()
    }
    # More data is more to shuffle, too
    grew = planted.of("data_grew").query_shape
    shuffled = {row["operator_key"] for row in rows if row["query_shape"] == grew and row["subject"] == "shuffle"}
    assert shuffled
    expected |= {(grew, key, "bytes_written", "data_grew") for key in shuffled}
    costs = [row for row in rows if row["measure"].startswith("cost_")]
    others = [row for row in rows if row not in costs]
    assert {(row["query_shape"], row["operator_key"], row["measure"], row["kind"]) for row in others} == expected
    # A join that needs shuffles instead of a broadcast costs more, even where its query takes no longer
    assert {(row["query_shape"], row["operator_key"], row["measure"]) for row in costs} == {
        (planted.of(event).query_shape, planted.of(event).operator_key, measure)
        for event in ("join_flip", "plan_changed")
        for measure in ("cost_wall_ms", "cost_task_ms")
    }
    assert len(others) == len(expected)


def test_what_grows_slowly_is_found_in_a_longer_time(engine: Engine, planted: Planted) -> None:
    """A broadcast that grows by 2 % a day is a third larger after two weeks, and its rows say why."""
    [row] = [row for row in found(engine, 14) if row["subject"] == "broadcast"]
    event = planted.of("broadcast_over_threshold")
    assert (row["query_shape"], row["operator_key"]) == (event.query_shape, event.operator_key)
    assert (row["measure"], row["kind"]) == ("size_bytes", "data_grew")


def test_they_begin_on_the_day_when_they_were_planted(engine: Engine, planted: Planted) -> None:
    """Their cost is the planted excess of each run since then."""
    rows = {(row["query_shape"], row["measure"]): row for row in found(engine, 10)}
    for event, measure in (*((event, "duration_ms") for event in QUERIES), ("spill", "spill_bytes")):
        row = rows[planted.of(event).query_shape, measure]
        assert row["first_bad_at"].date() == planted.of(event).day.date(), event
        assert row["bad_runs"] == (END.date() - planted.of(event).day.date()).days + 1
    slower = rows[planted.of("slower").query_shape, "duration_ms"]
    factor = planted.of("slower").numbers["time_factor"]
    assert slower["factor"] == pytest.approx(factor, rel=0.15)
    assert slower["cost_ms"] == pytest.approx(slower["bad_runs"] * slower["baseline"] * (factor - 1), rel=0.25)
