"""The recording rules and alerts pass Prometheus' own tool, and RUNBOOK.md has a section for each alert."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from tests.commands import leaves
from tests.processes import ran

from joinsight.base import manual
from joinsight.serve.metrics_table import METRICS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RULES = ROOT / "dashboards" / "prometheus"
TEXT = "".join((RULES / name).read_text() for name in ("rules.yml", "alerts.yml"))
CASES = "".join(path.read_text() for path in sorted(HERE.glob("*_test.yml")))
RUNBOOK = (ROOT / "RUNBOOK.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)[1:]}
ALERTS = re.findall(r"- alert: (\w+)", TEXT)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (CI installs it)"
)


def promtool(*arguments: str | Path) -> None:
    """Run promtool, which must succeed."""
    ran("promtool", *arguments)


@needs_promtool
def test_the_rules_are_valid() -> None:
    """`promtool check rules`, with its linter."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", RULES / "rules.yml", RULES / "alerts.yml")


@needs_promtool
@pytest.mark.parametrize("name", ["alerts_test.yml", pytest.param("alerts_of_days_test.yml", marks=pytest.mark.matrix)])
def test_alerts_fire_and_are_silent(name: str) -> None:
    """`promtool test rules`: with the words that they are told in."""
    promtool("test", "rules", HERE / name)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_complete(alert: str) -> None:
    """It waits, has a severity, says what it is, leads to its section, and was seen to fire and to be silent."""
    rule = re.split(r"\n +- alert: |\n\n", TEXT.partition(f"- alert: {alert}\n")[2])[0]
    assert re.search(r"for: \d+m\n +labels: {severity: (critical|warning|info)}\n", rule)
    assert re.search(r"summary: .+\n +description: .+", rule)
    assert rule.rstrip().endswith(f"runbook_url: {manual.address(f'runbook#{alert.lower()}')}")
    for part in ("**Meaning.** ", "**Check.** ", "**Do.** "):
        assert part.strip() in SECTIONS[alert], part
    assert f"{alert} fires: " in CASES
    assert f"{alert} is silent: " in CASES


def test_each_section_is_of_an_alert() -> None:
    """RUNBOOK.md has the sections of all alerts, in their order, and no others."""
    assert list(SECTIONS) == ALERTS


def test_rules_ask_for_what_there_is() -> None:
    """Each metric in them is declared, or recorded by one of them; labels' values too."""
    known = {metric.name + end for metric in METRICS for end in ("", "_bucket", "_sum", "_count")}
    known |= set(re.findall(r"- record: (\S+)", TEXT))
    queries = "".join(re.findall(r"expr: .*(?:\n {10,}.*)*|printf `.{4,}?`", TEXT))
    asked = set(re.findall(r"\b(?:[a-z_]+:)?joinsight_[a-z_]+(?::\w+)?", queries))
    assert len(asked) > 15
    assert asked <= known
    values = {value for metric in METRICS for label in metric.labels for value in label.values} - {"other"}
    selected = re.findall(r'(?:state|finding|severity|fate|application|subject)=~?"([^"]+)"', queries)
    assert {each for alternatives in selected for each in alternatives.split("|")} <= values


def test_the_runbook_has_sql_that_runs(engine: Engine) -> None:
    statements = re.findall(r"```sql\n(.*?)```", RUNBOOK, flags=re.DOTALL)
    statements += re.findall(r"`(SELECT .*?)`", RUNBOOK, flags=re.DOTALL)
    assert len(statements) >= 6
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_the_runbook_has_commands_that_exist() -> None:
    shown = [shlex.split(each) for each in re.findall(r"`joinsight ([^`]+)`", RUNBOOK)]
    assert len(shown) > 15
    known_commands = leaves()
    for words in shown:
        command = known_commands.get(tuple(words[:1])) or known_commands[tuple(words[:2])]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, words
