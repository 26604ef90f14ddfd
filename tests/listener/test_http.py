"""The listener's requests: real collectors, and servers and networks that are out of order."""

from __future__ import annotations

import datetime
import gzip
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.java import LIGHT, compile_java
from tests.serve.real import service
from tests.waiting import until

Post = Callable[[Path], str]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Class path with the program that posts."""
    return compile_java(Path(__file__).with_name("Posts.java"), tmp_path_factory.mktemp("posts"))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A file with a batch of one document."""
    path = tmp_path / "batch"
    path.write_bytes(request(execution(application_id="http")))
    return path


@contextmanager
def poster(classes: str, url: str, *java: str, **settings: str) -> Iterator[Post]:
    """Posts files to the URL; returns what the program says: status, whether the collector answered, refused lines."""
    conf = [f"url={url}", "spool=none", *(f"{key}={value}" for key, value in settings.items())]
    command = ["java", *LIGHT, "-Xmx64m", *java, "-cp", classes, "io.joinsight.delivery.Posts", *conf]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        requests, replies = process.stdin, process.stdout
        assert requests is not None
        assert replies is not None

        def post(path: Path) -> str:
            print(path, file=requests, flush=True)
            return replies.readline().rstrip("\n")

        yield post
        requests.close()


def database(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def test_a_rotated_token_is_read_again(engine: Engine, classes: str, batch: Path, tmp_path: Path) -> None:
    """After a 401 the listener reads its file again and sends the batch again; a bad file changes nothing."""
    tokens, own = tmp_path / "tokens", tmp_path / "own"
    first, second = "a" * 40, "b" * 40
    tokens.write_text(f"job:{first}\n")
    own.write_text(first)
    with ExitStack() as running:
        collector = running.enter_context(service(database(engine), "--token-file", str(tokens)))
        post = running.enter_context(poster(classes, collector.url, tokenFile=str(own)))
        assert post(batch) == "200 true 0"
        tokens.write_text(f"job:{second}\n")
        until(lambda: post(batch).startswith("401 "), "the old token is no longer accepted")
        own.write_text("")
        assert post(batch).startswith("401 ")
        own.write_text(second + "\n")
        assert post(batch) == "200 true 0"


def test_a_reply_to_thousands_of_refused_documents_is_read(engine: Engine, classes: str, tmp_path: Path) -> None:
    """So the batch is not sent again for ever."""
    lines = 5_000
    path = tmp_path / "refused"
    path.write_bytes(gzip.compress(b'{"kind": "execution", "schema_version": 1, "origin": 1}\n' * lines))
    with service(database(engine)) as collector, poster(classes, collector.url) as post:
        assert post(path) == f"400 true {lines}"


def test_a_collector_at_an_ipv6_address_is_reached(engine: Engine, classes: str, batch: Path) -> None:
    """The address is in brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("needs IPv6")
    with service(database(engine), "--host", "::1") as collector, poster(classes, collector.url) as post:
        assert "[::1]" in collector.url
        assert post(batch) == "200 true 0"


@pytest.mark.matrix
def test_an_expired_certificate_is_refused(engine: Engine, classes: str, batch: Path, tmp_path: Path) -> None:
    """The reason is that it is not valid now."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    ended = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    issued = authority.issue_cert("127.0.0.1", not_before=ended - datetime.timedelta(days=1), not_after=ended)
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "key.pem").chmod(0o600)
    files = "--tls-certificate", str(tmp_path / "certificate.pem"), "--tls-key", str(tmp_path / "key.pem")
    trusting = {"caFile": str(tmp_path / "ca.pem")}
    with service(database(engine), *files) as collector, poster(classes, collector.url, **trusting) as post:
        assert "validity check failed" in post(batch)


@pytest.mark.matrix
def test_new_certificates_are_read_again(engine: Engine, classes: str, batch: Path, tmp_path: Path) -> None:
    """After a failed handshake the listener reads its file and sends again; a bad file changes nothing."""
    authority, former, own = trustme.CA(), trustme.CA(), tmp_path / "ca.pem"
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    (tmp_path / "key.pem").chmod(0o600)
    files = "--tls-certificate", str(tmp_path / "certificate.pem"), "--tls-key", str(tmp_path / "key.pem")
    former.cert_pem.write_to_path(str(own))
    with service(database(engine), *files) as collector, poster(classes, collector.url, caFile=str(own)) as post:
        assert "unable to find valid certification path" in post(batch)
        own.write_text("no certificate")
        assert "unable to find valid certification path" in post(batch)
        authority.cert_pem.write_to_path(str(own))
        assert post(batch) == "200 true 0"


class Server:
    """A server that handles each connection, after its request, with what `behaviour` is then."""

    def __init__(self, behaviour: Callable[[socket.socket], None]) -> None:
        self.behaviour = behaviour
        self.received: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._socket.accept()[0]
                self._open.append(connection)
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with suppress(OSError):
            self.received.append(connection.recv(1_000_000))
            self.behaviour(connection)

    def close(self) -> None:
        for each in (self._socket, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def server(behaviour: Callable[[socket.socket], None]) -> Iterator[Server]:
    running = Server(behaviour)
    try:
        yield running
    finally:
        running.close()


def accepts(connection: socket.socket) -> None:
    body = b'{"accepted": 1, "refused": []}'
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    connection.close()


def silent(connection: socket.socket) -> None:
    """Never answers."""


def slow_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    trickle(connection)


def slow_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    trickle(connection)


def slow_chunks(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n")
    trickle(connection)


def trickle(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.matrix
@pytest.mark.parametrize("behaviour", [silent, slow_head, slow_body, slow_chunks])
def test_a_server_that_hangs_does_not_block_later_requests(
    classes: str, batch: Path, behaviour: Callable[[socket.socket], None]
) -> None:
    """Requests fail in time, whether nothing comes or a byte now and then; once the server is well, they succeed."""
    with ExitStack() as running:
        broken = running.enter_context(server(behaviour))
        url = f"http://127.0.0.1:{broken.port}"
        post = running.enter_context(poster(classes, url, requestTimeout="300ms"))
        assert "xception" in post(batch)
        broken.behaviour = accepts
        until(lambda: post(batch) == "200 true 0", "a request succeeds")


@pytest.mark.matrix
@pytest.mark.parametrize("use", [False, True])
def test_the_proxy_of_the_jvm_gets_nothing_unless_asked_for(
    classes: str, batch: Path, tmp_path: Path, use: bool
) -> None:
    """Neither the token nor documents, unless `useProxy` is set."""
    token = tmp_path / "token"
    token.write_text("secret")
    with server(accepts) as collector, server(accepts) as proxy:
        java = "-Dhttp.proxyHost=127.0.0.1", f"-Dhttp.proxyPort={proxy.port}", "-Dhttp.nonProxyHosts="
        settings = {"useProxy": "true"} if use else {}
        with poster(classes, f"http://127.0.0.1:{collector.port}", *java, tokenFile=str(token), **settings) as post:
            assert post(batch) == "200 true 0"
        reached, other = (proxy, collector) if use else (collector, proxy)
        assert other.received == []
        assert b"Bearer secret" in reached.received[0]
