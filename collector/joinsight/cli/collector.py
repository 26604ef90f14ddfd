"""How commands talk to a collector: as a listener does, with an address, a token and an authority from options."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import httpx

from joinsight.attach import DEFAULT_URL
from joinsight.cli.options import read_secret
from joinsight.decode import HEADERS
from joinsight.errors import ConfigurationError
from joinsight.serve.tokens import TOKEN_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])


def collector_options(command: Command) -> Command:
    """``--url``, ``--token-file`` and ``--ca-file``."""
    file = click.Path(path_type=Path)
    command = click.option(
        "--ca-file", type=file, help="PEM file of the authority of its certificate.  [default: those of the system]"
    )(command)
    command = click.option(
        "--token-file", type=file, help=f"File whose first line is its token.  [default: {TOKEN_VARIABLE}]"
    )(command)
    return click.option("--url", default=DEFAULT_URL, show_default=True, help="Address of the collector.")(command)


def open_collector(url: str, token_file: Path | None, ca_file: Path | None, timeout: float) -> httpx.Client:
    """A client of the collector at `url`; it waits at most `timeout` seconds for each part of an answer.

    It goes there directly, as a listener does: proxies of the environment are not used. Raises `ConfigurationError`.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname and httpx.URL(url))
    except (ValueError, httpx.InvalidURL):
        is_address = False
    if not is_address:
        raise ConfigurationError("--url", url, "not an address of a collector", f"Write it like {DEFAULT_URL}.")
    token = _token(token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        trusted = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError("--ca-file", str(ca_file), str(error), "Name a PEM file.") from None
    return httpx.Client(base_url=url.rstrip("/"), headers=headers, verify=trusted, timeout=timeout, trust_env=False)


def send(client: httpx.Client, body: bytes) -> httpx.Response:
    """Post a batch: gzip, a document a line. Raises `httpx.RequestError` when no answer comes."""
    return client.post("/v1/documents", content=body, headers=HEADERS)


def _token(file: Path | None) -> str:
    if file is None:
        key, shown = TOKEN_VARIABLE, "(not shown)"
        token = (os.environ.get(TOKEN_VARIABLE, "").strip().splitlines() or [""])[0].strip()
    else:
        key, shown, token = "--token-file", str(file), read_secret("--token-file", file)
    if not (token.isascii() and token.isprintable()):
        raise ConfigurationError(key, shown, "a token has only ASCII characters", "Write it as the collector has it.")
    return token


def reason_of(error: httpx.RequestError) -> str:
    """What went wrong on the way, for a person."""
    return str(error) or type(error).__name__
