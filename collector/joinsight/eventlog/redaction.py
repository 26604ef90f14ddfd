"""What of a log's texts may be kept: secrets are masked by the rules of `redaction.json`, as the listener masks them.

Redaction.java does the same, function by function; `tests/eventlog/test_same_redaction.py` compares them. Spark masks
settings in its event logs, but neither plans nor errors. A pattern of the log's owner that is not known, because Spark
masked it too, or that `joinsight.eventlog.owned` cannot read, masks every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from joinsight.eventlog.owned import EVERYTHING, Exhausted, Owned, owned

_RULES: dict[str, Any] = json.loads((files("joinsight") / "redaction.json").read_bytes())
_LIMITS: dict[str, int] = _RULES["limits"]
MASK: str = _RULES["mask"]
MAX_TEXT = _LIMITS["text"]
MAX_CALL_SITE = _LIMITS["call_site"]
REDACT_LITERALS = "spark.joinsight.redactLiterals"
_PROPERTIES = "spark.redaction.regex"
_STRINGS = ("spark.redaction.string.regex", "spark.sql.redaction.string.regex")
_SQL_OPTIONS = "spark.sql.redaction.options.regex"


def _rule(rule: Mapping[str, Any]) -> re.Pattern[str]:
    return re.compile("|".join(rule["pattern"]), re.ASCII)


_STANDARD_PROPERTIES = re.compile(_RULES["defaults"]["properties"], re.ASCII)
_STANDARD_OPTIONS = re.compile(_RULES["defaults"]["options"], re.ASCII)
_SHAPES, _NAMES = ([(rule["stems"], _rule(rule)) for rule in _RULES[name]] for name in ("shapes", "names"))
_STEMS: list[str] = [
    stem for rule in (*_RULES["names"], _RULES["ciphers"], _RULES["defaults"]) for stem in rule["stems"]
]
_URL, _CIPHER, _WORD = (_rule(_RULES[name]) for name in ("url", "ciphers", "word"))
_LINK, _METHOD, _GAP, _QUOTE = (_rule(_RULES[name]) for name in ("link", "method", "gap", "quote"))
_MADE, _MORE, _NEXT, _LEFT = (_rule(_RULES[name]) for name in ("made", "more", "next", "left"))
_FIELD, _PREDICATE, _STRUCTURE, _NUMBER = (
    _rule(_RULES[name]) for name in ("field", "predicate", "structure", "number")
)
_QUERY, _TYPE, _SOURCE, _FRAME = (_rule(_RULES[name]) for name in ("query", "type", "source", "frame"))
_ID, _CLOSERS, _SIGN, _WORD_SIGN, _CALL, _VALUES, _METHOD_CALL, _COMMA, _BLANKS = range(1, 10)

_OPENING, _CLOSING = "([{", ")]}"
_SEPARATORS = ",;&|" + _OPENING + _CLOSING
_BLANK = " \t\n\r\f\v"
_QUOTES = "\"'"
_REMEMBERED = 10_000
_REMEMBERED_CHARACTERS = 1000


class Redaction:
    """The rules of an application, or of a session of it."""

    __slots__ = ("_names", "_options", "_properties", "_seen", "_strings")

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are the application's, as its log has them."""
        self._properties = _owned(settings.get(_PROPERTIES), _STANDARD_PROPERTIES, _STANDARD_PROPERTIES)
        self._options = _owned(settings.get(_SQL_OPTIONS), _STANDARD_OPTIONS, _STANDARD_OPTIONS)
        self._strings = [_owned(settings[key], EVERYTHING, EVERYTHING) for key in _STRINGS if settings.get(key)]
        self._names: dict[str, bool] = {}
        self._seen: dict[str, str] = {}
        """Texts and what became of them: a log repeats most of its own."""

    def of_session(self, changed: Mapping[str, str]) -> Redaction:
        """That of a session that changed these settings."""
        strings, options = changed.get(_STRINGS[1]), changed.get(_SQL_OPTIONS)
        if not strings and options is None:
            return self
        other = Redaction({})
        other._properties = self._properties
        other._options = _owned(options, self._options, EVERYTHING)
        other._strings = [*self._strings, _owned(strings, EVERYTHING, EVERYTHING)] if strings else self._strings
        return other

    def properties(self, raw: Mapping[str, str]) -> dict[str, str]:
        """As Spark redacts them: a value goes when it or its key matches."""
        return {key: self._property(key, value) for key, value in sorted(raw.items())}

    def _property(self, key: str, value: str) -> str:
        try:
            is_secret = self._properties.search(key) or self._properties.search(value)
        except Exhausted:
            return MASK
        return MASK if is_secret else self.text(value)

    def text(self, text: str) -> str:
        known = self._seen.get(text)
        if known is None:
            known = self._masked(text)
            if len(text) <= _REMEMBERED_CHARACTERS:
                _remember(self._seen, text, known)
        return known

    def _masked(self, text: str) -> str:
        if not text:
            return text
        try:
            for pattern in self._strings:
                text = pattern.sub(MASK, text)
            return self._without_named(_URL.sub(_mask_group, _without_shapes(text)))
        except Exhausted:
            return MASK

    def _is_secret(self, word: str) -> bool:
        known = self._names.get(word)
        if known is None:
            known = _is_name(word) or bool(self._properties.search(word) or self._options.search(word))
            if len(word) <= _REMEMBERED_CHARACTERS:
                _remember(self._names, word, known)
        return known

    def _may_name(self, text: str) -> bool:
        """Whether a word of the text may be secret: most texts have none."""
        if self._properties is not _STANDARD_PROPERTIES or self._options is not _STANDARD_OPTIONS:
            return True
        return _has_any(text.lower(), _STEMS) and (self._is_secret(text) or _CIPHER.search(text) is not None)

    def _without_named(self, text: str) -> str:
        if not self._may_name(text):
            return text
        out: list[str] = []
        copied = at = 0
        while m := _WORD.search(text, at):
            at = m.end()
            word = m[0]
            is_name = self._is_secret(word)
            if not is_name and not _CIPHER.search(word):
                continue
            link = _LINK.match(text, at)
            if is_name:
                start, end = _on_the_left(text, copied, m.start(), _is_column(text, m.start(), at))
                if start < end:
                    out += (text[copied:start], MASK)
                    copied = end
            if link is None:
                continue
            start, end = self._value(text, m, link, is_name)
            if start < end:
                out += (text[copied:start], MASK)
                copied = at = end
        out.append(text[copied:])
        return "".join(out)

    def _value(self, text: str, word: re.Match[str], link: re.Match[str], is_name: bool) -> tuple[int, int]:
        """Where the secret starts and ends that a name is linked to; both 0 if there is none."""
        start = link.end()
        of_column = _is_column(text, word.start(), word.end())
        is_quoted = any(c in link[_CLOSERS] for c in "\"'`")
        if link[_CALL] is not None or link[_METHOD_CALL] is not None:
            return self._arguments(text, word[0], link)
        if not is_name:
            return 0, 0
        if link[_VALUES] is not None:
            return _rows(text, start)
        sign = link[_SIGN]
        if sign is not None:
            is_schema = ":" in sign and _TYPE.match(text, start)
            is_place = sign.strip(_BLANK) == ":" and _SOURCE.search(word[0])
            if is_schema or is_place:
                return 0, 0
        if link[_COMMA] is not None and not is_quoted:
            return _argument(text, word.start(), link)
        gap = None if of_column else _GAP.match(text, start)
        start = gap.end() if gap else start
        if of_column and (sign is not None or link[_WORD_SIGN] is not None):
            return _operand(text, start)
        if text.startswith(tuple(_OPENING), start):
            if link[_COMMA] is not None or link[_BLANKS] is not None or _QUERY.match(text, start):
                return 0, 0
            inside = _inside(text, start)
            end = max(inside[1], start + 1) + 1
            if not _MORE.match(text, end):
                return inside
        else:
            end = _end_of_text(text, start)
        if end == start and (sign is not None or (link[_BLANKS] is not None and word[0].startswith("--"))):
            end = _end_of_bare(text, start)
        if end == start:
            return 0, 0
        while m := _MORE.match(text, end):
            end = _end_of_text(text, m.end())
        return start, end

    def _arguments(self, text: str, word: str, link: re.Match[str]) -> tuple[int, int]:
        """Of a call: those of a cipher or of a class go, of all others texts in quotes do."""
        start = link.end()
        last = word[word.rfind(".") + 1 :]
        is_cipher = _CIPHER.search(word) is not None
        is_name = self._is_secret(last)
        if link[_CALL] is not None and not (is_cipher or is_name or (_METHOD.search(word) and self._is_secret(word))):
            return 0, 0
        if link[_METHOD_CALL] is not None and not self._is_secret(word):
            return 0, 0
        if _FRAME.match(text, start) or _end_of_structure(text, start, len(text)) >= 0:
            return 0, 0
        is_class = link[_CALL] is not None and is_name and "A" <= last[0] <= "Z"
        return _inside(text, start - 1) if is_cipher or is_class or _has_text(text, start) else (0, 0)


