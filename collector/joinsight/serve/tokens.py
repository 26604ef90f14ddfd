"""The tokens that senders show: from a file, which is read again when it changes, or from the environment.

A line is a token, or ``name:token``. Names stand in the log and in the metrics; tokens stand nowhere, and in memory
only as hashes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
from pathlib import Path
from typing import NamedTuple

from joinsight.errors import ConfigurationError
from joinsight.serve.files import Watched, anyone_may_read
from joinsight.serve.logs import fields

TOKEN_VARIABLE = "JOINSIGHT_TOKEN"
UNNAMED = "unnamed"

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750: what a bearer token is made of, so that a colon is free
_NAME = re.compile(r"[A-Za-z0-9._ -]{1,64}")
_REMEDY = "Write one token a line, or name:token; a token has the characters A-Z a-z 0-9 - . _ ~ + / ="

log = logging.getLogger("joinsight")


class _Token(NamedTuple):
    name: str
    digest: bytes


class Tokens:
    """The tokens that open the door; none: it stands open."""

    def __init__(self, text: str = "", key: str = TOKEN_VARIABLE, file: Path | None = None) -> None:
        """Of `text`, which `key` set; raises `ConfigurationError` that names a bad line, not what is in it."""
        self._tokens = _parse(text, key)
        self._file = file
        self._watched = Watched(file) if file else None

    @classmethod
    def read(cls, file: Path | None) -> Tokens:
        """The tokens of a file, else of JOINSIGHT_TOKEN.

        Raises `ConfigurationError` if the file cannot be read, has no token, or a bad line.
        """
        if file is None:
            return cls(os.environ.get(TOKEN_VARIABLE, ""))
        tokens = cls(file=file)
        tokens._read()
        return tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, authorization: str) -> str | None:
        """The name of the token that this header shows; None if it shows none of ours.

        Takes the same time whichever it is.
        """
        scheme, _, given = authorization.partition(" ")
        name = self._name_of(given.strip())
        return name if scheme.lower() == "bearer" else None

    def find_password(self, authorization: str) -> str | None:
        """The same for a browser's header, whose password is the token and whose user name is anything.

        Not for what changes anything: a browser adds this header to whatever another site makes it send.
        """
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user_and_password = base64.b64decode(given.strip(), validate=True).decode()
        except ValueError:  # binascii.Error and UnicodeDecodeError are such
            return None
        return self._name_of(user_and_password.partition(":")[2])

    def _name_of(self, token: str) -> str | None:
        digest = _digest(token)
        names = [each.name for each in self._tokens if hmac.compare_digest(each.digest, digest)]
        return names[0] if names else None

    def refresh(self) -> None:
        """Read the file again if it has changed; a file that is no good leaves the tokens as they are."""
        if self._watched is None or not self._watched.changed():
            return
        try:
            self._read()
        except ConfigurationError as error:
            log.error("tokens not read again, those before stay in force", extra=fields(reason=str(error)))
        else:
            names = sorted({token.name for token in self._tokens})
            log.info("tokens read again", extra=fields(file=self._file, tokens=len(self), names=",".join(names)))

    def _read(self) -> None:
        assert self._file is not None
        key = "--token-file"
        try:
            text = self._file.read_text()
            if anyone_may_read(self._file):
                log.warning("anyone on this machine may read the tokens: chmod o-r", extra=fields(file=self._file))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(key, str(self._file), _why(error), "Name a readable text file.") from None
        tokens = _parse(text, key, str(self._file))
        if not tokens:
            raise ConfigurationError(key, str(self._file), "no token is in it", _REMEDY)
        self._tokens = tokens


def _parse(text: str, key: str, shown: str = "(not shown)") -> tuple[_Token, ...]:
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, token = line.rpartition(":")
        name = name.strip() if colon else UNNAMED
        if not _NAME.fullmatch(name) or not _TOKEN.fullmatch(token.strip()):
            raise ConfigurationError(key, shown, f"line {number} is no token", _REMEDY)
        tokens.append(_Token(name, _digest(token.strip())))
    return tuple(tokens)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no UTF-8 text"
