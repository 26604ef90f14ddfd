"""The embedded PostgreSQL, with real servers, real kills and real locks."""

from __future__ import annotations

import fcntl
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url
from tests.waiting import until

from joinsight.base.errors import DatabaseError
from joinsight.store import embedded
from joinsight.store.embedded import ServerStatus, default_folder, embedded_postgres, status, stop

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root runs the server as somebody else")
with_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # as wherever this test found Joinsight
PROGRAMS = Path(__file__).parent / "programs"
USER = PROGRAMS / "user.py"


class User:
    """Another process that uses the database until it is told to leave."""

    def __init__(self, folder: Path, program: Path = USER, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(program), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,
        )

    def url(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> int:
        if self.process.returncode is None:
            self.process.communicate()
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.leave()


@contextmanager
def user(folder: Path, program: Path = USER, prefix: Sequence[str] = ()) -> Iterator[User]:
    somebody = User(folder, program, prefix)
    try:
        yield somebody
    finally:
        somebody.kill()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a database, to be copied: making one takes half a second."""
    folder = tmp_path_factory.mktemp("made") / "data"
    with embedded_postgres(folder):
        pass
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not exist yet."""
    folder = tmp_path / "data"
    yield folder
    stop(folder)
    if folder.is_dir():
        shutil.rmtree(folder)  # 40 MB, which pytest would keep


@pytest.fixture
def folder(made: Path, new: Path) -> Path:
    """A folder with a database that was used before."""
    return copied(made, new)


def copied(made: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-Rp", made, to], check=True)
    return to


def ask(url: str, sql: str) -> Any:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchone() if cursor.description else None


def running(folder: Path) -> ServerStatus:
    server = status(folder)
    assert server
    return server


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def account(folder: Path) -> dict[str, Any]:
    """Makes a program run as the owner of the cluster."""
    owner = (folder / "postgres").stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if ROOT else {}


def capabilities(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("CapEff")).split()[1], 16)


# Start and stop


def test_first_start_makes_a_database(new: Path) -> None:
    """The first use of a folder makes a database in it that SQLAlchemy's URL leads to."""
    with embedded_postgres(new) as url:
        parts = make_url(url)
        assert (parts.drivername, parts.username, parts.host) == ("postgresql+psycopg", "joinsight", "127.0.0.1")
        assert (parts.port, parts.database) == (running(new).port, "joinsight")
        assert ask(url, "SELECT current_user::text, current_database()::text") == ("joinsight", "joinsight")
        assert sorted(path.name for path in new.iterdir()) == [
            "joinsight.conf",
            "password",
            "pgpass",
            "postgres",
            "postgres.log",
            "server.lock",
            "start.lock",
            "users.lock",
        ]
    assert not listening(parts.port or 0)
    assert status(new) is None


def test_the_server_is_local_and_keeps_what_it_promises(folder: Path) -> None:
    """The server is reached on 127.0.0.1 alone, keeps fsync, checks its pages, speaks UTF-8 and lives in UTC."""
    expected = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "log_timezone": "UTC",
        "shared_buffers": "128MB",
        "max_connections": "50",
        "wal_compression": "pglz",
        "log_min_messages": "warning",
        "password_encryption": "scram-sha-256",
    }
    with embedded_postgres(folder) as url:
        assert {name: ask(url, f"SHOW {name}")[0] for name in expected} == expected


def test_nobody_else_gets_in(folder: Path) -> None:
    """Only the owner reads the password, and without it the server lets nobody in."""
    with embedded_postgres(folder) as url:
        assert folder.stat().st_mode & 0o777 == (0o711 if ROOT else 0o700)
        files = [path for path in folder.iterdir() if path.is_file()]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        password = make_url(url).password
        assert password == (folder / "password").read_text()
        for wrong in "", "x":
            with pytest.raises(psycopg.OperationalError, match="password"):
                ask(url.replace(password, wrong), "SELECT 1")


@pytest.mark.matrix
def test_folder_that_exists_keeps_its_permissions(folder: Path) -> None:
    """A folder that was there before keeps its permissions and its other files."""
    folder.chmod(0o755)
    (folder / "other").write_text("mine")
    with embedded_postgres(folder):
        assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "other").read_text() == "mine"


