"""A reader can read everything, including later months, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError
from tests.documents import STARTED_AT_MS, application, planned

from joinsight import tables
from joinsight.base.errors import ConfigurationError, DatabaseError
from joinsight.cli import cli
from joinsight.store.database import connect
from joinsight.store.writer import Writer
from joinsight.tables import views

YEAR = 365 * 86_400_000
PLAN = "SortMergeJoin | [k#1], [k#2], Inner\n  Exchange | hashpartitioning(k#1, 8), [plan_id=1]"


@pytest.fixture
def engine(empty: Engine) -> Engine:
    """A store of its own for each test."""
    return empty


@pytest.fixture
def role(engine: Engine) -> Iterator[str]:
    """A name with everything that wants quoting, that no role has; it is gone afterwards."""
    name = f'read er"{os.getpid()}:x%'
    yield name
    with engine.begin() as connection:
        if connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": name}):
            quoted = engine.dialect.identifier_preparer.quote_identifier(name)
            connection.exec_driver_sql(f"DROP OWNED BY {quoted}")
            connection.exec_driver_sql(f"DROP ROLE {quoted}")


def grant(engine: Engine, role: str) -> Result:
    """Run the command."""
    database = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["db", "grant-reader", role], env={"JOINSIGHT_DATABASE_URL": database})


def as_role(engine: Engine, role: str, statement: str) -> list[tuple[object, ...]]:
    """What a statement gives to a role."""
    with engine.connect() as connection:
        connection.execute(text("SELECT set_config('role', :role, false)"), {"role": role})
        try:
            return [tuple(row) for row in connection.execute(text(statement))]
        finally:
            connection.rollback()
            connection.invalidate()  # it keeps the role


def test_a_reader_reads_everything_and_writes_nothing(engine: Engine, role: str) -> None:
    """All tables, and partitions that are made afterwards, by the parent and by themselves."""
    Writer(engine).write([application(application_id="a"), planned(PLAN, application_id="a")])
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE of_others (x int)"))
    result = grant(engine, role)
    assert (result.exit_code, result.stdout) == (0, f"{role} may read all tables (new role, without a login)\n")
    later = planned(PLAN, application_id="a", execution_id=1, started_at_ms=STARTED_AT_MS - YEAR)
    Writer(engine).write([later])
    for name in (*tables.metadata.tables, *views.metadata.tables):
        as_role(engine, role, f"SELECT * FROM {name}")
    for table in tables.PARTITIONED:
        as_role(engine, role, f"SELECT * FROM {table.name}_2025_01")
        as_role(engine, role, f"SELECT * FROM {table.name}_default")
    assert as_role(engine, role, "SELECT execution_id FROM execution_2025_01") == [(1,)]
    assert sorted(as_role(engine, role, "SELECT execution_id FROM joins")) == [(0,), (1,)]
    for statement in (
        "INSERT INTO alembic_version VALUES ('x')",
        "DELETE FROM execution",
        "DELETE FROM execution_2025_01",
        "UPDATE application SET name = 'x'",
        "TRUNCATE shuffle",
        "DROP TABLE shuffle",
        "CREATE TABLE mine (x int)",
        "CREATE SCHEMA mine",
        "SELECT * FROM of_others",
    ):
        with pytest.raises(ProgrammingError, match=r"(permission denied|must be owner)"):
            as_role(engine, role, statement)


def test_twice_and_for_a_role_that_is_there(engine: Engine, role: str) -> None:
    """A second time changes nothing; a role's login and other rights are left as they are."""
    quoted = engine.dialect.identifier_preparer.quote_identifier(role)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {quoted} LOGIN")
    for _ in range(2):
        result = grant(engine, role)
        assert (result.exit_code, result.stdout) == (0, f"{role} may read all tables\n")
    with engine.connect() as connection:
        login = text("SELECT rolcanlogin FROM pg_roles WHERE rolname = :role")
        assert connection.scalar(login, {"role": role}) is True


def test_a_reader_prunes_what_is_joined(engine: Engine, role: str) -> None:
    """In this database, the role's queries of views skip months outside their range."""
    grant(engine, role)
    settings = text("""
        SELECT setconfig FROM pg_db_role_setting
        WHERE setrole = (SELECT oid FROM pg_roles WHERE rolname = :role)
            AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    """)
    with engine.connect() as connection:
        assert connection.scalar(settings, {"role": role}) == ["enable_partitionwise_join=on"]


def test_a_role_that_can_write_is_no_reader(engine: Engine, role: str) -> None:
    """The owner, a superuser and a member of the owner are refused."""
    owner = str(engine.url.username)
    error = grant(engine, owner).exception
    assert isinstance(error, ConfigurationError) and "it can write too" in str(error)
    quoted = engine.dialect.identifier_preparer.quote_identifier(role)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {quoted}")
        connection.exec_driver_sql(f'GRANT "{owner}" TO {quoted}')
    assert isinstance(grant(engine, role).exception, ConfigurationError)


def test_who_may_not_grant_is_told_so(engine: Engine, role: str, make_database: Callable[[], str]) -> None:
    """Another user than the owner changes nothing; without the schema there is nothing to grant."""
    user = f"other_{os.getpid()}"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {user} LOGIN PASSWORD 'secret' CREATEROLE")
        connection.exec_driver_sql(f"GRANT SELECT ON alembic_version TO {user}")
    try:
        with connect(engine.url.set(username=user, password="secret").render_as_string(hide_password=False)) as other:
            error = grant(other, role).exception
            assert isinstance(error, DatabaseError) and f"This user may not let {role} read" in str(error)
        with engine.connect() as connection:
            exists = text("SELECT count(*) FROM pg_roles WHERE rolname = :role")
            assert connection.scalar(exists, {"role": role}) == 0
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {user}")
            connection.exec_driver_sql(f"DROP ROLE {user}")
    with connect(make_database()) as empty:
        assert "joinsight db upgrade" in str(grant(empty, role).exception)