def _remember(known: dict[str, Any], text: str, value: Any) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[text] = value


def _owned(
    regex: str | None, standard: re.Pattern[str] | Owned, unknown: re.Pattern[str] | Owned
) -> re.Pattern[str] | Owned:
    """The pattern of a setting: `standard` where it is not set, `unknown` where Spark masked it."""
    if regex is None:
        return standard
    if regex == MASK:
        return unknown
    for pattern in (_STANDARD_PROPERTIES, _STANDARD_OPTIONS):
        if regex == pattern.pattern:
            return pattern
    return owned(regex)


def _has_any(text: str, parts: list[str]) -> bool:
    for part in parts:  # noqa: SIM110 - a third of the time that any() takes, and it is most of it
        if part in text:
            return True
    return False


def _mask_group(m: re.Match[str]) -> str:
    """What was found, of it the group masked that took part, else all."""
    group = m.lastindex or 0
    start, end = m.start(group) - m.start(), m.end(group) - m.start()
    return m[0][:start] + MASK + m[0][end:]


def _is_name(word: str) -> bool:
    lower = word.lower()
    return any(_has_any(lower, stems) and pattern.search(word) for stems, pattern in _NAMES)


def _without_shapes(text: str) -> str:
    lower = text.lower()
    for stems, pattern in _SHAPES:
        if _has_any(lower, stems):
            text = pattern.sub(_mask_group, text)
    return text


