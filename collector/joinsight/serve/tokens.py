"""The tokens of senders and readers: from a file, which is reloaded when it changes, or from the environment.

A line is ``TOKEN`` or ``NAME:TOKEN``, optionally after ``send:`` or ``read:``. A token without ``read`` may send but
not read, because everyone who runs jobs has a sender's token. The log and the metrics show names; tokens are never
shown, and only their hashes are in memory.

Only the current content of the file is valid. While it is empty, missing or unreadable, nobody may send or read;
invalid lines are ignored, and the other lines apply.
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

from joinsight.base.errors import ConfigurationError
from joinsight.serve.files import anyone_may_read
from joinsight.serve.logs import fields

TOKEN_VARIABLE = "JOINSIGHT_TOKEN"
UNNAMED = "unnamed"
SHORT_CHARACTERS = 16
"""A token with fewer characters can be guessed."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750: the characters of a bearer token, without colon
_NAME = re.compile(r"[A-Za-z0-9._ -]{1,64}")
_SEND, _READ = "send", "read"
_REMEDY = (
    "Write one token per line: NAME:TOKEN for a sender, read:NAME:TOKEN for a reader;"
    " a token has the characters A-Z a-z 0-9 - . _ ~ + / ="
)

log = logging.getLogger("joinsight")


class _Token(NamedTuple):
    kind: str
    name: str
    digest: bytes
    is_short: bool


class Tokens:
    """The tokens that a collector accepts. `refresh` may run in another thread."""

    def __init__(self, text: str = "", key: str = TOKEN_VARIABLE, file: Path | None = None) -> None:
        """The tokens of `file`, else of `text`, the value of setting `key`; without any, none is required (`open`).

        Raises `ConfigurationError` if the file cannot be read or has no token, or for an invalid line: the message has
        its number, not its text.
        """
        self._file = file
        if file:
            key, text = "--token-file", _read(file)
        shown = str(file) if file else "(not shown)"
        self._seen: bytes | None = _digest(text)
        self._tokens, bad = _parse(text)
        if bad:
            raise ConfigurationError(key, shown, f"line {bad[0]} is not a valid token", _REMEDY)
        if file and not self._tokens:
            raise ConfigurationError(key, shown, "the file has no token", _REMEDY)
        if file:
            _warn_if_open(file)
        _warn_if_short(self._tokens)
        self.open = not file and not self._tokens

    @classmethod
    def read(cls, file: Path | None) -> Tokens:
        """The tokens of a file, else of JOINSIGHT_TOKEN; raises `ConfigurationError`."""
        return cls(file=file) if file else cls(os.environ.get(TOKEN_VARIABLE, ""))

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def senders(self) -> int:
        """Number of names of senders' tokens."""
        return len({token.name for token in self._tokens if token.kind == _SEND})

    @property
    def readers(self) -> int:
        """Number of readers' tokens."""
        return sum(token.kind == _READ for token in self._tokens)

    def sender(self, authorization: str) -> str | None:
        """The name of the sender's token in this header, else None; takes the same time for all tokens."""
        scheme, _, given = authorization.partition(" ")
        name = self._name_of(_SEND, given.strip())
        return name if scheme.lower() == "bearer" else None

    def reader(self, authorization: str) -> str | None:
        """The name of the reader's token in this header, a bearer token or the password of basic authentication, else
        None.

        A browser adds its password to cross-site requests too, so what a reader can request must not change anything.
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

    def has_reader(self, name: str) -> bool:
        """Whether a reader's token has this name."""
        return any(token.kind == _READ and token.name == name for token in self._tokens)

    def refresh(self) -> None:
        """Reload the file if it has changed.

        It is read every time, because a change of permissions, or a quick second change, may leave size and time
        unchanged.
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
            log.error("token file unreadable: nobody may send or read", extra=fields(reason=problem))
            return
        if bad:
            lines = ",".join(map(str, bad))
            log.error("token file: invalid lines ignored", extra=fields(file=self._file, lines=lines, remedy=_REMEDY))
        if not self._tokens:
            log.error("token file has no tokens: nobody may send or read", extra=fields(file=self._file))
        names = ",".join(sorted({token.name for token in self._tokens}))
        log.info(
            "token file reloaded", extra=fields(file=self._file, tokens=len(self), readers=self.readers, names=names)
        )
        _warn_if_open(self._file)
        _warn_if_short(self._tokens)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("--token-file", str(file), _why(error), "Name a readable text file.") from None


def _warn_if_open(file: Path) -> None:
    with suppress(OSError):
        if anyone_may_read(file):
            log.warning("the token file is readable by all users: chmod o-r", extra=fields(file=file))


def _warn_if_short(tokens: tuple[_Token, ...]) -> None:
    if names := ",".join(sorted({token.name for token in tokens if token.is_short})):
        message = "tokens of fewer than %d characters can be guessed: make new ones, with openssl rand -hex 32"
        log.warning(message, SHORT_CHARACTERS, extra=fields(names=names))


def _parse(text: str) -> tuple[tuple[_Token, ...], list[int]]:
    """The tokens, and the numbers of the invalid lines."""
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
            tokens.append(_Token(kind, name, _digest(token), len(token) < SHORT_CHARACTERS))
    return tuple(tokens), bad


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not UTF-8 text"
