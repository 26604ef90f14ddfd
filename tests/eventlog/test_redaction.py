"""Secrets in a log's texts are masked as the listener masks them in the driver."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.listener.test_redaction import HARMLESS, MASK, SECRETS, hostile

from joinsight.document import Execution
from joinsight.eventlog import events
from joinsight.eventlog import redaction as rules
from joinsight.eventlog.fold import Fold
from joinsight.eventlog.owned import owned
from joinsight.eventlog.piece import Item
from joinsight.eventlog.redaction import Redaction


@pytest.mark.parametrize(("text", "expected"), SECRETS.items())
def test_secrets_are_masked(text: str, expected: str) -> None:
    """What the listener masks is masked, and nothing around it."""
    assert Redaction({}).text(text) == expected


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Names that only sound secret stay."""
    assert Redaction({}).text(text) == text


def test_settings_are_masked_by_key_or_value() -> None:
    """As Spark does it, by the application's own pattern where the log tells it."""
    redaction = Redaction({"spark.redaction.regex": "^b$|har"})
    assert redaction.properties({"a": "x", "b": "y", "c": "charm"}) == {"a": "x", "b": MASK, "c": MASK}


def test_a_pattern_that_is_not_known_masks_everything() -> None:
    """Spark masks patterns that look secret in the log itself, and Java knows patterns that Python does not."""
    for pattern in (MASK, "(?<x", "[", "(?<=a)b", "[a-z&&[^b]]", "[[:alpha:]]"):
        assert Redaction({"spark.sql.redaction.string.regex": pattern}).text("a text") == MASK
        assert Redaction({}).of_session({"spark.sql.redaction.string.regex": pattern}).text("a text") == MASK
    assert Redaction({"spark.redaction.string.regex": r"\d{4}"}).text("pin 1234") == f"pin {MASK}"
    assert Redaction({"spark.redaction.regex": MASK}).text("a text") == "a text"


_PARTS = (
    r"pass|word|wd|PWD|secret|Token|credential|author|ization|sig|nature|sas|access|auth|Auth|master|key|.|_|-|a|url"
)


@given(
    st.lists(st.sampled_from([*_PARTS.split("|"), "crypt", " ", "\u017fecret", "to\u212aen"]), max_size=5).map("".join)
)
def test_what_is_sorted_out_quickly_is_what_no_pattern_finds(text: str) -> None:
    """Of names and of whole texts: what a stem sorts out no pattern would have found."""
    patterns = [*(pattern for _, pattern in rules._NAMES), rules._STANDARD_PROPERTIES, rules._STANDARD_OPTIONS]
    assert Redaction({})._is_secret(text) == any(pattern.search(text) for pattern in patterns)
    may_name = any(
        pattern.search(word) for word in re.findall(r"[\w.\-]+", text) for pattern in [*patterns, rules._CIPHER]
    )
    assert Redaction({})._may_name(text) >= may_name


@pytest.mark.parametrize(("stems", "pattern"), [*rules._SHAPES, *rules._NAMES], ids=lambda rule: str(rule)[:60])
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_of_the_stems_is_in_all_that_a_pattern_finds(
    stems: list[str], pattern: re.Pattern[str], data: st.DataObject
) -> None:
    """Texts are made from the pattern, and its stems are looked for in small letters."""
    m = pattern.search(data.draw(st.from_regex(pattern, alphabet=st.characters(max_codepoint=127))))
    assert m and any(stem in m[0].lower() for stem in stems)


PREFIXES = (
    "AIza ya29. GOCSPX- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glcbt- glptt- glsa_ glc_"
    " hvs. hvb. hvr. sk- sk_live_"
    " rk_test_ whsec_ xoxb- xoxe. xapp- dapi dkea hf_ npm_ pypi- SG. dop_v1_ doo_v1_ dckr_pat_ ATATT3"
    " shpat_ shpss_ sq0atp- lin_api_ NRAK- nvapi- pscale_tkn_ AGE-SECRET-KEY-1 gsk_ tskey-"
)


