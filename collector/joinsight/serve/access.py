"""Rejects requests that web sites make through a visitor's browser, by their headers, before anything else.

Any site can make its visitors' browsers send requests here, and can let its own name resolve to this machine (DNS
rebinding), so that the browser treats the collector as part of the site. Every route calls `forbidden`; the one that
writes also calls `unsupported_media_type`. A page cannot forge the headers that they check: the browser sets ``Host``,
``Origin`` and ``Sec-Fetch-Site`` itself, and sends the ``Content-Type`` and ``Content-Encoding`` of a batch to another
origin only after a preflight (OPTIONS), which nothing here allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from joinsight.contract.decode import HEADERS
from joinsight.serve.hosts import is_loopback
from joinsight.serve.tokens import Tokens

Endpoint = Callable[[Request], Awaitable[Response]]
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""With these, pages of other sites cannot use a response as an image or a script either."""


def forbidden(request: Request, tokens: Tokens, *, writes: bool = False) -> str | None:
    """The reason for a 403, else None. `writes`: reject cross-site navigation too, which is allowed for pages."""
    host = request.headers.get("host", "")
    if tokens.open and not is_loopback(_host_name(host)):
        return (
            f"Host not allowed: {host!r}. A collector without tokens accepts loopback names only."
            " Use http://localhost, or set a token."
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"Cross-site request: pages of {origin!r} may not use this collector."
    if writes and request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "Cross-site request: pages of other sites may not use this collector."
    return None


def unsupported_media_type(request: Request) -> str | None:
    """The reason for a 415, None if the headers declare a batch."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if (kind, encoding) == (HEADERS["Content-Type"], HEADERS["Content-Encoding"]):
        return None
    wanted = " and ".join(f"{name}: {value}" for name, value in HEADERS.items())
    return f"a batch must be sent with {wanted}, not with {kind!r} and {encoding!r}"


def guarded(endpoint: Endpoint, tokens: Tokens, turns: asyncio.Semaphore) -> Endpoint:
    """The endpoint, behind a 403 with the reason for requests that are `forbidden`.

    Anyone may request it, so requests take `turns`, each for a round of the event loop: a flood leaves all else of each
    round to senders.
    """

    async def guard(request: Request) -> Response:
        async with turns:
            await asyncio.sleep(0)
        reason = forbidden(request, tokens)
        response = await endpoint(request) if reason is None else PlainTextResponse(f"{reason}\n", 403)
        response.headers.update(SAFE_HEADERS)
        return response

    return guard


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
