"""What the tables cannot say by themselves: triggers that keep recorded rows as they were written.

``INSERT OR REPLACE`` deletes the old row without firing its DELETE trigger (unless ``recursive_triggers`` is
on), so each immutable table also has a guard before INSERT. Migrations that rebuild a table drop its triggers
silently: they call :func:`trigger_statements` again.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Immutable tables and, for the INSERT guard, when a new row meets an existing one.
IMMUTABLE_KEYS: dict[str, tuple[str, ...]] = {
    "session_entries": (
        "SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND id = NEW.id",
        "SELECT 1 FROM session_entries WHERE session_id = NEW.session_id AND sequence = NEW.sequence",
        (
            "SELECT 1 FROM session_entries WHERE NEW.external_id IS NOT NULL AND session_id = NEW.session_id"
            " AND external_source = NEW.external_source AND external_id = NEW.external_id"
        ),
    ),
    "audit_events": ("SELECT 1 FROM audit_events WHERE chain_id = NEW.chain_id AND ordinal = NEW.ordinal",),
    "repository_states": ("SELECT 1 FROM repository_states WHERE state_digest = NEW.state_digest",),
    "manifests": ("SELECT 1 FROM manifests WHERE dirty_hash = NEW.dirty_hash",),
    "manifest_pages": ("SELECT 1 FROM manifest_pages WHERE page_digest = NEW.page_digest",),
}


def trigger_statements(table: str | None = None) -> Iterator[str]:
    """Yield the CREATE TRIGGER statements for SQLite, of all tables or of one."""
    for name, conflicts in IMMUTABLE_KEYS.items():
        if table in (None, name):
            yield from _immutable(name, conflicts)
    if table in (None, "session_entries"):
        yield _parent_guard()
    if table in (None, "audit_events"):
        yield _chain_guard()


def _immutable(table: str, conflicts: tuple[str, ...]) -> Iterator[str]:
    for action in ("UPDATE", "DELETE"):
        yield (
            f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are immutable'); END"
        )
    occupied = " OR ".join(f"EXISTS ({query})" for query in conflicts)
    yield (
        f"CREATE TRIGGER {table}_no_overwrite BEFORE INSERT ON {table} WHEN {occupied} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are immutable: the key exists'); END"
    )


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
