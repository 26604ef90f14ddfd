"""Opens the store, a PostgreSQL server by URL or the embedded one, and upgrades its schema."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import alembic.command
import msgspec
import psycopg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.conninfo import make_conninfo
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from joinsight.base.errors import ConfigurationError, DatabaseError, SchemaError
from joinsight.store import URL_VARIABLE, embedded
from joinsight.store.definitions import Definitions, stored_version
from joinsight.store.embedded import default_folder, embedded_postgres
from joinsight.tables import metadata, views

_FOLDER = "joinsight_embedded_folder"
_CREATION = 0x6A6F696F  # pg_advisory_xact_lock: programs that start at the same time take turns to create the schema
LOCK_SECONDS = 2
"""Longest wait for a table that readers may use, as writers queue behind who waits; longer than deadlock_timeout, after
which PostgreSQL cancels a blocking autovacuum."""
PAUSES = (1.0, 3.0, 6.0, 12.0, 24.0)
"""Seconds between attempts to get such a table."""
# No reader may take this lock, unlike one of pg_advisory_lock
_EXCLUSIVE = "LOCK TABLE alembic_version IN SHARE UPDATE EXCLUSIVE MODE"
_HOLDER = """
    SELECT a.pid, a.usename, a.application_name, date_trunc('second', now() - a.xact_start) AS since
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.relation IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST(:tables AS text[])) AS name)
        AND l.granted AND a.xact_start IS NOT NULL
    ORDER BY a.xact_start LIMIT 1
"""
_NEWER = "The database's schema {} is newer than this program. Upgrade Joinsight."
_UNRELEASED = (
    "The database's schema {} is from before the first release and cannot be upgraded."
    " Use a new database: another JOINSIGHT_DATABASE_URL, or another folder (--data)."
)
_CREATE = "`joinsight demo`, `serve`, `backfill` and `db upgrade` create one"
_SECRETS = ("password", "sslpassword")
"""Keys of a URL's query with a secret."""
_MARK = "joinsight.connected"
"""A setting of each connection: without it, the others did not arrive either."""
_POOLER = (
    "Connect to PostgreSQL itself: poolers such as PgBouncer, which drop or mix the settings of connections, are not"
    " supported."
)
_EXAMPLE = "Write it like postgresql+psycopg://user:password@host:5432/database."


@contextmanager
def open_database(url: str | None = None, folder: Path | None = None, *, create: bool = False) -> Iterator[Engine]:
    """An engine on the database of `url`, else of JOINSIGHT_DATABASE_URL, else on the embedded one in `folder`.

    The schema of the embedded database, which is this program's own, is upgraded here; a server's is not. Only with
    `create` a folder without a database gets one.
    Raises `ConfigurationError` for a URL or folder that cannot be used, `DatabaseError` when no server answers or there
    is no database yet.
    """
    url = url or os.environ.get(URL_VARIABLE) or None
    if url:
        with connect(url) as engine:
            yield engine
        return
    if not create:
        _check_exists(folder)
    with open_embedded(folder or default_folder()) as engine:
        yield engine


@contextmanager
def open_store(url: str | None = None, folder: Path | None = None) -> Iterator[Connection]:
    """A connection to the database of `open_database`; raises `SchemaError` unless its schema is this program's."""
    with open_database(url, folder) as engine:
        check_schema(engine)
        with engine.connect() as connection:
            yield connection


@contextmanager
def open_embedded(folder: Path, *, is_temporary: bool = False) -> Iterator[Engine]:
    """An engine on the embedded database in `folder`, which is created or upgraded if necessary.

    `is_temporary`: it need not survive a crash of the machine. Raises `DatabaseError`.
    """
    with embedded_postgres(folder, is_temporary=is_temporary) as url, connect(url, folder) as engine:
        upgrade(engine)
        yield engine


def _check_exists(folder: Path | None) -> None:
    if embedded.exists(folder or default_folder()):
        return
    if folder is not None:
        raise ConfigurationError("--data", str(folder), "no database in this folder", f"{_CREATE}.")
    raise DatabaseError(f"No database yet in {default_folder()}. {_CREATE}; to use a server, set {URL_VARIABLE}.")


def reason(error: Exception) -> str:
    """The message of PostgreSQL or its driver, without the statement, which may contain a user's data."""
    return str(getattr(error, "orig", None) or error).strip()


