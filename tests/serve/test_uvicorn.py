"""What `serve/protocol` assumes about uvicorn's HTTP protocol, which is not public API.

When a test fails here, a new version of uvicorn has changed: adapt `serve/protocol`, then the bound in pyproject.toml.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState


def test_its_constructor() -> None:
    """It is called with these arguments, so `Connections.make` is, too."""
    assert list(inspect.signature(H11Protocol).parameters) == ["config", "server_state", "app_state", "_loop"]


def test_it_can_be_told_that_a_client_has_gone() -> None:
    """It copies the state into each request, and after `connection_lost` with an error, writes no answer and leaves the
    transport open."""
    states: list[Any] = []

    async def conversation() -> bytes:
        gone = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            states.append(scope["state"])
            await gone.wait()
            assert (await receive())["type"] == "http.disconnect"
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"an answer"})

        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        server_state, made = ServerState(), []

        def make() -> H11Protocol:
            made.append(H11Protocol(config=config, server_state=server_state, app_state={"connection": "ours"}))
            return made[-1]

        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not states:
                await asyncio.sleep(0.01)
            (http,) = made
            assert server_state.connections == {http}
            http.connection_lost(ConnectionAbortedError())
            assert server_state.connections == set()
            gone.set()
            await asyncio.gather(*server_state.tasks)
            assert not http.transport.is_closing()
            http.transport.write(b"turned away")
            http.transport.close()
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(conversation()) == b"turned away"
    assert states[0]["connection"] == "ours"
