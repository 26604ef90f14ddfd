"""`joinsight ship` against a real collector, and against a server that misbehaves."""

from __future__ import annotations

import gzip
import io
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, select
from tests.documents import LISTENER, application, as_line, execution, request
from tests.serve.test_app import stored
from tests.serving import Handler, serving

from joinsight import tables
from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.cli import cli
from joinsight.cli.spool import find_files
from joinsight.contract.decode import MAX_REQUEST_BYTES
from joinsight.demo.runner import collector

TOKEN = "a-token"
CASES = json.loads((Path(__file__).parents[1] / "delivery_cases.json").read_text())
"""What the listener does, too."""


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    """A collector that listens."""
    with collector(engine, 0, [TOKEN]) as (url, _):
        yield url


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses for tests."""
    monkeypatch.setattr("joinsight.cli.collector.FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr("joinsight.cli.collector.MAX_BACKOFF_SECONDS", 0.05)


def ship(*arguments: str | Path, token: str = TOKEN) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["ship", *map(str, arguments)], env={"JOINSIGHT_TOKEN": token})


def put(folder: Path, body: bytes, time: int = 1, kind: str = "final", number: int = 1) -> Path:
    """A spool file."""
    path = folder / f"{kind}-{time}-{LISTENER.id}-{number}.ndjson.gz"
    path.write_bytes(body)
    return path


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def documents(app: str, ids: Sequence[int]) -> list[Any]:
    """Executions of an application."""
    return [execution(application_id=app, execution_id=i, sequence=i + 1) for i in ids]


def good(result: Result) -> str:
    """What a run that went well said."""
    assert (result.exit_code, result.exception) == (0, None), result.output
    return result.stderr


def troubled(result: Result) -> str:
    """What a run said that leaves something to be done."""
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), (result.output, result.exception)
    return result.stderr


# A real collector


def test_files_are_delivered_and_deleted(engine: Engine, url: str, tmp_path: Path) -> None:
    """All complete files of all folders, nothing else; the account has nothing missing."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    put(one, request(*documents("whole", [1, 2])))
    put(one, request(*documents("whole", [3])), kind="running")
    put(other, request(application(application_id="whole", sequence=1, documents_made=4)), number=12)
    stays = ["final-1-x-1.ndjson.gz.tmp", "final-1-x-1.ndjson.gz.refused", "final-1.ndjson.gz", "notes.txt"]
    for name in stays:
        (one / name).write_bytes(request(*documents("whole", [99])))
    assert good(ship(one, other, one, "--url", url)) == "Delivered 3 of 3 files, 4 documents.\n"
    assert stored(engine, "whole") == [1, 2, 3]
    assert names(one) == sorted(stays)
    assert names(other) == []
    c = tables.delivery.c
    with engine.connect() as connection:
        missing = select(c.documents_missing).where(c.application_id == "whole")
        assert connection.scalars(missing).all() == [0]
    assert good(ship(one, "--url", url)) == "Delivered 0 of 0 files, 0 documents.\n"


def test_a_folder_of_several_spools_is_refused(tmp_path: Path) -> None:
    """A driver's spool has a folder for each collector: it is not known which of them is meant."""
    spools = [tmp_path / name for name in ("collector_9595", "other_9595")]
    for spool in spools:
        spool.mkdir()
        put(spool, request(*documents("whole", [1])))
    error = ship(tmp_path, "--url", "http://127.0.0.1:9").exception
    assert isinstance(error, ConfigurationError)
    assert all(str(spool) in str(error) for spool in spools)


