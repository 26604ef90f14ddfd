"""What `serve/protocol` assumes about uvicorn's HTTP protocol, which is not public API.

When a test fails here, a new version of uvicorn has changed: adapt `serve/protocol`, then the bound in pyproject.toml.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from joinsight.serve.protocol import Connection, Connections, Limits, observed


def test_its_constructor_takes_the_arguments_that_we_pass() -> None:
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


@pytest.mark.parametrize("closes", ["before a request", "between requests", "while a request is processed"])
def test_a_closed_connection_is_not_left_to_the_garbage_collector(closes: str) -> None:
    """Nothing refers to it in a circle: full collections are rare, and each connection has buffers."""
    made: list[weakref.ref[Connection]] = []

    async def conversation() -> None:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            if closes.startswith("while"):
                await gone.wait()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})

        config = uvicorn.Config(observed(app), lifespan="off", log_config=None)
        config.load()
        server_state, connections = ServerState(), Connections(Limits.within(1024))

        def make() -> Connection:
            connection = connections.make(app_state={}, config=config, server_state=server_state)
            made.append(weakref.ref(connection))
            return connection

        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            if not closes.startswith("before"):
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await begun.wait()
                if closes.startswith("between"):
                    await reader.readuntil(b"\r\n\r\n")
            while not connections.open:
                await asyncio.sleep(0.01)
            writer.close()
            while connections.open:
                await asyncio.sleep(0.01)
            gone.set()
            while server_state.tasks:
                await asyncio.sleep(0.01)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(conversation())
        assert [each() for each in made] == [None]
    finally:
        gc.enable()
