"""`joinsight dashboards push` against a stub of Grafana (tests/grafana/stub.py): a real server, no real Grafana."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result
from tests.grafana.stub import TOKEN, Stub, running

from joinsight.base.errors import ConfigurationError, GrafanaError
from joinsight.cli import cli
from joinsight.grafana import files
from joinsight.grafana.push import has
from joinsight.store.embedded import free_port

SECRET = "0123456789abcdef"
SOURCES = ("--postgresql", "db:5432", "--prometheus", "http://prometheus:9090")


@pytest.fixture
def stub() -> Iterator[Stub]:
    """An empty one."""
    with running(Stub()) as found:
        yield found


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two dashboards in place of ours."""
    folder = tmp_path / "dashboards"
    shutil.copytree(files.folder() / "provisioning", folder / "provisioning")
    (folder / "grafana").mkdir()
    for name in ("joins", "overview"):
        page = {"id": None, "uid": f"joinsight-{name}", "title": name, "panels": [{"id": 1}], "links": []}
        (folder / "grafana" / f"joinsight-{name}.json").write_text(json.dumps(page))
    monkeypatch.setattr(files, "folder", lambda: folder)
    return folder


def push(tmp_path: Path, url: str, *options: str, token: str = TOKEN) -> Result:
    """Runs the command; secrets are in files."""
    (tmp_path / "token").write_text(f"{token}\n")
    (tmp_path / "password").write_text(f"{SECRET}\n")
    arguments = ["dashboards", "push", "--url", url, "--token-file", str(tmp_path / "token"), *options]
    return CliRunner().invoke(cli, arguments)


def times(folder: Path) -> dict[Path, int]:
    """When each file was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def state(stub: Stub) -> str:
    """All that it holds."""
    return json.dumps([stub.folders, stub.sources, stub.dashboards])


def test_all_is_made_once(stub: Stub, tmp_path: Path) -> None:
    """The first push makes everything, under uids that stay; the second writes nothing."""
    options = (*SOURCES, "--folder", "Spark's costs")
    first = push(tmp_path, stub.url, *options)
    assert first.exit_code == 0, first.exception
    assert [line.split()[0] for line in first.stdout.splitlines()] == ["made"] * 5
    assert stub.folders["joinsight"]["title"] == "Spark's costs"
    assert set(stub.sources) == {"joinsight-postgresql", "joinsight-prometheus"}
    assert {page["meta"]["folderUid"] for page in stub.dashboards.values()} == {"joinsight"}
    before, stub.writes = state(stub), []
    second = push(tmp_path, stub.url, *options)
    assert [line.split()[0] for line in second.stdout.splitlines()] == ["unchanged"] * 5
    assert (state(stub), stub.writes) == (before, [])


def test_only_what_differs_is_changed(stub: Stub, shipped: Path, tmp_path: Path) -> None:
    """A dashboard that is new in this version, one that someone moved, a data source with another address."""
    push(tmp_path, stub.url, *SOURCES)
    stub.dashboards["joinsight-overview"]["meta"]["folderUid"] = ""
    file = shipped / "grafana" / "joinsight-joins.json"
    file.write_text(file.read_text().replace('"id": 1', '"id": 2'))
    stub.writes = []
    assert push(tmp_path, stub.url, "--postgresql", "other:5432", "--prometheus", SOURCES[3]).exit_code == 0
    assert stub.writes == [
        "PUT /api/datasources/uid/joinsight-postgresql",
        "POST /api/dashboards/db",
        "POST /api/dashboards/db",
    ]
    assert stub.sources["joinsight-postgresql"]["url"] == "other:5432"
    assert stub.dashboards["joinsight-joins"]["dashboard"]["version"] == 2


def test_what_was_changed_in_grafana_becomes_ours_again(stub: Stub, tmp_path: Path) -> None:
    """A dashboard edited by hand is overwritten, as a new version: Grafana keeps the other one."""
    push(tmp_path, stub.url)
    edited = stub.dashboards["joinsight-joins"]["dashboard"]
    edited["panels"] += [{"id": 9, "title": "by hand"}]
    edited["version"] += 1
    done = push(tmp_path, stub.url)
    assert done.stdout.splitlines()[-2:] == ["changed    dashboard joins", "unchanged  dashboard overview"]
    now = stub.dashboards["joinsight-joins"]["dashboard"]
    assert (now["panels"], now["version"]) == ([{"id": 1}], edited["version"] + 1)


def test_an_editor_is_enough_without_data_sources(stub: Stub, tmp_path: Path) -> None:
    """Grafana does not tell an Editor that the folder is missing; data sources are an Admin's."""
    stub.role = "Editor"
    assert [line.split()[0] for line in push(tmp_path, stub.url).stdout.splitlines()] == ["made"] * 3
    assert [line.split()[0] for line in push(tmp_path, stub.url).stdout.splitlines()] == ["unchanged"] * 3
    refused = str(push(tmp_path, stub.url, *SOURCES).exception)
    assert "403 to POST /api/datasources" in refused
    assert "for data sources Admin" in refused


