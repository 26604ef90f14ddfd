"""What a command started is part of it: lists show the command, totals count its time once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS
from tests.store.test_hidden import ids, jobs, page, ran, run

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Nested
from joinsight.queries import browse, reading, trends
from joinsight.queries.filters import Filters
from joinsight.serve.metrics import Metrics
from joinsight.store.writer import Writer

STREAM = (
    "sales<br/>id = 5f1c0e9a-0000-4000-8000-000000000001<br/>runId = 5f1c0e9a-0000-4000-8000-000000000002<br/>batch"
)
RUNS = [
    ran(1, 2_000, description="a query", jobs=jobs()),
    ran(2, 900, description="MERGE INTO t", nested=[Nested(n, STARTED_AT_MS) for n in (3, 4)]),
    ran(3, 300, description="finding files", root_execution_id=2, jobs=jobs(), state="failed", error="no"),
    ran(4, 400, description="rewriting files", root_execution_id=2, jobs=jobs()),
    ran(5, 700, description=f"{STREAM} = 7", nested=[Nested(6, STARTED_AT_MS)]),
    ran(6, 600, description=f"{STREAM} = 7", root_execution_id=5, jobs=jobs()),
]


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> Iterator[None]:
    """These executions are stored."""
    Writer(engine).write(RUNS)
    yield


def test_lists_show_the_command_with_what_it_started(engine: Engine) -> None:
    """One row with +2, although it ran no job itself; its number opens them; a micro-batch is what it ran."""
    assert ids(run(engine, "queries", "--json")) == [6, 2, 1]
    assert ids(run(engine, "queries", "--json", "--sort", "time")) == [1, 2, 6]
    assert "MERGE INTO t  +2" in run(engine, "queries").stdout
    shown, text = page(engine, "/")
    assert shown == [6, 2, 1]
    assert text.count(">+2</a>") == 1 and "+1</a>" not in text
    assert 'href="/?root=local-1767225600000%2F2"' in text or 'href="/?root=local-1767225600000/2"' in text
    assert run(engine, "queries").stderr == "1 more without work of their own (--show all)\n"  # the outer micro-batch


@pytest.mark.parametrize("name", ["2", "local-1767225600000/2", "local-1767225600000/-/2"])
def test_what_it_started_is_listed_by_its_name(engine: Engine, name: str) -> None:
    """By id, or with the application and attempt."""
    assert ids(run(engine, "queries", "--json", "--root", name)) == [4, 3]
    assert page(engine, f"/?root={name}")[0] == [4, 3]
    assert ids(run(engine, "queries", "--json", "--root", f"other/{name}")) == []


def test_nested_executions_are_listed_where_they_are_looked_for(engine: Engine) -> None:
    """By an option, by words of theirs, and in the order of bytes, which the command itself does not have."""
    for arguments in (["--show", "nested"], ["--show", "nested", "--sort", "size"], ["--sort", "spill"]):
        assert sorted(ids(run(engine, "queries", "--json", *arguments))) == [1, 2, 3, 4, 6]
    assert ids(run(engine, "queries", "--json", "--search", "rewriting")) == [4]
    wrong = run(engine, "queries", "--root", "last")
    assert wrong.exit_code != 0 and "Write 12 or APPLICATION/12" in str(wrong.exception)


def test_totals_count_its_time_once(engine: Engine) -> None:
    """The job's query time is that of the executions that no other started; the last one is the command."""
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with engine.connect() as connection:
        (job,) = trends.read_jobs(connection, since)
        assert (job["executions"], job["duration_ms"], job["failed"]) == (3, 2_000 + 900 + 600, 0)
        assert trends.read_failures(connection, since, 9) == []
        (trend,) = trends.read_trends(connection, [job], since)
        assert trend.duration_ms == [3_500]
        groups = browse.read_query_groups(connection, since, Filters())
        assert sum(group["executions"] for group in groups) <= 3
        assert reading.find_execution(connection, "last")[3] == 6


def test_the_metric_of_a_jobs_time_counts_it_once() -> None:
    """Prometheus gets the duration of the command, not those of what it started."""
    metrics = Metrics()
    for each in RUNS:
        metrics.finished(execution_rows(each))
    value = metrics.registry.get_sample_value("joinsight_job_execution_seconds_total", {"job_name": "test"})
    assert value == pytest.approx(2.0 + 0.9 + 0.6)
