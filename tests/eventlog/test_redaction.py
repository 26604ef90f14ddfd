"""Secrets in a log's texts are masked as the listener masks them in the driver."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.listener.test_redaction import HARMLESS, MASK, SECRETS

from joinsight.eventlog import redaction as rules
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
    for pattern in (MASK, "(?<x", "["):
        assert Redaction({"spark.sql.redaction.string.regex": pattern}).text("a text") == MASK
        assert Redaction({}).of_session({"spark.sql.redaction.string.regex": pattern}).text("a text") == MASK
    assert Redaction({"spark.redaction.string.regex": r"\d{4}"}).text("pin 1234") == f"pin {MASK}"
    assert Redaction({"spark.redaction.regex": MASK}).text("a text") == "a text"


_PARTS = r"pass|word|wd|PWD|secret|Token|credential|author|ization|sig|nature|sas|access|auth|master|key|.|_|-|a|url"


@given(st.lists(st.sampled_from([*_PARTS.split("|"), "\u017fecret", "to\u212aen"]), max_size=5).map("".join))
def test_what_is_sorted_out_quickly_is_what_no_pattern_finds(name: str) -> None:
    """Letters that only ignoring case makes equal are found too."""
    patterns = (rules._SECRET_NAME, rules._STANDARD_PROPERTIES, rules._STANDARD_OPTIONS)
    assert Redaction({})._is_secret(name) == any(pattern.search(name) for pattern in patterns)


def test_texts_that_come_again_are_masked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when more came than are remembered."""
    monkeypatch.setattr(rules, "_REMEMBERED", 2)
    redaction = Redaction({})
    for _ in range(2):
        for text in ("password=a", "a", "b", "token=c"):
            assert redaction.text(text) == text.split("=")[0] + ("=" + MASK if "=" in text else "")
