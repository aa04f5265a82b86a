"""What :mod:`bridge.storage.ddl` says for SQLite, in PL/pgSQL; and the role that may do no more than Bridge does.

Differences that PostgreSQL asks for: TRUNCATE goes past row triggers, so it has one of its own; nothing writes over an
existing row on INSERT (``ON CONFLICT DO UPDATE`` is an UPDATE), so the keys themselves are the guard against it.
Triggers are ENABLE ALWAYS: a session that calls itself a replica does not go past them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridge.storage.ddl import (
    CIRCLE_REFUSED,
    CLOSES_A_CIRCLE,
    ERASABLE,
    IMMUTABLE_TABLES,
    REMOVABLE,
    REMOVED_IDS,
    TRANSITION_REFUSED,
)
from bridge.storage.tables import metadata
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
            if (action == "DELETE" and table in REMOVABLE) or (action == "UPDATE" and table in ERASABLE):
                continue
            when = f"{action} ON {schema}.{table} FOR EACH {each}"
            yield from _trigger(schema, table, f"{table}_no_{action.lower()}", when, "bridge_immutable")
    for table, condition in REMOVABLE.items():
        yield from _change_guard(schema, table, "delete", condition)
    for table, (columns, condition) in ERASABLE.items():
        kept = [column.name for column in metadata.tables[table].columns if column.name not in columns]
        others = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in kept)
        yield from _change_guard(schema, table, "update", f"{condition} OR {others}")
    yield from _guard(
        schema, "sessions", "not_removed", REMOVED_IDS.replace("removed_sessions", "{removed}"), "that id was removed"
    )
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
    for name, when in (("acyclic", "INSERT"), ("stay_acyclic", "UPDATE OF parent_session_id")):
        yield from _guard(schema, "sessions", name, CLOSES_A_CIRCLE, CIRCLE_REFUSED, on=when)
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
        rights += f", UPDATE ({', '.join(ERASABLE[table][0])})" if table in ERASABLE else ""
        yield f"GRANT {rights} ON {schema}.{table} TO {APPLICATION_ROLE}"


def _change_guard(schema: str, table: str, action: str, condition: str) -> Iterator[str]:
    """Yield a trigger that refuses to remove or change a row for which a condition holds."""
    refused = _TABLES_ASKED.sub(lambda found: f"FROM {schema}.{found[1]}", condition)
    name = f"{table}_no_{action}"
    passed = "OLD" if action == "delete" else "NEW"
    yield (
        f"CREATE FUNCTION {schema}.bridge_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {refused} THEN"
        f" RAISE EXCEPTION USING MESSAGE = '{table} are immutable', ERRCODE = 'integrity_constraint_violation';"
        f" END IF; RETURN {passed}; END $$"
    )
    when = f"{action.upper()} ON {schema}.{table} FOR EACH ROW"
    yield from _trigger(schema, table, name, when, f"bridge_{name}")


#: The tables that a condition looks into.
_TABLES_ASKED = re.compile(r"FROM (session_entries|removed_sessions|withheld_entries)\b")


def _guard(schema: str, table: str, name: str, condition: str, message: str, *, on: str = "INSERT") -> Iterator[str]:
    """Yield a trigger that refuses a new row, or a change of one, for which a condition holds."""
    refused = condition.format(table=f"{schema}.{table}", removed=f"{schema}.removed_sessions")
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
