"""The user whom a proxy names in a header: it is shown, and opens nothing.

The header is believed only with the proxy's own token: whoever has no such token can write the header in vain.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from starlette.datastructures import Headers

from joinsight.base.errors import ConfigurationError
from joinsight.serve.tokens import Tokens

OPTION = "--user-header"
MAX_CHARACTERS = 256
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
_FORM = "Write NAME:HEADER: the name of the proxy's token, and the header, as in oauth2-proxy:X-Forwarded-User."


class UserHeader(NamedTuple):
    """The header in which a proxy names the user, and the name of its token."""

    token: str
    header: str

    @classmethod
    def parse(cls, text: str, tokens: Tokens) -> UserHeader:
        """Parse ``NAME:HEADER``; raises `ConfigurationError`, also if no reader's token has this name."""
        token, _, header = (part.strip() for part in text.rpartition(":"))
        if not token or not _HEADER.fullmatch(header):
            raise ConfigurationError(OPTION, text, "not the name of a token and a header", _FORM)
        if header.lower() in _SECRET:
            raise ConfigurationError(OPTION, text, "this header has a secret, which pages would show", _FORM)
        if not tokens.has_reader(token):
            remedy = f"Add the line read:{token}:TOKEN to the token file, and let the proxy send this token."
            raise ConfigurationError(OPTION, text, f"no reader's token is named {token!r}", remedy)
        return cls(token, header)

    def user(self, token: str, headers: Headers) -> str | None:
        """The user of a request that has the token of this name: empty without one, None if the header is invalid."""
        given = headers.getlist(self.header) if token == self.token else []
        if len(given) > 1:
            return None
        try:
            name = "".join(given).encode("latin-1").decode().strip()  # ASGI's headers are bytes
        except UnicodeDecodeError:
            return None
        return name if name.isprintable() and len(name) <= MAX_CHARACTERS else None