def check_settings(url: str | None, folder: Path | None) -> list[ConfigurationError]:
    """The errors that `open_database` would raise for its arguments before it starts or connects to anything."""
    url = url or os.environ.get(URL_VARIABLE) or None
    try:
        if url:
            _parse(url)
        else:
            _check_folder(folder or default_folder())
    except ConfigurationError as error:
        return [error]
    return []


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise ConfigurationError(URL_VARIABLE, "(not shown)", "not a valid database URL", _EXAMPLE) from None
    if "password" in parsed.query:  # as libpq allows: moved to where no output shows it
        parsed = parsed.set(password=parsed.password or _last(parsed.query["password"]))
        parsed = parsed.difference_update_query(["password"])
    if parsed.get_backend_name() != "postgresql":
        raise ConfigurationError(URL_VARIABLE, shown_url(parsed), "only PostgreSQL is supported", _EXAMPLE)
    return parsed


def shown_url(url: URL) -> str:
    """A server's URL for messages and logs, without secrets."""
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def _last(value: str | tuple[str, ...]) -> str:
    """The value of a key of a URL's query that counts for libpq, which may be there several times."""
    return value if isinstance(value, str) else value[-1]


def _check_folder(folder: Path) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return
    problem = f"{existing} is not writable" if existing.is_dir() else f"{existing} is not a folder"
    raise ConfigurationError("--data", str(folder), problem, f"Name a folder of your own, or set {URL_VARIABLE}.")


@contextmanager
def connect(url: str, folder: Path | None = None) -> Iterator[Engine]:
    """An engine on a server; connections are checked before use, so that they survive a restart of the server.

    A connection fails within half a minute of the server's disappearance. `folder`: the server is the embedded one
    of this folder, whose port is looked up for each connection, as it changes with a restart. Raises `DatabaseError`.
    """
    parsed = _parse(url)
    engine = engine_for(parsed.set(drivername="postgresql+psycopg"), folder)
    try:
        try:
            with engine.connect() as connection:
                has_settings = connection.scalar(text(f"SELECT current_setting('{_MARK}', true)"))
        except OperationalError as error:
            pooler = f" {_POOLER}" if "unsupported startup parameter" in reason(error) else ""
            raise DatabaseError(
                f"PostgreSQL does not respond at {shown_url(parsed)}: {reason(error)}{pooler}"
            ) from None
        if not has_settings:
            raise DatabaseError(f"{shown_url(parsed)} ignores the settings of a connection. {_POOLER}")
        yield engine
    finally:
        engine.dispose()


def engine_for(url: URL, folder: Path | None) -> Engine:
    """An engine for writing, as `connect` yields it, also while no server answers."""
    return _engine(url, folder, pool_pre_ping=True, connect_args=_connect_arguments(url))


def for_readers(engine: Engine, seconds: int) -> Engine:
    """An engine on the same database for reading only: no statement may take longer than `seconds`.

    Each connection sees one snapshot of the database, and is closed after use, so that readers hold none between
    requests.
    """
    limits = f"-c default_transaction_read_only=on -c statement_timeout={seconds}s"
    options = {"poolclass": NullPool, "isolation_level": "REPEATABLE READ"}
    return _engine(engine.url, embedded_folder(engine), connect_args=_connect_arguments(engine.url, limits), **options)


def embedded_folder(engine: Engine) -> Path | None:
    """The folder of the engine's embedded server; None if the server is not embedded."""
    folder: Path | None = engine.get_execution_options().get(_FOLDER)
    return folder


def _engine(url: URL, folder: Path | None, **options: Any) -> Engine:
    options["json_deserializer"] = msgspec.json.decode  # a page of a large plan reads megabytes
    engine = create_engine(url, execution_options={_FOLDER: folder}, **options)
    if folder is not None:

        def follow(_dialect: object, _record: object, _arguments: object, parameters: dict[str, Any]) -> None:
            parameters["port"] = _port(folder)

        event.listen(engine, "do_connect", follow)
    return engine


def _port(folder: Path) -> int:
    port = embedded.port(folder)
    if port is None:
        raise psycopg.OperationalError("the embedded PostgreSQL is not running")
    return port


def _connect_arguments(url: URL, limits: str = "") -> dict[str, Any]:
    """What the URL does not set itself, and options of the server: ours, then the URL's, then `limits`."""
    # Partitionwise joins: a condition on the time of one table then also prunes the months of tables joined to it
    ours = f"-c timezone=UTC -c enable_partitionwise_join=on -c {_MARK}=on"
    arguments = {
        "connect_timeout": 10,
        "tcp_user_timeout": 20_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "joinsight",
    }
    arguments = {name: value for name, value in arguments.items() if name not in url.query}
    options = [ours, _last(url.query.get("options", "")), limits]
    return {**arguments, "client_encoding": "UTF8", "options": " ".join(filter(None, options))}


