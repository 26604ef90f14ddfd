"""Certain regressions on a real PostgreSQL: histories with a planted change, and some without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.store.test_regressions import plant

from joinsight.alarms import watch
from joinsight.store.database import connect

NIGHT = timedelta(days=1)
END = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
NOW = END + timedelta(hours=6)
MINUTE = 60_000
Alarm = dict[str, Any]


def nights(number: int, usual: float = MINUTE, seed: int = 1) -> list[float]:
    """Durations that scatter by 5 %."""
    random = Random(seed)
    return [usual * (1 + random.gauss(0, 0.05)) for _ in range(number)]


def alarms(engine: Engine) -> list[Alarm]:
    with engine.connect() as connection:
        ordered = "SELECT * FROM alarm ORDER BY job_name, measure, raised_at"
        return [dict(row) for row in connection.execute(text(ordered)).mappings()]


def ended(state: str, numbers: Sequence[int], of: int) -> Sequence[dict[str, Any]]:
    return [{"state": state if number in numbers else "succeeded"} for number in range(of)]


NOTHING = {
    "nothing": nights(90),
    "slower on mondays": [each * (2 if number % 7 == 0 else 1) for number, each in enumerate(nights(90))],
    "an outlier": [each * (9 if number == 80 else 1) for number, each in enumerate(nights(90))],
    "half a second more": [each / 120 * (2 if n > 80 else 1) for n, each in enumerate(nights(90))],
}
"""Histories in which nothing is certain."""


@pytest.fixture(scope="module")
def found(make_store: Callable[[], str]) -> Iterator[dict[str, list[Alarm]]]:
    """The alarms of each job."""
    with connect(make_store()) as engine:
        plant(engine, "step", [*nights(60), *nights(5, 1.4 * MINUTE)], end=END)
        plant(engine, "growth", [e * 1.01 ** max(0, n - 60) for n, e in enumerate(nights(85))], end=END)
        for job, durations in NOTHING.items():
            plant(engine, job, durations, end=END)
        plant(engine, "fails", nights(64), end=END, each=ended("failed", range(60, 64), of=64))
        plant(engine, "cancelled", nights(64), end=END, each=ended("cancelled", range(60, 64), of=64))
        plant(engine, "often fails", nights(64), end=END, each=ended("failed", range(0, 64, 3), of=64))
        for job, after in (("recovers", 1.0), ("stays", 1.5)):
            plant(engine, job, [*nights(40), *nights(8, 1.5 * MINUTE), *nights(30, after * MINUTE)], end=END)
        plant(engine, "edited", nights(40), end=END - 6 * NIGHT, shape="before", title="orders by day")
        plant(engine, "edited 2", nights(6, 1.5 * MINUTE), end=END, shape="after", title="orders by day")
        with engine.begin() as connection:
            connection.execute(text("UPDATE execution SET job_name = 'edited' WHERE job_name = 'edited 2'"))
        raised = watch.update(engine, NOW)
        assert watch.update(engine, NOW) == 0
        every = alarms(engine)
        assert len(every) == raised
        yield {
            job: [each for each in every if each["job_name"] == job]
            for job in [*NOTHING, *{a["job_name"] for a in every}]
        }


def test_a_step_is_certain_after_some_nights(found: dict[str, list[Alarm]]) -> None:
    """It names since when, how much, and typical runs of before and since; a second look does not raise it again."""
    [alarm] = found["step"]
    assert alarm["measure"] == "duration_ms" and alarm["kind"] == "same_plan"
    assert alarm["since"] == END - 5 * NIGHT
    assert alarm["before"] == pytest.approx(MINUTE, rel=0.03) and alarm["after"] == pytest.approx(1.4 * MINUTE, rel=0.1)
    assert alarm["evidence_weeks"] >= 2000
    assert int(alarm["baseline_application_id"].removeprefix("step-")) < 60 <= int(alarm["application_id"][5:])


@pytest.mark.parametrize("job", NOTHING)
def test_what_is_not_certain(found: dict[str, list[Alarm]], job: str) -> None:
    """Scatter, a weekly rhythm, one slow run, and what nobody would notice raise no alarm."""
    assert found[job] == []


def test_growth_of_one_percent_a_day_raises_an_alarm(found: dict[str, list[Alarm]]) -> None:
    """It is found, though each week looks like the one before."""
    assert [each["measure"] for each in found["growth"]] == ["duration_ms"]


def test_failures_and_cancelled_runs_are_series(found: dict[str, list[Alarm]]) -> None:
    """A query that never failed and now fails is certain; one that fails every third night is not."""
    [failed], [cancelled] = found["fails"], found["cancelled"]
    assert (failed["measure"], failed["kind"], failed["after"]) == ("failed", "failing", 1.0)
    assert cancelled["measure"] == "cancelled"
    assert failed["since"] == cancelled["since"] == END - 4 * NIGHT
    assert "often fails" not in found


@pytest.mark.parametrize(("job", "outcome"), [("recovers", "recovered"), ("stays", "accepted")])
def test_an_alarm_ends(found: dict[str, list[Alarm]], job: str, outcome: str) -> None:
    """It is over when the query is as fast as before, or after four weeks; then the query is watched as it is."""
    [alarm] = found[job]
    assert alarm["outcome"] == outcome
    assert alarm["closed_at"] - alarm["raised_at"] >= 5 * NIGHT


def test_an_edited_query_goes_on_from_the_one_that_it_replaces(found: dict[str, list[Alarm]]) -> None:
    """A new shape with the title of one that no longer runs has its history; its alarm says that it was edited."""
    [alarm] = found["edited"]
    assert (alarm["query_shape"], alarm["kind"], alarm["since"]) == ("after", "edited", END - 6 * NIGHT)


def test_evidence_does_not_depend_on_when_collectors_look(make_store: Callable[[], str]) -> None:
    """A running execution holds back its query, not others; then all is as in one look, also what arrived late."""
    state = "SELECT job_name, slower_weeks, hours, durations_ms, seen_until FROM watched_query ORDER BY job_name"
    seen = []
    for is_live in (True, False):
        with connect(make_store()) as engine:
            plant(engine, "job", [*nights(40), *nights(2, 1.2 * MINUTE)], end=END)
            plant(engine, "other", nights(42), end=END)
            with engine.begin() as connection:
                sooner = "UPDATE execution SET started_at = started_at - interval '22 hours'"
                connection.execute(text(f"{sooner} WHERE application_id = 'job-41'"))
            if is_live:
                with engine.begin() as connection:
                    connection.execute(text("CREATE TABLE kept AS SELECT * FROM execution WHERE job_name = 'job'"))
                    ran = "UPDATE execution SET state = 'running', duration_ms = NULL WHERE application_id = 'job-40'"
                    connection.execute(text(ran))
                for days in (20, 4, 3):
                    watch.update(engine, NOW - days * NIGHT)
                watch.update(engine, END - 2 * NIGHT + timedelta(hours=4))
                with engine.begin() as connection:
                    rows = connection.execute(text("SELECT job_name, cardinality(hours) FROM watched_query"))
                    hours = {row[0]: row[1] for row in rows}
                    assert hours == {"job": 40, "other": 41}
                    connection.execute(text("DELETE FROM execution WHERE job_name = 'job'"))
                    connection.execute(text("INSERT INTO execution SELECT * FROM kept"))
            watch.update(engine, NOW)
            with engine.connect() as connection:
                seen.append(connection.execute(text(state)).all())
    assert seen[0] == seen[1] and sum(seen[0][0][1]) > 0