def test_data_and_password_survive_a_stop(folder: Path) -> None:
    """What was committed is there after a stop and a start, under the same password."""
    with embedded_postgres(folder) as first:
        ask(first, "CREATE TABLE kept AS SELECT 7 AS x")
    with embedded_postgres(folder) as second:
        assert ask(second, "SELECT x FROM kept") == (7,)
    assert make_url(first).password == make_url(second).password


@pytest.mark.matrix
def test_altered_setting_survives_a_stop(folder: Path) -> None:
    with embedded_postgres(folder) as url, psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET shared_buffers = '64MB'")
    with embedded_postgres(folder) as url:
        assert ask(url, "SHOW shared_buffers") == ("64MB",)


@pytest.mark.matrix
def test_error_of_the_user_passes_and_the_server_stops(folder: Path) -> None:
    """An error in the context is not changed, and the server stops all the same."""
    with pytest.raises(OSError, match="of the user"), embedded_postgres(folder):
        port = running(folder).port
        raise OSError("of the user")
    assert not listening(port)


@pytest.mark.matrix
def test_connected_client_does_not_hold_up_the_stop(folder: Path) -> None:
    """The last user's stop does not wait for a client that stays connected."""
    with embedded_postgres(folder) as url:
        client = psycopg.connect(url.replace("+psycopg", ""))
        client.execute("SELECT 1")
    assert status(folder) is None
    client.close()