def test_files_are_shipped_oldest_first(tmp_path: Path) -> None:
    """The complete files that listeners named, in the order of the cases, regardless of folder and kind."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    wanted = []
    for number, (name, kind) in enumerate(CASES["names"].items()):
        path = folders[number % 2] / name
        path.touch()
        wanted += [path] if kind in ("ended", "running") else []
    assert find_files(folders) == find_files([*folders, tmp_path / "a" / ".." / "b"]) == wanted


def test_refused_documents_are_set_aside(engine: Engine, url: str, tmp_path: Path) -> None:
    """The good lines are stored, the bad ones kept as they came, with the reason said; the file goes."""
    future = as_line(execution(application_id="refused", sequence=9)).replace(b'_version":1', b'_version":2')
    lines = [
        b"",
        *map(as_line, documents("refused", [1])),
        future,
        b"nonsense",
        *map(as_line, documents("refused", [2])),
    ]
    path = put(tmp_path, request(*lines))
    said = troubled(ship(tmp_path, "--url", url))
    assert "Delivered 1 of 1 files, 2 documents." in said
    assert "Refused, set aside as *.refused: 1 documents: schema_version 2 is not supported" in said
    assert stored(engine, "refused") == [1, 2]
    assert names(tmp_path) == [path.name + ".refused"]
    aside = (tmp_path / (path.name + ".refused")).read_bytes()
    assert gzip.decompress(aside) == future + b"\nnonsense\n"
    assert good(ship(tmp_path, "--url", url)).startswith("Delivered 0 of 0 files")


def test_large_files_are_sent_in_halves(engine: Engine, url: str, tmp_path: Path) -> None:
    """More lines than a request may have: all are stored, the bad one among them is set aside."""
    good_lines = [as_line(document) for document in documents("halves", [1, 2])]
    lines = [good_lines[0], *[b""] * 9_000, b"nonsense", *[b""] * 9_000, good_lines[1]]
    path = put(tmp_path, request(*lines))
    said = troubled(ship(tmp_path, "--url", url))
    assert "Delivered 1 of 1 files, 2 documents." in said
    assert stored(engine, "halves") == [1, 2]
    assert gzip.decompress((tmp_path / (path.name + ".refused")).read_bytes()) == b"nonsense\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b"plain text", "not gzip"),
        (request(*documents("corrupt", [1]))[:-12], "cut off"),
        (request(*documents("corrupt", [1]))[:-8] + b"12345678", "gzip"),
    ],
    ids=["empty", "not gzip", "cut off", "wrong checksum"],
)
def test_corrupt_files_are_named_and_kept(engine: Engine, url: str, tmp_path: Path, body: bytes, reason: str) -> None:
    """Corrupt files are named and kept; the others are delivered."""
    corrupt = put(tmp_path, body, time=1)
    put(tmp_path, request(*documents("corrupt", [7])), time=2)
    said = troubled(ship(tmp_path, "--url", url))
    assert "Delivered 1 of 2 files, 1 documents." in said
    (line,) = [line for line in said.splitlines() if line.startswith("Kept")]
    assert str(corrupt) in line and reason in line
    assert names(tmp_path) == [corrupt.name]
    assert corrupt.read_bytes() == body
    assert stored(engine, "corrupt") == [7]


def test_two_runs_at_once_deliver_each_file(engine: Engine, url: str, tmp_path: Path) -> None:
    """Two runs on the same folder: each file is stored and gone, whoever was first; neither complains."""
    for i in range(30):
        put(tmp_path, request(*documents("twice", [i])), time=i)
    command = [sys.executable, "-m", "joinsight.cli", "ship", str(tmp_path), "--url", url]
    environment = {**os.environ, "JOINSIGHT_TOKEN": TOKEN}
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert stored(engine, "twice") == list(range(30))
    assert names(tmp_path) == []


def test_a_wrong_token_stops_at_once(url: str, tmp_path: Path) -> None:
    """A wrong token stops at once with an error; nothing is deleted."""
    files = [put(tmp_path, request(*documents("token", [i])), time=i) for i in range(3)]
    for token in ("wrong", ""):
        error = ship(tmp_path, "--url", url, token=token).exception
        assert isinstance(error, ConfigurationError)
        assert "JOINSIGHT_TOKEN" in str(error) and "does not accept it" in str(error)
    assert find_files([tmp_path]) == files


def test_the_token_may_come_from_a_file(engine: Engine, url: str, tmp_path: Path) -> None:
    """Only its first line counts; a missing or empty file is an error."""
    put(tmp_path, request(*documents("file", [1])))
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\nanother\n")
    assert good(ship(tmp_path, "--url", url, "--token-file", token, token="wrong")).startswith("Delivered 1")
    token.write_text("\n")
    for bad, text in ((token, "is empty"), (tmp_path / "none", "No such file")):
        error = ship(tmp_path, "--url", url, "--token-file", bad).exception
        assert isinstance(error, ConfigurationError) and text in str(error)


# A server that misbehaves


class Scripted(ThreadingHTTPServer):
    """Answers one request after the other as its script says, the last answer for ever; remembers what it got."""

    daemon_threads = True

    def __init__(self, script: Sequence[Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = list(script)
        self.bodies: list[bytes] = []
        self.times: list[float] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet: a client may break off."""