def _is_column(text: str, name: int, end: int) -> bool:
    """Whether this name is that of a plan's column, or of a field in one."""
    has_id = text[end : end + 1] == "#" and "0" <= text[end + 1 : end + 2] <= "9"
    return has_id or _FIELD.search(text, max(0, name - _LIMITS["window"]), name) is not None


# Where secrets start and end. What is not masked is never read again and again: it is bounded by `limits`.


def _on_the_left(text: str, least: int, name: int, of_column: bool) -> tuple[int, int]:
    """The secret that is compared with a name, or called by it, and stands before it."""
    m = _LEFT.search(text, max(least, name - _LIMITS["window"]), name)
    if m is None:
        return 0, 0
    end = m.start(1)
    if end > least and text[end - 1] in _QUOTES:
        start, steps = end - 2, 0
        while start >= least and steps < _LIMITS["operand"]:
            if text[start] == text[end - 1]:
                return start, end
            start -= 1
            steps += 1
        return 0, 0
    if not of_column or m[1][0] not in _BLANK:  # `keys=[token#1]` compares nothing
        return 0, 0
    start = _start_of_operand(text, least, end, m[1].strip(_BLANK) == "AS")
    if _end_of_structure(text, start, end) == end:
        return 0, 0
    return start, end


def _start_of_operand(text: str, least: int, end: int, is_element: bool) -> int:
    """At the bracket that opens around what ends here; an element of a list starts at a comma, too."""
    depth = steps = 0
    at = end
    while at > least and steps < _LIMITS["operand"]:
        c = text[at - 1]
        if c in _CLOSING:
            depth += 1
        elif c in _OPENING:
            if depth == 0:
                break
            depth -= 1
        elif is_element and depth == 0 and c == " " and at - 2 >= least and text[at - 2] == ",":
            break
        at -= 1
        steps += 1
    return at


def _end_of_structure(text: str, start: int, end: int) -> int:
    """Where the expression ends that starts here, at a bracket or at `end`, if no literal is in it; else -1."""
    at = start
    depth = 0
    has_column = False
    for _ in range(_LIMITS["tokens"]):
        if at == end or (depth == 0 and text[at] in _CLOSING):
            return at if has_column or at == start else -1
        m = _STRUCTURE.match(text, at, end)
        if m is None:
            return -1
        has_column |= m[1] is not None
        depth += (m[0][-1] in _OPENING) - (m[0] in tuple(_CLOSING))
        at = m.end()
    return -1


def _operand(text: str, start: int) -> tuple[int, int]:
    """What a column is compared with: Spark writes literals without quotes, up to the closing bracket."""
    if _end_of_structure(text, start, len(text)) >= 0:
        return 0, 0
    if text[start : start + 1] == "(":
        return _inside(text, start, has_quotes=False)
    depth = 0
    for at in range(start, len(text)):
        c = text[at]
        if c in _OPENING:
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            if depth < 0 and _separates(text, at):
                return start, at
    return start, len(text)


