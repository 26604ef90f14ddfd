"""HTTPS with a certificate of a CA made for the test."""

from __future__ import annotations

import signal
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import trustme
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.serve.real import SECONDS, dial, get, head, in_threads, locked, post, service, until
from tests.store.test_embedded import with_proc

from joinsight.base.errors import ConfigurationError
from joinsight.serve.tls import Tls

FILES = ("--tls-certificate", "--tls-key")


class Pair:
    """A certificate for 127.0.0.1, its key, and who trusts it."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key, self.authority = (
            folder / name for name in ("certificate.pem", "key.pem", "ca.pem")
        )
        self.renew()

    def renew(self) -> None:
        """Write another certificate, signed by another CA."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        issued = authority.issue_cert("127.0.0.1")
        self.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        self.key.touch(0o600)
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.trust = ssl.create_default_context()
        authority.configure_trust(self.trust)

    @property
    def options(self) -> tuple[str, ...]:
        return (FILES[0], str(self.certificate), FILES[1], str(self.key))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.matrix
def test_a_renewed_certificate_is_used_and_old_tls_is_refused(engine: Engine, pair: Pair) -> None:
    """Documents are taken over TLS 1.2 and 1.3 and nothing older; a renewed certificate is used without a restart.

    A client that keeps its connection and says nothing does not hold up the end.
    """
    batch = request(execution(application_id="tls"))
    short = "from joinsight.serve import protocol; protocol.GOODBYE_SECONDS = 0.2"
    with service(engine.url.render_as_string(hide_password=False), *pair.options, patch=short) as running:
        url = running.url
        assert url.startswith("https://127.0.0.1:")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            pair.trust.minimum_version = pair.trust.maximum_version = version
            assert post(url, batch, verify=pair.trust).status_code == 200
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.warns(DeprecationWarning):
            old.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(httpx.ConnectError):
            get(url + "/healthz", verify=old)
        with pytest.raises(httpx.RemoteProtocolError):
            get(url.replace("https", "http") + "/healthz")

        before = pair.trust
        pair.certificate.write_bytes(b"half")
        until(lambda: running.logged("certificate not reloaded"), "the broken file is reported")
        assert get(url + "/healthz", verify=before).status_code == 200
        pair.renew()
        until(lambda: running.logged("certificate reloaded"), "the new file is loaded")
        assert get(url + "/healthz", verify=pair.trust).status_code == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            get(url + "/healthz", verify=before)

        with pair.trust.wrap_socket(dial(url), server_hostname="127.0.0.1") as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(12) == b"HTTP/1.1 200"
            running.signal(signal.SIGTERM)
            assert running.end() == 0


def test_a_request_that_comes_with_the_end_of_the_handshake(engine: Engine, pair: Pair) -> None:
    """A request in the same segment as the end of the handshake is answered normally."""
    with service(engine.url.render_as_string(hide_password=False), *pair.options) as running, dial(running.url) as link:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = pair.trust.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        link.sendall(outgoing.read())
        until(lambda: shaken(client, incoming, link), "the server's part of the handshake is there")
        client.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        link.sendall(outgoing.read())
        answer = b""
        while not answer:
            assert incoming.write(link.recv(65_536)), "the connection was closed"
            with suppress(ssl.SSLWantReadError):
                answer = client.read()
        assert answer.startswith(b"HTTP/1.1 200 ")


def shaken(client: ssl.SSLObject, incoming: ssl.MemoryBIO, link: socket.socket) -> bool:
    """Whether the client has all that it needs."""
    incoming.write(link.recv(65_536))
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


@with_proc
def test_handshakes_that_never_end(engine: Engine, pair: Pair) -> None:
    """They count as connections, and keep nobody out; beyond the limit there is an answer over TLS too."""
    few = "from joinsight.serve import protocol; protocol.MAX_CONNECTIONS = 10; protocol.MAX_CLIENT_CONNECTIONS = 4"
    shown = {"Authorization": "Bearer good"}
    environment = {"JOINSIGHT_TOKEN": "good"}
    database = engine.url.render_as_string(hide_password=False)
    with service(database, *pair.options, patch=few, environment=environment) as running, ExitStack() as stack:
        for number in range(40):
            silent = stack.enter_context(dial(running.url, f"127.0.0.{number % 5 + 2}"))
            if number % 2:
                with suppress(OSError):
                    silent.sendall(bytes.fromhex("160301"))
            if number % 8 == 7:
                assert post(running.url, request(), headers=shown, verify=pair.trust).status_code == 200
        held = len(list(Path(f"/proc/{running.process.pid}/fd").iterdir()))
        assert held < 60  # 40 of them are not in it
        with locked(engine):
            body = request(execution(application_id="at work over tls"))
            join = in_threads(*(lambda: post(running.url, body, headers=shown, verify=pair.trust) for _ in range(4)))
            transport = httpx.HTTPTransport(local_address="127.0.0.8", verify=pair.trust)
            other = stack.enter_context(httpx.Client(transport=transport, base_url=running.url, timeout=SECONDS))
            until(lambda: "joinsight_requests_waiting 4.0" in other.get("/metrics").text, "they are at work")
            for number in range(6):
                client = pair.trust.wrap_socket(
                    dial(running.url, f"127.0.0.{number % 2 + 3}"), server_hostname="127.0.0.1"
                )
                stack.enter_context(client)
                client.sendall(head(100, "Authorization: Bearer good") + b"half")
            told = post(running.url, body, headers=shown, verify=pair.trust)
            assert (told.status_code, told.headers["retry-after"]) == (503, "5")
        join()


def test_a_key_that_anyone_may_read_is_said(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, with what to do."""
    Tls(pair.certificate, pair.key)
    assert caplog.text == ""
    pair.key.chmod(0o644)
    Tls(pair.certificate, pair.key)
    assert "chmod o-r" in caplog.text


def test_files_that_cannot_be_used(pair: Pair, tmp_path: Path) -> None:
    """The message names the option, the file, and what would be right."""
    other = tmp_path / "other"
    other.mkdir()
    stranger = Pair(other)
    secret = tmp_path / "protected.pem"
    secret.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI\n"
        "-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    for certificate, key, said in (
        (tmp_path / "missing", pair.key, "--tls-certificate=.*No such file.*Name a readable PEM file"),
        (pair.certificate, tmp_path, "--tls-key=.*Is a directory"),
        (pair.key, pair.key, "--tls-certificate/--tls-key=.*Name a PEM certificate"),
        (pair.certificate, stranger.key, "--tls-certificate/--tls-key=.*(?i:key.values.mismatch)"),
        (pair.certificate, secret, "--tls-certificate/--tls-key=.*PEM key"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            Tls(certificate, key)
