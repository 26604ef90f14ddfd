"""An error as people read it: the message, what caused it, and the trace apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FRAME = re.compile(r"^[ \t]*(?:at \S|\.\.\. \d+ (?:more|elided))", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ErrorParts:
    """The parts of an error's text; together they are the whole."""

    message: str
    cause: str
    """The message of the innermost cause; empty if the error has no other."""
    trace: str


def failure(text: str) -> ErrorParts:
    """Split an error at the first frame of its stack trace."""
    frame = _FRAME.search(text)
    if frame is None or not text[: frame.start()].strip():
        return ErrorParts(text, "", "")
    message, trace = text[: frame.start()].rstrip(), text[frame.start() :]
    causes = list(_CAUSE.finditer(trace))
    if not causes:
        return ErrorParts(message, "", trace)
    cause = trace[causes[-1].end() :]
    inner = _FRAME.search(cause)
    cause = (cause[: inner.start()] if inner else cause).strip()
    return ErrorParts(message, "" if cause in message else cause, trace)
