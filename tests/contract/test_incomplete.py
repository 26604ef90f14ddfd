"""Reasons of incompleteness are one table: of collector, listener, replay, docs and migrations."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from joinsight.contract.incomplete import APPROXIMATED, LOST, TEXTS, generic_text, reason
from joinsight.driver.attach import listener_jar

ROOT = Path(__file__).parents[2]
JAVA = ROOT / "listener/src/io/joinsight"
PYTHON = ROOT / "collector/joinsight"


def test_the_listener_has_the_same_table() -> None:
    """Its jar carries the file that the collector reads."""
    with zipfile.ZipFile(listener_jar()) as jar:
        assert jar.read("io/joinsight/capture/incomplete.json") == (PYTHON / "contract/incomplete.json").read_bytes()


def test_every_code_is_used_and_known() -> None:
    """What the listener and the collector name is in the table, filled with what its sentence asks for."""
    used = set()
    for path, pattern in (
        *((path, r'new Incomplete\("(\w+)"(.*?)\)\)?;') for path in JAVA.rglob("*.java")),
        *((path, r'\breason\("(\w+)"(.*?)\)') for path in PYTHON.rglob("*.py")),
    ):
        for code, values in re.findall(pattern, path.read_text()):
            named = set(re.findall(r'"(\w+)"' if path.suffix == ".java" else r"(\w+)=", values))
            assert named == set(re.findall(r"\{(\w+)\}", TEXTS[code])), (path, code)
            used.add(code)
    assert used == TEXTS.keys()
    assert {APPROXIMATED, *LOST} <= used


def test_every_code_is_documented() -> None:
    """docs/guarantees.md says what each means."""
    section = (ROOT / "docs/guarantees.md").read_text().partition("## Completeness")[2].partition("\n## ")[0]
    documented = {code for cell in re.findall(r"^\| (`\w.*?) \|", section, re.MULTILINE) for code in cell.split(", ")}
    assert documented == {f"`{code}`" for code in TEXTS}


def test_sentences_name_one_execution_or_any() -> None:
    assert reason("task_ends_not_seen", missing=3, tasks=9, stage=4).text == "3 of 9 task ends of stage 4 were not seen"
    assert generic_text("task_ends_not_seen") == "... of ... task ends of stage ... were not seen"
    assert generic_text("a sentence of an older listener") == "a sentence of an older listener"


def test_no_code_looks_into_our_sentences() -> None:
    """Modules use the codes: none compares, searches or truncates these texts."""
    stems = [re.escape(part) for text in TEXTS.values() for part in re.split(r"\{\w+\}", text) if len(part) > 20]
    for path in [*PYTHON.rglob("*.py"), *JAVA.rglob("*.java"), *(ROOT / "dashboards").rglob("*.py")]:
        for stem in stems:
            assert not re.search(stem, path.read_text()), (path, stem)


@pytest.mark.parametrize("code", sorted(TEXTS))
def test_codes_are_plain(code: str) -> None:
    """Codes are plain words, because SQL and JSON contain them."""
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