def conninfo(engine: Engine) -> str:
    """A connection string for psycopg in another process, with the engine's settings. Contains the password."""
    folder = embedded_folder(engine)
    url = engine.url if folder is None else engine.url.set(port=_port(folder))
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return make_conninfo(plain, **_connect_arguments(url))


def client_url(url_or_text: URL | str) -> str:
    """A server's URL for libpq, without secrets."""
    url = _parse(url_or_text) if isinstance(url_or_text, str) else url_or_text
    url = url.difference_update_query(_SECRETS)
    return URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query).render_as_string()


def upgrade(engine: Engine) -> None:
    """Upgrade the schema to this program's version, if necessary. Several programs may do so at once.

    Raises `SchemaError` if the schema is newer than this program, or cannot be upgraded; `DatabaseError` if a table
    stays in use through all attempts.
    """
    for pause in (*PAUSES, None):
        try:
            with engine.begin() as connection:
                _upgrade(connection)
            return
        except DBAPIError as error:
            if not is_busy(error):
                raise
        if pause is None:
            used = holder(engine, [*metadata.tables, *views.metadata.tables])
            raise DatabaseError(f"The schema cannot be upgraded, a table is in use{used}. Nothing has changed.")
        time.sleep(pause)


def _upgrade(connection: Connection) -> None:
    target = _target()
    own = target.revision, target.definitions.version
    if _stored(connection, target) == own:
        return
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _CREATION})
    else:
        connection.execute(text(_EXCLUSIVE))
    if _stored(connection, target) == own:  # by another program, while this one waited
        return
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
    target.definitions.drop(connection)
    config = alembic_config()
    config.attributes["connection"] = connection
    alembic.command.upgrade(config, "head")
    target.definitions.create(connection)


def is_busy(error: DBAPIError) -> bool:
    """Whether a lock was not available in time."""
    return isinstance(error.orig, (LockNotAvailable, DeadlockDetected))


def holder(engine: Engine, tables: Sequence[str]) -> str:
    """Who uses one of these tables for longest: words to put behind "in use"; empty if nobody does any more."""
    with engine.connect() as connection:
        row = connection.execute(text(_HOLDER), {"tables": list(tables)}).first()
    return f" by process {row.pid} of {row.usename} ({row.application_name}) for {row.since}" if row else ""


@contextmanager
def exclusively(engine: Engine) -> Iterator[Connection]:
    """Keep other programs from upgrading or doing this; raises `DatabaseError` if one of them is at it.

    Yields the connection that does so.
    """
    with engine.connect() as connection:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))  # it idles while others work
        try:
            connection.execute(text(f"{_EXCLUSIVE} NOWAIT"))
        except DBAPIError as error:
            if not is_busy(error):
                raise
            raise DatabaseError(
                "Another program is pruning or upgrading this database. Try again when it has finished."
            ) from None
        yield connection


def check_schema(engine: Engine) -> str:
    """The revision of the schema; raises `SchemaError` unless it is this program's."""
    target = _target()
    with engine.connect() as connection:
        revision, version = _stored(connection, target)
    if revision is None:
        raise SchemaError("The database has no Joinsight schema yet. Run: joinsight db upgrade")
    if revision != target.revision:
        raise SchemaError(
            f"The database's schema is {revision}, this program needs {target.revision}. Run: joinsight db upgrade"
        )
    if version != target.definitions.version:
        raise SchemaError(
            "The database's functions and views do not match this program. With the newest Joinsight that uses it, run:"
            " joinsight db upgrade"
        )
    return revision


class _Target(NamedTuple):
    """The schema that this program needs."""

    revision: str | None
    known: set[str]
    """All revisions that this program can upgrade from."""
    definitions: Definitions


def _target() -> _Target:
    scripts = ScriptDirectory.from_config(alembic_config())
    known = {script.revision for script in scripts.walk_revisions()}
    return _Target(scripts.get_current_head(), known, Definitions(migrations_folder()))


def _stored(connection: Connection, target: _Target) -> tuple[str | None, str | None]:
    """The database's revision, and the version of its functions and views; None where it has none.

    Raises `SchemaError` if this program cannot upgrade it.
    """
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None and revision not in target.known:
        is_unreleased = revision.startswith("0")  # 0001 to 0015; released ones are 1, 2, ...
        raise SchemaError((_UNRELEASED if is_unreleased else _NEWER).format(revision))
    return revision, stored_version(connection)


def migrations_folder() -> Path:
    """The folder of migrations: within the package in a wheel, at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent.parent / "migrations"


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
