"""If a service's embedded PostgreSQL dies, the service restarts it, and all confirmed documents are stored."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.documents import execution, request
from tests.serve.real import Service, get, in_threads, post, service, until
from tests.store.test_embedded import running, user, with_proc

from joinsight import tables
from joinsight.store import embedded
from joinsight.store.database import open_database

MB = 1 << 20
REAPER = "import ctypes; ctypes.CDLL(None).prctl(36, 1)"
"""Makes the service the parent of all whose own has ended, as the first process of a container is: it reaps none."""
WITHOUT_WATCH = "from joinsight.serve import background; background.POSTGRES_SECONDS = 1_000_000"


def send(url: str, number: int, **changes: Any) -> bool:
    """Whether the collector confirmed this execution; without its database it must respond 503."""
    answer = post(url, request(execution(application_id="app-embedded", execution_id=number, **changes)))
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


def stored(data: Path) -> list[int]:
    c = tables.execution.c
    with open_database(folder=data) as engine, engine.connect() as connection:
        return sorted(connection.scalars(select(c.execution_id).where(c.application_id == "app-embedded")))


def kill(data: Path) -> None:
    os.kill(running(data).pid, signal.SIGKILL)


def stop(data: Path) -> None:
    os.kill(running(data).pid, signal.SIGINT)


def command(data: Path) -> None:
    assert embedded.stop(data)


def gone(data: Path, pid: int) -> bool:
    """Whether the server has another process, or none."""
    found = embedded.status(data)
    return found is None or found.pid != pid


def well(service: Service, data: Path) -> None:
    """Documents, pages and the probe find the database."""
    until(lambda: get(service.url + "/readyz").status_code == 200, "it is ready")
    assert get(service.url + "/").status_code == 200
    assert running(data)


@pytest.mark.matrix
@pytest.mark.parametrize("end", [kill, *(pytest.param(end, marks=pytest.mark.nightly) for end in (stop, command))])
def test_a_server_that_dies_is_started_again(tmp_path: Path, end: Callable[[Path], None]) -> None:
    """Twice in a row, whether it is killed, stopped in order or by `joinsight db stop`; then it has another port."""
    data = tmp_path / "data"
    with service("", "--data", str(data)) as serving:
        assert send(serving.url, 0)
        ports = {running(data).port}
        for number in (1, 2):
            before = running(data).pid
            end(data)
            until(lambda number=number: send(serving.url, number), "the next document is taken")  # type: ignore[misc]
            well(serving, data)
            assert running(data).pid != before
            ports.add(running(data).port)
        assert len(ports) > 1
        assert len(serving.logged("embedded PostgreSQL restarted")) == 2
        serving.signal(signal.SIGTERM)
        assert serving.end() == 0
    assert embedded.status(data) is None
    assert stored(data) == [0, 1, 2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "none", folder], capture_output=True).returncode:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.matrix
def test_a_disk_without_room_for_the_write_ahead_log(disk: Path) -> None:
    """PostgreSQL ends; documents are deferred, and nothing that was confirmed is lost. With room, all is well again."""
    data, filler = disk / "data", disk / "filler"
    with service("", "--data", str(data)) as serving:
        assert send(serving.url, 0)
        confirmed = [0]
        with suppress(OSError), filler.open("wb", buffering=0) as file:  # it is full when PostgreSQL took the rest
            for _ in range(shutil.disk_usage(disk).free // MB - 2):
                file.write(bytes(MB))
        while send(serving.url, len(confirmed), description=os.urandom(MB).hex()):
            confirmed.append(len(confirmed))
        filler.unlink()
        until(lambda: send(serving.url, len(confirmed)), "the next document is taken")
        well(serving, data)
        assert not serving.logged("internal error")
    assert stored(data) == [*confirmed, len(confirmed)]


@with_proc
@pytest.mark.matrix
def test_a_killed_server_that_nobody_reaps_is_replaced(tmp_path: Path) -> None:
    """In a container whose first process is the service, a killed server stays as a zombie that has its number."""
    data = tmp_path / "data"
    with service("", "--data", str(data), patch=REAPER) as serving:
        assert send(serving.url, 0)
        for number in (1, 2):
            pid = running(data).pid
            kill(data)
            until(lambda pid=pid: ") Z " in Path(f"/proc/{pid}/stat").read_text(), "it is a zombie")  # type: ignore[misc]
            until(lambda number=number: send(serving.url, number), "the next document is taken")  # type: ignore[misc]
            well(serving, data)
            assert ") Z " in Path(f"/proc/{pid}/stat").read_text()
    assert stored(data) == [0, 1, 2]


def test_a_server_that_a_command_has_started(tmp_path: Path) -> None:
    """A service that does not start it itself finds it where it listens now, and keeps it when the command ends."""
    data = tmp_path / "data"
    with service("", "--data", str(data), patch=WITHOUT_WATCH) as serving:
        assert send(serving.url, 0)
        port = running(data).port
        kill(data)
        until(lambda: embedded.status(data) is None, "its last process has gone")
        assert not send(serving.url, 1)
        assert get(serving.url + "/readyz").status_code == 503
        with user(data) as other:
            assert other.url()
            assert running(data).port != port
            assert send(serving.url, 1)
            assert other.leave() == 0
        well(serving, data)
        assert send(serving.url, 2)
    assert stored(data) == [0, 1, 2]


@pytest.mark.matrix  # in the normal run, by test_five_at_once_start_one_server
def test_commands_that_start_it_at_the_same_moment(tmp_path: Path) -> None:
    """While it is killed again and again, commands come and go and documents are sent: all that was answered for is
    stored, and one server at a time has run."""
    data = tmp_path / "data"
    answered: list[int] = []
    over = threading.Event()
    with service("", "--data", str(data)) as serving:
        url = serving.url

        def sends() -> None:
            for number in range(1_000_000):
                if over.is_set():
                    return
                if send(url, number):
                    answered.append(number)

        join = in_threads(sends)
        try:
            for _ in range(3):
                until(lambda: embedded.status(data), "it runs")
                pid, taken = running(data).pid, len(answered)
                kill(data)
                with user(data) as one, user(data) as other:
                    assert one.url() == other.url()
                    assert one.leave() == other.leave() == 0
                assert gone(data, pid)
                until(lambda taken=taken: len(answered) > taken, "a document is taken")  # type: ignore[misc]
        finally:
            over.set()
            join()
        well(serving, data)
        serving.signal(signal.SIGTERM)
        assert serving.end() == 0
    assert embedded.status(data) is None
    assert set(answered) <= set(stored(data))
    assert "lock file" not in (data / "postgres.log").read_text()


@pytest.mark.matrix
def test_a_server_that_cannot_be_started(tmp_path: Path) -> None:
    """The log says why, once in a while and not at every turn; when it can be, it is."""
    data = tmp_path / "data"
    short = "from joinsight.serve import background; background.START_AGAIN_SECONDS = 3"
    with service("", "--data", str(data), patch=short) as serving:
        assert send(serving.url, 0)
        version = data / "postgres" / "PG_VERSION"
        right = version.read_text()
        version.write_text("15\n")
        kill(data)
        until(lambda: serving.logged("embedded PostgreSQL was not restarted"), "it is logged")
        assert "by PostgreSQL 15" in serving.logged("embedded PostgreSQL was not restarted")[0]["message"]
        assert not send(serving.url, 1)
        version.write_text(right)
        until(lambda: send(serving.url, 1), "it is back")
        well(serving, data)
    assert stored(data) == [0, 1]
