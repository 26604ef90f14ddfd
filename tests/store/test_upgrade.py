"""Upgrades of a database in use to a next release, with one more migration and another view."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import alembic.command
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, insert, inspect, make_url, text
from tests.documents import application, planned, stored_rows
from tests.processes import ran
from tests.serve.real import lost, sending, service, until

from joinsight import tables
from joinsight.analysis.rows import execution_rows
from joinsight.base.errors import DatabaseError, SchemaError
from joinsight.contract.document import Document
from joinsight.queries import lists, reading
from joinsight.queries.filters import Filters
from joinsight.queries.regressions import read_regressions
from joinsight.store import database
from joinsight.store.database import check_schema, connect, conninfo, exclusively, upgrade
from joinsight.store.embedded import find_binaries
from joinsight.store.grants import grant_reader
from joinsight.store.writer import Writer
from joinsight.tables import as_json, views

NOW = datetime.now(timezone.utc)
PLAN = """
SortMergeJoin | [k#1], [k#2], Inner | number of output rows=50, spill size=1
  Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900, records read=1+2, fetch wait time=1
  BroadcastExchange | [plan_id=2] | data size=4000, time to collect=1, time to build=1, time to broadcast=1
"""
PROGRAMS = Path(__file__).parent / "programs"
MIGRATION = PROGRAMS / "migration.py"
PROGRAM = PROGRAMS / "upgrade.py"
EARLIER = sorted(
    script.revision
    for script in ScriptDirectory.from_config(database.alembic_config()).walk_revisions()
    if not script.is_head
)
"""The schemas of earlier releases."""


@pytest.fixture(scope="module")
def filled(make_store: Callable[[], str]) -> str:
    """The name of a database with a month of a query that became slower a week ago."""
    url = make_store()
    documents: list[Document] = []
    for number in range(30):
        started_at = NOW - timedelta(days=30 - number, minutes=5)
        start_ms = int(started_at.timestamp() * 1000)
        end_ms = start_ms + (300_000 if started_at > NOW - timedelta(days=7) else 60_000)
        documents += [
            application(application_id=f"a{number}", started_at_ms=start_ms),
            planned(PLAN, application_id=f"a{number}", started_at_ms=start_ms, ended_at_ms=end_ms),
        ]
    with connect(url) as engine:
        Writer(engine).write(documents)
    return str(make_url(url).database)


@pytest.fixture
def engine(filled: str, make_database: Callable[..., str]) -> Iterator[Engine]:
    """A copy of it for each test."""
    with connect(make_database(filled)) as engine:
        yield engine


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The migrations of a next release: one that a view and a function depend on, and another view and function."""
    folder = tmp_path / "migrations"
    shutil.copytree(database.migrations_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    head = ScriptDirectory.from_config(database.alembic_config()).get_current_head()
    (folder / "versions/9999_example.py").write_text(MIGRATION.read_text().replace("HEAD", str(head)))
    view = folder / "views/v_joins.sql"
    view.write_text(view.read_text().replace("o.strategy,", "o.more,\n    o.strategy,"))
    function = folder / "functions/joinsight_window.sql"
    function.write_text(function.read_text().replace("(since timestamptz)", "(since timestamptz, more integer = 0)"))
    return folder


def contents(engine: Engine) -> dict[str, Any]:
    """All rows of tables and views, in the columns that this release has, and what readers are told."""
    told: dict[str, Any] = {}
    with engine.connect() as connection:
        for table in (*tables.metadata.tables.values(), *views.metadata.tables.values()):
            columns = ", ".join(f'"{column.name}"' for column in table.columns)
            rows = connection.execute(text(f"SELECT {columns} FROM {table.name}")).all()
            told[table.name] = sorted(map(tuple, rows), key=str)
        told["queries"] = lists.read_queries(connection, Filters(), "recent")
        told["joins of a job"] = lists.read_list(connection, "joins", Filters(job="test"), "recent")
        told["plan"] = reading.read_plan(connection, reading.find_execution(connection, "last"))
        told["regressions"] = read_regressions(connection, NOW - timedelta(days=7), {})
    assert all(told[name] for name in ("execution", "v_shuffles", "v_broadcasts", "v_joins", "regressions"))
    return told


def start(engine: Engine, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A program of another release, which upgrades."""
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, str(PROGRAM), url, str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=os.environ | environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def postgres_program(name: str, *arguments: str) -> None:
    ran(find_binaries() / name, *arguments)


def finish(*programs: subprocess.Popen[str]) -> None:
    outputs = [program.communicate()[0] for program in programs]
    assert [program.returncode for program in programs] == [0] * len(programs), outputs


def test_rows_views_and_functions_are_intact(engine: Engine, next_release: Path) -> None:
    """Whatever was stored is read as before; the new column has values, and the view has it where its file says."""
    before = contents(engine)
    finish(start(engine, next_release))
    assert contents(engine) == before
    with engine.connect() as connection:
        assert set(connection.scalars(text("SELECT more FROM v_joins"))) == {50}
        assert connection.scalar(text("SELECT joinsight_window(:now, 1)"), {"now": NOW}) == NOW
    names = [column["name"] for column in inspect(engine).get_columns("v_joins")]
    assert names[names.index("operator_key") :][:3] == ["operator_key", "more", "strategy"]
    with pytest.raises(SchemaError, match="schema 9999 is newer than this program"):
        check_schema(engine)


def test_a_backup_is_upgraded_by_the_next_release(
    engine: Engine, next_release: Path, make_database: Callable[..., str], tmp_path: Path
) -> None:
    """What pg_dump wrote and psql restored in another database has all that an upgrade goes by."""
    backup = tmp_path / "backup.sql"
    postgres_program("pg_dump", "--file", str(backup), conninfo(engine))
    with connect(make_database()) as restored:
        postgres_program("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--file", str(backup), conninfo(restored))
        check_schema(restored)
        finish(start(restored, next_release))
        assert contents(restored) == contents(engine)


@pytest.mark.matrix
def test_documents_that_arrive_meanwhile(engine: Engine, next_release: Path) -> None:
    """Collectors of this release go on during the upgrade and after it; what they accepted is stored."""
    url = engine.url.render_as_string(hide_password=False)
    with service(url) as one, service(url) as other, sending(one.url, other.url) as accepted:
        until(lambda: accepted, "documents arrive")
        finish(start(engine, next_release))
        before = len(accepted)
        until(lambda: len(accepted) > before + 2, "they arrive in the new schema")
    assert not lost(engine, accepted)
    with pytest.raises(SchemaError, match="schema 9999"):
        check_schema(engine)


@pytest.mark.parametrize("revision", EARLIER)
def test_collectors_of_an_earlier_schema_go_on_writing(make_database: Callable[[], str], revision: str) -> None:
    """The upgraded schema takes their rows, which lack the columns that they do not know."""
    with connect(make_database()) as engine:
        with engine.begin() as connection:
            config = database.alembic_config()
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, revision)
            known = {
                table: {column["name"] for column in inspect(connection).get_columns(table.name)}
                for table in (*tables.CHILDREN, tables.execution)
            }
        upgrade(engine)
        rows, written = execution_rows(planned(PLAN)), set()
        with engine.begin() as connection:
            for table, columns in known.items():
                each = [rows.execution] if table is tables.execution else getattr(rows, table.name)
                names = ", ".join(f'"{column}"' for column in columns)
                values = names.replace('"updated_at"', "now()")
                connection.exec_driver_sql(
                    f'INSERT INTO "{table}" ({names}) SELECT {values}'
                    f' FROM json_populate_recordset(NULL::"{table}", CAST(%s AS json))',
                    (as_json(each),),
                )
                if connection.scalar(text(f'SELECT count(*) FROM "{table}"')):
                    written.add(table.name)
        assert written >= {"execution", "execution_plans", "execution_metrics", "joins", "shuffle", "broadcast"}


def test_rows_of_schema_1_stay(make_database: Callable[[], str]) -> None:
    """Its rows stay, and runs of which it does not say whether they were sampled count as not sampled."""
    [row] = stored_rows(planned(PLAN))["execution"]
    assert row.pop("is_sampled") is False
    assert row.pop("nested") == 0
    with connect(make_database()) as engine:
        with engine.begin() as connection:
            config = database.alembic_config()
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "1")
            connection.execute(insert(tables.execution), row | {"updated_at": NOW})
        upgrade(engine)
        check_schema(engine)
        assert Writer(engine).write([planned(PLAN, execution_id=8)]).stored == 1
        with engine.connect() as connection:
            assert set(connection.scalars(text("SELECT is_sampled FROM execution"))) == {False}
            assert connection.scalar(text("SELECT count(*) FROM execution")) == 2
            assert connection.execute(text("SELECT * FROM joinsight_regressions(:since)"), {"since": NOW}).all() == []


@pytest.mark.matrix
def test_several_at_once_upgrade_once(engine: Engine, next_release: Path) -> None:
    """Programs that start together upgrade one after the other; the later ones find nothing to do."""
    before = contents(engine)
    finish(*(start(engine, next_release) for _ in range(3)))
    assert contents(engine) == before


def test_an_upgrade_that_is_killed_changes_nothing(engine: Engine, next_release: Path, tmp_path: Path) -> None:
    """This release keeps working with the old database; the next attempt upgrades it."""
    before = contents(engine)
    paused = tmp_path / "paused"
    program = start(engine, next_release, PAUSED=str(paused))
    while not paused.exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    program.kill()
    program.communicate()
    check_schema(engine)
    assert contents(engine) == before
    assert Writer(engine).write([planned(PLAN, application_id="later")]).stored == 1
    finish(start(engine, next_release))


def test_a_schema_that_is_up_to_date_waits_for_nobody(engine: Engine) -> None:
    """Each command upgrades the embedded database when it opens it, also while a collector prunes."""
    with exclusively(engine):
        upgrade(engine)


def test_a_table_in_use_ends_the_upgrade(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for a short time only, as writers queue behind it; it names the reader, and changes nothing."""
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(database, "PAUSES", (0.1,))
    with engine.begin() as connection:
        connection.execute(text("COMMENT ON TABLE alembic_version IS 'of before'"))
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM v_joins"))
        with pytest.raises(DatabaseError, match=r"a table is in use by process \d+ of .* \(joinsight\) for 0:"):
            upgrade(engine)
        assert reader.scalar(text("SELECT count(*) FROM v_joins"))
    upgrade(engine)
    check_schema(engine)


def test_owners_and_grants_stay(engine: Engine, next_release: Path) -> None:
    """Those of views and functions, also of single columns; nothing more is granted than before."""
    roles = owner, reader, other = [f'"{name} %s x_{os.getpid()}"' for name in ("owner", "reader", "other")]
    given = (
        f"CREATE ROLE {owner}",
        f"GRANT CREATE ON SCHEMA public TO {owner}",
        f"CREATE ROLE {other}",
        f"ALTER VIEW v_shuffles OWNER TO {owner}",
        f"ALTER FUNCTION joinsight_window OWNER TO {owner}",
        f"REVOKE SELECT ON v_broadcasts FROM {reader}",
        f"GRANT SELECT ON v_regressions TO {other} WITH GRANT OPTION",
        f"GRANT SELECT (job_name, strategy) ON v_joins TO {other}",
        "GRANT SELECT ON v_joins TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION joinsight_window FROM PUBLIC",
        f"GRANT EXECUTE ON FUNCTION joinsight_window TO {other}",
    )
    asked = """
        SELECT name, pg_get_userbyid(owner), array(SELECT CAST(a AS text) FROM unnest(acl) AS a ORDER BY 1) FROM (
            SELECT relname, relowner, relnamespace, relacl FROM pg_class WHERE relkind = 'v'
            UNION ALL
            SELECT proname, proowner, pronamespace, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
            UNION ALL
            SELECT relname || '.' || attname, relowner, relnamespace, attacl
            FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relkind = 'v' AND attacl IS NOT NULL
        ) AS found (name, owner, namespace, acl)
        WHERE namespace = CAST(current_schema() AS regnamespace) ORDER BY name
    """
    try:
        grant_reader(engine, reader.strip('"'))
        with engine.begin() as connection:
            for statement in given:
                connection.execute(text(statement))
            before = connection.execute(text(asked)).all()
        assert len(before) == 2 + len([*next_release.glob("functions/*"), *next_release.glob("views/*")])
        finish(start(engine, next_release))
        with engine.connect() as connection:
            assert connection.execute(text(asked)).all() == before
            connection.execute(text(f"SET ROLE {reader}"))
            assert connection.execute(text("SELECT more FROM v_joins")).all()
    finally:
        with engine.begin() as connection:
            for role in roles:
                if connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role.strip('"')}):
                    connection.execute(text(f"REASSIGN OWNED BY {role} TO CURRENT_USER"))
                    connection.execute(text(f"DROP OWNED BY {role}"))
                    connection.execute(text(f"DROP ROLE {role}"))


def test_a_view_of_ones_own_is_named_and_kept(engine: Engine, next_release: Path) -> None:
    """Nothing is dropped that is not ours: the upgrade says what is in its way, and changes nothing."""
    with engine.begin() as connection:
        connection.execute(text("CREATE VIEW mine AS SELECT job_name, strategy FROM v_joins"))
    before = contents(engine)
    output = start(engine, next_release).communicate()[0]
    assert "SchemaError: Objects of yours depend on Joinsight's views or functions: view mine depends on" in output
    assert contents(engine) == before
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW mine"))
    finish(start(engine, next_release))


def test_another_view_alone_is_an_upgrade(engine: Engine, next_release: Path) -> None:
    """Functions and views change without a migration."""
    (next_release / "versions/9999_example.py").unlink()
    view = next_release / "views/v_joins.sql"
    view.write_text(view.read_text().replace("o.more,", "0 AS more,"))
    finish(start(engine, next_release))
    with engine.connect() as connection:
        assert set(connection.scalars(text("SELECT more FROM v_joins"))) == {0}
    with pytest.raises(SchemaError, match="functions and views do not match this program"):
        check_schema(engine)
    upgrade(engine)  # by this release: it has its own again
    check_schema(engine)