@pytest.mark.matrix
def test_settings_of_clients_do_not_disturb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGSSLMODE, PGPORT and the like, set for another database, do not disturb this one."""
    for name, value in {"PGSSLMODE": "require", "PGPORT": "1", "PGDATA": "/none", "PGTZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(name, value)
    with embedded_postgres(folder) as url:
        assert ask(url, "SELECT 1") == (1,)


def test_status_tells_process_and_port_and_stop_stops_a_server_in_use(folder: Path) -> None:
    """status tells process and port; stop stops a server that is in use, and tells whether there was one."""
    assert status(folder) is None
    assert not stop(folder)
    with user(folder) as somebody:
        server = make_url(somebody.url())
        assert running(folder).port == server.port
        os.kill(running(folder).pid, 0)
        assert stop(folder)
        assert status(folder) is None
        assert somebody.leave() == 0


def test_status_and_stop_leave_no_trace(tmp_path: Path) -> None:
    """Asking for a server in a folder that has none writes nothing."""
    for folder in tmp_path, tmp_path / "none":
        assert status(folder) is None
        assert not stop(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.matrix
def test_log_is_bounded(folder: Path) -> None:
    """A log of more than 10 MB is put aside at the next start."""
    (folder / "postgres.log").write_bytes(b"x" * (embedded.LOG_BYTES + 1))
    with embedded_postgres(folder):
        assert (folder / "postgres.log").stat().st_size < 10_000
        assert (folder / "postgres.log.1").stat().st_size == embedded.LOG_BYTES + 1


def test_the_default_folder_is_below_xdg_data_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is below XDG_DATA_HOME, or below ~/.local/share if that is unset or not absolute."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_folder() == Path("/data/joinsight")
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert default_folder() == Path("/home/somebody/.local/share/joinsight")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_folder() == Path("/home/somebody/.local/share/joinsight")


# Several users


def test_processes_share_one_server_and_the_last_stops_it(folder: Path) -> None:
    """A second process shares the server; it outlives the one that started it and stops with the last."""
    with user(folder) as first, user(folder) as second:
        url = first.url()
        server = running(folder)
        assert second.url() == url
        assert running(folder) == server
        assert first.leave() == 0
        assert ask(url, "SELECT 1") == (1,)
        assert running(folder) == server
        assert second.leave() == 0
        assert not listening(server.port)
        assert status(folder) is None


def test_two_contexts_in_one_process_share_the_server(folder: Path) -> None:
    """A second context in the same process shares the server, which stops with the last one, in any order."""
    first, second = embedded_postgres(folder), embedded_postgres(folder)
    with first as url:
        assert second.__enter__() == url
    assert ask(url, "SELECT 1") == (1,)
    second.__exit__(None, None, None)
    assert status(folder) is None


def test_five_at_once_start_one_server(new: Path) -> None:
    """If five processes start at once on a new folder, one creates the database and all share it."""
    everybody = [User(new) for _ in range(5)]
    try:
        assert len({somebody.url() for somebody in everybody}) == 1
        assert (new / "postgres.log").read_text().count("ready to accept connections") == 1
        for somebody in everybody:
            assert somebody.process.stdin
            somebody.process.stdin.close()
            somebody.process.stdin = None
        assert [somebody.leave() for somebody in everybody] == [0] * 5
        assert status(new) is None
    finally:
        for somebody in everybody:
            somebody.kill()


@pytest.mark.matrix
def test_joining_while_the_last_one_leaves_gets_a_server(folder: Path) -> None:
    everybody = [User(folder, PROGRAMS / "visitor.py") for _ in range(4)]
    assert [somebody.leave() for somebody in everybody] == [0] * 4
    assert status(folder) is None


@pytest.mark.matrix
def test_ctrl_c_of_one_user_leaves_the_server_to_the_others(folder: Path) -> None:
    """Ctrl-C in the terminal of the user that started the server ends that user alone."""
    with user(folder) as first:
        url = first.url()
        with user(folder) as second:
            assert second.url() == url
            os.killpg(first.process.pid, signal.SIGINT)
            assert first.leave() == 3
            assert ask(url, "SELECT 1") == (1,)


def test_ctrl_c_of_the_only_user_stops_the_server(folder: Path) -> None:
    with user(folder) as only:
        only.url()
        os.killpg(only.process.pid, signal.SIGINT)
        assert only.leave() == 3
    assert status(folder) is None
    assert (folder / "postgres.log").read_text().splitlines()[-1].endswith("database system is shut down")


@pytest.mark.matrix
def test_ctrl_c_while_the_server_starts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(psycopg, "connect", interrupted)
        with embedded_postgres(folder):
            pass
    assert status(folder) is None
    assert (folder / "postgres.log").read_text().splitlines()[-1].endswith("database system is shut down")


@pytest.mark.matrix
def test_forked_child_does_not_count(folder: Path) -> None:
    """A child by fork, which inherits the locks, neither keeps the server running nor others out."""
    with user(folder, PROGRAMS / "parent.py") as parent:
        assert ask(parent.url(), "SELECT 1") == (1,)
        assert parent.leave() == 0
        assert status(folder) is None


# Kills


def test_killed_user_does_not_count(folder: Path) -> None:
    """The server survives the kill -9 of its only user; the next one shares it and, the last now, stops it."""
    with user(folder) as victim:
        url = victim.url()
        server = running(folder)
        victim.kill()
        assert ask(url, "SELECT 1") == (1,)
        with embedded_postgres(folder) as again:
            assert again == url
            assert running(folder) == server
        assert not listening(server.port)


def test_killed_server_comes_back_with_its_data(folder: Path) -> None:
    """After a kill -9 of the server the next user starts it again and finds all that was committed."""
    with user(folder) as witness:
        url = witness.url()
        ask(url, "CREATE TABLE kept AS SELECT x FROM generate_series(1, 1000) AS x")
        with psycopg.connect(url.replace("+psycopg", "")) as busy:
            busy.execute("SELECT 1")
            killed = running(folder)
            os.kill(killed.pid, signal.SIGKILL)
            with embedded_postgres(folder) as again:
                assert running(folder).pid != killed.pid
                assert ask(again, "SELECT count(*), sum(x) FROM kept") == (1000, 500500)
                assert witness.leave() == 0
                assert ask(again, "SELECT 1") == (1,)
            with suppress(psycopg.OperationalError):
                busy.rollback()
    assert status(folder) is None


@pytest.mark.matrix
def test_last_user_of_a_killed_server_leaves_in_peace(folder: Path) -> None:
    """A user whose server was killed leaves at once, and does no harm to the program that has its number now."""
    with subprocess.Popen(["sleep", "3600"], **account(folder)) as sleeper:
        with embedded_postgres(folder):
            os.kill(running(folder).pid, signal.SIGKILL)
            until(lambda: status(folder) is None, "the server is gone")
            (folder / "postgres" / "postmaster.pid").write_text(f"{sleeper.pid}\n")
            began = time.monotonic()
        assert time.monotonic() - began < 600
        assert sleeper.poll() is None
        sleeper.kill()


@pytest.fixture(params=["/proc", "ps"])
def processes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the embedded server's code finds out about a process: macOS has no /proc."""
    if request.param == "ps":
        monkeypatch.setattr(embedded, "PROC", tmp_path / "no proc")
    return str(request.param)