class _Handler(Handler):
    server: Scripted

    def do_POST(self) -> None:
        self.server.times.append(time.monotonic())
        self.server.bodies.append(self.body())
        step = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        if step == "reset":
            self.connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: RST
            self.connection.close()
        elif step == "truncated":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"accepted"')
            self.close_connection = True
        elif step == "no HTTP":
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            self.close_connection = True
        elif step == "silence":
            self.connection.recv(1)  # until the client hangs up
        else:
            self.answer(*step)

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()


def scripted(*script: Any) -> AbstractContextManager[Scripted]:
    """A server with this script."""
    return serving(Scripted(script))


def at(server: Scripted) -> str:
    """The collector's address."""
    return f"http://127.0.0.1:{server.server_address[1]}"


TAKEN = (200, b'{"accepted": 1, "refused": []}')


@pytest.mark.parametrize(
    "trouble",
    ["reset", "truncated", "no HTTP", "silence", (429, b""), (500, b"oops"), (502, b"<html>"), (503, b""), (408, b"")],
    ids=str,
)
def test_what_passes_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Any) -> None:
    """After temporary failures a file is sent again until it is accepted, and only then deleted."""
    body = request(*documents("again", [1]))
    put(tmp_path, body)
    if trouble == "silence":
        monkeypatch.setattr("joinsight.cli.ship.ANSWER_SECONDS", 1)
    with scripted(trouble, trouble, TAKEN) as server:
        result = ship(tmp_path, "--url", at(server), "--timeout", "10m")
    assert good(result) == "Delivered 1 of 1 files, 1 documents.\n"
    assert set(server.bodies) == {body}
    assert len(server.bodies) >= 3  # more if this machine was silent too
    assert names(tmp_path) == []


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    """The collector says how long to wait; nonsense is ignored."""
    put(tmp_path, request(*documents("after", [1])))
    with scripted((429, b"", {"Retry-After": "1"}), (503, b"", {"Retry-After": "soon"}), TAKEN) as server:
        good(ship(tmp_path, "--url", at(server)))
    first, second, third = server.times
    assert second - first >= 0.99
    assert third - second < 600


def test_giving_up_says_what_is_left(tmp_path: Path) -> None:
    """After the timeout: why, how much is left, exit code 1; a long Retry-After does not prolong it."""
    for i in range(3):
        put(tmp_path, request(*documents("left", [i])), time=i)
    with scripted(TAKEN, (503, b"", {"Retry-After": "3600"})) as server:
        started = time.monotonic()
        said = troubled(ship(tmp_path, "--url", at(server), "--timeout", "3s"))
    assert time.monotonic() - started < 1_800
    assert "Delivered 1 of 3 files, 1 documents." in said
    assert f"The collector at {at(server)} accepted nothing for 3 s: status 503. 2 files are left" in said
    assert len(names(tmp_path)) == 2
    said = troubled(ship(tmp_path, "--url", "http://127.0.0.1:9", "--timeout", "1s"))
    assert "Connection refused. 2 files are left" in said