@pytest.mark.parametrize("prefix", PREFIXES.split())
def test_keys_of_services_are_known_by_their_prefix(prefix: str) -> None:
    """Wherever they stand; a word that only begins so stays."""
    assert Redaction({}).text(f"x {prefix}hunter2Hunter2hunter2, y") == f"x {MASK}, y"
    assert Redaction({}).text(f"x{prefix}hunter2Hunter2hunter2") == f"x{prefix}hunter2Hunter2hunter2"
    assert Redaction({}).text(f"a {prefix}some-long-name") == f"a {prefix}some-long-name"


def lines_executed(text: str) -> int:
    """Lines of the program that masking takes: the work of its loops."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != rules.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        Redaction({}).text(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("number", range(len(hostile(1))), ids=[text[:20] for text in hostile(20)])
def test_work_grows_with_the_text(number: int) -> None:
    """Four times the text are four times the work, not sixteen times, whatever stands in it."""
    short, long = lines_executed(hostile(4_000)[number]), lines_executed(hostile(16_000)[number])
    assert long <= 6 * short + 500  # what looks ahead has less to look through where the text ends


def test_texts_that_come_again_are_masked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when more came than are remembered."""
    monkeypatch.setattr(rules, "_REMEMBERED", 2)
    redaction = Redaction({})
    for _ in range(2):
        for text in ("password=a", "a", "b", "token=c"):
            assert redaction.text(text) == text.split("=")[0] + ("=" + MASK if "=" in text else "")


@pytest.mark.parametrize(
    "pattern", ["(a|b)*c", "(a+)+c", "(a|a)*c", "(.*)*c", "((a{0,50}){0,50}){0,50}c", "(a?){99}a{99}c"]
)
def test_patterns_of_a_logs_owner_end(pattern: str) -> None:
    """They hold nothing up: RE2 does not backtrack, and refuses what grows too large, which masks all texts whole."""
    redaction = Redaction({"spark.redaction.regex": pattern, "spark.redaction.string.regex": pattern})
    for text in ("a" * 200_000, "ab" * 100_000, "a" * 40):
        assert redaction.text(text) in (text, MASK)
        assert redaction.properties({"k": text})["k"] in (text, MASK)


def test_a_pattern_that_takes_too_long_masks_the_text() -> None:
    """And is not tried any more when it has done so ten times."""
    redaction = Redaction({"spark.redaction.string.regex": "a.*b|a"})
    assert redaction.text("a" * 100) == MASK * 100
    for length in range(20):
        assert redaction.text("a" * (50_000 + length)) == MASK
    assert redaction.text("a") == MASK


def test_without_re2_all_texts_of_an_owner_with_patterns_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard patterns need no RE2."""
    monkeypatch.setitem(sys.modules, "re2", None)
    owned.cache_clear()
    assert Redaction({"spark.redaction.string.regex": "another pattern"}).text("x") == MASK
    assert Redaction({"spark.redaction.regex": "(?i)secret|password|token|access[.]?key"}).text("x") == "x"
    owned.cache_clear()


def test_as_java_finds_the_end() -> None:
    """`$` is also before the last line's end."""
    redaction = Redaction({"spark.redaction.string.regex": "pin.*$"})
    assert [redaction.text(text) for text in ("pin 12", "pin 12\n", "pin 12\r\n", "x")] == [
        MASK,
        f"{MASK}\n",
        f"{MASK}\r\n",
        "x",
    ]


def test_a_streaming_querys_id_is_masked_as_in_the_driver() -> None:
    """By the owner's patterns, as all texts of an execution are."""
    fold = Fold("app")
    properties = events.JobProperties("1", streaming_query_id="query 1234", streaming_batch_id="7")
    items: list[Item] = [
        events.EnvironmentUpdate({"spark.redaction.string.regex": r"\d{4}"}),
        events.ApplicationStart("a", "app", 1),
        events.ExecutionStart(1, time=1, description="of 1234"),
        events.JobStart(1, 2, [], properties),
        events.JobEnd(1, 3),
        events.ExecutionEnd(1, 4),
    ]
    (document,) = fold.add(enumerate(items))
    assert isinstance(document, Execution)
    assert (document.description, document.streaming_query_id) == (f"of {MASK}", f"query {MASK}")
    assert document.streaming_batch_id == 7