REST = ("another program", "nobody", "an empty file")


@with_proc
@pytest.mark.parametrize("who", ["zombie", *(pytest.param(who, marks=pytest.mark.matrix) for who in REST)])
def test_a_stale_pid_file_is_no_obstacle(folder: Path, who: str, processes: str) -> None:
    """A postmaster.pid left by a dead server is no obstacle, whoever has its number now."""
    with subprocess.Popen(["sleep", "60"], **account(folder)) as sleeper:
        if who in ("zombie", "nobody"):
            sleeper.kill()
            stat = Path(f"/proc/{sleeper.pid}/stat")
            until(lambda: ") Z " in stat.read_text(), "it is a zombie")
        if who == "nobody":
            sleeper.wait()
        lines = [sleeper.pid, folder / "postgres", 1700000000, 1, "", "127.0.0.1", "  1234567        42", "ready   "]
        text = "" if who == "an empty file" else "".join(f"{line}\n" for line in lines)
        (folder / "postgres" / "postmaster.pid").write_text(text)
        with embedded_postgres(folder) as url:
            assert ask(url, "SELECT 1") == (1,)
        sleeper.kill()


def without_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc and ps, the owner of a process id is unknown."""
    monkeypatch.setattr(embedded, "PROC", tmp_path / "no proc")
    programs = tmp_path / "programs"
    programs.mkdir()
    if setpriv := shutil.which("setpriv"):
        (programs / "setpriv").symlink_to(setpriv)
    monkeypatch.setenv("PATH", str(programs))


@pytest.mark.matrix
def test_pid_file_of_whom_nobody_can_tell(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can tell whether a server lives its file stays, and PostgreSQL decides."""
    file = folder / "postgres" / "postmaster.pid"
    with subprocess.Popen(["sleep", "60"], **account(folder)) as sleeper:
        without_ps(tmp_path, monkeypatch)
        file.write_text(
            f"{sleeper.pid}\n{folder / 'postgres'}\n1700000000\n1\n\n127.0.0.1\n  1234567        42\nstarting\n"
        )
        with pytest.raises(DatabaseError, match=r"(?s)does not start.*postmaster\.pid"), embedded_postgres(folder):
            pass
        assert file.read_text().startswith(f"{sleeper.pid}\n")
        sleeper.kill()
        sleeper.wait()
    with embedded_postgres(folder) as url:
        assert ask(url, "SELECT 1") == (1,)


