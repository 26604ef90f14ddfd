"""The words that a search for executions matches: one rule for stored texts and for search texts."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_WORDS = 250
"""Maximum words of an execution; plans have a few dozen."""
MAX_LENGTH = 60
"""Maximum characters of a word."""

_WORD = re.compile(r"[^\W_]+")
_IN_CAMEL_CASE = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(texts: Iterable[str]) -> list[str]:
    """The words of texts, in lower case, each once: of ``SortMergeJoin`` also sort, merge and join."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _WORD.findall(text):
            parts = _IN_CAMEL_CASE.split(word)
            for each in (word, *(parts if len(parts) > 1 else ())):
                found[each.lower()[:MAX_LENGTH]] = None
        if len(found) >= MAX_WORDS:
            break
    return sorted(list(found)[:MAX_WORDS])


def query(text: str) -> str:
    """The tsquery for all words of `text`, or words that begin like them; empty without words."""
    return " & ".join(f"'{word.lower()[:MAX_LENGTH]}':*" for word in _WORD.findall(text)[:MAX_WORDS])
