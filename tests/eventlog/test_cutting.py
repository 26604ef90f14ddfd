"""Long texts are cut alike by the listener and by a replay, and say so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.documents import planned
from tests.java import compile_java

from joinsight.eventlog.cutting import cut
from joinsight.eventlog.redaction import MAX_CALL_SITE, MAX_TEXT
from joinsight.rows import execution_rows

HERE = Path(__file__).parent
TEXTS = [
    (text * times, limit)
    for text in ("x", "é", "東", "😀", "x😀")
    for limit in (MAX_CALL_SITE, MAX_TEXT)
    for times in (1, limit // 2, limit - 1, limit, limit + 1, 2 * limit, 100_000)
]


def test_the_listener_cuts_alike(tmp_path: Path) -> None:
    """Characters are Unicode's in both, so nothing is cut in one that is not in the other, and none in its middle."""
    path = compile_java(HERE.parent / "listener" / "Cuts.java", tmp_path)
    command = ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", path, "io.joinsight.Cuts"]
    done = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, encoding="utf-8", check=True)
    assert json.loads(done.stdout) == [cut(*each) for each in TEXTS]


def test_what_is_cut_says_so() -> None:
    """Within the limit, with how much there was; all else is whole."""
    assert cut("x" * MAX_TEXT) == "x" * MAX_TEXT
    left = cut("x" * 123_456)
    assert len(left) == MAX_TEXT
    assert left == "x" * (MAX_TEXT - 34) + "… [cut: 123,456 characters in all]"


def test_no_key_is_made_of_what_is_cut() -> None:
    """The same query has the same keys, however long its description is."""
    short, long = (
        execution_rows(planned("Range", description=cut(text), call_site=cut(text, MAX_CALL_SITE)))
        for text in ("x", "y" * 20_000)
    )
    for name in ("query_shape", "plan_fingerprint"):
        assert short["execution"][0][name] == long["execution"][0][name]
