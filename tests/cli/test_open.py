"""`joinsight open` as a person runs it, on a recorded log."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine
from tests.eventlog.recorded import recorded
from tests.serving import Handler, serving
from tests.versions import NEWEST
from tests.waiting import until

from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.cli import cli

USER = "ana:secret@"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an application in a server that, like the History Server, gives its log as a zip file."""
    log, _ = recorded(NEWEST, tmp_path)
    packed = tmp_path / "log.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in log.files:
            path = Path(file.path.removeprefix("file:"))
            archive.write(path, path.relative_to(tmp_path))

    class Archive(Handler):
        def do_GET(self) -> None:
            is_known = self.path == f"/api/v1/applications/{log.application_id}/logs"
            self.answer(200 if is_known else 404, packed.read_bytes())

    with serving(HTTPServer(("127.0.0.1", 0), Archive)) as running:
        yield f"http://{USER}127.0.0.1:{running.server_port}/history/{log.application_id}/jobs/"


def test_a_log_is_shown_and_nothing_is_left(server: str, tmp_path: Path) -> None:
    """The first line is the address of the application's page; also a process that is killed leaves no files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "joinsight.cli", "open", "--no-browser", server]
    environment = {**os.environ, "TMPDIR": str(temporary), "JOINSIGHT_DATABASE_URL": "postgresql://not.used/x"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        try:
            assert "/?application=local-" in address, process.stderr.read()
            page = httpx.get(address)
            assert page.status_code == 200 and "/executions/local-" in page.text
            assert list(temporary.iterdir()) != []
        finally:
            process.kill()
        assert USER not in process.stderr.read()
    until(lambda: list(temporary.iterdir()) == [], "the folder is removed")


def run(*arguments: str) -> Result:
    """What the command gives; raises its error."""
    return CliRunner().invoke(cli, ["open", "--no-browser", *arguments], catch_exceptions=False)


def test_what_cannot_be_opened_is_explained(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not a log, a path that only Spark reads, and a machine without Java."""
    (tmp_path / "README.md").write_text("A log?\n")
    database = engine.url.render_as_string(hide_password=False)
    with pytest.raises(JoinsightError, match=r"^README.md is not an event log: its first line is not an event"):
        run(str(tmp_path / "README.md"), "--database-url", database)
    with pytest.raises(ConfigurationError, match="`joinsight backfill` reads this one"):
        run("s3a://bucket/log")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"Java is not installed.* Install 17 or later"):
        run(str(tmp_path / "README.md"))