@with_proc
def test_server_started_by_hand_is_left_alone(folder: Path, processes: str) -> None:
    server = embedded._Server(folder)
    server._version(embedded.find_binaries())
    postgres = [embedded.find_binaries() / "postgres", "-D", folder / "postgres", "-k", "", "-p", embedded.free_port()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server._run("/bin/sh", "-c", '"$0" "$@" &', *postgres, **quiet)
    until(lambda: server.status() is not None, "it runs")
    byhand = server.status()
    assert byhand
    try:
        settings = (folder / "joinsight.conf").read_text()
        with embedded_postgres(folder) as url, embedded_postgres(folder):
            assert make_url(url).port == byhand.port
        assert (folder / "joinsight.conf").read_text() == settings  # no start was tried
        assert not stop(folder)
        assert server.status() == byhand
        assert listening(byhand.port)
    finally:
        os.kill(byhand.pid, signal.SIGINT)
        until(lambda: not listening(byhand.port), "it has stopped")


def test_a_killed_initdb_is_no_obstacle(new: Path) -> None:
    """A kill -9 in the midst of initdb leaves nothing that the next start stumbles over."""
    with user(new) as victim:
        until(lambda: (new / "postgres.new" / "base").exists(), "initdb is at work")
        victim.kill()
    assert not (new / "postgres").exists()
    with embedded_postgres(new) as url:
        assert ask(url, "SELECT 1") == (1,)
    assert not (new / "postgres.new").exists()


@pytest.mark.matrix
def test_half_a_cluster_is_made_anew(new: Path) -> None:
    """What an interrupted initdb left behind, with an empty password, is replaced by a whole database."""
    (new / "postgres.new" / "global").mkdir(parents=True)
    (new / "postgres.new" / "PG_VERSION").write_text("16\n")
    (new / "password").touch(0o600)
    with embedded_postgres(new) as url:
        assert ask(url, "SELECT 1") == (1,)
    assert not (new / "postgres.new").exists()


@with_proc
def test_server_holds_no_lock_but_its_own(folder: Path) -> None:
    """Every process of the server has server.lock and the log open, and no other file of ours."""
    with embedded_postgres(folder):
        pid = running(folder).pid
        found = []
        for process in pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            with suppress(FileNotFoundError):  # that of a process that just ended
                opened = [link.readlink() for link in Path(f"/proc/{process}/fd").iterdir()]
                found += [{path.name for path in opened if path.parent == folder}] if opened else []
        assert len(found) >= 3
        assert all(ours == {"server.lock", "postgres.log"} for ours in found)


@pytest.mark.matrix
def test_users_lock_is_free_after_a_kill(folder: Path) -> None:
    """The server that a killed user leaves behind does not hold that user's lock."""
    with user(folder) as victim:
        victim.url()
        with (folder / "users.lock").open("r+") as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            victim.kill()
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert listening(running(folder).port)


# Paths and accounts


def test_any_path_may_be_the_folder(new: Path) -> None:
    """Spaces, quotes, any letter, and all that means something to a shell or a settings file may be in the path."""
    folder = new / "a 'b' \"c\" $HOME `id` \\n;&|*?#= ä→日本"
    with embedded_postgres(folder) as url:
        assert ask(url, "SELECT 1") == (1,)
        assert stop(folder)


@pytest.mark.matrix
def test_a_path_of_900_bytes_works(new: Path) -> None:
    folder = new
    while len(str(folder)) < 700:
        folder /= "d" * 100
    folder /= "e" * (embedded.PATH_BYTES - len(str(folder)) - 1)
    assert len(str(folder)) == embedded.PATH_BYTES
    with embedded_postgres(folder) as url:
        assert ask(url, "SELECT 1") == (1,)


@pytest.mark.parametrize("name", ["/".join(["d" * 100] * 9), "a\nb"])
def test_an_impossible_path_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatabaseError, match="900 bytes or with a line break"), embedded_postgres(tmp_path / name):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def open_folder(made: Path) -> Iterator[Path]:
    """A database in a folder that everybody may enter, as pytest's own are not."""
    top = Path(os.path.realpath("/tmp"), f"joinsight-test-{os.getpid()}")
    top.mkdir(mode=0o755)
    yield copied(made, top / "data")
    stop(top / "data")
    shutil.rmtree(top)


