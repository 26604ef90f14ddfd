"""`joinsight ui`, `db shell` and `db url` as a person runs them, on real databases."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, make_url
from tests.documents import execution, request
from tests.serve.real import post, service
from tests.waiting import until

from joinsight.cli import db
from joinsight.store.database import open_database
from joinsight.store.writer import Writer

COMMAND = [sys.executable, "-m", "joinsight.cli"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an embedded database that holds an execution."""
    folder = tmp_path_factory.mktemp("ui") / "data"
    with open_database(folder=folder, create=True) as engine:
        Writer(engine).write([execution(description="what the page shows")])
    return folder


@pytest.fixture
def browser(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment whose browser writes the address into a file, and this file."""
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "JOINSIGHT_DATABASE_URL"}
    return {**environment, "BROWSER": str(program)}, opened


@contextmanager
def ui(environment: dict[str, str], *arguments: str) -> Iterator[str]:
    """The address that the command prints while it serves; Ctrl-C then ends it in order."""
    with subprocess.Popen(
        [*COMMAND, "ui", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        try:
            found = re.fullmatch(r"(http://127.0.0.1:\d+/)\n", line)
            assert found, line + process.stderr.read()
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        assert process.stderr.read() == "Serving until Ctrl-C.\n"


def test_the_pages_of_a_database_are_served(data: Path, browser: tuple[dict[str, str], Path]) -> None:
    """Without a collector: to this machine, read-only, in the browser, until Ctrl-C."""
    environment, opened = browser
    with ui(environment, "--data", str(data)) as url:
        until(lambda: opened.exists() and opened.read_text().endswith("\n"), "the browser is open")
        assert opened.read_text() == f"{url}\n"
        assert "what the page shows" in httpx.get(f"{url}executions?").text + httpx.get(url).text
        assert post(url.rstrip("/"), request(execution())).status_code in (404, 405)
        assert httpx.get(url, headers={"Host": "elsewhere.example.com"}).status_code == 403


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="needs another user, and Linux")
def test_other_users_of_the_machine_are_refused(data: Path, browser: tuple[dict[str, str], Path]) -> None:
    """Whatever they send; the same request of this user is answered."""
    ask = Path(__file__).parent / "programs" / "as_user.py"
    environment, _ = browser
    with ui(environment, "--data", str(data)) as url:
        port = str(make_url(url).port)
        mine, theirs = (
            subprocess.run([sys.executable, str(ask), port, user], capture_output=True, text=True, check=True).stdout
            for user in ("0", "65534")
        )
    assert mine.startswith("HTTP/1.1 200") and "what the page shows" in mine
    assert theirs.startswith("HTTP/1.1 403") and "what the page shows" not in theirs
    assert "run it yourself" in theirs


def test_without_a_display_the_address_is_printed(data: Path, browser: tuple[dict[str, str], Path]) -> None:
    """No browser of the terminal is opened, nor any with --no-browser."""
    environment, opened = browser
    with ui(environment, "--data", str(data), "--no-browser") as url:
        assert httpx.get(url).status_code == 200
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        environment.pop(name, None)
    with ui(environment, "--data", str(data)) as url:
        assert httpx.get(url).status_code == 200
    assert not opened.exists()


def test_the_pages_of_a_collector_are_opened(engine: Engine, browser: tuple[dict[str, str], Path]) -> None:
    """A collector that answers is opened, and the command ends; if none does, an explicit --url is an error."""
    environment, opened = browser
    with service(engine.url.render_as_string(hide_password=False)) as running:
        command = [*COMMAND, "ui", "--url", running.url]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout) == (0, f"{running.url}/\n"), ran.stderr
        until(lambda: opened.exists() and opened.read_text().endswith("\n"), "the browser is open")
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"joinsight: No collector at {running.url}: ")


def run(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command, which ends."""
    return subprocess.run([*COMMAND, "db", *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.matrix
@pytest.mark.parametrize("on_path", [True, False])
def test_a_shell_is_psql(data: Path, browser: tuple[dict[str, str], Path], on_path: bool, tmp_path: Path) -> None:
    """With its arguments and its exit code; the one of the embedded PostgreSQL where PATH has none."""
    environment, _ = browser
    if not on_path:
        environment["PATH"] = str(tmp_path)
        for program in filter(None, map(shutil.which, ("sh", "setpriv"))):  # which the embedded PostgreSQL may need
            (tmp_path / Path(program).name).symlink_to(program)
    count = "SELECT count(*) FROM execution"
    ran = run("shell", "--data", str(data), "-A", "-t", "-c", count, environment=environment)
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr
    assert run("shell", "--data", str(data), "-c", "SELECT wrong", environment=environment).returncode == 1


@pytest.mark.matrix
def test_a_url_has_no_password(engine: Engine, data: Path, browser: tuple[dict[str, str], Path]) -> None:
    """A server's URL omits it; that of the embedded one names a file, with which psql connects while it runs."""
    environment, _ = browser
    server = engine.url.render_as_string(hide_password=False)
    ran = run("url", "--database-url", server, environment=environment)
    shown = make_url(ran.stdout.strip())
    assert (shown.drivername, shown.password, shown.port) == ("postgresql", None, engine.url.port)
    ran = run("url", "--data", str(data), environment=environment)
    assert ran.returncode == 1
    assert "is not running. It has an address while it is used" in ran.stderr
    with open_database(folder=data) as embedded:
        ran = run("url", "--data", str(data), environment=environment)
        assert str(embedded.url.password) not in ran.stdout
        command = [db.find_psql(), ran.stdout.strip(), "-A", "-t", "-c", "SELECT current_user"]
        assert subprocess.run(command, capture_output=True, text=True).stdout == "joinsight\n"
    assert (data / "pgpass").stat().st_mode & 0o077 == 0
