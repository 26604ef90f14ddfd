"""`AgentTools` by the Model Context Protocol, on standard input and output or HTTP, by the official SDK.

Nothing else imports this module: the SDK is an optional package, and takes most of a second to load.
"""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from joinsight import __version__
from joinsight.serve.access import SAFE_HEADERS, forbidden
from joinsight.serve.agent_tools import NOTICE, AgentTools
from joinsight.serve.tokens import Tokens

_INSTRUCTIONS = (
    "Joinsight knows what each run of each Spark SQL query cost. Begin with slow or verdict. An execution is named by"
    f" its id (12, APPLICATION/12, or last). {NOTICE}"
)


def make_server(tools: AgentTools) -> MCPServer:
    """A server of the tools, of which `sql` only if the database's role may not do more than read."""
    server = MCPServer("joinsight", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    its: list[Callable[..., str]] = [tools.slow, tools.verdict, tools.why, tools.history, tools.cost, tools.findings]
    for tool in [*its, tools.sql] if tools.allows_sql else its:
        server.tool(
            name=tool.__name__,
            description=" ".join((tool.__doc__ or "").split()),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
            structured_output=False,
        )(tool)
    return server


def http_server(tools: AgentTools, tokens: Tokens) -> uvicorn.Server:
    """A server at ``/mcp`` for clients with a reader's token; without tokens, for this machine."""
    # `forbidden` checks Host and Origin, with the same rules as for pages
    checked_here = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = make_server(tools).streamable_http_app(
        json_response=True, stateless_http=True, transport_security=checked_here
    )
    config = uvicorn.Config(_Guard(app, tokens), log_level="error", access_log=False, server_header=False, ws="none")
    return uvicorn.Server(config)


class _Guard:
    """The application `app`, with a 401 or 403 for requests that may not read."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or the start and end of the server."""
        app = self._app
        if scope["type"] == "http":
            request = Request(scope)
            shown = request.headers.get("authorization", "")
            if reason := forbidden(request, self._tokens, writes=True):
                app = PlainTextResponse(f"{reason}\n", 403, SAFE_HEADERS)
            elif not self._tokens.open and not self._tokens.reader(shown):
                app = PlainTextResponse("A reader's token is required.\n", 401, SAFE_HEADERS)
        await app(scope, receive, send)
