"""Runs the collector under uvicorn: checks its settings first, all of them, and says where it listens."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import uvicorn
from sqlalchemy import Engine

from joinsight.errors import ConfigurationError
from joinsight.serve.app import make_app

TOKEN_VARIABLE = "JOINSIGHT_TOKEN"
DEFAULT_PORT = 9595
SHUTDOWN_SECONDS = 20


def read_tokens(file: Path | None) -> list[str]:
    """The tokens that senders may show: the lines of a file, or JOINSIGHT_TOKEN; none means no check."""
    if file is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return [token] if token else []
    try:
        tokens = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("--token-file", str(file), str(error), "Name a readable text file.") from None
    if not tokens:
        raise ConfigurationError("--token-file", str(file), "the file is empty", "Write one token a line.")
    return tokens


def make_server(engine: Engine, host: str, port: int, tokens: list[str]) -> tuple[uvicorn.Server, socket.socket]:
    """A server and its bound socket (port 0: any free one).

    Raises `ConfigurationError` when the address cannot be used, or would let anyone on the network write.
    """
    if not tokens and not _is_loopback(host):
        raise ConfigurationError(
            "--host",
            host,
            "without a token anyone who reaches this address could write",
            f"Set {TOKEN_VARIABLE} or --token-file, or listen on 127.0.0.1.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError, TypeError, ValueError) as error:
        bound.close()
        raise ConfigurationError(
            "--host/--port", f"{host}:{port}", str(error), "Name a free port of this machine."
        ) from None
    config = uvicorn.Config(
        make_app(engine, tokens),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=60,
    )
    return uvicorn.Server(config), bound


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