@as_root
@with_proc
def test_server_of_root_has_no_rights_that_it_does_not_need(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binaries = embedded.find_binaries()
    if not all(folder.stat().st_mode & 0o001 for folder in binaries.resolve().parents):  # as in a clone below /root
        binaries = copied_binaries(open_folder.parent)
    monkeypatch.setattr(embedded, "find_binaries", lambda: binaries)
    with embedded_postgres(open_folder):
        pid = running(open_folder).pid
        if Path(f"/proc/{pid}").stat().st_uid != pwd.getpwnam("nobody").pw_uid:
            pytest.fail("the server does not run as nobody")
        assert capabilities(pid) == 0


@as_root
@with_proc
def test_below_a_folder_of_root_alone(open_folder: Path) -> None:
    """Below a folder that root alone may enter the server has the one capability to pass, and the folder stays so."""
    open_folder.parent.chmod(0o700)
    with embedded_postgres(open_folder) as url:
        assert ask(url, "SELECT 1") == (1,)
        assert bin(capabilities(running(open_folder).pid)).count("1") == 1
    assert open_folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.matrix
@as_root
@with_proc
def test_container_without_the_smaller_capability(open_folder: Path) -> None:
    """With a container's capabilities, which lack CAP_DAC_READ_SEARCH, the server has CAP_DAC_OVERRIDE."""
    open_folder.parent.chmod(0o700)
    container = "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod"
    bounds = ",".join(["-all", *(f"+{name}" for name in container.split())])
    with user(open_folder, prefix=["setpriv", f"--bounding-set={bounds}"]) as somebody:
        assert ask(somebody.url(), "SELECT 1") == (1,)
        assert capabilities(running(open_folder).pid) == 1 << 1
        assert somebody.leave() == 0
    assert status(open_folder) is None


@as_root
@with_proc
def test_the_account_of_roots_server_learns_no_secret(new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root alone reads the password, also one that an earlier release left to the account; no token is inherited."""
    monkeypatch.setenv("JOINSIGHT_TOKEN", "ours:hunter2")
    nobody = pwd.getpwnam("nobody")
    for _ in range(2):
        with embedded_postgres(new) as url:
            assert ask(url, "SELECT 1") == (1,)
            server = Path(f"/proc/{running(new).pid}")
            assert server.stat().st_uid == nobody.pw_uid
            assert b"hunter2" not in (server / "environ").read_bytes()
            for name in "password", "pgpass":
                assert ((new / name).stat().st_uid, (new / name).stat().st_mode & 0o777) == (0, 0o600)
        os.chown(new / "password", nobody.pw_uid, nobody.pw_gid)


def test_folders_above_are_not_writable_by_others(tmp_path: Path) -> None:
    """Also with a umask of 0: else anybody could replace the folder."""
    top = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        with embedded_postgres(top / "data"):
            assert [path.stat().st_mode & 0o777 for path in (top.parent, top)] == [0o755, 0o755]
            assert (top / "data").stat().st_mode & 0o022 == 0
    finally:
        os.umask(before)
        shutil.rmtree(top)


@pytest.fixture
def closed_binaries(tmp_path: Path) -> Path:
    """The binaries, below a folder that root alone may enter."""
    top = tmp_path / "closed"
    top.mkdir(mode=0o700)
    return copied_binaries(top)


def copied_binaries(top: Path) -> Path:
    """The binaries, copied below a folder."""
    package = embedded.find_binaries().parents[1]
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, top / libraries.name)
    copy = top / package.name / embedded.INSTALLATION
    shutil.copytree(package / embedded.INSTALLATION, copy, ignore=shutil.ignore_patterns("include"))
    return copy / "bin"


@pytest.mark.matrix
@as_root
def test_binaries_below_a_folder_of_root_alone(
    new: Path, closed_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation below a folder that root alone may enter makes and runs a database."""
    monkeypatch.setattr(embedded, "find_binaries", lambda: closed_binaries)
    with embedded_postgres(new) as url:
        assert ask(url, "SELECT 1") == (1,)


@as_root
def test_folder_that_cannot_be_passed_is_named(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server cannot enter a closed folder, the error names the folder and a remedy."""
    open_folder.parent.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))  # no setpriv
    with pytest.raises(DatabaseError) as error, embedded_postgres(open_folder):
        pass
    assert f"cannot enter {open_folder.parent}, even" in str(error.value)
    for remedy in f"chmod o+x {open_folder.parent},", "--data", "JOINSIGHT_DATABASE_URL":
        assert remedy in str(error.value)


@as_root
def test_what_root_makes_in_a_users_folder_belongs_to_the_user(new: Path) -> None:
    new.mkdir()
    daemon = pwd.getpwnam("daemon")
    os.chown(new, daemon.pw_uid, daemon.pw_gid)
    with embedded_postgres(new):
        owners = {path.stat().st_uid for path in [new, *new.rglob("*")]}
    assert owners == {daemon.pw_uid}


@pytest.mark.matrix
@as_root
def test_root_in_the_folder_of_a_user_without_a_name(new: Path) -> None:
    """In a folder whose owner has no name on this system, as on a container's volume, the server runs as nobody."""
    new.mkdir()
    os.chown(new, 54321, 54321)
    with embedded_postgres(new):
        assert (new / "postgres").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert new.stat().st_uid == 54321


@as_root
def test_links_of_others_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """Root does not write through a link that the owner of the folder put in place of a file."""
    (tmp_path / "precious").write_text("kept")
    (folder / "joinsight.conf").unlink()
    (folder / "joinsight.conf").symlink_to(tmp_path / "precious")
    with pytest.raises(DatabaseError, match=r"joinsight\.conf"), embedded_postgres(folder):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


# Errors


def test_missing_binaries_name_the_platform(new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the wheel is missing the error names the platform and the way to use another server."""
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package")
    with pytest.raises(DatabaseError) as error, embedded_postgres(new):
        pass
    assert "no-such-package is missing" in str(error.value)
    assert sys.platform in str(error.value)
    assert "JOINSIGHT_DATABASE_URL=postgresql+psycopg://user:password@host/db" in str(error.value)


def test_binaries_are_found_without_running_the_package() -> None:
    """Finding the binaries does not import the package that brings them."""
    code = (
        "import sys; from joinsight.store import embedded as e; e.find_binaries(); sys.exit(e.PACKAGE in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)


def test_binaries_that_cannot_run_say_why(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binaries = open_folder.parent / "bin"
    binaries.mkdir()
    (binaries / "postgres").write_text("#!/none\n")
    (binaries / "postgres").chmod(0o755)
    monkeypatch.setattr(embedded, "find_binaries", lambda: binaries)
    wanted = r"does not run on this system \(.*postgres.*not found.*JOINSIGHT_DATABASE_URL"
    with pytest.raises(DatabaseError, match=wanted), embedded_postgres(open_folder):
        pass


def test_a_cluster_of_another_version_is_left_alone(folder: Path) -> None:
    """A database of another major version is left as it is; the error names both versions and the ways to go on."""
    (folder / "postgres" / "PG_VERSION").write_text("15\n")
    with (
        pytest.raises(DatabaseError, match=r"(?s)by PostgreSQL 15.*installed is 1\d .*--data"),
        embedded_postgres(folder),
    ):
        pass
    assert (folder / "postgres" / "PG_VERSION").read_text() == "15\n"
    assert status(folder) is None


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in tmp_path / "file", tmp_path / "file" / "data":
        with pytest.raises(DatabaseError, match=r"Not a directory.*--data"), embedded_postgres(folder):
            pass
    assert (tmp_path / "file").read_text() == "mine"


def test_folder_is_not_writable(tmp_path: Path) -> None:
    """A folder that cannot be written is named in the error, with the way to choose another."""
    tmp_path.chmod(0o500)
    folder = Path("/proc/joinsight") if ROOT else tmp_path / "data"  # permissions do not bind root
    with pytest.raises(DatabaseError, match=rf"cannot use {folder}: .*--data"), embedded_postgres(folder):
        pass


def test_a_full_disk_ends_with_the_log_and_heals(new: Path) -> None:
    """When a database cannot be made the error ends with the log; with more room the same folder works."""
    failed = subprocess.run(
        [sys.executable, str(USER), str(new)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert "DatabaseError: PostgreSQL cannot create a database" in failed.stderr
    assert "MB left" in failed.stderr
    assert "initdb: removing contents" in failed.stderr
    with embedded_postgres(new) as url:
        assert ask(url, "SELECT 1") == (1,)


@pytest.mark.matrix
def test_a_taken_port_costs_one_attempt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = iter([other.getsockname()[1], embedded.free_port()])
        monkeypatch.setattr(embedded, "free_port", lambda: next(ports))
        with embedded_postgres(folder) as url:
            assert ask(url, "SELECT 1") == (1,)


def test_server_that_does_not_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not start is given up after three attempts; the error ends with its log."""
    monkeypatch.setattr(embedded, "SETTINGS", embedded.SETTINGS + "shared_buffers = 'plenty'\n")
    with (
        pytest.raises(DatabaseError, match=r'(?s)does not start in .*shared_buffers.*"plenty"'),
        embedded_postgres(folder),
    ):
        pass
    assert (folder / "postgres.log").read_text().count('"plenty"') == embedded.STARTS


@pytest.mark.matrix
def test_server_that_does_not_stop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not stop is reported with its number, to the one who would stop it."""
    with user(folder) as somebody:
        somebody.url()
        pid = running(folder).pid
        monkeypatch.setattr(embedded, "STOP_SECONDS", 0.2)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseError, match=rf"\(process {pid}\) does not stop"):
                stop(folder)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert somebody.leave() == 0


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("lock", "error"), [("server.lock", r"did not answer for 0\.1 s: it is not ready"), ("start.lock", r"start\.lock")]
)
def test_a_lock_that_is_never_released_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lock: str, error: str
) -> None:
    """A server that lives and does not answer, or a process that hangs while it starts one, makes no other hang."""
    monkeypatch.setattr(embedded, "START_SECONDS", 0.1)
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.1)
    with (folder / lock).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DatabaseError, match=error), embedded_postgres(folder):
            pass


def test_windows_is_shown_another_way() -> None:
    """On Windows, which lacks flock, the module imports and the error shows the way to use another server."""
    subprocess.run([sys.executable, str(PROGRAMS / "windows.py")], env=ENVIRONMENT, check=True)
