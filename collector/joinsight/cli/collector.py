"""Sends batches to a collector, with the options of commands and the rules of a listener.

A batch is retried with exponential backoff until the collector answers, and halved when it is too large. Only a
response that lists accepted and refused documents is a collector's: any other response loses no document.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import ssl
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import click
import httpx
import msgspec

from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.cli.options import read_secret
from joinsight.contract.decode import HEADERS, MAX_UNPACKED_BYTES
from joinsight.driver.attach import DEFAULT_URL
from joinsight.serve.tokens import TOKEN_VARIABLE

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
MAX_RETRY_AFTER_SECONDS = 300

Command = TypeVar("Command", bound=Callable[..., Any])
_T = TypeVar("_T")


def collector_options(command: Command) -> Command:
    """``--url``, ``--token-file`` and ``--ca-file``."""
    file = click.Path(path_type=Path)
    command = click.option(
        "--ca-file", type=file, help="PEM file of the CA that signed its certificate.  [default: those of the system]"
    )(command)
    command = click.option(
        "--token-file", type=file, help=f"File whose first line is its token.  [default: {TOKEN_VARIABLE}]"
    )(command)
    return click.option("--url", default=DEFAULT_URL, show_default=True, help="Address of the collector.")(command)


def open_collector(url: str, token_file: Path | None, ca_file: Path | None, timeout: float) -> httpx.Client:
    """A client of the collector at `url`; `timeout` is in seconds, for each part of a response.

    It connects directly, as a listener does: the environment's proxies are not used. Raises `ConfigurationError`.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname and httpx.URL(url))
    except (ValueError, httpx.InvalidURL):
        is_address = False
    if not is_address:
        raise ConfigurationError("--url", url, "not a valid address of a collector", f"Write it like {DEFAULT_URL}.")
    token = _token(token_file)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        trusted = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError("--ca-file", str(ca_file), str(error), "Name a PEM file.") from None
    return httpx.Client(base_url=url.rstrip("/"), headers=headers, verify=trusted, timeout=timeout, trust_env=False)


def send(client: httpx.Client, body: bytes) -> httpx.Response:
    """Post a batch: gzip, one document per line. Raises `httpx.RequestError` without a response."""
    return client.post("/v1/documents", content=body, headers=HEADERS)


def _token(file: Path | None) -> str:
    if file is None:
        key, shown = TOKEN_VARIABLE, "(not shown)"
        token = (os.environ.get(TOKEN_VARIABLE, "").strip().splitlines() or [""])[0].strip()
    else:
        key, shown, token = "--token-file", str(file), read_secret("--token-file", file)
    if not (token.isascii() and token.isprintable()):
        raise ConfigurationError(key, shown, "a token has only ASCII characters", "Copy the collector's token.")
    return token


def reason_of(error: httpx.RequestError) -> str:
    """The message of a failed request."""
    return str(error) or type(error).__name__


class Undeliverable(Exception):
    """The batch will never be accepted."""


class GaveUp(Exception):
    """The collector accepted nothing within the timeout."""


class _Refused(msgspec.Struct):
    line: Annotated[int, msgspec.Meta(ge=1)]
    reason: str


class _Reply(msgspec.Struct):
    """A collector's response to a batch."""

    accepted: int
    refused: list[_Refused]
    error: str | None = None
    """Why the whole batch was refused."""


@dataclass(slots=True)
class Delivered:
    """The result of delivering a batch."""

    accepted: int = 0
    refused: list[tuple[bytes, str]] = field(default_factory=list)
    """Refused lines, with reasons."""


def deliver(client: httpx.Client, body: bytes, timeout_seconds: float) -> Delivered:
    """Deliver a batch; lines that the collector refuses are in the result.

    Raises `GaveUp`, `Undeliverable`, and `JoinsightError` for a wrong token or a service that is not a collector.
    """
    delivered = Delivered()
    pending = [body]
    while pending:
        body = pending.pop()
        status, reply = _post(client, body, timeout_seconds)
        if status != 413 and reply is not None:
            delivered.accepted += reply.accepted
            delivered.refused += _refused_lines(reply, body)
            continue
        lines = _unpack(body)
        if len(lines) > 1:
            half = len(lines) // 2
            pending += [pack(lines[half:]), pack(lines[:half])]
        elif reply is None:
            raise Undeliverable("a document in it is too large for a proxy before the collector (status 413)")
        else:
            delivered.refused.append((lines[0], str(reply.error)))
    return delivered


def pack(lines: Sequence[bytes]) -> bytes:
    """The body of a request with these documents."""
    return gzip.compress(b"".join(line + b"\n" for line in lines), 1)


def _unpack(body: bytes) -> list[bytes]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            data = file.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Undeliverable(f"it is truncated or corrupt: {error}") from None
    if len(data) > MAX_UNPACKED_BYTES:
        raise Undeliverable(f"it has more than {MAX_UNPACKED_BYTES} bytes unpacked")
    return data.removesuffix(b"\n").split(b"\n")


def _refused_lines(reply: _Reply, body: bytes) -> list[tuple[bytes, str]]:
    if not reply.refused:
        return []
    lines = _unpack(body)
    try:
        return [(lines[each.line - 1], each.reason) for each in reply.refused]
    except IndexError:
        raise JoinsightError(f"Not a Joinsight collector: it refused more than {len(lines)} lines.") from None


def _post(client: httpx.Client, body: bytes, timeout_seconds: float) -> tuple[int, _Reply | None]:
    """The final status and the collector's reply; the reply is None for a 413 of something else, such as a proxy."""
    deadline = time.monotonic() + timeout_seconds
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        retry_after = "0"
        try:
            answer = send(client, body)
        except httpx.RequestError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                remedy = "Name the file of the authority that issued it with --ca-file."
                raise ConfigurationError("--url", str(client.base_url), str(error), remedy) from None
            problem = reason_of(error)
        else:
            if answer.status_code < 500 and answer.status_code not in (408, 429):
                return answer.status_code, _read(answer)
            problem, retry_after = f"status {answer.status_code}", answer.headers.get("retry-after", "0")
        left = deadline - time.monotonic()
        if left <= 0:
            raise GaveUp(problem)
        requested = (
            min(int(retry_after), MAX_RETRY_AFTER_SECONDS) if retry_after.isascii() and retry_after.isdigit() else 0
        )
        time.sleep(min(left, max(requested, backoff * random.uniform(0.5, 1))))
        backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)


def _read(answer: httpx.Response) -> _Reply | None:
    """The reply in a final response; None for a 413 that is not the collector's."""
    status, reply = answer.status_code, _decode(answer, _Reply)
    if status == 413 or (status in (200, 400) and reply is not None and reply.error is None):
        return reply
    if status == 400 and reply is not None:
        raise Undeliverable(str(reply.error))
    if status == 401:
        raise ConfigurationError(
            TOKEN_VARIABLE, "(not shown)", "the collector does not accept it", "Set its token there or in --token-file."
        )
    if status == 403 and (refusal := _decode(answer, dict[str, str])):
        problem = refusal.get("error", "not allowed")
        raise ConfigurationError("--url", str(answer.request.url), problem, "Call the collector by its own name.")
    raise JoinsightError(
        f"Not a Joinsight collector: {answer.request.url} answers {status}, {answer.text[:80]!r}. Is --url right?"
    )


def _decode(answer: httpx.Response, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
