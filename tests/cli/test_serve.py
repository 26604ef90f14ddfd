"""The commands that manage the collector: what `serve` starts with the service, and which settings it rejects."""

from __future__ import annotations

import re
import threading
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text
from tests.serve.real import until

from joinsight.cli import cli
from joinsight.store import partitions


def serve(engine: Engine, *arguments: str) -> Result:
    """Run the command."""
    database = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["serve", "--port", "0", *arguments], env={"JOINSIGHT_DATABASE_URL": database})


def background_threads() -> set[str]:
    """Names of the tasks that run."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("joinsight-")}


def test_serve_runs_all_background_tasks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While serving, all gauges are present, with 0 as default; pruning only with --keep. It prints the address."""
    seen: list[set[str]] = []

    def run(it: Any, sockets: Any = None) -> None:
        until(lambda: b"joinsight_regressions{" in it.collector.metrics.page(), "regressions are counted")
        seen.append(background_threads())
        it.when_ready()
        page = it.collector.metrics.page()
        assert b'joinsight_regressions{kind="plan_changed",subject="query"} 0.0' in page
        assert page.count(b"joinsight_regressions{") == 12

    monkeypatch.setattr(uvicorn.Server, "run", run)
    served = serve(engine)
    assert served.exit_code == 0
    assert re.search(r"^Open http://127\.0\.0\.1:\d+$", served.stdout, re.MULTILINE)
    assert serve(engine, "--keep", "30000d").exit_code == 0
    assert background_threads() == set()
    names = ("lost", "partitions", "activity", "regressions", "baselines", "alarms", "files")
    always = {f"joinsight-{name}" for name in names}
    assert seen == [always, always | {"joinsight-prune"}]


def test_background_tasks_have_their_options_or_defaults(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """--lost-after and --keep, else their defaults; less than a day is not kept."""
    seen: list[Any] = []

    def remember(engine: Engine, metrics: Any, *settings: Any) -> Any:
        seen.append(settings[:2])
        return nullcontext()

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr("joinsight.cli.serve.background_tasks", remember)
    assert serve(engine, "--lost-after", "90s", "--keep", "400d").exit_code == 0
    assert serve(engine).exit_code == 0
    assert seen == [(timedelta(seconds=90), timedelta(days=400)), (timedelta(minutes=5), None)]
    assert "at least 1d" in serve(engine, "--keep", "23h").output


def test_upgrade_creates_partitions(engine: Engine) -> None:
    """An upgrade creates the partitions of the coming months."""
    database = engine.url.render_as_string(hide_password=False)
    with engine.begin() as connection:
        month = partitions.month_of(connection.scalar(text("SELECT now()")))
        connection.execute(text(f"DROP TABLE IF EXISTS stage_{month}"))
    result = CliRunner().invoke(cli, ["db", "upgrade"], env={"JOINSIGHT_DATABASE_URL": database})
    assert result.exit_code == 0
    with engine.connect() as connection:
        assert connection.scalar(text(f"SELECT count(*) FROM stage_{month}")) == 0


@pytest.mark.parametrize("wrong", ["30s", "5", "soon", "-5m", "99999999999999w"])
def test_lost_after_is_checked(engine: Engine, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """Less than listeners' own pace, or no time at all: it says what would be right."""
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    result = serve(engine, f"--lost-after={wrong}")
    assert result.exit_code == 2
    assert f"'{wrong}' is not a valid duration; write 90s, 5m or 2h, at least 1m." in result.output
