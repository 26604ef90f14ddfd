"""What of a log's texts may be kept: secrets are masked by the listener's rules, which its Redaction explains.

Spark masks settings in its event logs, but neither plans nor errors. A pattern of the user's that this program cannot
know or read masks every text: Spark masks patterns too, and Java's regular expressions can say more than Python's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "*********(redacted)"
REDACT_LITERALS = "spark.joinsight.redactLiterals"
_PROPERTIES = "spark.redaction.regex"
_STRINGS = ("spark.redaction.string.regex", "spark.sql.redaction.string.regex")
_SQL_OPTIONS = "spark.sql.redaction.options.regex"
_EVERYTHING = re.compile(r"(?s).+")
_STANDARD_PROPERTIES = re.compile(r"(?i)secret|password|token|access[.]?key")
_STANDARD_OPTIONS = re.compile(r"(?i)url")
# Names that secrets go by
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|authorization|signature"
    r"|(?:access|account|api|auth|encryption|master|private|shared|storage)[._-]?key"
    r"|\b(?:pass|auth|sig|sas)\b",
    re.ASCII | re.IGNORECASE,
)
# One of these is in what matches the above, and in what matches the standard patterns: most texts have none
_STEMS = ("pass", "pwd", "secret", "token", "credential", "auth", "sig", "key", "sas", "url")
# A name and what stands between it and its value. Groups: name, a column's expression id, the sign
_ASSIGNMENT = re.compile(
    r"(?<![\w.\-])([\w.\-]+)(#\d{1,10}L?)?(?:\\{0,2}[\"'`])?"
    r"(\s{0,3}(?:<=>|=>|->|:=|={1,3}|:(?!//))\s{0,3}|,(?=\S)|\s{1,3}(?=\S))",
    re.ASCII,
)
# A literal that a plan calls by a name: `v AS a#1`. Groups: literal, name
_ALIAS = re.compile(r"(?:(?<=\[)|(?<=, ))((?:(?! AS )[^,\[\]()#])+) AS ([\w.\-]+)#\d", re.ASCII)
_COLUMN = re.compile(r"[\w.\-]{1,200}#\d", re.ASCII)
_SCHEME = re.compile(r"(?:bearer|basic|digest|negotiate|token)\s{1,3}", re.ASCII | re.IGNORECASE)
_TYPE = re.compile(
    r"(?:string|binary|boolean|tinyint|smallint|int|integer|bigint|long|float|double|decimal|date|timestamp"
    r"|timestamp_ntz|interval|array|map|struct|void|variant|char|varchar)(?![\w.\-])",
    re.ASCII | re.IGNORECASE,
)
_SOURCE = re.compile(r"\.(?:py|scala|java|kt|sc|R|ipynb|sql)$")
# Secrets that are known by their shape. A group, where there is one, is what goes; else all of it
_SHAPE = re.compile(
    r"(?i:jdbc:oracle:\w{1,10}:[^\s/\"']{1,128}/([^\s\"'@]{1,256})@)"
    r"|(?i:\bbearer\s{1,3})([\w.~+/=\-]{8,})"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[\w\-]{35}"
    r"|\beyJ[\w\-]{8,}\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r"|\b(?:gh[opsru]_|github_pat_)\w{30,}"
    r"|\bdapi[0-9a-f]{32}"
    r"|\bxox[abprs]-[\w\-]{10,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    re.ASCII,
)
_OPENING, _CLOSING = "([{", ")]}"
_SEPARATORS = ",;&|" + _OPENING + _CLOSING
_REMEMBERED = 10_000
_REMEMBERED_CHARACTERS = 1000
_BLANKS = " \t\n\r\f\v"


class Redaction:
    """The rules of an application, or of a session of it."""

    __slots__ = ("_options", "_properties", "_seen", "_strings")

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are the application's, as its log has them."""
        self._properties = _pattern(settings.get(_PROPERTIES), _STANDARD_PROPERTIES)
        self._options = _pattern(settings.get(_SQL_OPTIONS), _STANDARD_OPTIONS)
        self._strings = [_pattern(settings[key], _EVERYTHING) for key in _STRINGS if settings.get(key)]
        self._seen: dict[str, str] = {}
        """Texts and what became of them: a log repeats most of its own."""

    def of_session(self, changed: Mapping[str, str]) -> Redaction:
        """That of a session that changed these settings."""
        strings, options = changed.get(_STRINGS[1]), changed.get(_SQL_OPTIONS)
        if not strings and options is None:
            return self
        other = Redaction({})
        other._properties = self._properties
        other._options = self._options if options is None else _pattern(options, _EVERYTHING)
        other._strings = [*self._strings, _pattern(strings, _EVERYTHING)] if strings else self._strings
        return other

    def properties(self, raw: Mapping[str, str]) -> dict[str, str]:
        """As Spark redacts them: a value goes when it or its key matches."""
        find = self._properties.search
        return {key: MASK if find(key) or find(value) else self.text(value) for key, value in sorted(raw.items())}

    def text(self, text: str) -> str:
        known = self._seen.get(text)
        if known is None:
            known = self._masked(text)
            if len(text) <= _REMEMBERED_CHARACTERS:
                if len(self._seen) >= _REMEMBERED:
                    self._seen.clear()
                self._seen[text] = known
        return known

    def _masked(self, text: str) -> str:
        for pattern in self._strings:
            text = pattern.sub(MASK, text)
        return _shapes(_users(self._assignments(text))) if text else text

    def _is_secret(self, name: str) -> bool:
        if self._is_standard and name.isascii():  # else ignoring case is more than lower()
            lower = name.lower()
            if not any(stem in lower for stem in _STEMS):
                return False
        return bool(_SECRET_NAME.search(name) or self._properties.search(name) or self._options.search(name))

    @property
    def _is_standard(self) -> bool:
        return self._properties is _STANDARD_PROPERTIES and self._options is _STANDARD_OPTIONS

    def _assignments(self, text: str) -> str:
        if not self._is_secret(text):
            return text  # none of its parts is, either
        out: list[str] = []
        copied = start_at = 0
        while start_at < len(text) and (m := _ASSIGNMENT.search(text, start_at)):
            start_at = m.end()  # a value may itself be an assignment
            if not _assigns(text, m) or not self._is_secret(m[1]):
                continue
            scheme = _SCHEME.match(text, start_at)
            start = scheme.end() if scheme else start_at
            is_column = m[2] is not None and _COLUMN.match(text, start)
            is_schema = ":" in m[3] and _TYPE.match(text, start)
            is_place = m[3] == ":" and _SOURCE.search(m[1])
            if is_column or is_schema or is_place or text.startswith(MASK, start):
                continue
            end = _end_of_value(text, start) if m[2] is None else _end_of_operand(text, start)
            if end == start:
                continue
            out += (text[copied:start], MASK)
            copied = start_at = end
        out.append(text[copied:])
        return _ALIAS.sub(self._alias, "".join(out))

    def _alias(self, m: re.Match[str]) -> str:
        return MASK + m[0][len(m[1]) :] if self._is_secret(m[2]) else m[0]


