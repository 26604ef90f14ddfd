"""All operators, join types, partitionings, rules and settings of the newest Spark are handled, or known not to matter.

Who raises the version of PySpark learns here what is new in it.
"""

from __future__ import annotations

import re

import pyspark
import pytest
from tests import reported_settings
from tests.installed import pyspark_folder
from tests.spark.known import HANDLED, KNOWN, SETTINGS
from tests.versions import NEWEST, SUPPORTED
from tools.new_in_spark import inventory, is_known, new

from joinsight.contract.accepted_advice import SETTING
from joinsight.plan import operators, texts
from joinsight.plan.broadcastable import is_kept_from_broadcast, max_rows

pytestmark = pytest.mark.matrix
# Of the other operators, and of settings, those that may matter to joins and exchanges
_NEAR = re.compile(r"Join|Exchange|Shuffle|(?<!Query)Broadcast|Coalesce")
_SETTING = re.compile(r"join|broadcast|shuffle|adaptive|skew|exchange|coalesce|bucketing|\.cbo\.", re.IGNORECASE)
_DISPLAYED = {"SHUFFLE_MERGE": "merge"}  # all other hints print their name


@pytest.fixture(scope="module")
def all_of_newest() -> dict[str, set[str]]:
    """What the installed Spark has, by kind."""
    return inventory(pyspark_folder(NEWEST))


@pytest.fixture(scope="module")
def installed(all_of_newest: dict[str, set[str]]) -> dict[str, set[str]]:
    """That part of it that may matter to joins and exchanges."""
    about = {"other operator": _NEAR, "setting": _SETTING}
    return {
        kind: {name for name in names if about[kind].search(name)} if kind in about else names
        for kind, names in all_of_newest.items()
    }


@pytest.mark.parametrize("kind", KNOWN)
def test_nothing_is_unknown(kind: str, installed: dict[str, set[str]]) -> None:
    """What this Spark has and `known` does not name is new: handle it, or say there why it does not matter."""
    assert sorted(installed[kind] - KNOWN[kind].keys()) == [], f"new in PySpark {pyspark.__version__}"
    assert sorted(KNOWN[kind].keys() - installed[kind]) == [], f"no longer in PySpark {pyspark.__version__}"


def test_no_setting_is_unknown(installed: dict[str, set[str]]) -> None:
    """What shapes joins, exchanges and AQE is kept with each execution; the rest has a reason."""
    not_kept = {key for keys in SETTINGS.values() for key in keys}
    asked = {key for key in installed["setting"] if not reported_settings.allowed({key: ""})}
    assert sorted(asked - not_kept) == [], f"new in PySpark {pyspark.__version__}"
    assert sorted(not_kept - asked) == [], f"no longer in PySpark {pyspark.__version__}, or kept"
    assert len(installed["setting"]) > 150


def test_settings_that_are_kept_are_those_of_spark(installed: dict[str, set[str]]) -> None:
    """None of those about joins and exchanges is misspelt: each is a setting, or the beginning of one."""
    about = {entry for entry in reported_settings.ALLOWED if _SETTING.search(entry) and entry != SETTING}
    kept = {each for each in about if not any(key == each or key.startswith(each) for key in installed["setting"])}
    assert kept == set()


def test_what_is_handled_is(installed: dict[str, set[str]]) -> None:
    """Our code recognises each handled operator by its name in plans."""
    handled = {kind: sorted(name for name, how in known.items() if how == HANDLED) for kind, known in KNOWN.items()}
    joins = {name: operators.join_strategy(name.removesuffix("Exec")) for name in handled["join operator"]}
    assert joins == {name: name.removesuffix("Exec") for name in joins}
    assert set(joins.values()) == set(operators.JOIN_STRATEGIES)
    assert operators.is_broadcast("BroadcastExchange") and operators.is_shuffle("Exchange")
    for name in handled["join type"]:
        text = texts.join_text("SortMergeJoin", f"SortMergeJoin [k#1], [k#2], {name}")
        assert text is not None and text.join_type == name and name in operators.JOIN_TYPES
    for name in handled["join hint"]:
        assert is_kept_from_broadcast(f"{_DISPLAYED.get(name, name.lower())} left", "left"), name
    for name in handled["shuffle origin"]:
        assert texts.shuffle_text(f"Exchange hashpartitioning(k#1, 4), {name}, [plan_id=1]").origin == name
    for name in handled["broadcast mode"]:
        assert texts.broadcast_mode(f"BroadcastExchange {name}, [plan_id=1]") == name and max_rows(name)
    others = KNOWN["other operator"]
    assert {name for name in others if operators.join_strategy(name.removesuffix("Exec"))} == set()
    assert {name for name, how in others.items() if how.startswith("a subquery")} == {
        name for name in others if operators.is_subquery(name)
    }


def test_what_is_new_is_named(all_of_newest: dict[str, set[str]]) -> None:
    """Operators, metrics, events and settings that an older version lacks, each with whether we know it."""
    (older,) = (version for version in SUPPORTED if version.startswith("4.1."))
    added = new(inventory(pyspark_folder(older)), all_of_newest)
    for kind, name, known in (
        ("join operator", "SortMergeAsOfJoinExec", True),
        ("other operator", "BinByExec", False),
        ("metric", "projection errors", False),
        ("event", "AlterPartitionsEvent", False),
        ("setting", "spark.sql.join.asofJoin.enabled", True),
        ("setting", "spark.sql.parser.singleCharacterPipeOperator.enabled", False),
    ):
        assert name in added[kind]
        assert is_known(kind, name) == known, name
    assert is_known("metric", "data size") and is_known("event", "SparkListenerSQLExecutionStart")
    assert "data size" in all_of_newest["metric"] and "data size" not in added["metric"]