@pytest.mark.parametrize("its", CASES["replies"], ids=lambda its: f"{its['status']} {its['body'][:30]}")
def test_what_follows_from_a_reply(tmp_path: Path, its: Any) -> None:
    """As the listener: a file goes once each of its documents is accepted or set aside, and is kept otherwise."""
    path = put(tmp_path, request(*documents("reply", range(its["documents"]))))
    script = [(its["status"], its["body"].encode()), *([TAKEN] if its["then"] == "halved" else [])]
    with scripted(*script) as server:
        ship(tmp_path, "--url", at(server), "--timeout", "1s")
    assert path.exists() == (its["then"] == "kept")
    assert len(server.bodies) == 3 or its["then"] != "halved"
    aside = path.with_name(path.name + ".refused")
    assert (len(gzip.decompress(aside.read_bytes()).splitlines()) if aside.exists() else 0) == its.get("refused", 0)


def test_what_is_no_collector_stops(tmp_path: Path) -> None:
    """Another service that says 200 is recognised: it is asked once."""
    put(tmp_path, request(*documents("other", [1])))
    with scripted((200, b"<html>Please log in</html>")) as server:
        error = ship(tmp_path, "--url", at(server)).exception
    assert isinstance(error, JoinsightError) and "Not a Joinsight collector" in str(error)
    assert len(server.bodies) == 1


def test_a_name_that_is_not_the_collectors(tmp_path: Path) -> None:
    """What the collector says against it is shown, and everything is kept."""
    path = put(tmp_path, request(*documents("named", [1])))
    with scripted((403, b'{"error":"This collector has no token"}')) as server:
        error = ship(tmp_path, "--url", at(server)).exception
    assert isinstance(error, ConfigurationError) and "This collector has no token" in str(error)
    assert path.exists()


OWN_413 = b'{"accepted": 0, "refused": [], "error": "it is too large"}'


@pytest.mark.parametrize("own", [True, False], ids=["collector", "proxy"])
def test_one_document_that_is_too_large(tmp_path: Path, own: bool) -> None:
    """Halves of halves: only what is too large alone is refused, by a collector; what a proxy stops is kept."""
    lines = [b'{"line": %d}' % i for i in range(5)]
    path = put(tmp_path, request(*lines))

    class Small(_Handler):
        def do_POST(self) -> None:
            body = self.body()
            got = gzip.decompress(body).splitlines()
            too_large = len(got) > 1 or lines[3] in got
            self.server.bodies.append(b"" if too_large else got[0])
            self.server.script = [(413, OWN_413 if own else b"<html>")] if too_large else [TAKEN]
            self.rfile = io.BytesIO(body)
            self.headers.replace_header("Content-Length", "0")
            super().do_POST()

    with scripted(TAKEN) as server:
        server.RequestHandlerClass = Small
        said = troubled(ship(tmp_path, "--url", at(server)))
    if own:
        assert "1 documents: it is too large" in said
        assert [body for body in server.bodies if body] == [lines[i] for i in (0, 1, 2, 4)]
        assert gzip.decompress((tmp_path / (path.name + ".refused")).read_bytes()) == lines[3] + b"\n"
    else:
        assert f"Kept, cannot be delivered: {path}: a document in it is too large for a proxy before" in said
        assert names(tmp_path) == [path.name]


