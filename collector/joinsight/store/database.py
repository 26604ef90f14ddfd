"""Opens the store: a PostgreSQL server by URL, or the embedded one; brings its schema up to date."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import psycopg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from joinsight.errors import ConfigurationError, DatabaseError, SchemaError
from joinsight.store import embedded
from joinsight.store.embedded import default_folder, embedded_postgres

URL_VARIABLE = "JOINSIGHT_DATABASE_URL"
_FOLDER = "joinsight_embedded_folder"
_NEWER = "The database's schema {} is newer than this program. Upgrade Joinsight."
_EXAMPLE = "Write it like postgresql+psycopg://user:password@host:5432/database."


@contextmanager
def open_database(url: str | None = None, folder: Path | None = None) -> Iterator[Engine]:
    """An engine on the database of `url`, else of JOINSIGHT_DATABASE_URL, else on the embedded one in `folder`.

    The embedded database is this program's own, so its schema is upgraded here; a server's never is.
    Raises `ConfigurationError` for a URL that cannot be used, `DatabaseError` when no server answers.
    """
    url = url or os.environ.get(URL_VARIABLE) or None
    if url:
        with connect(url) as engine:
            yield engine
        return
    folder = folder or default_folder()
    with embedded_postgres(folder) as embedded_url, connect(embedded_url, folder) as engine:
        upgrade(engine)
        yield engine


def reason(error: Exception) -> str:
    """What PostgreSQL, or its driver, says is wrong: without the statement, which may hold a user's data."""
    return str(getattr(error, "orig", None) or error).strip()


def check_settings(url: str | None, folder: Path | None) -> list[ConfigurationError]:
    """What `open_database` would find wrong with its arguments before anything is started or connected to."""
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
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise ConfigurationError(URL_VARIABLE, "(not shown)", "it is not a database URL", _EXAMPLE) from None
    if parsed.get_backend_name() != "postgresql":
        shown = parsed.render_as_string(hide_password=True)
        raise ConfigurationError(URL_VARIABLE, shown, "only PostgreSQL is supported", _EXAMPLE)
    return parsed


def _check_folder(folder: Path) -> None:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    problem = f"{there} cannot be written to" if there.is_dir() else f"{there} is no folder"
    raise ConfigurationError("--data", str(folder), problem, f"Name a folder of your own, or set {URL_VARIABLE}.")


@contextmanager
def connect(url: str, folder: Path | None = None) -> Iterator[Engine]:
    """An engine on a server; connections are checked before use, so that a restarted server does no harm.

    One whose server has vanished without a word breaks within half a minute. `folder`: the server is the embedded one
    of this folder, and is found wherever it listens after it was started again.
    """
    parsed = _parse(url)
    shown = parsed.render_as_string(hide_password=True)
    engine = _engine(
        parsed.set(drivername="postgresql+psycopg"), folder, pool_pre_ping=True, connect_args=_connect_arguments()
    )
    try:
        try:
            engine.connect().close()
        except OperationalError as error:
            raise DatabaseError(f"No PostgreSQL answers at {shown}: {reason(error)}") from None
        yield engine
    finally:
        engine.dispose()


def for_readers(engine: Engine, seconds: int) -> Engine:
    """The same database for those who only read: no statement may take longer than `seconds`.

    Every connection of it sees the database as it was at one moment, and is closed after use, so that readers hold
    none between their requests.
    """
    limits = f"-c default_transaction_read_only=on -c statement_timeout={seconds}s"
    options = {"poolclass": NullPool, "isolation_level": "REPEATABLE READ"}
    return _engine(engine.url, embedded_folder(engine), connect_args=_connect_arguments(limits), **options)


def embedded_folder(engine: Engine) -> Path | None:
    """The folder of the embedded server that the engine is on; None if it is on another."""
    folder: Path | None = engine.get_execution_options().get(_FOLDER)
    return folder


def _engine(url: URL, folder: Path | None, **options: Any) -> Engine:
    engine = create_engine(url, execution_options={_FOLDER: folder}, **options)
    if folder is not None:

        def follow(_dialect: object, _record: object, _arguments: object, parameters: dict[str, Any]) -> None:
            parameters["port"] = _port(folder)

        event.listen(engine, "do_connect", follow)
    return engine


def _port(folder: Path) -> int:
    port = embedded.port(folder)
    if port is None:
        raise psycopg.OperationalError("the embedded PostgreSQL does not run")
    return port


def _connect_arguments(options: str = "") -> dict[str, Any]:
    return {
        "connect_timeout": 10,
        "tcp_user_timeout": 20_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "joinsight",
        "client_encoding": "UTF8",
        # Partitionwise: a time asked of one table then spares the other months of those that are joined to it too
        "options": f"-c timezone=UTC -c enable_partitionwise_join=on {options}".strip(),
    }


def conninfo(engine: Engine) -> str:
    """For psycopg in another process: how to connect as the engine does. It holds the password."""
    folder = embedded_folder(engine)
    url = engine.url if folder is None else engine.url.set(port=_port(folder))
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return make_conninfo(plain, **_connect_arguments())


def upgrade(engine: Engine) -> None:
    """Bring the schema to this program's version; does nothing when it is there. Several programs may do so at once.

    Raises `SchemaError` if the schema is newer than this program.
    """
    current, head, known = _revisions(engine)
    if current == head:
        return
    if current is not None and current not in known:
        raise SchemaError(_NEWER.format(current))
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")


def check_schema(engine: Engine) -> str:
    """The revision of the schema; raises `SchemaError` unless it is exactly this program's."""
    current, head, known = _revisions(engine)
    if current is not None and current == head:
        return current
    if current is None:
        raise SchemaError("The database has no Joinsight schema yet. Run: joinsight db upgrade")
    if current in known:
        raise SchemaError(f"The database's schema is {current}, this program needs {head}. Run: joinsight db upgrade")
    raise SchemaError(_NEWER.format(current))


def _revisions(engine: Engine) -> tuple[str | None, str | None, set[str]]:
    """The revision that the database has, the one that this program wants, and all that it knows."""
    scripts = ScriptDirectory.from_config(_config())
    with engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    return current, scripts.get_current_head(), {script.revision for script in scripts.walk_revisions()}


def migrations_folder() -> Path:
    """In the wheel beside this package, in a checkout at its top."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent.parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
