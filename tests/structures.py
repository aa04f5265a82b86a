"""What a store's structure is, from the database's own catalogues: two that are equal were made alike."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import make_url

from tests.databases import raw_connection

COLUMNS = (
    "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default, collation_name,"
    " is_generated, generation_expression, is_identity FROM information_schema.columns WHERE table_schema = 'public'"
)
CATALOGS = {
    "columns": COLUMNS,
    "constraints": (
        "SELECT conrelid::regclass::text, conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace"
    ),
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT pg_get_triggerdef(oid), tgenabled::text FROM pg_trigger WHERE NOT tgisinternal",
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    "rights": (
        "SELECT relname, relkind::text, relowner::regrole::text, acl::text FROM pg_class,"
        " unnest(coalesce(relacl, '{}')) AS acl WHERE relnamespace = 'public'::regnamespace"
    ),
    "sequences": "SELECT sequencename, data_type::text, increment_by FROM pg_sequences WHERE schemaname = 'public'",
}


def structure(url: str) -> dict:
    """Everything about a store's structure, wherever it is; and its version."""
    parsed = make_url(url)
    with raw_connection(parsed) as connection:
        version = connection.execute("SELECT version_num FROM schema_version").fetchall()
        if parsed.get_backend_name() == "postgresql":
            found = {name: sorted(map(repr, connection.execute(query).fetchall())) for name, query in CATALOGS.items()}
            return found | {"version": version}
    return file_structure(Path(str(parsed.database))) | {"version": version}


def file_structure(database: Path) -> dict:
    """Everything about a store's structure: columns, keys, indexes, checks, triggers, options; by reflection."""
    found: dict = {}
    engine = create_engine(f"sqlite:///{database}")
    reflected = inspect(engine)
    with closing(sqlite3.connect(database)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            # Constraints stand in no particular order, columns do.
            found["columns", name] = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
            found["references", name] = sorted(
                (row[2:], str(row[1])) for row in connection.execute(f"PRAGMA foreign_key_list({name})")
            )
            if not name.startswith("recall_index") and name != "schema_version":
                found["checks", name] = sorted((c["name"], c["sqltext"]) for c in reflected.get_check_constraints(name))
                found["uniques", name] = sorted(
                    (u["name"], u["column_names"]) for u in reflected.get_unique_constraints(name)
                )
                found["key", name] = reflected.get_pk_constraint(name)
                found["foreign keys", name] = sorted(str(key) for key in reflected.get_foreign_keys(name))
            for row in connection.execute(f"PRAGMA index_list({name})").fetchall():
                columns = connection.execute(f"PRAGMA index_xinfo({row[1]})").fetchall()
                found["index", name, row[1]] = (row[2:], columns)
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
        for kind, name, table, sql in connection.execute(query):
            if kind in ("trigger", "index", "view"):
                found[kind, name] = (table, " ".join(sql.split()))
            else:
                found["options", name] = sql.rpartition(")")[2].split() if "VIRTUAL" not in sql else sql.split()
        found["pragmas"] = [
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "encoding", "user_version")
        ]
    engine.dispose()
    return found
