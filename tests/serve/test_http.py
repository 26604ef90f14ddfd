"""Requests that RFC 9112 lets a server refuse, because a proxy may see other requests in the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.serve.real import answer, dial, head

from joinsight.demo.runner import collector
from joinsight.serve.protocol import HEAD_BYTES


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    """A collector that anyone may send to."""
    with collector(engine, 0, []) as (url, _):
        yield url


def responses(url: str, *sent: bytes, resets: int = 9) -> bytes:
    """What arrives until the collector closes the connection, or answers the last request, which asks for that.

    The answer is lost where a connection is closed before all that was sent is read: it is then sent again.
    """
    try:
        with dial(url) as connection:
            for part in sent:
                connection.sendall(part)
            return answer(connection)
    except ConnectionError:
        if not resets:
            raise
        return responses(url, *sent, resets=resets - 1)


NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def chunked(body: bytes, *headers: str, line: bytes = b"\r\n") -> bytes:
    """A batch as one chunk; `line` ends the line with the chunk's size."""
    start = head(0, "Transfer-Encoding: chunked", *headers).replace(b"Content-Length: 0\r\n", b"")
    return start + b"%x%s%s\r\n0\r\n\r\n" % (len(body), line, body)


def test_two_lengths_of_a_body_are_refused(url: str) -> None:
    """400, and the connection is closed, so that what one of them leaves over is no request."""
    body = request(execution(application_id="two-lengths"))
    received = responses(url, chunked(body, f"Content-Length: {len(body)}"), NEXT)
    assert received.startswith(b"HTTP/1.1 400 ") and received.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in received.lower() and b"either Content-Length or Transfer-Encoding" in received


def test_a_large_head_is_refused(url: str) -> None:
    """431 if it arrives at once, 400 in parts, and the connection is closed; a head of half that size is read."""
    large = NEXT.replace(b"Host", b"X: %s\r\nHost" % (b"x" * HEAD_BYTES))
    try:
        received = responses(url, large)
    except ConnectionError:  # the last part was not read before
        received = b"HTTP/1.1 400 "
    assert received.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
    usual = NEXT.replace(b"Host", b"X: %s\r\nHost" % (b"x" * (HEAD_BYTES // 2)))
    assert responses(url, usual).startswith(b"HTTP/1.1 200 ")


def test_lines_of_a_head_may_end_in_a_line_feed(url: str) -> None:
    """As RFC 9112 allows: the requests of a connection are the same as with carriage returns."""
    body = request(execution(application_id="line-feeds"))
    received = responses(url, head(len(body)).replace(b"\r\n", b"\n") + body, NEXT)
    assert received.count(b"HTTP/1.1 200 ") == received.count(b"HTTP/1.1 ") == 2
    assert b'"accepted":1' in received and received.endswith(b"ok\n")


@pytest.mark.parametrize(("line", "status"), [(b"\r\n", 200), (b"\n", 400)], ids=["both", "line feed"])
def test_lines_of_chunks_may_not(url: str, line: bytes, status: int) -> None:
    """RFC 9112 allows it for the head only; the connection is closed."""
    received = responses(url, chunked(request(execution(application_id="chunks")), "Connection: close", line=line))
    assert received.startswith(b"HTTP/1.1 %d " % status)
