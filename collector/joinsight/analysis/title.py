"""The title of an execution: what a person calls the query, in one short line, the same wherever it is shown.

It is the first of these that there is: the job description that the user set (for the Thrift server and the
``spark-sql`` shell this is the statement), the query's SQL text, the outline of the plan, the name of the action.
Spark's own descriptions are not titles: a call site (``showString at NativeMethodAccessorImpl.java:0``), a
micro-batch's ids, a request to a Spark Connect server. Nor are Delta Lake's of what its commands run. All texts come
from the listener, which has redacted them.
"""

from __future__ import annotations

import re

from joinsight.analysis.called_from import SHORT_CALL_SITE
from joinsight.analysis.table_formats import is_operation
from joinsight.contract.micro_batch import CONNECT_REQUEST, micro_batch
from joinsight.plan.outline import MAX_CHARACTERS, shortened

_READ = 4_000  # characters of a description
_IN_PYTHON = ("NativeMethodAccessorImpl.java", "DirectMethodHandleAccessor.java")
_STATEMENT = re.compile(
    r"[\s(]*(?:SELECT|WITH|INSERT|CREATE|REPLACE|MERGE|UPDATE|DELETE|FROM|VALUES|TABLE|CACHE|UNCACHE|DROP|ALTER|SHOW"
    r"|DESCRIBE|DESC|EXPLAIN|ANALYZE|TRUNCATE|REFRESH|USE|SET|OPTIMIZE|VACUUM|MSCK|LOAD|CALL|BEGIN|DECLARE)\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(
    r"--[^\n]*(?:\n|$)|/\*(?!\+)(?:(?!\*/).)*(?:\*/|$)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL
)
_MARK = re.compile(
    r"[()]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\b(?:SELECT|FROM)\b", re.IGNORECASE | re.DOTALL
)
_LONG_LIST = 40
_BARE_COMMAND = re.compile(r"[a-z]+(?: [a-z0-9]+){0,4}(?: [\w./*-]+)?")


def title(description: str, sql: str, outline: str) -> str | None:
    """The title; None if there is neither a plan nor a description. `sql`: the statement, empty for none."""
    text = description[:_READ].strip()
    batch = micro_batch(text)
    if batch:
        return shortened(": ".join(part for part in (batch.query_name, outline or "micro-batch") if part))
    if not is_sparks_own(text) and not (outline and is_operation(text)):
        own = _own(text)
        if _has_letter(own):
            return own
    bare = _without_comments(sql[:_READ])
    if bare:
        return statement(bare)
    if outline:
        return outline
    if text.startswith(CONNECT_REQUEST):
        return "Spark Connect request"
    call_site = SHORT_CALL_SITE.fullmatch(text)
    if call_site and any(file in text for file in _IN_PYTHON):
        return shortened(call_site["action"])
    return shortened(text) if _has_letter(text) else None


def is_bare_command(title: str | None) -> bool:
    """Whether it may be the outline of a command, with its table or path or without; what it ran tells more."""
    return title is not None and _BARE_COMMAND.fullmatch(title) is not None


def title_of_command(title: str, started: str) -> str:
    """The title of a bare command, given that of what it started."""
    return shortened(f"{title}: {started}")


def _has_letter(text: str) -> bool:
    """Whether it has words: Hudi describes what follows its own jobs by ":"."""
    return any(map(str.isalpha, text))


def is_sparks_own(description: str) -> bool:
    """Whether it is a call site or a request to a Spark Connect server: no words of the user."""
    return description.startswith(CONNECT_REQUEST) or SHORT_CALL_SITE.fullmatch(description) is not None


def _own(text: str) -> str:
    """A description that the user set: a statement without comments, else its first line."""
    bare = _without_comments(text)
    if _STATEMENT.match(bare):
        return statement(bare)
    if not bare:  # comments only
        return ""
    return shortened(text.splitlines()[0])


def _without_comments(sql: str) -> str:
    return _COMMENT.sub(lambda match: match[1] or " ", sql).strip()


def statement(sql: str) -> str:
    """A statement without comments, on one line: where it is too long, without most of what it selects."""
    line = " ".join(sql.split()).rstrip("; ")
    if len(line) <= MAX_CHARACTERS:
        return line
    depth = 0
    selected: int | None = None
    for mark in _MARK.finditer(line):
        word = mark[0].upper()
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "SELECT" and selected is None:
            selected = mark.end() + 1
        elif depth == 0 and word == "FROM" and selected is not None:
            if mark.start() - selected > _LONG_LIST:
                kept = line[selected : selected + _LONG_LIST].rpartition(",")[0]
                line = f"{line[:selected]}{kept + ', … ' if kept else '… '}{line[mark.start() :]}"
            break
    return shortened(line)
