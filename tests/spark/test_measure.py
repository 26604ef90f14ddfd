"""`joinsight.measure` in a real Spark: without a collector, nested, in threads, and when queries fail."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from tests.java import compile_java
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SUPPORTED

MEASURED = Path(__file__).with_name("measured.py")
MEASURED_BADLY = Path(__file__).with_name("measured_badly.py")
LATE = Path(__file__).with_name("jobs") / "Late.java"


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
def test_queries_are_measured(version: str, spark_run: SparkRun, tmp_path: Path) -> None:
    """Exactly those of the block or the function, whatever thread they run in, with whole numbers."""
    out = tmp_path / "out.json"
    spark_run(version, MEASURED, str(out))
    said = json.loads(out.read_text())
    merge, broadcast, hashed = "SortMergeJoin", "BroadcastHashJoin", "ShuffledHashJoin"
    assert said["strategies"] == [[broadcast, merge, hashed], [merge], [merge]]
    assert set(said["slots"]) == {2}, "the executors that were there before"
    assert said["states"] == [["succeeded", "succeeded", "failed", "succeeded"], ["failed"], []]
    assert said["error"] and said["listeners"][0] == said["listeners"][1]
    assert said["value"] == said["joined"] == 1000 and sorted(said["rows"]) == [1, 1000]
    length, duration = said["segments"]
    assert length == duration > 0 and said["versions"] > 1
    assert said["while open"] == "<measurement that has not ended>"
    assert said["too early"] == "The measurement has not ended: read it after the `with` block."
    assert said["stopped"] == "This SparkSession has been stopped."
    assert said["repr"][0] == "<measurement of 1 executions>" and said["repr"][2] == "No queries ran."
    assert "SortMergeJoin" in said["text"] and "Where the time went:" in said["text"]
    assert "data:image/svg+xml;base64," in said["html"] and "<script" not in said["html"]
    title = said["repr"][1].partition(": ")[2].rstrip(">")
    assert title in said["text"] and title in unescape(re.sub("<[^>]*>", "", said["html"]))
    assert said["compared"][2] == [2, 2] and min(map(min, said["durations"])) > 0
    assert said["rounds"] == [1, 1], "of a budget that is spent"
    text = said["compared"][0]
    assert "by key" in text and "×" in text and text.endswith(" alternating runs after a warm-up; baseline: as it is.")
    assert "<td>by key</td>" in said["compared"][1]
    assert said["shuffled"][0] == 0 < said["shuffled"][1]
    assert said["joins"] == [merge, broadcast]
    differ, nothing, one = said["refused"]
    assert differ.startswith("The results differ: 1,000 rows (hash ") and "7 rows (hash " in differ
    assert nothing == "'a' ran no query: return a DataFrame, or call an action such as count()."
    assert one.startswith("Nothing to compare")
    cells, printed = said["cells"]
    assert "1000" in printed and "ZeroDivisionError" in printed, "a cell's own output and error are shown"
    of_count, of_error = cells[-2:]
    assert "count" in of_count["text/plain"] and "data:image/svg+xml" in of_count["text/html"]
    assert of_error["text/plain"] == "No queries ran."
    assert said["attached"] == 1, "a listener of a measurement does not stand for one that reports to a collector"


@pytest.mark.spark
@pytest.mark.matrix
def test_a_measurement_never_changes_what_its_block_does(spark_run: SparkRun, tmp_path: Path) -> None:
    """Not while other threads run queries and measure, nor if it fails itself; the block's error stays, also Ctrl-C."""
    out = tmp_path / "out.json"
    spark_run.alone(NEWEST, MEASURED_BADLY, str(out), compile_java(LATE, tmp_path))
    said = json.loads(out.read_text())
    assert said["late"] == ["range"]
    assert said["at once"] == []
    assert said["over the end"] == ["running"]
    assert (said["error"]["states"], said["error"]["warnings"]) == (["failed"], []) and said["error"]["error"]
    problem = "Nothing was measured: not decoded"
    for name, error in (("not decoded", None), ("neither", "ZeroDivisionError")):
        assert (said[name]["error"], said[name]["warnings"], said[name]["states"]) == (error, [problem], problem)
    assert (said["interrupted"]["error"], said["interrupted"]["after"]) == ("KeyboardInterrupt", 7)
    assert len(said["interrupted"]["states"]) == 1, "it runs on if PySpark could not cancel it"
    assert said["interrupted within"]["error"] is None and said["interrupted within"]["states"][1:] == ["succeeded"]
    assert said["stopped"] == ["succeeded"]
    assert said["listeners"] == [1, 1]
