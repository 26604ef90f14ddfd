"""The tokens that senders and readers show: from a file, which is read again and again, or from the environment.

A line is ``TOKEN`` or ``NAME:TOKEN``, with ``send:`` or ``read:`` before it. What does not say ``read`` may send and
not read: tokens of senders are in the hands of all who run jobs. Names stand in the log and in the metrics; tokens
stand nowhere, and in memory only as hashes.

In force is what the file says now. One that was emptied, removed or cannot be read lets nobody in, neither to send nor
to read; a bad line is no token, and the other lines hold.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from joinsight.errors import ConfigurationError
from joinsight.serve.files import anyone_may_read
from joinsight.serve.logs import fields

TOKEN_VARIABLE = "JOINSIGHT_TOKEN"
UNNAMED = "unnamed"

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750: what a bearer token is made of, so that a colon is free
_NAME = re.compile(r"[A-Za-z0-9._ -]{1,64}")
_SEND, _READ = "send", "read"
_REMEDY = (
    "Write a token a line: NAME:TOKEN for one that sends, read:NAME:TOKEN for one that reads;"
    " a token has the characters A-Z a-z 0-9 - . _ ~ + / ="
)

log = logging.getLogger("joinsight")


class _Token(NamedTuple):
    kind: str
    name: str
    digest: bytes


class Tokens:
    """The tokens that open the door."""

    def __init__(self, text: str = "", key: str = TOKEN_VARIABLE, file: Path | None = None) -> None:
        """Of `file`, else of `text`, which `key` set; without any the door stands open.

        Raises `ConfigurationError` if the file cannot be read or has no token, or for a bad line: it is named, what is
        in it is not.
        """
        self._file = file
        if file:
            key, text = "--token-file", _read(file)
        shown = str(file) if file else "(not shown)"
        self._seen: bytes | None = _digest(text)
        self._tokens, bad = _parse(text)
        if bad:
            raise ConfigurationError(key, shown, f"line {bad[0]} is no token", _REMEDY)
        if file and not self._tokens:
            raise ConfigurationError(key, shown, "no token is in it", _REMEDY)
        if file:
            _warn_if_open(file)
        self.open = not file and not self._tokens

    @classmethod
    def read(cls, file: Path | None) -> Tokens:
        """The tokens of a file, else of JOINSIGHT_TOKEN; raises `ConfigurationError`."""
        return cls(file=file) if file else cls(os.environ.get(TOKEN_VARIABLE, ""))

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def readers(self) -> int:
        """How many of them may read."""
        return sum(token.kind == _READ for token in self._tokens)

    def sender(self, authorization: str) -> str | None:
        """The name of the token in this header that may send; None if it shows none. Takes the same time for all."""
        scheme, _, given = authorization.partition(" ")
        name = self._name_of(_SEND, given.strip())
        return name if scheme.lower() == "bearer" else None

    def reader(self, authorization: str) -> str | None:
        """The name of the token in this header that may read: as senders show theirs, or as a browser shows a password.

        A browser adds its password to whatever another site makes it send, so nothing may change for it.
        """
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return self._name_of(_READ, given.strip())
        if scheme.lower() != "basic":
            return None
        try:
            user_and_password = base64.b64decode(given.strip(), validate=True).decode()
        except ValueError:  # binascii.Error and UnicodeDecodeError are such
            return None
        return self._name_of(_READ, user_and_password.partition(":")[2])

    def _name_of(self, kind: str, token: str) -> str | None:
        digest = _digest(token)
        names = [each.name for each in self._tokens if hmac.compare_digest(each.digest, digest) and each.kind == kind]
        return names[0] if names else None

    def refresh(self) -> None:
        """Go by what the file says now.

        It is read whether it looks changed or not: neither rights nor a quick second change show in size and time.
        """
        if self._file is None:
            return
        text, seen, problem = "", None, ""
        try:
            text = _read(self._file)
            seen = _digest(text)
        except ConfigurationError as error:
            problem = str(error)
        if seen == self._seen:
            return
        self._seen = seen
        self._tokens, bad = _parse(text)
        if problem:
            log.error("tokens not read: nobody may send or read until they are", extra=fields(reason=problem))
            return
        if bad:
            lines = ",".join(map(str, bad))
            log.error("tokens: bad lines count for nothing", extra=fields(file=self._file, lines=lines, remedy=_REMEDY))
        if not self._tokens:
            log.error("tokens: none is left, nobody may send or read", extra=fields(file=self._file))
        names = ",".join(sorted({token.name for token in self._tokens}))
        log.info(
            "tokens read again", extra=fields(file=self._file, tokens=len(self), readers=self.readers, names=names)
        )
        _warn_if_open(self._file)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("--token-file", str(file), _why(error), "Name a readable text file.") from None


def _warn_if_open(file: Path) -> None:
    with suppress(OSError):
        if anyone_may_read(file):
            log.warning("anyone on this machine may read the tokens: chmod o-r", extra=fields(file=file))


def _parse(text: str) -> tuple[tuple[_Token, ...], list[int]]:
    """The tokens, and the numbers of the lines that are none."""
    tokens, bad = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        *before, token = (part.strip() for part in line.split(":"))
        kind = before.pop(0) if before and before[0] in (_SEND, _READ) else _SEND
        name = before.pop(0) if before else UNNAMED
        if before or not _NAME.fullmatch(name) or not _TOKEN.fullmatch(token):
            bad.append(number)
        else:
            tokens.append(_Token(kind, name, _digest(token)))
    return tuple(tokens), bad


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no UTF-8 text"
