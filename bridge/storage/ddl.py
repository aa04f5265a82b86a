"""What the tables cannot say by themselves: triggers that keep recorded rows as they were written.

``INSERT OR REPLACE`` deletes the old row without firing its DELETE trigger (unless ``recursive_triggers`` is
on), so each immutable table also has a guard before INSERT. Migrations that rebuild a table drop its triggers
silently: they call :func:`trigger_statements` again.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridge.storage.tables import metadata
from bridge.storage.tables.lifecycle import refused_transition

#: What the guard over the states of delegations says.
TRANSITION_REFUSED = "a state does not lead to that one"

#: Immutable tables and, for the INSERT guard, when a new row meets an existing one. An entry's id needs no look of
#: its own: a check derives it from the sequence. An event's key needs none: the guard against gaps refuses it.
IMMUTABLE_TABLES: dict[str, str | None] = {
    "session_entries": (
        "EXISTS (SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND sequence = NEW.sequence)"
        " OR (NEW.external_id IS NOT NULL AND EXISTS (SELECT 1 FROM session_entries"
        " WHERE session_id = NEW.session_id AND external_source = NEW.external_source"
        " AND external_id = NEW.external_id))"
    ),
    "blobs": "EXISTS (SELECT 1 FROM blobs WHERE digest = NEW.digest)",
    "audit_events": None,
    "legacy_events": (
        "EXISTS (SELECT 1 FROM legacy_events WHERE session_id = NEW.session_id AND entry_id = NEW.entry_id)"
    ),
    "repository_states": "EXISTS (SELECT 1 FROM repository_states WHERE state_digest = NEW.state_digest)",
    "manifests": "EXISTS (SELECT 1 FROM manifests WHERE dirty_hash = NEW.dirty_hash)",
    "manifest_pages": "EXISTS (SELECT 1 FROM manifest_pages WHERE page_digest = NEW.page_digest)",
    "workspace_links": (
        "EXISTS (SELECT 1 FROM workspace_links WHERE workspace_id = NEW.workspace_id AND number = NEW.number)"
    ),
    "withheld_entries": (
        "EXISTS (SELECT 1 FROM withheld_entries WHERE session_id = NEW.session_id AND entry_id = NEW.entry_id"
        " AND tombstone_hash = NEW.tombstone_hash)"
    ),
    "removed_sessions": "EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = NEW.session_id)",
}

_IS_NOT_REMOVED = "NOT EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = OLD.session_id)"
#: Of these tables, rows may be removed for which the condition does not hold: nothing refers to them, or their session
#: has a tombstone.
REMOVABLE: dict[str, str] = {
    "blobs": "EXISTS (SELECT 1 FROM session_entries WHERE blob_digest = OLD.digest)",
    "session_entries": _IS_NOT_REMOVED,
    "legacy_events": _IS_NOT_REMOVED,
}

#: Columns of an entry that an erasure changes; everything else stays, the hashes included.
ERASED_COLUMNS = ("payload", "blob_digest", "payload_bytes", "payload_outline")
#: Of these tables, rows may be changed for which the condition does not hold, in the columns named: of an entry that is
#: withheld the payload, to one that stands in the row.
ERASABLE: dict[str, tuple[tuple[str, ...], str]] = {
    "session_entries": (
        ERASED_COLUMNS,
        (
            "NOT EXISTS (SELECT 1 FROM withheld_entries WHERE session_id = OLD.session_id AND entry_id = OLD.id)"
            " OR NEW.payload IS NULL"
        ),
    )
}
#: A session whose id was removed is not made again.
REMOVED_IDS = "EXISTS (SELECT 1 FROM removed_sessions WHERE session_id = NEW.id)"


#: When a new session would close a circle. Where nobody names it as a parent yet, as of almost any, only itself could;
#: so a long line costs nothing. UNION drops what it has seen, so that a circle that is there already ends the walk.
CLOSES_A_CIRCLE = (
    "NEW.parent_session_id IS NOT NULL AND (NEW.parent_session_id = NEW.id OR ("
    "EXISTS (SELECT 1 FROM {table} WHERE parent_session_id = NEW.id)"
    " AND NEW.id IN (WITH RECURSIVE line(id) AS (SELECT NEW.parent_session_id UNION SELECT above.parent_session_id"
    " FROM {table} AS above JOIN line ON above.id = line.id WHERE above.parent_session_id IS NOT NULL)"
    " SELECT id FROM line)))"
)
CIRCLE_REFUSED = "a session cannot descend from itself"


def trigger_statements(table: str | None = None) -> Iterator[str]:
    """Yield the CREATE TRIGGER statements for SQLite, of all tables or of one."""
    for name, conflict in IMMUTABLE_TABLES.items():
        if table in (None, name):
            yield from _immutable(name, conflict)
    if table in (None, "session_entries"):
        yield _parent_guard()
    if table in (None, "audit_events"):
        yield _chain_guard()
    if table in (None, "sessions"):
        yield (
            f"CREATE TRIGGER sessions_not_removed BEFORE INSERT ON sessions WHEN {REMOVED_IDS} "
            "BEGIN SELECT RAISE(ABORT, 'sessions: that id was removed'); END"
        )
        yield from _lineage_guards()
    if table in (None, "delegations"):
        yield _transition_guard()


def _lineage_guards() -> Iterator[str]:
    when = CLOSES_A_CIRCLE.format(table="sessions")
    for name, action in (("sessions_acyclic", "INSERT"), ("sessions_stay_acyclic", "UPDATE OF parent_session_id")):
        yield (
            f"CREATE TRIGGER {name} BEFORE {action} ON sessions WHEN {when} "
            f"BEGIN SELECT RAISE(ABORT, 'sessions: {CIRCLE_REFUSED}'); END"
        )


def _immutable(table: str, conflict: str | None) -> Iterator[str]:
    for action in ("UPDATE", "DELETE"):
        when = f"WHEN {REMOVABLE[table]} " if action == "DELETE" and table in REMOVABLE else ""
        if action == "UPDATE" and table in ERASABLE:
            when = f"WHEN {ERASABLE[table][1]} OR {_changes_others(table)} "
        yield (
            f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} {when}"
            f"BEGIN SELECT RAISE(ABORT, '{table} are immutable'); END"
        )
    if conflict is not None:
        yield (
            f"CREATE TRIGGER {table}_no_overwrite BEFORE INSERT ON {table} WHEN {conflict} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are immutable: the key exists'); END"
        )


def _changes_others(table: str) -> str:
    """Return the condition that an UPDATE changes a column of an erasable table that an erasure leaves alone."""
    kept = [column.name for column in metadata.tables[table].columns if column.name not in ERASABLE[table][0]]
    return " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in kept)


def _parent_guard() -> str:
    return (
        "CREATE TRIGGER session_entries_parent_earlier BEFORE INSERT ON session_entries "
        "WHEN NEW.parent_entry_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session_entries"
        " WHERE session_id = NEW.session_id AND id = NEW.parent_entry_id AND sequence < NEW.sequence) "
        "BEGIN SELECT RAISE(ABORT, 'session_entries: the parent must be an earlier entry of the session'); END"
    )


def _chain_guard() -> str:
    return (
        "CREATE TRIGGER audit_events_no_gap BEFORE INSERT ON audit_events "
        "WHEN NEW.ordinal <> coalesce("
        "(SELECT max(ordinal) + 1 FROM audit_events WHERE chain_id = NEW.chain_id), 0) "
        "BEGIN SELECT RAISE(ABORT, 'audit_events: the ordinal must follow the last one'); END"
    )


def _transition_guard() -> str:
    return (
        f"CREATE TRIGGER delegations_transition BEFORE UPDATE OF status ON delegations WHEN {refused_transition()} "
        f"BEGIN SELECT RAISE(ABORT, 'delegations: {TRANSITION_REFUSED}'); END"
    )
