"""What :mod:`bridge.storage.ddl` says for SQLite, in PL/pgSQL; and the role that may do no more than Bridge does.

Differences that PostgreSQL asks for: TRUNCATE goes past row triggers, so it has one of its own; nothing writes over an
existing row on INSERT (``ON CONFLICT DO UPDATE`` is an UPDATE), so the keys themselves are the guard against it.
Triggers are ENABLE ALWAYS: a session that calls itself a replica does not go past them.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridge.storage.ddl import IMMUTABLE_TABLES, REMOVABLE, TRANSITION_REFUSED
from bridge.storage.tables.lifecycle import refused_transition

#: Owns nothing, and may neither alter nor empty a table; Bridge works under it wherever it may. See docs/postgresql.md.
APPLICATION_ROLE = "bridge_app"


def trigger_statements(schema: str) -> Iterator[str]:
    """Yield the statements for the functions and triggers.

    Parameters
    ----------
    schema
        Quoted name of the tables' schema. Functions name their tables with it, since a trigger runs under whatever
        search path the writing connection has.
    """
    yield (
        f"CREATE FUNCTION {schema}.bridge_immutable() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' are immutable', ERRCODE = 'integrity_constraint_violation';"
        " END $$"
    )
    for table in IMMUTABLE_TABLES:
        for action, each in (("UPDATE", "ROW"), ("DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
            if action == "DELETE" and table in REMOVABLE:
                continue
            when = f"{action} ON {schema}.{table} FOR EACH {each}"
            yield from _trigger(schema, table, f"{table}_no_{action.lower()}", when, "bridge_immutable")
    for table, condition in REMOVABLE.items():
        yield from _removal_guard(schema, table, condition)
    yield from _guard(
        schema,
        "session_entries",
        "parent_earlier",
        "NEW.parent_entry_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {table}"
        " WHERE session_id = NEW.session_id AND id = NEW.parent_entry_id AND sequence < NEW.sequence)",
        "the parent must be an earlier entry of the session",
    )
    yield from _guard(
        schema,
        "audit_events",
        "no_gap",
        "NEW.ordinal <> coalesce((SELECT max(ordinal) + 1 FROM {table} WHERE chain_id = NEW.chain_id), 0)",
        "the ordinal must follow the last one",
    )
    yield from _guard(
        schema, "delegations", "transition", refused_transition(), TRANSITION_REFUSED, on="UPDATE OF status"
    )


def trigger_names() -> list[str]:
    """Return the names of all triggers."""
    made = (statement.split() for statement in trigger_statements("public"))
    return [words[2] for words in made if words[:2] == ["CREATE", "TRIGGER"]]


def role_statement() -> str:
    """Return the statement that makes the application role, if the cluster has none and the user may make one."""
    # Two stores of one cluster may be made at the same moment: the second finds the role of the first.
    return (
        f"DO $$ BEGIN CREATE ROLE {APPLICATION_ROLE} NOLOGIN; "
        "EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL; END $$"
    )


def grant_statements(schema: str, tables: Iterator[str]) -> Iterator[str]:
    """Yield what lets the application role work: read all, add to all, change only what is not immutable."""
    yield f"GRANT USAGE ON SCHEMA {schema} TO {APPLICATION_ROLE}"
    yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {APPLICATION_ROLE}"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {APPLICATION_ROLE}"
    for table in tables:
        if table == "schema_version":
            continue
        rights = "INSERT" if table in IMMUTABLE_TABLES else "INSERT, UPDATE, DELETE"
        rights += ", DELETE" if table in REMOVABLE else ""
        yield f"GRANT {rights} ON {schema}.{table} TO {APPLICATION_ROLE}"


def _removal_guard(schema: str, table: str, condition: str) -> Iterator[str]:
    """Yield a trigger that refuses to remove a row for which a condition of :mod:`bridge.storage.ddl` holds."""
    refused = condition.replace("session_entries", f"{schema}.session_entries")
    name = f"{table}_no_delete"
    yield (
        f"CREATE FUNCTION {schema}.bridge_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {refused} THEN"
        f" RAISE EXCEPTION USING MESSAGE = '{table} are immutable', ERRCODE = 'integrity_constraint_violation';"
        " END IF; RETURN OLD; END $$"
    )
    yield from _trigger(schema, table, name, f"DELETE ON {schema}.{table} FOR EACH ROW", f"bridge_{name}")


def _guard(schema: str, table: str, name: str, condition: str, message: str, *, on: str = "INSERT") -> Iterator[str]:
    """Yield a trigger that refuses a new row, or a change of one, for which a condition holds."""
    refused = condition.format(table=f"{schema}.{table}")
    yield (
        f"CREATE FUNCTION {schema}.bridge_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {refused} THEN"
        f" RAISE EXCEPTION USING MESSAGE = '{table}: {message}', ERRCODE = 'integrity_constraint_violation';"
        " END IF; RETURN NEW; END $$"
    )
    when = f"{on} ON {schema}.{table} FOR EACH ROW"
    yield from _trigger(schema, table, f"{table}_{name}", when, f"bridge_{name}")


def _trigger(schema: str, table: str, name: str, when: str, function: str) -> Iterator[str]:
    yield f"CREATE TRIGGER {name} BEFORE {when} EXECUTE FUNCTION {schema}.{function}()"
    yield f"ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER {name}"
