"""`joinsight doctor --spark`: a real Spark, with settings that are right and wrong, and real collectors."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from joinsight.cli import cli, spark_check
from joinsight.cli.collector import open_collector
from joinsight.demo.runner import collector
from joinsight.driver.attach import LISTENER, PLUGIN, listener_jar
from joinsight.driver.probe import ProbeResult
from joinsight.store.database import connect

TOKEN = "a-token"


@pytest.fixture
def url(make_store: Callable[[], str]) -> Iterator[str]:
    """A collector with an empty store, which asks for a token."""
    with connect(make_store()) as engine, collector(engine, 0, [TOKEN]) as (url, _):
        yield url


@pytest.fixture
def open_url(make_store: Callable[[], str]) -> Iterator[str]:
    """A collector without tokens."""
    with connect(make_store()) as engine, collector(engine, 0, []) as (url, _):
        yield url


def doctor(url: str, *arguments: str, token: str = TOKEN, **conf: str) -> Result:
    """Run the command, with a Spark of two cores. A setting `a_b` is ``spark.a.b``."""
    command = ["doctor", "--spark", "--url", url, *arguments]
    for key, value in {"master": "local[2]", "ui_enabled": "false", **conf}.items():
        command += ["--conf", f"spark.{key.replace('_', '.')}={value}"]
    return CliRunner().invoke(cli, command, env={"JOINSIGHT_TOKEN": token})


def said(result: Result) -> list[str]:
    """Its marks and checks: ``✓ spark``."""
    return [" ".join(line.split()[:2]) for line in result.stdout.splitlines() if line.startswith(("✓", "✗"))]


def text(result: Result) -> str:
    """What it said, without line breaks."""
    return " ".join(result.stdout.split())


def attached(url: str, spool: Path) -> dict[str, str]:
    """Settings that are right."""
    return {
        "jars": str(listener_jar()),
        "extraListeners": LISTENER,
        "joinsight_url": url,
        "joinsight_spool": str(spool),
    }


@pytest.mark.spark
@pytest.mark.matrix
def test_each_check_has_a_line_and_the_query_a_page(open_url: str, tmp_path: Path) -> None:
    result = doctor("http://127.0.0.1:1", **attached(open_url, tmp_path))  # Spark's setting counts
    assert (result.exit_code, said(result)) == (
        0,
        ["✓ spark", "✓ jar", "✓ listener", "✓ task", "✓ spool", "✓ collector", "✓ query"],
    ), result.output
    assert "attached by spark.extraListeners" in text(result)
    assert "samples task time: every 50 ms, in the driver's JVM, which runs the tasks" in text(result)
    assert f"stored and read back: {open_url}/?application=local-" in text(result)
    assert list(tmp_path.rglob("*.tmp")) == []


@pytest.mark.spark
@pytest.mark.matrix
def test_the_plugin_on_a_cluster_is_named(url: str, tmp_path: Path) -> None:
    """It is named, with how often executors sample; a program gets JSON."""
    conf = {**attached(url, tmp_path), "plugins": PLUGIN, "joinsight_sampleInterval": "20ms"}
    conf |= {"master": "local-cluster[1,1,1024]", "executor_memory": "512m"}
    del conf["extraListeners"]
    result = doctor(url, "--json", **conf)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["well"] is True
    assert [each["found"] for each in found["checks"][2:4]] == [
        "attached by spark.plugins",
        "samples task time: every 20 ms, in the executors",
    ]
    assert found["checks"][-1]["found"].startswith("sent, and the driver's log has no complaint")


@pytest.mark.spark
@pytest.mark.matrix
def test_no_setting_attaches_it(url: str) -> None:
    """What is missing is named, and all that follows is checked all the same."""
    result = doctor(url, joinsight_sampelinterval="1s", joinsight_tag_team="sales")
    assert (result.exit_code, said(result)) == (
        1,
        ["✓ spark", "✗ jar", "✗ listener", "✓ task", "✗ settings", "✓ spool", "✓ collector", "✓ query"],
    ), result.output
    unknown = "exist: spark.joinsight.sampelinterval (did you mean spark.joinsight.sampleInterval?) Correct"
    assert unknown in text(result)
    assert str(listener_jar()) in result.stdout and LISTENER in result.stdout


@pytest.mark.spark
@pytest.mark.matrix
def test_the_jar_is_missing(url: str) -> None:
    """Spark does not start, and the check names the reason."""
    result = doctor(url, extraListeners=LISTENER)
    assert (result.exit_code, said(result)) == (1, ["✗ spark"])
    assert f"A setting names {LISTENER}, but no jar on the driver's class path has it." in text(result)
    result = doctor(url, master="nonsense")
    assert "Master must either be yarn or start with" in text(result)


@pytest.mark.spark
@pytest.mark.matrix
def test_settings_that_are_wrong(url: str, tmp_path: Path) -> None:
    """A listener that is off, a spool that cannot be used, a token that is not accepted."""
    conf = attached(url, tmp_path)
    result = doctor(url, **conf, joinsight_memoryLimit="much")
    assert said(result)[2] == "✗ listener"
    assert "it is off: spark.joinsight.memoryLimit=much is not a valid size" in text(result)

    (tmp_path / "file").touch()
    conf |= {"joinsight_spool": f"{tmp_path}/file", "joinsight_shutdownTimeout": "1s"}
    result = doctor(url, **conf, token="wrong")
    assert said(result)[2:] == ["✓ listener", "✓ task", "✗ spool", "✗ collector"]
    assert "does not accept this token" in text(result)


@pytest.mark.spark
@pytest.mark.matrix
def test_what_is_not_stored(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector answers, but the listener sends elsewhere: its own line of the log is shown."""
    monkeypatch.setattr(spark_check, "_STORED_SECONDS", 1)
    with socket.socket() as unused, collector(engine, 0, []) as (url, _):
        unused.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{unused.getsockname()[1]}"
        facts, log = spark_check._probe(
            [
                "spark.master=local[1]",
                f"spark.jars={listener_jar()}",
                f"spark.extraListeners={LISTENER}",
                f"spark.joinsight.url={away}",
                f"spark.joinsight.spool={tmp_path}",
                "spark.joinsight.shutdownTimeout=1s",
            ],
            away,
        )
        with open_collector(url, None, None, 10) as client:
            check = spark_check._stored(client, url, facts, log)
    assert check.found == "it is not stored 1 s after its end"
    assert f"cannot deliver documents to the collector at {away}" in str(check.remedy)


def test_a_jar_of_another_version_needs_attention() -> None:
    """It must be that of this Joinsight."""
    check = spark_check._jar(ProbeResult(jar="/x/listener.jar", jar_version="0.0.9"))
    assert check.found == "/x/listener.jar, version 0.0.9"
    assert "use the jar of the same version" in str(check.remedy)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--spark", "--since", "2h"], "--spark looks at no database"),
        (["--conf", "a=b"], "--conf needs --spark"),
        (["--spark", "--conf", "a"], "not a setting of Spark"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], error: str) -> None:
    """Nothing is started."""
    result = CliRunner().invoke(cli, ["doctor", *arguments])
    assert result.exit_code != 0
    assert error in result.output + str(result.exception)
