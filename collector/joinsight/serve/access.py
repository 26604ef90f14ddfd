"""Keeps web sites out: what the head of a request must show before anything else is done with it.

Any site can make its visitors' browsers send requests here, and can have its own name lead to this machine (DNS
rebinding), so that the browser takes the collector for a part of the site. Every route asks `refusal`, the one that
writes `wrong_kind` too. A page cannot forge what these look at: the browser sets ``Host``, ``Origin`` and
``Sec-Fetch-Site`` itself, and sends the ``Content-Type`` and ``Content-Encoding`` of a batch for another origin only
after a preflight (OPTIONS), which nothing here allows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from joinsight.decode import HEADERS
from joinsight.serve.hosts import is_loopback
from joinsight.serve.tokens import Tokens

Endpoint = Callable[[Request], Awaitable[Response]]
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""Other sites' pages cannot have the answer as an image or a script either."""


def refusal(request: Request, tokens: Tokens, *, writes: bool = False) -> str | None:
    """Why this request is not answered; None if it may be. One that `writes` is never a link that someone followed."""
    host = request.headers.get("host", "")
    if tokens.open and not is_loopback(_host_name(host)):
        return (
            f"This collector has no token, so it answers to this machine's names only, not to {host!r}."
            " Use http://localhost, or set a token."
        )
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return f"This collector takes no requests from pages of other sites: {origin!r}."
    if writes and request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "This collector takes no requests from pages of other sites."
    return None


def wrong_kind(request: Request) -> str | None:
    """Why the body is not read as a batch, by what its sender calls it; None if it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if (kind, encoding) == (HEADERS["Content-Type"], HEADERS["Content-Encoding"]):
        return None
    wanted = " and ".join(f"{name}: {value}" for name, value in HEADERS.items())
    return f"a batch must be sent with {wanted}, not with {kind!r} and {encoding!r}"


def guarded(endpoint: Endpoint, tokens: Tokens) -> Endpoint:
    """The endpoint for those whom `refusal` lets in; others get 403 and the reason."""

    async def answer(request: Request) -> Response:
        reason = refusal(request, tokens)
        response = await endpoint(request) if reason is None else PlainTextResponse(f"{reason}\n", 403)
        response.headers.update(SAFE_HEADERS)
        return response

    return answer


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
