"""The migrations make the schema of the models, and are undone without a trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import alembic.command
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

from joinsight.errors import SchemaError
from joinsight.store import database, models
from joinsight.store.database import check_schema, connect, upgrade


def run(engine: Engine, command: Callable[..., None], *arguments: str) -> None:
    """An Alembic command on this engine."""
    with engine.begin() as connection:
        config = database._config()
        config.attributes["connection"] = connection
        command(config, *arguments)


def test_there_is_one_head() -> None:
    """Two branches of migrations could not be told apart by `check_schema`."""
    assert len(ScriptDirectory.from_config(database._config()).get_heads()) == 1


def test_down_and_up_again(make_database: Callable[[], str]) -> None:
    """Upgrading, downgrading to nothing and upgrading again works, and leaves no table behind when undone."""
    with connect(make_database()) as engine:
        upgrade(engine)
        check_schema(engine)
        run(engine, alembic.command.downgrade, "base")
        assert set(inspect(engine).get_table_names()) == {"alembic_version"}
        upgrade(engine)
        check_schema(engine)


def test_migrations_equal_the_models(engine: Engine) -> None:
    """`alembic check` finds nothing to add; a default partition is there for every partitioned table."""
    run(engine, alembic.command.check)
    tables = set(inspect(engine).get_table_names())
    assert {f"{table.name}_default" for table in models.PARTITIONED} <= tables


def test_everything_is_commented_in_the_database(engine: Engine) -> None:
    """Each table and column carries the comment that the data dictionary shows."""
    inspector = inspect(engine)
    for table in models.metadata.tables.values():
        assert inspector.get_table_comment(table.name)["text"] == table.comment
        comments = {column["name"]: column["comment"] for column in inspector.get_columns(table.name)}
        assert comments == {column.name: column.comment for column in table.columns}
        assert all(comments.values())


def test_upgrading_twice_at_once_is_upgrading_once(make_database: Callable[[], str]) -> None:
    """Programs that start together upgrade one after the other; the later ones find nothing to do."""
    url = make_database()
    command = [sys.executable, "-m", "joinsight.cli", "db", "upgrade", "--database-url", url]
    programs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)
    ]
    outputs = [program.communicate()[0] for program in programs]
    assert [program.returncode for program in programs] == [0, 0, 0], outputs
    with connect(url) as engine:
        check_schema(engine)


def test_a_schema_that_does_not_fit_is_named(make_database: Callable[[], str]) -> None:
    """No schema and one of a newer program are told apart, each with what to do."""
    with connect(make_database()) as engine:
        with pytest.raises(SchemaError, match=r"no Joinsight schema yet\. Run: joinsight db upgrade"):
            check_schema(engine)
        upgrade(engine)
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(SchemaError, match="9999 is newer than this program"):
            check_schema(engine)
