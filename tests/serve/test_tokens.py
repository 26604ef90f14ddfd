"""Tokens for sending have names, come from a file that may change, and are never shown."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.serve.real import get, post, service, until

from joinsight.base.errors import ConfigurationError
from joinsight.serve import background
from joinsight.serve.tokens import UNNAMED, Tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file for tokens that only its owner may read."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    return path


def test_a_file_has_a_token_a_line(file: Path) -> None:
    """With a name before it or without; blank lines and comments are left out, blanks around do no harm."""
    file.write_text("# for all\n\nfirst\n \t\n  nightly jobs : second== \nsend:third\n send : Ann : fourth\n")
    tokens = Tokens.read(file)
    assert (len(tokens), tokens.readers, tokens.open) == (4, 0, False)
    assert tokens.sender("Bearer first") == tokens.sender("Bearer third") == UNNAMED
    assert tokens.sender("bearer second==") == "nightly jobs"
    assert tokens.sender("Bearer fourth") == "Ann"
    for wrong in ("", "Bearer", "Bearer ", "Bearer firs", "Bearer first2", "Basic first", "first", "Bearer ü"):
        assert tokens.sender(wrong) is tokens.reader(wrong) is None


def test_tokens_are_of_two_kinds() -> None:
    """One that may send may not read, and the other way round; one that says neither may send."""
    tokens = Tokens("plain\nann:named\nsend:bob:sends\nread:carl:reads\nread:bare")
    assert (len(tokens), tokens.readers) == (5, 2)
    for token, sender, reader in (
        ("plain", UNNAMED, None),
        ("named", "ann", None),
        ("sends", "bob", None),
        ("reads", None, "carl"),
        ("bare", None, UNNAMED),
    ):
        password = "Basic " + base64.b64encode(f"any:{token}".encode()).decode()
        assert tokens.sender(f"Bearer {token}") == sender
        assert tokens.reader(f"Bearer {token}") == tokens.reader(password) == reader
        assert tokens.sender(password) is None


def test_the_environment_has_one_or_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """JOINSIGHT_TOKEN is written like the file; without it there is no token, and the door is open."""
    monkeypatch.setenv("JOINSIGHT_TOKEN", " third ")
    assert Tokens.read(None).sender("Bearer third") == UNNAMED
    monkeypatch.setenv("JOINSIGHT_TOKEN", "a:first\nread:b:second")
    assert Tokens.read(None).reader("Bearer second") == "b"
    assert not Tokens.read(None).open
    monkeypatch.delenv("JOINSIGHT_TOKEN")
    assert (len(Tokens.read(None)), Tokens.read(None).open) == (0, True)


BAD_FILES = {
    "empty": ("\n", "the file has no token"),
    "only a comment": ("# token\n", "the file has no token"),
    "words": ("good\nnot a secret\n", "line 2 is not a valid token"),
    "no token behind the name": ("name:\n", "line 1 is not a valid token"),
    "no name before the token": (":secret\n", "line 1 is not a valid token"),
    "a quoted one": ('"secret"\n', "line 1 is not a valid token"),
    "another kind": ("write:name:secret\n", "line 1 is not a valid token"),
    "too many parts": ("read:a:b:secret\n", "line 1 is not a valid token"),
    "no token behind the kind": ("read:\n", "line 1 is not a valid token"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_bad_file_is_an_error(file: Path, what: str) -> None:
    """A bad file is an error and does not allow access; the message names the line but shows nothing in it."""
    content, reason = BAD_FILES[what]
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=f"--token-file=.*{reason}.*Write one token per line") as error:
        Tokens.read(file)
    assert "secret" not in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(file: Path) -> None:
    """A token file that is missing, a folder or not text is an error that says so."""
    for path, reason in ((file.parent / "missing", "No such file"), (file.parent, "Is a directory")):
        with pytest.raises(ConfigurationError, match=f"--token-file=.*{reason}"):
            Tokens.read(path)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8 text"):
        Tokens.read(file)


def test_a_changed_file_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Tokens are added and revoked without a restart, even by a file of the same size and time."""
    caplog.set_level("INFO")
    file.write_text("read:old")
    tokens = Tokens.read(file)
    before = file.stat()
    file.write_text("send:new")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    tokens.refresh()
    tokens.refresh()
    assert (tokens.reader("Bearer old"), tokens.sender("Bearer new")) == (None, UNNAMED)
    swapped = file.with_name("other")
    swapped.write_text("third")
    file.unlink()
    file.symlink_to(swapped)
    tokens.refresh()
    assert (tokens.sender("Bearer new"), tokens.sender("Bearer third")) == (None, UNNAMED)
    assert [record.message for record in caplog.records if record.levelname == "INFO"] == ["token file reloaded"] * 2


def empty(file: Path) -> None:
    file.write_text("")


def comment(file: Path) -> None:
    file.write_text("# nobody\n")


