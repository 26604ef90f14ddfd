"""Long texts are cut, and say so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.documents import planned
from tests.exactness.expected import MAX_CALL_SITE, MAX_TEXT, cut
from tests.java import LIGHT, compile_java

from joinsight.analysis.rows import execution_rows

HERE = Path(__file__).parent
TEXTS = [
    (text * times, limit)
    for text in ("x", "é", "東", "😀", "x😀")
    for limit in (MAX_CALL_SITE, MAX_TEXT)
    for times in (1, limit // 2, limit - 1, limit, limit + 1, 2 * limit, 100_000)
]


def test_characters_are_those_of_unicode(tmp_path: Path) -> None:
    """No character is split, and the length is the one that Python counts."""
    path = compile_java(HERE.parent / "listener" / "Cuts.java", tmp_path)
    encoding = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    command = ["java", *LIGHT, *encoding, "-cp", path, "io.joinsight.capture.Cuts"]
    done = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, encoding="utf-8", check=True)
    assert json.loads(done.stdout) == [cut(*each) for each in TEXTS]


def test_no_key_is_made_of_what_is_cut() -> None:
    """The same query has the same keys, however long its description is."""
    short, long = (
        execution_rows(planned("Range", description=cut(text, MAX_TEXT), call_site=cut(text, MAX_CALL_SITE)))
        for text in ("x", "y" * 20_000)
    )
    for name in ("query_shape", "plan_fingerprint"):
        assert getattr(short.execution, name) == getattr(long.execution, name)
