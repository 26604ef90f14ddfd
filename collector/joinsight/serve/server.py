"""Runs the collector under uvicorn: checks its settings first, all of them, then listens until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from sqlalchemy import Engine

from joinsight.errors import ConfigurationError, ConfigurationErrors
from joinsight.findings import Finder, Thresholds
from joinsight.findings.thresholds import VARIABLE, split
from joinsight.serve.app import Collector, make_app
from joinsight.serve.hosts import is_loopback
from joinsight.serve.metrics import DEFAULT_JOB_NAMES
from joinsight.serve.protocol import IDLE_SECONDS, Protocol, over_tls
from joinsight.serve.tls import Tls
from joinsight.serve.tokens import TOKEN_VARIABLE, Tokens
from joinsight.store.database import check_settings
from joinsight.store.going_on import counting_going_on
from joinsight.store.lost import DEFAULT_LOST_AFTER, sweeping
from joinsight.store.upkeep import counting_regressions, keeping_alive, keeping_partitions, pruning

DEFAULT_PORT = 9595
SHUTDOWN_SECONDS = 25
"""From a signal until batches that are still being written are given up; they are rolled back and sent again."""
REFRESH_SECONDS = 1
"""How often files are looked at that may have changed."""
PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"  # uvicorn's

log = logging.getLogger("joinsight")


@dataclass(frozen=True, slots=True)
class Door:
    """What senders come in through: a bound socket, tokens, TLS; and what findings in their documents go by."""

    bound: socket.socket
    tokens: Tokens
    tls: Tls | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def url(self) -> str:
        """Where it is."""
        address, port = self.bound.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        return f"{'https' if self.tls else 'http'}://{shown}:{port}"


class Server(uvicorn.Server):
    """Ends in order at the first SIGTERM or SIGINT and at once at the second."""

    def __init__(self, config: uvicorn.Config, collector: Collector) -> None:
        super().__init__(config)
        self.collector = collector
        self._signal: int | None = None
        self.announcement: dict[str, Any] | None = None
        """What the log says of the start, once senders can come and signals are heard."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        if self.announcement is not None:
            log.info("collecting", extra=self.announcement)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn's would raise the signal again after the server has ended, so that no exit code is 0."""
        if self._signal is not None:
            signal.signal(sig, signal.SIG_DFL)  # PostgreSQL rolls back what is not committed
            signal.raise_signal(sig)
        self._signal = sig
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is being written and refuse all else."""
        if self._signal is not None:
            log.info("shutting down, at once with a second %s", signal.Signals(self._signal).name)
        self.collector.close()
        await super().shutdown(sockets)

    @property
    def unfinished(self) -> int:
        """Batches that are still being written."""
        return self.collector.writing


@contextmanager
def open_door(
    host: str,
    port: int,
    token_file: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    *,
    finding_thresholds: Sequence[str] = (),
    database_url: str | None = None,
    data: Path | None = None,
) -> Iterator[Door]:
    """Check all settings of `joinsight serve` and bind its address (port 0: any free one).

    Raises `ConfigurationErrors`, one line for each setting that is wrong.
    """
    errors: list[ConfigurationError] = []
    tokens = tls = bound = thresholds = None
    try:
        tokens = Tokens.read(token_file)
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
    errors += check_settings(database_url, data)
    try:
        if errors:
            raise ConfigurationErrors(errors)
        assert tokens is not None and bound is not None and thresholds is not None
        yield Door(bound, tokens, tls, thresholds)
    finally:
        if bound is not None:
            bound.close()


def bind(host: str, port: int, *, open_to_all: bool = False) -> socket.socket:
    """A socket at this address.

    Raises `ConfigurationError` when it cannot be used; `open_to_all`, without a token, it must be this machine's alone.
    """
    if open_to_all and not is_loopback(host):
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
    return bound


def make_server(engine: Engine, door: Door, job_names: int = DEFAULT_JOB_NAMES) -> Server:
    """The collector behind this door; run it with ``server.run(sockets=[door.bound])``."""
    app = make_app(engine, door.tokens, Finder(door.thresholds), job_names)

    async def refresh() -> None:
        door.tokens.refresh()
        if door.tls:
            door.tls.refresh()

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=PROXIES_VARIABLE in os.environ,
        callback_notify=refresh,
        timeout_notify=REFRESH_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    config.load()
    if door.tls:
        config.http_protocol_class = partial(over_tls, door.tls.context)  # type: ignore[assignment]
    return Server(config, app.state.collector)


@contextmanager
def looking_after(
    engine: Engine, collector: Collector, lost_after: timedelta = DEFAULT_LOST_AFTER, keep: timedelta | None = None
) -> Iterator[None]:
    """All that a collector does beside taking documents, in threads, as long as the context lasts.

    `keep`: prune what is older; None: keep all.
    """
    with (
        keeping_alive(engine),
        sweeping(engine, lost_after, collector.lost),
        keeping_partitions(engine, collector.misplaced),
        counting_regressions(engine, collector.regressed),
        counting_going_on(engine, collector.going_on),
        pruning(engine, keep) if keep else nullcontext(),
    ):
        yield


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if certificate and key:
        return Tls(certificate, key)
    if certificate or key:
        given, missing = ("--tls-certificate", "--tls-key") if certificate else ("--tls-key", "--tls-certificate")
        raise ConfigurationError(given, str(certificate or key), f"{missing} is missing", "Name both, or none.")
    return None