def _pattern(regex: str | None, otherwise: re.Pattern[str]) -> re.Pattern[str]:
    if not regex or regex == MASK:
        return otherwise
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError):
        return _EVERYTHING


def _assigns(text: str, m: re.Match[str]) -> bool:
    """Whether a sign is one: a comma only in `f(name,value)`, a blank before a quote or an option's value."""
    if m[3] == ",":
        return m.start() > 0 and text[m.start() - 1] == "("
    if m[3].strip(_BLANKS):
        return True
    return text[m.end()] in "\"'" or m[1].startswith("--")


def _end_of_value(text: str, start: int) -> int:
    """At its closing quote, else where the next word or assignment starts."""
    quote = start
    while quote < len(text) and text[quote] == "\\":
        quote += 1
    if quote < len(text) and text[quote] in "\"'":
        return _end_of_quoted(text, quote, is_escaped=quote > start)
    for at in range(start, len(text)):
        c = text[at]
        if c in _BLANKS or c in "\"'`<>" or (c in _SEPARATORS and _separates(text, at)):
            return at
    return len(text)


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


def _separates(text: str, at: int) -> bool:
    """Whether the separator here ends the value, rather than being a character of it."""
    after = at
    while after < len(text) and after - at < 8 and text[after] in _SEPARATORS:
        after += 1
    if after == len(text) or (after - at > 1 and text[at] in _CLOSING):
        return True
    if text[after] in _BLANKS or text[after] in "\"'":
        return True
    m = _ASSIGNMENT.match(text, after, min(len(text), after + 80))
    return m is not None and ("=" in m[3] or "->" in m[3])


def _end_of_operand(text: str, start: int) -> int:
    """Of what a column is compared with: Spark writes literals without quotes, up to the closing bracket."""
    depth = 0
    for at in range(start, len(text)):
        c = text[at]
        if c in _OPENING:
            depth += 1
        elif c in _CLOSING:
            depth -= 1
            if depth < 0 and _separates(text, at):
                return at
    return len(text)


def _users(text: str) -> str:
    """`//user:password@host`: the password goes, of Amazon's keys the user too. It may hold slashes."""
    out: list[str] = []
    copied = 0
    at = text.find("//")
    while at >= 0:
        user = at + 2
        colon = user
        while colon < len(text) and colon - user < 128 and text[colon] not in "/:@" and _in_url(text[colon]):
            colon += 1
        after = user
        if colon < len(text) and text[colon] == ":":
            last = -1
            end = colon + 1
            while end < len(text) and end - colon < 256 and _in_url(text[end]):
                if text[end] == "@":
                    last = end
                end += 1
            if last > colon + 1:
                of_amazon = text.startswith(("AKIA", "ASIA"), user)
                out += (text[copied : user if of_amazon else colon + 1], MASK)
                copied = after = last
        at = text.find("//", after)
    out.append(text[copied:])
    return "".join(out)


def _in_url(c: str) -> bool:
    return c not in _BLANKS and c not in "\"'<>"


def _shapes(text: str) -> str:
    def mask(m: re.Match[str]) -> str:
        group = m.lastindex or 0
        start, end = m.start(group) - m.start(), m.end(group) - m.start()
        return m[0][:start] + MASK + m[0][end:]

    return _SHAPE.sub(mask, text)