def test_only_regular_files_of_the_owner_are_sent(tmp_path: Path) -> None:
    """Links, pipes, folders, files of others and ones that no listener wrote are named and kept, and nothing hangs."""
    good_one = put(tmp_path, request(*documents("mine", [1])), time=9)
    (tmp_path / "secret").write_bytes(request(*documents("mine", [2])))
    bad = {number: tmp_path / f"final-{number}-{LISTENER.id}-1.ndjson.gz" for number in range(1, 6)}
    bad[1].symlink_to(tmp_path / "secret")
    bad[2].symlink_to("/dev/zero")
    os.mkfifo(bad[3])
    bad[4].mkdir()
    with bad[5].open("wb") as file:
        file.truncate(MAX_REQUEST_BYTES + 1)
    kept = {bad[1]: "a link", bad[2]: "a link", bad[3]: "not a regular file", bad[4]: "", bad[5]: "no listener wrote"}
    if os.geteuid() == 0:
        put(tmp_path, request(*documents("mine", [3])), time=6)
        of_another = tmp_path / f"final-6-{LISTENER.id}-1.ndjson.gz"
        os.chown(of_another, 65534, -1)
        kept[of_another] = "not a regular file of the folder's owner"
    with scripted(TAKEN) as server:
        said = troubled(ship(tmp_path, "--url", at(server)))
    assert len(server.bodies) == 1
    assert f"Delivered 1 of {len(kept) + 1} files" in said
    for path, why in kept.items():
        assert f"Kept, cannot be delivered: {path}: " in said and why in said
    assert not good_one.exists()
    assert set(names(tmp_path)) == {"secret", *(path.name for path in kept)}


def test_a_folder_that_others_may_write_to_is_not_shipped(tmp_path: Path) -> None:
    """A folder that others may write to is not shipped: its files would be sent with our token."""
    put(tmp_path, request(*documents("open", [1])))
    tmp_path.chmod(0o777)
    with scripted(TAKEN) as server:
        error = ship(tmp_path, "--url", at(server)).exception
    assert isinstance(error, ConfigurationError) and "users other than its owner can write to it" in str(error)
    assert server.bodies == []


def test_a_file_that_vanishes_is_fine(tmp_path: Path) -> None:
    """A file that its driver has delivered meanwhile is skipped."""
    files = [put(tmp_path, request(*documents("gone", [i])), time=i) for i in range(3)]

    class Greedy(_Handler):
        def do_POST(self) -> None:
            for path in files[:2]:
                path.unlink(missing_ok=True)
            super().do_POST()

    with scripted(TAKEN) as server:
        server.RequestHandlerClass = Greedy
        assert good(ship(tmp_path, "--url", at(server))) == "Delivered 2 of 3 files, 2 documents.\n"
    assert names(tmp_path) == []


def test_a_certificate_is_checked(tmp_path: Path) -> None:
    """With ``--ca-file`` the collector's own certificate is trusted; without it, nothing is sent."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    make += ["-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key)]
    subprocess.run([*make, "-out", str(certificate)], check=True, capture_output=True)
    put(tmp_path, request(*documents("tls", [1])))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with scripted(TAKEN) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        address = at(server).replace("http", "https")
        error = ship(tmp_path, "--url", address).exception
        assert isinstance(error, ConfigurationError) and "--ca-file" in str(error)
        assert server.bodies == []
        assert good(ship(tmp_path, "--url", address, "--ca-file", certificate)).startswith("Delivered 1 of 1")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--url", "collector:9595"], "http://127.0.0.1:9595"),
        (["--url", "ftp://collector"], "http://127.0.0.1:9595"),
        (["--ca-file", "/none.pem"], "--ca-file"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, arguments: list[str], text: str) -> None:
    """Invalid settings are named with their valid form, before anything is sent."""
    error = ship(tmp_path, *arguments).exception
    assert isinstance(error, ConfigurationError) and text in str(error)
    result = ship(tmp_path, "--timeout", "soon")
    assert result.exit_code == 2 and "'soon' is not a valid duration; write 90s, 5m or 2h" in result.output
    assert ship(tmp_path / "nowhere").exit_code == 2


def test_what_cannot_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was delivered but cannot be removed is reported, and the next one is delivered."""
    files = [put(tmp_path, request(*documents("held", [i])), time=i) for i in range(2)]
    unlink = os.unlink

    def held(path: Any, **where: Any) -> None:
        if path == files[0].name:
            raise PermissionError(13, "Permission denied", path)
        unlink(path, **where)

    monkeypatch.setattr(os, "unlink", held)
    with scripted(TAKEN) as server:
        said = troubled(ship(tmp_path, "--url", at(server)))
    assert f"Kept, cannot be delivered: {files[0]}" in said and "Permission denied" in said
    assert names(tmp_path) == [files[0].name]
