"""`joinsight.try_advice` in a real Spark: what it proposes, refuses and leaves alone. How fast anything is, is luck."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest
from tests.spark_process import JOBS, SparkRun
from tests.versions import NEWEST, SCALA_2_12

ADVICE = JOBS / "advice.py"
KEYS = ["code", "high_ms", "low_ms", "reason", "same_result", "saved_ms", "variant"]


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize(
    "version", [NEWEST, *(pytest.param(each, marks=pytest.mark.nightly) for each in (SCALA_2_12, "3.4.4"))]
)
def test_advice_is_tried_without_a_trace(version: str, spark_run: SparkRun, tmp_path: Path) -> None:
    """Variants of the findings and of plans are compared; other results, failures and writes are refused."""
    out = tmp_path / "out.json"
    spark_run(version, ADVICE, str(out))
    said = json.loads(out.read_text())
    assert all(sorted(each) == KEYS for each in said["all"])
    assert all((each["saved_ms"] or 0) <= said["baseline_ms"] for each in said["all"])
    broadcast = [
        each for each in said["all"] if each["variant"].startswith("broadcast the right side of the join on k")
    ]
    assert len(broadcast) == 1 and 'right.hint("broadcast")' in broadcast[0]["code"], said["all"]
    assert broadcast[0]["same_result"] in (True, None), "None: the budget was spent before"
    assert said["runs"] >= 2 and "variants accepted" in said["shown"] and "<table>" in said["html"]
    assert said["repr"].startswith("<advice: ")
    in_a_row = [variant for variant, _ in groupby(said["pairs"])]
    assert len(in_a_row) == len(set(in_a_row)) > 1 and len(said["pairs"]) > len(in_a_row), "one after the other"
    changed = said["changed"]
    assert changed["other"]["same_result"] is False and changed["other"]["reason"].startswith("Other result: ")
    assert changed["digit"]["same_result"] is False
    assert changed["last_digit"]["same_result"] is True
    assert changed["fails"]["reason"].startswith("It failed: ") and changed["fails"]["same_result"] is None
    assert changed["nowhere"]["reason"] == "Not tried: the operator cannot be found in the query's plan."
    salt, hint = (each for each in said["rewritten"])
    assert salt["same_result"] is True and hint["same_result"] is True, said["rewritten"]
    assert said["repartitions"] == [["RepartitionByExpression"], ["Repartition"], None]
    assert said["coalesced"] == [["Repartition"], False], "the repartition to as many stays"
    assert said["cached"] == {"same": True, "cache the aggregate with k, s, which the query makes 2 times": True}
    assert said["persistent"] == 0 and said["cached before"] in (["same"], []), "cached rows are not cached again"
    assert "joinsight_salt" in said["plans"][0] and "BroadcastHashJoin" in said["plans"][1]
    assert "is too small" in said["too small"] and "not a number of seconds above 0" in said["no budget"]
    assert said["text"] == "budget_s='10 min' is not a number of seconds above 0."
    plain, limit, random = said["why other"]
    assert "plan" not in plain and "LIMIT" in limit and "non-deterministic" in random
    assert said["nested"] == {"order": True, "value": False}
    assert said["interrupted"] == "kept", "the job of an endless query was cancelled"
    assert any(each.startswith("broadcast the right side") for each in said["finding"])
    entries = {variant.partition(" ")[0]: rest for variant, *rest in said["entries"]}
    assert entries["broadcast"] == ["SortMergeJoin", [], said["join"]]
    assert "It ran without accepted advice: broadcast the right side of the join on k" in said["without"]
    assert "accepted advice" not in said["with"]
    assert all(entry[0] == "" and entry[2] for entry in entries.values() if entry[1])
    assert said["ran"] == [True, True], "the longest query that the function runs"
    *commands, immediate, parquet, both, shown, text, number = said["refused"]
    assert (
        all("writes or runs a command" in each for each in (*commands, parquet, both, shown)) and not said["is written"]
    )
    assert version == "3.4.4" or "writes or runs a command" in immediate, "which 3.4 has not"
    assert "str is not a DataFrame" in text and "int is not a DataFrame" in number
    before, after = said["state"]
    assert before == after and before[3] == "my own" and "written" not in before[4]
