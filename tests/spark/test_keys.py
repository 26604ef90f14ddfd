"""`measured.keys` in a real Spark: planted skews are named with their rows, and nothing else learns the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.spark_process import JOBS, SparkRun
from tests.versions import NEWEST, OLDER_AT_NIGHT

KEYS = JOBS / "keys.py"
SECRET = "cfcd208495d565ef66e7dff9f98764da"
"""The MD5 of 0: a value that the query computes, so that it is in no plan."""
HOTTEST: Mapping[str, tuple[str, dict[str, str], int]] = {
    "several": ("left", {"several": "8"}, 801),
    "null": ("left", {"missing": "None"}, 1000),
    "composite": ("left", {"k": "7", "day": "2026-01-31"}, 800),
    "filtered": ("left", {"k": "7"}, 800),
    "after a udf": ("left", {"k": "14"}, 804),
    "build side": ("right", {"k": "7"}, 804),
    "output only": ("left", {"k": "1"}, 30),
    "window": ("input", {"k": "7"}, 804),
    "latest of each": ("input", {"k": "7"}, 804),
    "array": ("input", {"pair": "[7, None]"}, 804),
    "computed": ("left", {"computed": "7"}, 804),
    "group by computed": ("input", {"name": "N7"}, 804),
}
OTHERS: Mapping[str, tuple[str, dict[str, str], int]] = {
    "one key": ("left", {"k": "7"}, 804),
    "null safe": ("left", {"missing": "None"}, 1000),
    "empty text": ("left", {"text": ""}, 1000),
    "date": ("left", {"day": "2026-01-31"}, 800),
    "decimal": ("left", {"price": "1.50"}, 800),
    "cast": ("left", {"k": "7"}, 804),
    "expression": ("left", {"(k + 1)": "8"}, 804),
    "right side": ("right", {"k": "7"}, 804),
    "condition": ("left", {"k": "7"}, 804),
    "crowded": ("left", {"k": "7"}, 8000),
    "semi": ("left", {"k": "7"}, 804),
    "repartition": ("input", {"k": "7"}, 804),
    "group": ("input", {"k": "7"}, 804),
    "distinct aggregate": ("input", {"k": "7"}, 804),
    "range": ("input", {"k": "7"}, 804),
    "without AQE": ("left", {"k": "7"}, 804),
    "split": ("left", {"k": "7"}, 804),
    "subquery": ("left", {"k": "7"}, 804),
    "union": ("left", {"k": "7"}, 1608),
    "cached": ("left", {"k": "7"}, 804),
    "struct": ("input", {"s": "{'n': 7, 'day': '2020-01-01'}"}, 804),
    "binary": ("input", {"b": "b'7'"}, 804),
    "interval": ("input", {"i": "INTERVAL '7-0' YEAR TO MONTH"}, 804),
    "old date": ("input", {"d": "0000-12-25"}, 804),
    "rebalance": ("input", {"k": "7"}, 804),
    "late time": ("input", {"t": "+10000-01-07 00:00:00"}, 804),
}


def asked(version: str, spark_run: SparkRun, tmp_path: Path, *arguments: str) -> Any:
    out = tmp_path / "out.json"
    done = spark_run(version, KEYS, str(out), *arguments)
    return json.loads(out.read_text()), done.stdout + done.stderr


def check(said: Any, hottest: Mapping[str, tuple[str, dict[str, str], int]]) -> None:
    for case, (side, key, rows) in hottest.items():
        found = said[case]
        assert isinstance(found, dict), (case, found)
        first = found["keys"][0]
        assert (first["side"], first["key"], first["rows"]) == (side, key, rows), case
        assert first["share"] == rows / found["rows"][side], case
        numbers = [each["rows"] for each in found["keys"]]
        assert numbers == sorted(numbers, reverse=True), case


@pytest.mark.spark
@pytest.mark.matrix
def test_the_hottest_keys_are_named(spark_run: SparkRun, tmp_path: Path) -> None:
    """With exact rows, by side, of rows that filters and projections left; nobody but the caller sees values."""
    said, logged = asked(NEWEST, spark_run, tmp_path)
    check(said, HOTTEST)
    several = said["several"]["keys"]
    assert [each["key"]["several"] for each in several[:2]] == ["8", "9"] and several[1]["rows"] == 601
    made = said["output only"]["output"][0]
    assert (made["key"], made["left_rows"], made["right_rows"], made["rows"]) == ({"k": "1"}, 30, 30, 900)
    assert 0.4 < made["share"] < 0.5
    sampled = said["sampled"]
    first, second = sampled["keys"][:2]
    assert (first["side"], first["key"], second["key"]) == ("left", {"k": SECRET}, {"k": "None"})
    assert abs(first["share"] - 0.39) < 0.01 and abs(first["rows"] - 234_000) < 6_000
    made = sampled["output"][0]
    assert (made["key"], made["left_rows"], made["right_rows"]) == ({"k": SECRET}, first["rows"], 1)
    assert sampled["rows"] == {"left": 600_000, "right": 2000} and "estimated from a sample" in sampled["notes"][0]
    assert said["window"]["output"] == []
    mixed = {str(each["key"]): each["rows"] for each in said["mixed"]["output"]}
    assert mixed == {"{'x': '7', 'y': 'None'}": 10_000, "{'x': 'None', 'y': '1'}": 1010}, "NULL equals NULL in y only"
    assert "NULL is the most frequent key of the left side" in said["null"]["notes"][0]
    assert "Python functions make these rows" in said["after a udf"]["notes"][0]
    assert "missing = NULL" in said["null"]["text"] and "50.0 %" in said["null"]["text"]
    assert "width:50.0%" in said["null"]["html"]
    left, right = said["exchanges"]
    (join,) = said["joins"]
    nodes = said["nodes"]
    assert nodes[str(join)] == "the join on k ['left', 'right']"
    assert (nodes[str(left)], nodes[str(right)]) == ("the shuffle by k ['left']", "the shuffle by k ['right']")
    assert "the shuffle by region ['input']" in nodes.values()
    assert said["no such node"].endswith("has no node 10000 in its final plan.")
    assert said["no key"] == "No execution has a join or shuffle with keys."
    assert said["a scan"].endswith("is not a join or shuffle with keys.")
    assert said["settings"] == ["true", "false"], "the session's are as before"
    assert "the hottest keys" in said["plans"] and SECRET not in said["plans"] and SECRET not in logged


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("version", OLDER_AT_NIGHT)
def test_the_hottest_keys_are_named_in_all_versions(version: str, spark_run: SparkRun, tmp_path: Path) -> None:
    """All types of keys, joins, consumers of shuffles, and settings of AQE."""
    said, _ = asked(version, spark_run, tmp_path, "all")
    check(said, {**HOTTEST, **OTHERS})
    assert said["null removed"]["rows"] == {"left": 1000, "right": 1000}, "an inner join has no NULL keys"
    assert said["random"]["keys"][0]["share"] > 0.9 and "non-deterministic" in said["random"]["notes"][0]
    assert "at most these rows" in said["condition"]["notes"][0] and said["condition"]["output"][0]["share"] is None
    filtered = said["below a filter"]["keys"][0]
    assert filtered["key"] == {"k": "7"} and abs(filtered["rows"] - 120_000) < 3000, "not of the rows before the filter"
    assert 300_000 < said["calls"] < 400_000, "of the query and a sixth of it: its function runs on the sample"
    assert said["not in"]["keys"][0]["rows"] == said["in"]["keys"][0]["rows"] == 804
    assert said["nested"]["keys"][0]["rows"] in (801, 804), "either of the two joins"
    if version >= "4":
        check(said, {"collation": ("left", {"c": "Hot"}, 1200)})
    if version == NEWEST:
        (first, *_) = said["map"]["keys"]
        assert [*first["key"].values()] == ["{'a': 1, 'b': 7}"] and first["rows"] == 804
