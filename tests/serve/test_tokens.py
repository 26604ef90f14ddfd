"""Who may send: tokens with names, from a file that may change, and never shown."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.serve.real import DOCUMENTS, service, until

from joinsight.errors import ConfigurationError
from joinsight.serve.tokens import UNNAMED, Tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file for tokens that only its owner may read."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    return path


def test_a_file_has_a_token_a_line(file: Path) -> None:
    """With a name before it or without; blank lines and comments are left out, blanks around do no harm."""
    file.write_text("# for all\n\nfirst\n \t\n  nightly jobs : second== \n")
    tokens = Tokens.read(file)
    assert len(tokens) == 2
    assert tokens.find("Bearer first") == UNNAMED
    assert tokens.find("bearer second==") == "nightly jobs"
    for wrong in ("", "Bearer", "Bearer ", "Bearer firs", "Bearer first2", "Basic first", "first", "Bearer ü"):
        assert tokens.find(wrong) is None


def test_the_environment_has_one_or_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """JOINSIGHT_TOKEN is written like the file; without it there is no token."""
    monkeypatch.setenv("JOINSIGHT_TOKEN", " third ")
    assert Tokens.read(None).find("Bearer third") == UNNAMED
    monkeypatch.setenv("JOINSIGHT_TOKEN", "a:first\nb:second")
    assert Tokens.read(None).find("Bearer second") == "b"
    monkeypatch.delenv("JOINSIGHT_TOKEN")
    assert len(Tokens.read(None)) == 0


BAD_FILES = {
    "empty": ("\n", "no token is in it"),
    "only a comment": ("# token\n", "no token is in it"),
    "words": ("good\nnot a secret\n", "line 2 is no token"),
    "no token behind the name": ("name:\n", "line 1 is no token"),
    "no name before the token": (":secret\n", "line 1 is no token"),
    "a quoted one": ('"secret"\n', "line 1 is no token"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_bad_file_is_an_error(file: Path, what: str) -> None:
    """Not an open door; the message names the line, and nothing that stands in it."""
    content, reason = BAD_FILES[what]
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=f"--token-file=.*{reason}.*Write one token a line") as error:
        Tokens.read(file)
    assert "secret" not in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(file: Path) -> None:
    """Missing, a folder, no text: the message says so."""
    for path, reason in ((file.parent / "missing", "No such file"), (file.parent, "Is a directory")):
        with pytest.raises(ConfigurationError, match=f"--token-file=.*{reason}"):
            Tokens.read(path)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="it is no UTF-8 text"):
        Tokens.read(file)


def test_a_changed_file_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A token is given and revoked without a restart; a broken file is said once and changes nothing."""
    caplog.set_level("INFO")
    file.write_text("old")
    tokens = Tokens.read(file)
    file.write_text("new:fresh")
    tokens.refresh()
    assert (tokens.find("Bearer old"), tokens.find("Bearer fresh")) == (None, "new")
    for broken in ("", "not a token"):
        file.write_text(broken)
        tokens.refresh()
        tokens.refresh()
        assert tokens.find("Bearer fresh") == "new"
    file.unlink()
    tokens.refresh()
    tokens.refresh()
    assert tokens.find("Bearer fresh") == "new"
    swapped = file.with_name("other")
    swapped.write_text("third")
    file.symlink_to(swapped)
    tokens.refresh()
    assert (tokens.find("Bearer fresh"), tokens.find("Bearer third")) == (None, UNNAMED)
    messages = [
        record.message for record in caplog.records if "tokens" in record.message and "may" not in record.message
    ]
    kept = "tokens not read again, those before stay in force"
    assert messages == ["tokens read again", kept, kept, kept, "tokens read again"]


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_that_anyone_may_read_is_said(
    file: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    """A warning, with what to do."""
    file.write_text("token")
    file.chmod(mode)
    Tokens.read(file)
    assert ("anyone on this machine may read the tokens: chmod o-r" in caplog.text) == warned


def test_tokens_of_a_running_service(engine: Engine, file: Path) -> None:
    """They are changed while it runs; names stand in the log and in the metrics, tokens nowhere."""
    file.write_text("nightly:aaaaaaaa\nadhoc:bbbbbbbb\n")

    def send(url: str, token: str, *lines: bytes) -> int:
        body = request(execution(application_id=f"with {token}"), *lines)
        return httpx.post(url + DOCUMENTS, content=body, headers={"Authorization": f"Bearer {token}"}).status_code

    database = engine.url.render_as_string(hide_password=False)
    with service(database, "--token-file", str(file), "--host", "0.0.0.0") as running:
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        assert [send(url, "aaaaaaaa"), send(url, "bbbbbbbb", b"bad line"), send(url, "cccccccc")] == [200, 400, 401]
        assert send(url, "cccccccc") == 401
        changed = file.with_name("changed")
        changed.write_text("adhoc:bbbbbbbb\nadhoc:cccccccc\n")
        changed.chmod(0o600)
        changed.replace(file)
        until(lambda: running.logged("tokens read again"), "the file is read again")
        assert [send(url, "aaaaaaaa"), send(url, "bbbbbbbb"), send(url, "cccccccc")] == [401, 200, 200]
        page = httpx.get(url + "/metrics").text
        assert 'joinsight_token_requests_total{token="nightly"} 1.0' in page
        assert 'joinsight_token_requests_total{token="adhoc"} 3.0' in page
        (refused,) = running.logged("document refused")
        assert (refused["token"], refused["line"], refused["client"]) == ("adhoc", 2, "127.0.0.1")
        assert refused["application"] == "with bbbbbbbb"
        assert len(running.logged("a client shows no token")) == 1  # not at each of its attempts
        assert not running.logged("no token is set")
    everything = page + "".join(running.lines).replace("with bbbbbbbb", "")
    assert not any(secret in everything for secret in ("aaaaaaaa", "bbbbbbbb", "cccccccc"))
