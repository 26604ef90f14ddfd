"""Grants a role read access to the store, for dashboards and SQL."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError

from joinsight.base.errors import ConfigurationError, DatabaseError
from joinsight.store.database import reason
from joinsight.tables import metadata, views

_IS_SUPERUSER = "SELECT rolsuper FROM pg_roles WHERE rolname = :role"
# Joinsight's tables, their partitions, and its views; the schema may have others
_TABLES = """
    WITH parents AS (SELECT CAST(to_regclass(name) AS oid) AS oid FROM unnest(CAST(:names AS text[])) AS name)
    SELECT CAST(c.oid AS regclass) AS name, n.nspname AS schema, pg_get_userbyid(c.relowner) AS owner,
        pg_has_role(:role, c.relowner, 'USAGE') AS is_owner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid IN (SELECT oid FROM parents)
        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent IN (SELECT oid FROM parents))
    ORDER BY 1
"""
_UNREADABLE = """
    SELECT name FROM unnest(CAST(:tables AS text[])) AS name WHERE NOT has_table_privilege(:role, name, 'SELECT')
"""


def grant_reader(engine: Engine, role: str) -> bool:
    """Let `role` read all present and future tables and views of the store; returns whether the role is new.

    A missing role is created without a login: a login without a password would be open to anyone where
    PostgreSQL trusts connections. Raises `ConfigurationError` for a role that can write, `DatabaseError` if this user
    may not grant it.
    """
    quoted = engine.dialect.identifier_preparer.quote_identifier
    try:
        with engine.begin() as connection:
            superuser = connection.scalar(text(_IS_SUPERUSER), {"role": role})
            if superuser is None:
                connection.exec_driver_sql(f"CREATE ROLE {quoted(role)} NOLOGIN")
            names = [*metadata.tables, *views.metadata.tables, "alembic_version"]
            tables = connection.execute(text(_TABLES), {"names": names, "role": role}).all()
            if superuser or any(table.is_owner for table in tables):
                problem = "this role is the tables' owner or a superuser, so it can write too"
                raise ConfigurationError("ROLE", role, problem, "Name another role.")
            schema = quoted(tables[0].schema)
            here = connection.execute(text("SELECT current_database() AS database, current_user AS user")).one()
            connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {quoted(role)}")
            connection.exec_driver_sql(f"GRANT CONNECT ON DATABASE {quoted(here.database)} TO {quoted(role)}")
            for table in tables:
                connection.exec_driver_sql(f"GRANT SELECT ON {table.name} TO {quoted(role)}")
            # Future tables are created by the owners of the present ones, or by this user
            for owner in {*(table.owner for table in tables), here.user}:
                later = f"ALTER DEFAULT PRIVILEGES FOR ROLE {quoted(owner)} IN SCHEMA {schema} GRANT SELECT ON TABLES"
                connection.exec_driver_sql(f"{later} TO {quoted(role)}")
            readable = {"tables": [table.name for table in tables], "role": role}
            unreadable = connection.scalars(text(_UNREADABLE), readable).all()  # PostgreSQL only warns about these
            if unreadable:
                raise DatabaseError(f"{role} cannot read {', '.join(unreadable)}: run this as their owner.")
            # As in `database.connect`; a role that this user may not alter can read, only more slowly
            with suppress(ProgrammingError), connection.begin_nested():
                faster = f"ALTER ROLE {quoted(role)} IN DATABASE {quoted(here.database)}"
                connection.exec_driver_sql(f"{faster} SET enable_partitionwise_join = on")
    except ProgrammingError as error:
        raise DatabaseError(f"This user may not let {role} read: {reason(error)}") from None
    return superuser is None
