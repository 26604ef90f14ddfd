"""Patterns of a log's owner, which may be anything: matched in bounded time, and in doubt all of a text is masked.

Python's `re` backtracks, cannot be stopped and holds the interpreter meanwhile. RE2 does not backtrack: the time of a
match grows with the text (docs/decisions/011-owners-patterns-by-re2.md). It reads most of Java's syntax; a pattern that
it does not read, or reads otherwise, is `EVERYTHING`, and so is each one where RE2 is not installed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_STEPS = 100_000_000
_FAILURES = 10
# In a class, Java has intersections and classes, where RE2 has characters
_NOT_AS_IN_JAVA = re.compile(r"&&|\[(?:\\[\s\S]|[^\]\\])*\[")
_TERMINATOR = re.compile(r"(?:\r\n|[\n\r\u0085\u2028\u2029])\Z")


class Exhausted(Exception):
    """A pattern would read a text so often that nobody should wait for it."""


class Owned:
    """One of these patterns, or all texts."""

    __slots__ = ("_failures", "_pattern")

    def __init__(self, pattern: Any) -> None:
        """`pattern` is RE2's; None finds every text."""
        self._pattern = pattern
        self._failures = 0

    def search(self, text: str) -> bool:
        """Whether it is found in `text`."""
        try:
            return self._pattern is None or self._pattern.search(text) is not None
        except UnicodeEncodeError:  # half of a surrogate pair
            return True

    def sub(self, mask: str, text: str) -> str:
        """`text` with `mask` for what is found, but for finds that are empty. Raises `Exhausted`."""
        if self._pattern is None:
            return mask if text else text
        try:
            text = self._sub(mask, text)
            if "$" in self._pattern.pattern and (m := _TERMINATOR.search(text)):  # where Java's `$` matches, too
                text = self._sub(mask, text[: m.start()]) + m[0]
        except UnicodeEncodeError:
            return mask
        return text

    def _sub(self, mask: str, text: str) -> str:
        if self._failures >= _FAILURES:
            raise Exhausted
        out: list[str] = []
        copied = steps = 0
        for m in self._pattern.finditer(text):
            # A match is found in time that grows with the text, all of them in the square of it
            steps += len(text) - m.start()
            if steps > _STEPS:
                self._failures += 1
                raise Exhausted
            if m.start() < m.end():
                out += (text[copied : m.start()], mask)
                copied = m.end()
        out.append(text[copied:])
        return "".join(out)


EVERYTHING = Owned(None)


@lru_cache(1000)
def owned(regex: str) -> Owned:
    """The pattern, or `EVERYTHING` if it cannot be read as Java reads it."""
    try:
        import re2
    except ImportError:
        return EVERYTHING
    if _NOT_AS_IN_JAVA.search(regex):
        return EVERYTHING
    options = re2.Options()
    options.log_errors = False
    try:
        return Owned(re2.compile(regex, options))
    except (re2.error, UnicodeEncodeError):
        return EVERYTHING
