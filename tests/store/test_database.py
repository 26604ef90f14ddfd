"""Connections to a server: what its URL may set, what is shown of it, and poolers in between."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import URL, Engine, make_url, text
from tests.serve.real import service, until

from joinsight.base.errors import ConfigurationError, DatabaseError
from joinsight.cli import cli
from joinsight.store import database
from joinsight.store.database import client_url, connect, conninfo, for_readers
from joinsight.store.embedded import free_port

PASSWORD_IN_QUERY = "hunter2"


def setting(engine: Engine, name: str) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(text("SELECT current_setting(:name)"), {"name": name}))


def with_query(url: str, **query: str) -> str:
    return make_url(url).update_query_dict(query).render_as_string(hide_password=False)


def test_the_url_sets_the_name_and_options_of_a_connection(make_store: Callable[[], str]) -> None:
    """All connections have them, also those of readers and other processes; our settings stay, readers only read."""
    options = "-c work_mem=7MB -c statement_timeout=9s"
    url = with_query(make_store(), application_name="mine", options=options, connect_timeout="3")
    with connect(url) as engine:
        readers = for_readers(engine, seconds=5)
        for each in engine, readers:
            assert setting(each, "application_name") == "mine"
            assert setting(each, "work_mem") == "7MB"
            assert setting(each, "timezone") == "UTC"
        assert (setting(engine, "statement_timeout"), setting(readers, "statement_timeout")) == ("9s", "5s")
        assert setting(readers, "default_transaction_read_only") == "on"
        with psycopg.connect(conninfo(engine)) as other:
            found = (
                "SELECT current_setting('application_name'), current_setting('work_mem'), current_setting('timezone')"
            )
            assert other.execute(found).fetchone() == ("mine", "7MB", "UTC")
            assert other.info.get_parameters()["connect_timeout"] == "3"


def test_a_url_that_sets_nothing_gets_our_settings(engine: Engine) -> None:
    with connect(engine.url.render_as_string(hide_password=False)) as own:
        assert setting(own, "application_name") == "joinsight"
        assert setting(own, "enable_partitionwise_join") == "on"


@pytest.fixture
def in_query(make_store: Callable[[], str]) -> str:
    """A URL whose password is in its query, as libpq allows, next to a second secret."""
    url = make_url(make_store())
    password = url.password
    return with_query(
        url._replace(password=None).render_as_string(), password=str(password), sslpassword=PASSWORD_IN_QUERY
    )


def test_a_password_in_the_query_is_shown_nowhere(in_query: str) -> None:
    """Not by commands, their errors or a collector's log; and the password is used."""
    password = str(make_url(in_query).query["password"])
    wrong = make_url(in_query).set(port=1).render_as_string()
    not_ours = make_url(in_query).set(drivername="mysql").render_as_string()
    outputs = []
    for command in ("db upgrade", "db url", "doctor", "queries"):
        for url in (in_query, wrong, not_ours):
            result = CliRunner().invoke(cli, command.split(), env={"JOINSIGHT_DATABASE_URL": url})
            outputs.append(f"{result.output}{result.exception}")
    with service(in_query) as collector:
        assert collector.logged("collecting")
    outputs += collector.lines
    for output in outputs:
        assert password not in output and PASSWORD_IN_QUERY not in output
    assert not {"password", "sslpassword"} & make_url(client_url(in_query)).query.keys()


def test_of_several_passwords_the_last_one_counts() -> None:
    """As for libpq."""
    url = database._parse("postgresql://me@there/db?password=first&password=second&sslmode=require")
    assert (url.password, dict(url.query)) == ("second", {"sslmode": "require"})


def test_an_invalid_url_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught, connect("postgresql://me:hunter2@there:port/db"):
        pass
    assert "hunter2" not in str(caught.value)


@contextmanager
def pgbouncer(folder: Path, server: URL, *settings: str) -> Iterator[URL]:
    """A PgBouncer in front of the server, as Debian configures it but for these settings; yields its URL."""
    folder.chmod(0o755)
    port = free_port()
    (folder / "users").write_text(f'"{server.username}" "{server.password or ""}"\n')
    (folder / "pgbouncer.ini").write_text(
        "\n".join(
            [
                "[databases]",
                f"* = host={server.host} port={server.port}",
                "[pgbouncer]",
                f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
                f"auth_type = plain\nauth_file = {folder / 'users'}",
                *settings,
            ]
        )
    )
    account = ["-u", "nobody"] if os.geteuid() == 0 else []
    program = subprocess.Popen(["pgbouncer", "-q", *account, folder / "pgbouncer.ini"])
    url = server.set(host="127.0.0.1", port=port)

    def answers() -> bool:
        assert program.poll() is None
        try:
            psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        until(answers, "PgBouncer answers")
        yield url
    finally:
        program.kill()
        program.wait()


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="needs PgBouncer (Debian: apt-get install pgbouncer)")
@pytest.mark.parametrize("settings", [[], ["ignore_startup_parameters = options, extra_float_digits"]])
def test_pgbouncer_is_named_as_unsupported(make_store: Callable[[], str], tmp_path: Path, settings: list[str]) -> None:
    """Whether it refuses the settings of a connection or drops them: a time zone and limits that are not set would
    give wrong results."""
    with pgbouncer(tmp_path, make_url(make_store()), *settings) as url:
        refused = pytest.raises(DatabaseError, match="such as PgBouncer")
        with refused as caught, connect(url.render_as_string(hide_password=False)):
            pass
        assert str(url.password) not in str(caught.value)