def test_what_has_our_name_is_not_taken(stub: Stub, tmp_path: Path) -> None:
    """A data source of somebody else's with our name stays as it is, and the message says what is in the way."""
    stub.sources["theirs"] = {"uid": "theirs", "name": "Joinsight Prometheus", "url": "http://theirs"}
    refused = str(push(tmp_path, stub.url, "--prometheus", "http://ours").exception)
    assert "409 to POST /api/datasources: data source with the same name already exists. The name or the uid" in refused
    assert stub.sources["theirs"]["url"] == "http://theirs"


def test_settings_of_a_data_source_that_are_not_ours_stay(stub: Stub, tmp_path: Path) -> None:
    """A certificate that someone named in Grafana is there after another address and a new password."""
    password = ("--postgresql-password-file", str(tmp_path / "password"))
    push(tmp_path, stub.url, *SOURCES, *password)
    stub.sources["joinsight-postgresql"]["jsonData"]["sslRootCertFile"] = "/etc/ca.pem"
    assert push(tmp_path, stub.url, "--postgresql", "other:5432", *password).exit_code == 0
    now = stub.sources["joinsight-postgresql"]
    assert (now["url"], now["jsonData"]["sslRootCertFile"]) == ("other:5432", "/etc/ca.pem")


def test_secrets_are_not_shown(stub: Stub, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A password is sent, and set again whenever it is given; neither it nor the token is printed or logged."""
    caplog.set_level("DEBUG")
    options = (*SOURCES[:2], "--postgresql-password-file", str(tmp_path / "password"))
    first, second = push(tmp_path, stub.url, *options), push(tmp_path, stub.url, *options)
    assert stub.sources["joinsight-postgresql"]["secureJsonFields"] == {"password": True}
    assert "password   data source Joinsight PostgreSQL" in second.stdout
    shown = first.output + second.output + caplog.text
    assert SECRET not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (
            {"token": "glsa_wrong"},
            "Grafana responded with status 401 to GET /api/folders/joinsight: Invalid API key. The token is not valid",
        ),
        ({"role": "Viewer"}, "status 403 to POST /api/folders: You'll need additional permissions"),
        ({"version": "11.6.0"}, "Grafana 11.6.0 is too old: the dashboards need 12.0 or later"),
        ({"path": "/elsewhere"}, "Grafana does not respond at .*/elsewhere: Grafana responded with status 404"),
        ({"replies": {"/api/health": (200, b"<html>")}}, "is not Grafana: the response to .* is not JSON"),
        ({"replies": {"/api/health": (200, b"[]")}}, "is not Grafana"),
        (
            {"replies": {"/api/health": (502, b"<p>error message</p>")}},
            "is not Grafana: the response to .* is not JSON",
        ),
        ({"replies": {"/api/folders": (200, b"")}}, "is not Grafana: the response to .* is not JSON"),
        ({"replies": {"/api/folders": (502, b"bad gateway")}}, "status 502 to POST /api/folders: no reason given"),
        ({"location": "https://grafana.example.com/"}, "redirects elsewhere"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(stub: Stub, tmp_path: Path, behaviour: dict[str, Any], message: str) -> None:
    """Each error has its own message, and nothing is written."""
    token, path = behaviour.pop("token", TOKEN), behaviour.pop("path", "")
    for name, value in behaviour.items():
        setattr(stub, name, value)
    done = push(tmp_path, stub.url.removesuffix("/grafana") + path if path else stub.url, token=token)
    with pytest.raises(GrafanaError, match=message.replace("(", r"\(")):
        raise done.exception or AssertionError(done.output)
    assert not stub.dashboards


def test_provisioned_ones_are_left_alone(stub: Stub, tmp_path: Path) -> None:
    """What comes from files cannot be changed here, and the message says where."""
    push(tmp_path, stub.url, *SOURCES)
    page = stub.dashboards["joinsight-joins"]
    page["meta"]["provisioned"], page["dashboard"]["title"] = True, "other"
    assert "joinsight-joins is provisioned from a file" in str(push(tmp_path, stub.url).exception)
    stub.sources["joinsight-prometheus"]["readOnly"] = True
    done = push(tmp_path, stub.url, "--prometheus", "http://other:9090")
    assert "joinsight-prometheus is provisioned from a file" in str(done.exception)


def test_the_token_comes_from_a_file(stub: Stub, tmp_path: Path) -> None:
    """A missing or an empty one is named, before anything is asked."""
    (tmp_path / "empty").write_text("\n")
    for name, problem in (("missing", "No such file"), ("empty", "the file is empty")):
        arguments = ["dashboards", "push", "--url", stub.url, "--token-file", str(tmp_path / name)]
        error = CliRunner().invoke(cli, arguments).exception
        assert isinstance(error, ConfigurationError)
        assert str(error).startswith(f"--token-file='{tmp_path / name}': ")
        assert problem in str(error)
    error = push(tmp_path, stub.url, token="no token at all").exception
    assert str(error).startswith("--token-file='(not shown)'")


def test_an_address_without_grafana_is_an_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    error = str(push(tmp_path, url).exception)
    assert error.startswith(f"Grafana does not respond at {url}: ")
    assert error.endswith("Connection refused")
    assert "Pool" not in error


def test_certificates_are_checked(tmp_path: Path) -> None:
    """An unknown authority is refused with the way out, which works."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with running(Stub(), tls) as stub:
        refused = push(tmp_path, stub.url)
        assert "is not trusted, name the PEM file of its certificate authority with --ca-file" in str(refused.exception)
        assert push(tmp_path, stub.url, "--ca-file", str(tmp_path / "ca.pem")).exit_code == 0


@pytest.mark.parametrize("url", ["grafana:3000", "ftp://grafana", "http://", "http://a:b@grafana", "http://grafana:x"])
def test_addresses_are_checked(url: str, tmp_path: Path) -> None:
    """A bad one is refused before anything is asked, and a password in it is not shown."""
    error = push(tmp_path, url).exception
    assert isinstance(error, ConfigurationError)
    assert "a:b" not in str(error)


def test_grafana_may_add_fields() -> None:
    """Fields of Grafana's own are no difference, and those that it leaves out because they are empty; all else is."""
    assert has({"a": [{"b": 1, "c": 2}], "d": 3}, {"a": [{"b": 1}], "e": []})
    assert not has({"a": [{"b": 1}, {}]}, {"a": [{"b": 1}]})
    assert not has({"a": 1}, {"a": 1, "b": 0})
    assert not has(None, {"a": 1})


def test_export_writes_what_has_changed(tmp_path: Path, shipped: Path) -> None:
    """All files the first time, none the second; a dashboard that is no more goes, strangers stay."""
    target = tmp_path / "export"
    assert {done for _, done in files.export(shipped, target, "/srv/grafana")} == {"written"}
    assert 'path: "/srv/grafana"' in (target / files.PROVIDER).read_text()
    before = times(target)
    assert {done for _, done in files.export(shipped, target, "/srv/grafana")} == {"unchanged"}
    assert times(target) == before
    (shipped / "grafana" / "joinsight-joins.json").unlink()
    (target / "grafana" / "ours.json").write_text("{}")
    (target / files.SOURCES).write_text("our own")
    done = dict(files.export(shipped, target, "/srv/grafana"))
    assert done.pop("grafana/joinsight-joins.json") == "removed"
    assert done.pop(str(files.SOURCES)) == "kept"
    assert set(done.values()) == {"unchanged"}
    assert (target / "grafana" / "ours.json").exists()


def test_export_names_what_is_in_its_way(tmp_path: Path) -> None:
    """A file where a folder should be is an error that says so."""
    (tmp_path / "grafana").write_text("")
    error = CliRunner().invoke(cli, ["dashboards", "export", str(tmp_path)]).exception
    assert isinstance(error, ConfigurationError)
    assert str(error).startswith(f"DIR='{tmp_path}': ")
