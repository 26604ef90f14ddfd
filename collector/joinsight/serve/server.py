"""Runs the collector under uvicorn: checks all settings first, then serves until a signal."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from sqlalchemy import Engine

from joinsight.base.errors import ConfigurationError, ConfigurationErrors
from joinsight.findings import FindingsEngine, Thresholds
from joinsight.findings.thresholds import VARIABLE, split
from joinsight.serve.app import Collector, make_app
from joinsight.serve.hosts import is_loopback
from joinsight.serve.metrics import DEFAULT_JOB_NAMES
from joinsight.serve.protocol import (
    BACKLOG,
    IDLE_SECONDS,
    MIN_OPEN_FILES,
    OPEN_FILES,
    Connections,
    Limits,
    observed,
    raise_open_files,
)
from joinsight.serve.tls import Tls
from joinsight.serve.tokens import TOKEN_VARIABLE, Tokens
from joinsight.serve.user_header import UserHeader
from joinsight.serve.webhook import Webhook
from joinsight.serve.writers import Writers
from joinsight.store.database import check_settings

DEFAULT_PORT = 9595
SHUTDOWN_SECONDS = 25
"""From a signal until unfinished batches are abandoned; they are rolled back, and senders retry."""
PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"  # uvicorn's

log = logging.getLogger("joinsight")


@dataclass(frozen=True, slots=True)
class Listener:
    """The checked settings of `joinsight serve`: a bound socket, tokens, TLS, thresholds of findings, open files."""

    bound: socket.socket
    tokens: Tokens
    tls: Tls | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    webhook: Webhook | None = None
    user_header: UserHeader | None = None
    open_files: int = field(default_factory=raise_open_files)
    """The limit of this process."""

    @property
    def url(self) -> str:
        """The URL of the collector."""
        return self._url(self.bound.getsockname()[0])

    @property
    def pages_url(self) -> str:
        """The URL for a browser on this machine, also where the collector listens on all addresses."""
        address = self.bound.getsockname()[0]
        return self._url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address))

    def _url(self, address: str) -> str:
        shown = f"[{address}]" if ":" in address else address
        return f"{'https' if self.tls else 'http'}://{shown}:{self.bound.getsockname()[1]}"

    def reload_files(self) -> None:
        """Reload tokens and certificate if they have changed; from any thread."""
        self.tokens.refresh()
        if self.tls:
            self.tls.refresh()


class Server(uvicorn.Server):
    """Shuts down gracefully on the first SIGTERM or SIGINT, at once on the second."""

    def __init__(self, config: uvicorn.Config, collector: Collector, connections: Connections) -> None:
        super().__init__(config)
        self.collector = collector
        self.connections = connections
        self._signal: int | None = None
        self.startup_fields: dict[str, Any] | None = None
        """The fields of the event that is logged when senders can connect and signals are handled."""
        self.when_ready: Callable[[], None] = lambda: None
        """Called then, too."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log it."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)  # asyncio's backlog is also the number of connections that it accepts at once
        if self.startup_fields is not None:
            log.info("collecting", extra=self.startup_fields)
        self.when_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Replace uvicorn's handler, which re-raises the signal after shutdown, so that the exit code is never 0."""
        if self._signal is not None:
            signal.signal(sig, signal.SIG_DFL)  # PostgreSQL rolls back what is not committed
            signal.raise_signal(sig)
        self._signal = sig
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish batches that are being written and reject all others with 503."""
        if self._signal is not None:
            log.info("shutting down; a second %s stops at once", signal.Signals(self._signal).name)
        self.collector.close()
        self.connections.close()
        await super().shutdown(sockets)

    @property
    def unfinished(self) -> int:
        """Number of batches that are still being written."""
        return self.collector.writing


@contextmanager
def open_listener(
    host: str,
    port: int,
    token_file: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    *,
    finding_thresholds: Sequence[str] = (),
    webhook: Callable[[], Webhook | None] = lambda: None,
    user_header: str | None = None,
    database_url: str | None = None,
    data: Path | None = None,
) -> Iterator[Listener]:
    """Check all settings of `joinsight serve` and bind its address (port 0: any free one).

    `webhook` reads its settings. Raises `ConfigurationErrors`, one line for each invalid setting.
    """
    errors: list[ConfigurationError] = []
    tokens = tls = bound = thresholds = told = named = None
    try:
        told = webhook()
    except ConfigurationError as error:
        errors.append(error)
    try:
        tokens = Tokens.read(token_file)
    except ConfigurationError as error:
        errors.append(error)
    try:
        named = UserHeader.parse(user_header, tokens) if user_header and tokens is not None else None
    except ConfigurationError as error:
        errors.append(error)
    try:
        tls = _tls(tls_certificate, tls_key)
    except ConfigurationError as error:
        errors.append(error)
    try:
        bound = bind(host, port, open_to_all=tokens is not None and tokens.open)
    except ConfigurationError as error:
        errors.append(error)
    try:
        thresholds = Thresholds().overridden(split(os.environ.get(VARIABLE, "")), VARIABLE)
        thresholds = thresholds.overridden(finding_thresholds)
    except ConfigurationError as error:
        errors.append(error)
    open_files = raise_open_files()
    if open_files < MIN_OPEN_FILES:
        errors.append(
            ConfigurationError(
                "the limit of open files",
                str(open_files),
                f"the collector needs at least {MIN_OPEN_FILES}",
                f"Raise it to {OPEN_FILES}: ulimit -n {OPEN_FILES}, or LimitNOFILE={OPEN_FILES} in a systemd unit.",
            )
        )
    errors += check_settings(database_url, data)
    try:
        if errors:
            raise ConfigurationErrors(errors)
        assert tokens is not None and bound is not None and thresholds is not None
        yield Listener(bound, tokens, tls, thresholds, told, named, open_files)
    finally:
        if bound is not None:
            bound.close()


def bind(host: str, port: int, *, open_to_all: bool = False) -> socket.socket:
    """A bound socket; with `open_to_all`, that is without tokens, the address must be a loopback one.

    Raises `ConfigurationError` if the address cannot be used.
    """
    if open_to_all and not is_loopback(host):
        raise ConfigurationError(
            "--host",
            host,
            "without a token, anyone who can reach this address could write",
            f"Set {TOKEN_VARIABLE} or --token-file, or listen on 127.0.0.1.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; without it, a response on a kept connection waits 40 ms
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError, TypeError, ValueError) as error:
        bound.close()
        raise ConfigurationError(
            "--host/--port", f"{host}:{port}", str(error).rstrip("."), "Name a free port of this machine."
        ) from None
    return bound


def make_server(
    engine: Engine,
    listener: Listener,
    job_names: int = DEFAULT_JOB_NAMES,
    writers: int = 0,
    log_format: str = "text",
    core_hour_price: float | None = None,
) -> Server:
    """The server of a collector; run it with ``server.run(sockets=[listener.bound])``, then end its collector.

    `writers`: the number of processes that decode and write, which log in `log_format`; 0: this process does.
    """
    thresholds = listener.thresholds
    make_writers = partial(Writers, engine, thresholds, number=writers, log_format=log_format) if writers else None
    app = make_app(
        engine,
        listener.tokens,
        FindingsEngine(thresholds),
        job_names,
        make_writers,
        core_hour_price,
        listener.user_header,
    )
    tls = listener.tls
    connections = Connections(Limits.within(listener.open_files), (lambda: tls.context) if tls else None)
    config = uvicorn.Config(
        observed(app),
        http=cast(Any, connections.make),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        backlog=connections.limits.accepted,
        server_header=False,
        proxy_headers=PROXIES_VARIABLE in os.environ,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return Server(config, app.state.collector, connections)


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if certificate and key:
        return Tls(certificate, key)
    if certificate or key:
        given, missing = ("--tls-certificate", "--tls-key") if certificate else ("--tls-key", "--tls-certificate")
        raise ConfigurationError(given, str(certificate or key), f"{missing} is missing", "Specify both or neither.")
    return None
