r"""Makes control characters visible in all output, so that stored text cannot control a terminal.

Names, descriptions, plans and errors come from whoever may send documents. `visible` escapes what a terminal obeys
or a person does not see: ``\x1b``, ``\u202e``. Letters of every script, combining marks and emoji stay
unchanged. `guard` applies it to stdout and stderr, whoever writes there; only `terminal/console`, which
adds colours, writes past it; `to_json` writes JSON with ``\uXXXX`` in place of the same characters.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

# Unicode's control characters (except tab and line feed), format characters (except those that are drawn, such as
# the Arabic number signs), line and paragraph separators, surrogates, and fillers that are drawn as nothing.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
_VIRAMA = 9


def visible(text: str) -> str:
    r"""The text with ``\x1b``, ``\u202e`` and the like for characters that control or hide; line breaks stay."""
    return HIDDEN.sub(_escaped, text)


def visible_line(text: str) -> str:
    r"""`visible` on one line, with ``\n`` and ``\t``: for table cells, so that their width can be computed."""
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value)}")


def to_json(value: Any, default: Callable[[Any], Any] = _time) -> str:
    """JSON on one line, with escapes for the characters that `visible` escapes. `default` as in `json.dumps`.

    ASCII only, unless stdout's encoding is a UTF. Times are in ISO format.
    """
    ascii_only = not (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    return HIDDEN.sub(_json_escaped, json.dumps(value, default=default, ensure_ascii=ascii_only))


def guard() -> None:
    """Apply `visible` to all further output of this process, tracebacks too; what cannot be encoded is escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w")  # noqa: SIM115  # None: it is closed
        setattr(sys, name, _Guard(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream behind the guard: what is written to it must have passed `visible`."""
    return stream.stream if isinstance(stream, _Guard) else stream


class _Guard(io.TextIOBase):
    """A stream that applies `visible` and writes to another. It has no `buffer`, so nothing bypasses it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The wrapped stream's encoding."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """The wrapped stream's error handling."""
        return self.stream.errors

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str | bytes) -> int:
        """Write the text, made visible; returns the length of the original. Bytes: click's completions."""
        self.stream.write(visible(text.decode() if isinstance(text, bytes) else text))
        return len(text)

    def flush(self) -> None:
        """Flush the wrapped stream."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Whether the wrapped stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """The wrapped stream's descriptor."""
        return self.stream.fileno()


def _escaped(found: re.Match[str]) -> str:
    character, start, end = found[0], found.start(), found.end()
    if character in _JOINERS and start and _joins(found.string[start - 1], found.string[end : end + 1]):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _joins(before: str, after: str) -> bool:
    """A joiner belongs to the text: between emoji or Arabic letters, or after the virama of an Indic script."""
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if not after:
        return False
    if unicodedata.category(after) == "So":
        return before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk")
    return unicodedata.bidirectional(after) == "AL" and unicodedata.bidirectional(before) in ("AL", "NSM")


def _json_escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if ord(found[0]) != 0x7F else r"\u007f"
