"""The file of accepted advice, and whether queries follow it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conftest import ROOT
from tests.documents import application, planned

from joinsight.analysis.rows import execution_rows
from joinsight.base.errors import ConfigurationError
from joinsight.cli import cli
from joinsight.cli.gate import CHANGED
from joinsight.contract.accepted_advice import SETTING, AcceptedAdvice, add_to_file, of_setting, read_file, to_setting
from joinsight.contract.document import Application, Execution
from joinsight.driver.attach import JoinsightWarning, attach
from joinsight.gate.runs import read_file as read_runs
from joinsight.store.database import connect
from joinsight.store.writer import Writer

TRICKY = 'a "b" \\ \n\t\x7f\x00 é 😀 '
PLAN = """
    SortMergeJoin | [k#1], [k#2], Inner | number of output rows=3
      Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=9
        Scan parquet a | [k#1]
      Exchange | hashpartitioning(k#2, 8), [plan_id=3] | shuffle bytes written=9
        Scan parquet b | [k#2]
"""
BROADCAST = PLAN.replace(
    "SortMergeJoin | [k#1], [k#2], Inner", "BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false"
)


def entry(key: str = "9cbf27f7c1d04b3e", **changes: object) -> AcceptedAdvice:
    values = {"variant": "broadcast the right side", "saved_ms": 1_800, "low_ms": 600, "high_ms": 2_600}
    return AcceptedAdvice(key, date=date(2026, 11, 25), **{**values, **changes})  # type: ignore[arg-type]


def test_a_file_gives_what_was_written(tmp_path: Path) -> None:
    """Whatever the texts hold; another run replaces the entry of the same operator and variant, and keeps its note."""
    path = tmp_path / "advice.toml"
    settings = {"spark.sql.shuffle.partitions": "8"}
    first = entry(code="a\nb", query=TRICKY, settings=settings)
    add_to_file(path, [first, entry("other")])
    assert read_file(path) == [first, entry("other")]
    path.write_text(path.read_text().replace("saved_ms = 1800", 'note = "ask Ann"\nsaved_ms = 1800', 1))
    add_to_file(path, [entry(saved_ms=7, query="\ud800")])
    assert read_file(path) == [entry(saved_ms=7, query="?", note="ask Ann"), entry("other")]


def test_a_file_that_cannot_be_used_is_named_and_stays_as_it_is(tmp_path: Path) -> None:
    """Other fields, no TOML, no file, too many entries."""
    path = tmp_path / "advice.toml"
    for text in ("advice = 3", "[[advice]]\noperator = 'x'", "not toml", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(ConfigurationError, match=r"advice\.toml"):
            add_to_file(path, [entry()])
        assert path.read_bytes() == text.encode("latin-1")
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"advice\.toml"):
        read_file(path)
    with pytest.raises(ConfigurationError, match="at most 64"):
        add_to_file(path, [entry(str(i)) for i in range(65)])
    assert not path.exists()


def test_attach_sends_it_as_a_setting(tmp_path: Path) -> None:
    """Without texts for people; a file that cannot be used leaves the job without advice, with a warning."""

    class Builder:
        def __init__(self) -> None:
            self._options: dict[str, str] = {}

        def config(self, key: str, value: str) -> None:
            self._options[key] = value

    path = tmp_path / "advice.toml"
    with pytest.warns(JoinsightWarning, match=r"advice\.toml"):
        options = attach(Builder(), advice=path, call_sites=False)._options
    assert options and SETTING not in options
    add_to_file(path, [entry(code="secret code")])
    setting = attach(Builder(), advice=path, call_sites=False)._options[SETTING]
    assert "secret" not in setting
    assert of_setting(setting) == [entry()]
    assert of_setting("[") == of_setting(None) == []


def without(url: str, *documents: Application | Execution) -> list[list[str]]:
    """The advice that executions 1 and 2 do not follow, as `joinsight verdict` prints it."""
    with connect(url) as engine:
        Writer(engine).write(list(documents))
    done = [CliRunner().invoke(cli, ["verdict", each, "--json", "--database-url", url]) for each in ("1", "2")]
    return [json.loads(each.stdout)["advice"] for each in done]


def join_key(*documents: Execution) -> str:
    [key] = {join.operator_key for document in documents for join in execution_rows(document).joins}
    assert key is not None
    return key


def test_a_join_follows_a_hint_if_it_has_another_strategy(make_store: Callable[[], str]) -> None:
    """Advice about other operators says nothing."""
    merged, broadcast = planned(PLAN, execution_id=1), planned(BROADCAST, execution_id=2)
    advice = [entry(join_key(merged, broadcast), strategy="SortMergeJoin"), entry("0" * 16, strategy="SortMergeJoin")]
    app = application(configuration={SETTING: to_setting(advice)})
    said = ["broadcast the right side, which saved 1.8 s (600 ms to 2.6 s) on 2026-11-25"]
    assert without(make_store(), app, merged, broadcast) == [said, []]


def test_settings_are_followed_if_all_are_set(make_store: Callable[[], str]) -> None:
    """In the session or in the application."""
    wanted = {"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.enabled": "true"}
    runs = [
        planned(PLAN, execution_id=i, configuration={"spark.sql.shuffle.partitions": each})
        for i, each in ((1, "200"), (2, "8"))
    ]
    advice = [entry(join_key(*runs), settings=wanted, variant="8 shuffle partitions")]
    app = application(configuration={SETTING: to_setting(advice), "spark.sql.adaptive.enabled": "true"})
    assert list(map(len, without(make_store(), app, *runs))) == [1, 0]


def test_settings_that_are_spark_s_defaults_need_not_be_set(make_store: Callable[[], str]) -> None:
    """What switched AQE off may just have been deleted."""
    off, unset = (
        planned(PLAN, execution_id=i, configuration=each)
        for i, each in ((1, {"spark.sql.adaptive.enabled": "false"}), (2, {}))
    )
    advice = [entry(join_key(off, unset), settings={"spark.sql.adaptive.enabled": "true"}, variant="AQE")]
    app = application(configuration={SETTING: to_setting(advice)})
    assert list(map(len, without(make_store(), app, off, unset))) == [1, 0]


def test_the_gate_fails_for_a_query_without_it(tmp_path: Path) -> None:
    """The newer side must follow it, also where nothing changed."""
    corpus = ROOT / "tests/corpus/spark-aqe-to-broadcast.ndjson"
    [run, *_] = read_runs(corpus)
    key, strategy = next((key, strategy) for key, strategy in run.strategies.items() if strategy)
    path = tmp_path / "advice.toml"

    def gate(**changes: object) -> tuple[int, str]:
        path.unlink(missing_ok=True)
        add_to_file(path, [entry(key, **changes)])
        done = CliRunner().invoke(cli, ["gate", str(corpus), str(corpus), "--advice", str(path)])
        return done.exit_code, done.stdout

    code, text = gate(strategy=strategy)
    assert (code, "It runs without accepted advice: broadcast the right side" in text) == (CHANGED, True)
    assert gate(strategy="another")[0] == 0
    assert gate(settings={"spark.sql.shuffle.partitions": "-1"})[0] == CHANGED
