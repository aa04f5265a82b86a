"""Rows for tests that write past Bridge: one of each immutable table, and entries that fit or do not."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

DIGEST = "a" * 64
SESSION = "INSERT INTO sessions (id, kind, status, created_at, updated_at) VALUES ('{}', 'chat', 'open', 't', 't')"
ENTRY = (
    "INSERT {conflict} INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, external_source, external_id, created_at, payload_hash, entry_hash, payload)"
    " VALUES (:session, :id, :parent, :sequence, 2, 'note', 'eligible', 'unstamped', :source, :external, 't',"
    f" '{DIGEST}', '{DIGEST}', :payload)"
)
SEEDS = {
    "audit_events": (
        "INSERT {conflict} INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body)"
        f" VALUES ('c', 0, 'x', 't', '{DIGEST}', '[]')"
    ),
    "repository_states": (
        "INSERT {conflict} INTO repository_states (state_digest, dirty_hash, created_at, state)"
        f" VALUES ('{DIGEST}', 'd', 't', '[]')"
    ),
    "manifests": (
        f"INSERT {{conflict}} INTO manifests (dirty_hash, created_at, page_index) VALUES ('{DIGEST}', 't', '[]')"
    ),
    "manifest_pages": f"INSERT {{conflict}} INTO manifest_pages (page_digest, body) VALUES ('{DIGEST}', '0')",
}


#: Entries whose key, or a part of it, is taken.
OVER = [
    pytest.param({"sequence": 1, "parent": "s-000000"}, id="same id and sequence"),
    pytest.param({"sequence": 0}, id="root"),
    pytest.param({"sequence": 2, "parent": "s-000000", "external": "x1"}, id="same external id"),
    pytest.param({"sequence": 1, "identity": "s-000009", "parent": "s-000000"}, id="same sequence, other id"),
    pytest.param({"sequence": 9, "identity": "s-000001", "parent": "s-000000"}, id="same id, other sequence"),
]
#: What the drivers raise where a row is refused.
REFUSED = (sqlite3.IntegrityError, psycopg.IntegrityError)


def entry(session="s", sequence=0, parent=None, identity=None, external=None, payload="{}", conflict=""):
    values = {
        "session": session,
        "id": identity or f"{session}-{sequence:06d}",
        "parent": parent,
        "sequence": sequence,
        "external": external,
        "source": None if external is None else "",
        "payload": payload,
    }
    return ENTRY.format(conflict=conflict), values


def seed(connection) -> None:
    """Put two sessions into a store, one with two entries, and a row into each other immutable table."""
    connection.execute(SESSION.format("s"))
    connection.execute(SESSION.format("t"))
    connection.execute(*entry())
    connection.execute(*entry("t"))
    connection.execute(*entry(sequence=1, parent="s-000000", external="x1", payload='{"a":1}'))
    for statement in SEEDS.values():
        connection.execute(statement.format(conflict=""))


def rows(connection, table):
    return connection.execute(f"SELECT * FROM {table}").fetchall()