def mistake(file: Path) -> None:
    file.write_text("not a token\n")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def nonsense(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("become", [empty, comment, mistake, Path.unlink, folder, nonsense])
def test_without_a_token_in_the_file_nobody_may(
    file: Path, caplog: pytest.LogCaptureFixture, become: Callable[[Path], None]
) -> None:
    """An emptied file, a broken, a removed one: the last token is revoked, and the door is not open. Said once, as an
    error; when tokens are there again they hold."""
    file.write_text("first\nread:second")
    tokens = Tokens.read(file)
    become(file)
    for _ in range(2):
        tokens.refresh()
        assert (len(tokens), tokens.open) == (0, False)
        assert tokens.sender("Bearer first") is tokens.reader("Bearer second") is None
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == len(set(errors)) > 0
    assert any("nobody may send or read" in message for message in errors)
    if file.is_dir():
        file.rmdir()
    file.write_text("first")
    tokens.refresh()
    assert tokens.sender("Bearer first") == UNNAMED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_any_more(file: Path) -> None:
    """Taking away the right to read it revokes its tokens too."""
    file.write_text("first")
    tokens = Tokens.read(file)
    file.chmod(0)
    tokens.refresh()
    assert tokens.sender("Bearer first") is None


def test_a_bad_line_keeps_no_other_token_in_force(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A token is revoked even if another line is invalid; valid lines apply, and the invalid one is named."""
    file.write_text("ann:first\nbob:second\nread:carl:third\n")
    tokens = Tokens.read(file)
    file.write_text("bob:second\nread carl third\ndora:fourth\n")
    tokens.refresh()
    found = [tokens.sender(f"Bearer {token}") for token in ("first", "second", "fourth")]
    assert found == [None, "bob", "dora"]
    assert tokens.reader("Bearer third") is None
    (error,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert error.__dict__["fields"]["lines"] == "2"
    assert "third" not in caplog.text


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_that_anyone_may_read_is_said(
    file: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    """A warning, with what to do."""
    file.write_text("token")
    file.chmod(mode)
    Tokens.read(file)
    assert ("the token file is readable by all users: chmod o-r" in caplog.text) == warned


def test_short_tokens_are_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    """They are accepted, as before; the warning does not show them."""
    assert Tokens("weak:abc\nstrong:0123456789abcdef").sender("Bearer abc") == "weak"
    [warning] = caplog.records
    assert "fewer than 16 characters" in warning.message
    assert warning.__dict__["fields"] == {"names": "weak"}


def test_tokens_change_while_a_service_runs(engine: Engine, file: Path) -> None:
    """They are changed while it runs; names stand in the log and in the metrics, tokens nowhere."""
    file.write_text("nightly:aaaaaaaa\nadhoc:bbbbbbbb\n")

    def send(url: str, token: str, *lines: bytes) -> int:
        body = request(execution(application_id=f"with {token}"), *lines)
        return post(url, body, headers={"Authorization": f"Bearer {token}"}).status_code

    database = engine.url.render_as_string(hide_password=False)
    with service(database, "--token-file", str(file), "--host", "0.0.0.0") as running:
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        assert [send(url, "aaaaaaaa"), send(url, "bbbbbbbb", b"bad line"), send(url, "cccccccc")] == [200, 400, 401]
        assert send(url, "cccccccc") == 401
        changed = file.with_name("changed")
        changed.write_text("adhoc:bbbbbbbb\nadhoc:cccccccc\n")
        changed.chmod(0o600)
        changed.replace(file)
        until(lambda: running.logged("token file reloaded"), "the file is read again")
        assert [send(url, "aaaaaaaa"), send(url, "bbbbbbbb"), send(url, "cccccccc")] == [401, 200, 200]
        page = get(url + "/metrics").text
        assert 'joinsight_token_requests_total{token="nightly"} 1.0' in page
        assert 'joinsight_token_requests_total{token="adhoc"} 3.0' in page
        (refused,) = running.logged("document refused")
        assert (refused["token"], refused["line"], refused["client"]) == ("adhoc", 2, "127.0.0.1")
        assert refused["application"] == "with bbbbbbbb"
        assert len(running.logged("unauthenticated client")) == 1  # not at each of its attempts
        assert not running.logged("no token is set")
    everything = page + "".join(running.lines).replace("with bbbbbbbb", "")
    assert not any(secret in everything for secret in ("aaaaaaaa", "bbbbbbbb", "cccccccc"))


def test_the_last_token_of_a_running_service_is_revoked(engine: Engine, file: Path) -> None:
    """Emptied or removed: within two seconds nobody may send or read, and no name opens the collector."""
    database = engine.url.render_as_string(hide_password=False)
    shown = [{"Authorization": f"Bearer {token}"} for token in ("aaaaaaaa", "bbbbbbbb")]

    def answers(url: str) -> list[int]:
        sent = [post(url, request(), headers=header).status_code for header in (*shown, {})]
        return sent + [get(url + "/", headers=header).status_code for header in (*shown, {})]

    assert background.FILES_SECONDS < 2
    good = "nightly:aaaaaaaa\nread:ann:bbbbbbbb\n"
    file.write_text(good)
    with service(database, "--token-file", str(file), "--host", "0.0.0.0") as running:
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        for revoke, said in ((empty, "token file has no tokens"), (Path.unlink, "token file unreadable")):
            assert answers(url) == [200, 401, 401, 401, 200, 401]
            revoke(file)
            until(lambda said=said: running.logged(said), "it is logged")  # type: ignore[misc]
            assert running.logged(said)[0]["level"] == "error"
            assert answers(url) == [401] * 6
            file.write_text(good)
            again = len(running.logged("token file reloaded"))
            until(lambda again=again: len(running.logged("token file reloaded")) > again, "it is back")  # type: ignore[misc]
        assert get(url + "/healthz").status_code == 200
