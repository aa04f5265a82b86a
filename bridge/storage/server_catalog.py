"""What a PostgreSQL store's catalogue says of it: its version, the schema its tables lie in, and who may use them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.engine import Connection

from bridge.storage.ddl_postgresql import APPLICATION_ROLE, grant_statements, role_statement
from bridge.storage.errors import DatabaseFailed
from bridge.storage.schema_version import MAX_SHOWN, VERSION_TABLE, Look

#: The schema whose tables are meant: the first of the search path. One database may hold several stores.
SCHEMA = "current_schema()"


def look_at(connection: Connection, client: tuple[str, str] | None = None) -> Look:
    query = f"SELECT tablename FROM pg_tables WHERE schemaname = {SCHEMA}"  # noqa: S608 - constant
    tables = set(connection.exec_driver_sql(query).scalars())
    if not tables:
        return Look(is_empty=True)
    if VERSION_TABLE not in tables:
        return Look(is_empty=False)
    columns = connection.exec_driver_sql(
        "SELECT column_name FROM information_schema.columns"  # noqa: S608 - constants
        f" WHERE table_schema = {SCHEMA} AND table_name = '{VERSION_TABLE}'"
    ).scalars()
    if "version_num" not in set(columns):
        return Look(is_empty=False)
    rows = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE} LIMIT {MAX_SHOWN}").scalars()  # noqa: S608 - constants
    versions = tuple(None if value is None else str(value) for value in rows)
    last = None
    if client is not None and "clients" in tables:
        query = "SELECT last_used_at FROM clients WHERE host = %s AND version = %s"
        last = connection.exec_driver_sql(query, client).scalar()
    return Look(is_empty=False, versions=versions, last_use=last)


def schema_of(connection: Connection) -> str:
    """Return the quoted name of the schema that the tables go into."""
    schema: str | None = connection.exec_driver_sql(f"SELECT quote_ident({SCHEMA})").scalar()
    if schema is None:
        raise DatabaseFailed("The search path names no schema that exists. Nothing was written.")
    return schema


def require_utf8(connection: Connection) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise DatabaseFailed(
            f"The database has the encoding {encoding}; the store needs UTF8. Nothing was written.",
            hint="Make it with: createdb --encoding=UTF8 --template=template0 NAME",
        )


def grant(connection: Connection, schema: str, tables: Iterable[str]) -> None:
    """Let the application role work with tables; make the role if it is missing and may be made."""
    connection.exec_driver_sql(role_statement())
    query = f"SELECT 1 FROM pg_roles WHERE rolname = '{APPLICATION_ROLE}'"  # noqa: S608 - constant
    if connection.exec_driver_sql(query).first() is not None:
        for statement in grant_statements(schema, iter(tables)):
            connection.exec_driver_sql(statement)
