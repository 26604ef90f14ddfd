"""Functions and views, each in a ``.sql`` file: every upgrade drops them and creates them from the files.

They depend on tables, so they are dropped before a migration and created after the last one, in its transaction. Owners
and grants stay. The version of the files is their digest, stored as a comment on Alembic's table, so a definition
can change without a migration. A migration that removes a function or view drops it itself.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from psycopg.errors import DependentObjectsStillExist
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from joinsight.base.errors import SchemaError

_VERSION = "SELECT obj_description(CAST(to_regclass('alembic_version') AS oid), 'pg_class')"
_OBJECTS = """
    WITH object (kind, name, oid, owner, acl) AS (
        SELECT 'TABLE', relname, oid, relowner, coalesce(relacl, acldefault('r', relowner))
        FROM pg_class WHERE oid IN (SELECT CAST(to_regclass(name) AS oid) FROM unnest(CAST(:names AS text[])) AS name)
        UNION ALL
        SELECT 'FUNCTION', proname, oid, proowner, coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc WHERE oid IN (SELECT CAST(to_regproc(name) AS oid) FROM unnest(CAST(:names AS text[])) AS name)
    ), granted (kind, name, grantee, is_grantable, privilege, column_name) AS (
        SELECT o.kind, o.name, a.grantee, a.is_grantable, a.privilege_type, NULL
        FROM object o CROSS JOIN aclexplode(o.acl) AS a WHERE a.grantee <> o.owner
        UNION ALL
        SELECT o.kind, o.name, a.grantee, a.is_grantable, format('%s (%I)', a.privilege_type, c.attname), c.attname
        FROM object o JOIN pg_attribute c ON c.attrelid = o.oid CROSS JOIN aclexplode(c.attacl) AS a
    ), grantee (oid, name) AS (
        SELECT oid, quote_ident(rolname) FROM pg_roles UNION ALL SELECT 0, 'PUBLIC'
    )
"""
# Statements that restore an object's owner and grants, in order, each with the column that it grants on
_KEEP = f"""{_OBJECTS}
    SELECT name, NULL, format('ALTER %s %I OWNER TO %I', kind, name, pg_get_userbyid(owner)) FROM object
    UNION ALL
    SELECT g.name, column_name, format('GRANT %s ON %s %I TO %s', privilege, kind, g.name, grantee.name)
        || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM granted g JOIN grantee ON grantee.oid = g.grantee
"""
# Statements that revoke what default privileges granted on a new object
_REVOKE = f"""{_OBJECTS}
    SELECT DISTINCT g.name, NULL, format('REVOKE ALL ON %s %I FROM %s', kind, g.name, grantee.name)
    FROM granted g JOIN grantee ON grantee.oid = g.grantee
"""
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = CAST(to_regclass(:name) AS oid)"
_Statement = tuple[str, str | None, str]
"""The object, the column or None, and the statement."""


class Definitions:
    """The definitions in a folder; each file defines the object that it is named after."""

    def __init__(self, folder: Path) -> None:
        self._functions = sorted(folder.glob("functions/*.sql"))
        self._views = sorted(folder.glob("views/*.sql"))
        contents = (path.read_bytes() for path in (*self._functions, *self._views))
        self.version = sha256(b"\0".join(contents)).hexdigest()[:16]
        self._kept: list[_Statement] = []

    def drop(self, connection: Connection) -> None:
        """Drop those that exist. Raises `SchemaError` if a user's object depends on them."""
        self._kept = self._statements(connection, _KEEP)
        try:
            for kind, paths in (("VIEW", self._views), ("FUNCTION", self._functions)):
                connection.exec_driver_sql(f"DROP {kind} IF EXISTS {', '.join(path.stem for path in paths)}")
        except DBAPIError as error:
            if not isinstance(error.orig, DependentObjectsStillExist):
                raise
            others = (error.orig.diag.message_detail or "").replace("\n", "; ")
            raise SchemaError(
                f"Objects of yours depend on Joinsight's views or functions: {others}."
                " Drop them, run joinsight db upgrade, and create them again."
            ) from None

    def create(self, connection: Connection) -> None:
        """Create all, with the owners and grants of those that were dropped, and store the version."""
        connection.exec_driver_sql("SET LOCAL check_function_bodies = off")  # they may call each other
        for path in (*self._functions, *self._views):
            run(connection, path.read_text())
        dropped = {name for name, *_ in self._kept}
        by_default = [each for each in self._statements(connection, _REVOKE) if each[0] in dropped]
        for name, column, statement in (*by_default, *self._kept):
            if column is None or column in connection.scalars(text(_COLUMNS), {"name": name}).all():
                run(connection, statement)
        connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{self.version}'")

    def _statements(self, connection: Connection, query: str) -> list[_Statement]:
        names = [path.stem for path in (*self._functions, *self._views)]
        return [(row[0], row[1], row[2]) for row in connection.execute(text(query), {"names": names})]


def run(connection: Connection, statements: str) -> None:
    """Execute statements without parameters: ``%`` and ``:name`` have no special meaning."""
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def stored_version(connection: Connection) -> str | None:
    """The version of the database's functions and views; None if it has none."""
    version: str | None = connection.scalar(text(_VERSION))
    return version
