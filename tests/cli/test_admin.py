"""The commands that keep the collector: what `serve` starts beside the service, and which settings it refuses."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text

from joinsight.cli import cli
from joinsight.serve import server
from joinsight.store import partitions
from joinsight.store.lost import sweeping
from joinsight.store.upkeep import keeping_partitions, repeating


def serve(engine: Engine, *arguments: str) -> Result:
    """Run the command."""
    database = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["serve", "--port", "0", *arguments], env={"JOINSIGHT_DATABASE_URL": database})


def sweepers() -> list[threading.Thread]:
    """Threads that look for lost executions."""
    return [thread for thread in threading.enumerate() if thread.name == "joinsight-lost"]


def test_serve_looks_for_lost_executions(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it serves, after the time that was asked for; what is lost is counted for Prometheus."""
    seen: list[Any] = []

    def run(_: uvicorn.Server, sockets: Any = None) -> None:
        seen.append(len(sweepers()))

    def remember(*given: Any) -> Any:
        seen.append(given)
        return sweeping(*given)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr(server, "sweeping", remember)
    assert serve(engine, "--lost-after", "90s").exit_code == 0
    assert serve(engine).exit_code == 0
    (_, after, on_lost), threads, (_, standard, _), _ = seen
    assert (after, standard, threads) == (timedelta(seconds=90), timedelta(minutes=5), 1)
    assert sweepers() == []
    on_lost(3)
    page = on_lost.__self__._metrics.page()
    assert b'joinsight_executions_total{state="lost"} 3.0' in page


def test_serve_counts_regressions(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background, as long as it serves: all kinds and subjects, with 0 where there are none."""
    collectors: list[Any] = []

    def run(it: Any, sockets: Any = None) -> None:
        collectors.append(it.collector)
        while b"joinsight_regressions{" not in it.collector._metrics.page():
            time.sleep(0.01)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    assert serve(engine).exit_code == 0
    page = collectors[0]._metrics.page()
    assert b'joinsight_regressions{kind="plan_changed",subject="query"} 0.0' in page
    assert page.count(b"joinsight_regressions{") == 12
    assert not [thread for thread in threading.enumerate() if thread.name == "joinsight-regressions"]


def test_serve_makes_partitions_ahead(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it serves; what is in the default partition is shown to Prometheus. So does `joinsight db upgrade`."""
    misplaced: list[Any] = []

    def remember(engine: Engine, on_misplaced: Any) -> Any:
        misplaced.append(on_misplaced)
        return keeping_partitions(engine, on_misplaced)

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(server, "keeping_partitions", remember)
    assert serve(engine).exit_code == 0
    misplaced[0](3)
    assert b"joinsight_default_partition_executions 3.0" in misplaced[0].__self__._metrics.page()
    database = engine.url.render_as_string(hide_password=False)
    with engine.begin() as connection:
        month = partitions.month_of(connection.scalar(text("SELECT now()")))
        connection.execute(text(f"DROP TABLE IF EXISTS stage_{month}"))
    result = CliRunner().invoke(cli, ["db", "upgrade"], env={"JOINSIGHT_DATABASE_URL": database})
    assert result.exit_code == 0
    with engine.connect() as connection:
        assert connection.scalar(text(f"SELECT count(*) FROM stage_{month}")) == 0


def test_serve_prunes_if_asked_to(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a day with --keep, else never; less than a day is refused."""
    seen: list[Any] = []

    def run(_: uvicorn.Server, sockets: Any = None) -> None:
        seen.append(any(thread.name == "joinsight-prune" for thread in threading.enumerate()))

    def remember(*given: Any) -> Any:
        seen.append(given[1])
        return repeating("prune", 60, lambda: None, "")

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr(server, "pruning", remember)
    assert serve(engine, "--keep", "400d").exit_code == 0
    assert serve(engine).exit_code == 0
    assert seen == [timedelta(days=400), True, False]
    assert "at least 1d" in serve(engine, "--keep", "23h").output


@pytest.mark.parametrize("wrong", ["30s", "5", "soon", "-5m", "99999999999999w"])
def test_lost_after_is_checked(engine: Engine, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Less than listeners' own pace, or no time at all: it says what would be right."""
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    result = serve(engine, f"--lost-after={wrong}")
    assert result.exit_code == 2
    assert f"'{wrong}' is no such time; write 90s, 5m or 2h, at least 1m." in result.output