def _argument(text: str, name: int, link: re.Match[str]) -> tuple[int, int]:
    """In `EqualTo(password,x)`, `In(password, [x, y])` and `StartsWith(password#1, x)`."""
    start = link.end()
    closers = link[_CLOSERS]
    predicate = _PREDICATE.search(text, max(0, name - _LIMITS["window"]), name)
    # Of `f(g(password#1), x)` two brackets open, and one closes
    is_compared = predicate and "]" not in closers and closers.count(")") - closers.count("(") < predicate[0].count("(")
    if link[_ID] is not None:
        return _operand(text, start) if is_compared and not _NUMBER.match(text, start) else (0, 0)
    if is_compared and (end := _end_of_text(text, start)) > start:
        return start, end
    if closers or name == 0 or text[name - 1] != "(":
        return 0, 0
    if text[start : start + 1] == "[":
        return _inside(text, start, has_quotes=False)
    if text[start - 1] != ",":
        return 0, 0
    end = _end_of_text(text, start)
    return start, end if end > start else _end_of_bare(text, start)


def _rows(text: str, start: int) -> tuple[int, int]:
    """The rows of VALUES."""
    end = start
    while text[end : end + 1] == "(":
        end = _closing(text, end, has_quotes=True) + 1
        after = end
        while after < len(text) and after - end < 4 and text[after] in _BLANK + ",":
            after += 1
        if text[after : after + 1] != "(":
            break
        end = after
    return start, min(end, len(text))


def _inside(text: str, start: int, has_quotes: bool = True) -> tuple[int, int]:
    """What is in the brackets that open here; both 0 if they are empty, hold columns alone or what is masked."""
    if _end_of_structure(text, start + 1, len(text)) >= 0:
        return 0, 0
    end = _closing(text, start, has_quotes)
    return start + 1, end


def _has_text(text: str, start: int) -> bool:
    """Whether a text in quotes begins in the brackets that opened before `start`, near to it."""
    depth = 0
    for c in text[start : start + _LIMITS["window"]]:
        if c in _QUOTES:
            return True
        depth += (c in _OPENING) - (c in _CLOSING)
        if depth < 0:
            return False
    return False


def _closing(text: str, start: int, has_quotes: bool) -> int:
    """Where the bracket closes that opens here, or the end of the text."""
    depth = 0
    at = start
    while at < len(text):
        c = text[at]
        if has_quotes and c in _QUOTES:
            at = _end_of_quoted(text, at, is_escaped=text[at - 1] == "\\")
            continue
        if c in _OPENING:
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            if depth <= 0 and (has_quotes or _separates(text, at)):
                return at
        at += 1
    return len(text)


def _end_of_text(text: str, start: int) -> int:
    """Where a text in quotes ends, or what is made of one; `start` if none starts here."""
    m = _QUOTE.match(text, start)
    if m is not None:
        return _end_of_quoted(text, m.end() - 1, is_escaped=bool(m[1]))
    m = _MADE.match(text, start)
    return start if m is None else min(len(text), _closing(text, m.start(1), has_quotes=True) + 1)


def _end_of_quoted(text: str, start: int, is_escaped: bool) -> int:
    quote = text[start]
    at = start + 1
    while at < len(text):
        c, after = text[at], text[at + 1 : at + 2]
        if is_escaped:
            if c == "\\" and after == quote:
                return at + 2
        elif c == "\\" or (c == quote and after == quote):
            at += 1
        elif c == quote:
            return at + 1
        at += 1
    return len(text)  # never closed: all of it may be the secret


def _end_of_bare(text: str, start: int) -> int:
    """Where a value without quotes ends: where the next word or assignment starts."""
    at = start + len(MASK) if text.startswith(MASK, start) else start
    while at < len(text):
        c = text[at]
        if c in _BLANK or c in "\"'`<>" or (c in _SEPARATORS and _separates(text, at)):
            break
        at += 1
    return at


def _separates(text: str, at: int) -> bool:
    """Whether the separator here ends the value, rather than being a character of it."""
    after = at
    while after < len(text) and after - at < 8 and text[after] in _SEPARATORS:
        after += 1
    if after == len(text) or (after - at > 1 and text[at] in _CLOSING):
        return True
    return text[after] in _BLANK or text[after] in _QUOTES or _NEXT.match(text, after) is not None
