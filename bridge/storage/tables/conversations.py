"""Tables of the conversation forest (owner: ``bridge.conversations``)."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from bridge.storage.tables.base import key, metadata, optional, partial_index, partial_unique, required

#: An entry id is its session's id and its sequence, padded to six digits; the same text on every database.
_ID_CHECK = (
    "id = session_id || '-' || CASE WHEN sequence < 1000000"
    " THEN substr(CAST(1000000 + sequence AS TEXT), 2) ELSE CAST(sequence AS TEXT) END"
)

#: Rows that say something about a whole path, however far up they lie: an entry whose parent is not the one recorded
#: just before it, a kind whose word holds for all that follows, a version that no path may hold. Between them a path
#: is an unbroken run of sequences, so its shape is known without reading it. Queries repeat the condition as it stands.
#: Every append evaluates it, at 1 µs of some 57.
WAYMARK_CONDITION = (
    "parent_entry_id <> session_id || '-' || CASE WHEN sequence <= 1000000"
    " THEN substr(CAST(999999 + sequence AS TEXT), 2) ELSE CAST(sequence - 1 AS TEXT) END"
    " OR kind = 'model.changed' OR kind = 'effort.changed' OR kind = 'checkpoint' OR kind = 'compaction'"
    " OR kind = 'worker.result' OR (semantic_schema_version <> 1 AND semantic_schema_version <> 2)"
)

#: One conversation. ``workspace_id`` and ``agent_id`` are values: the trees share no keys.
sessions = Table(
    "sessions",
    metadata,
    key("id"),
    required("kind"),
    optional("workspace_id"),
    optional("agent_id"),
    optional("harness"),
    optional("label"),
    required("status"),
    optional("parent_session_id"),
    optional("parent_relation"),
    required("created_at"),
    # Last change of this row; appends and head moves are timed in ``session_heads``.
    required("updated_at"),
    CheckConstraint("kind IN ('chat', 'worker', 'hidden')", name="kind"),
    CheckConstraint("parent_relation IN ('continued', 'delegated', 'forked')", name="parent_relation"),
    CheckConstraint("(parent_session_id IS NULL) = (parent_relation IS NULL)", name="parent_complete"),
    CheckConstraint("length(id) BETWEEN 1 AND 64", name="id"),
    Index("ix_sessions_workspace_id", "workspace_id"),
    Index("ix_sessions_parent_session_id", "parent_session_id"),
)

#: One long text, content-addressed: ``digest`` is the SHA-256 of its bytes, ``size`` their number. Never changed, and
#: removed only when no entry refers to it.
blobs = Table(
    "blobs",
    metadata,
    key("digest"),
    required("size", BigInteger),
    required("body", Text),
    CheckConstraint("length(digest) = 64", name="digest"),
    CheckConstraint("size >= 0", name="size"),
)
#: The semantic version whose entries the index of other versions leaves out: the one that is written.
_INDEXED_WITHOUT = 2
#: The condition of that index.
OTHER_VERSIONS = f"semantic_schema_version <> {_INDEXED_WITHOUT}"


def other_versions(readable: Collection[int]) -> str:
    """Return the condition under which a query for entries that are not readable may use the index.

    Once the version that the index leaves out is not readable either, that is none, and a later schema needs another
    index.
    """
    return OTHER_VERSIONS if _INDEXED_WITHOUT in readable else "true"


#: One immutable entry. Triggers refuse UPDATE, DELETE and an INSERT over an existing key (``storage.ddl``).
#:
#: The key is (session, id); that ids are unique in the whole store follows from the check that derives
#: them from session and sequence, and spares the hottest table an index. ``payload`` comes last so that
#: listings never touch the overflow pages of one. It is NULL where the text is long (``storage.longtexts``): then
#: ``blob_digest``, which is ``payload_hash``, leads to it, and the row has its size and its beginning.
session_entries = Table(
    "session_entries",
    metadata,
    key("session_id"),
    key("id"),
    optional("parent_entry_id"),
    required("sequence", BigInteger),
    required("semantic_schema_version", Integer),
    required("kind"),
    required("context_visibility"),
    optional("state_digest"),
    optional("unknown_reason"),
    optional("unknown_path"),
    optional("unknown_detail"),
    optional("observed_at"),
    optional("external_source"),
    optional("external_id"),
    required("created_at"),
    required("payload_hash"),
    required("entry_hash"),
    optional("blob_digest"),
    optional("payload_bytes", BigInteger),
    optional("payload_outline", Text),
    optional("payload", Text),
    UniqueConstraint("session_id", "sequence", name="uq_session_entries_session_id_sequence"),
    ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_session_entries_session_id"),
    ForeignKeyConstraint(
        ["session_id", "parent_entry_id"],
        ["session_entries.session_id", "session_entries.id"],
        name="fk_session_entries_parent",
    ),
    ForeignKeyConstraint(["blob_digest"], ["blobs.digest"], name="fk_session_entries_blob_digest"),
    CheckConstraint("sequence >= 0", name="sequence"),
    CheckConstraint(_ID_CHECK, name="id"),
    CheckConstraint("(sequence = 0) = (parent_entry_id IS NULL)", name="root"),
    CheckConstraint("semantic_schema_version >= 1", name="semantic_schema_version"),
    CheckConstraint("context_visibility IN ('eligible', 'hidden')", name="context_visibility"),
    CheckConstraint("(state_digest IS NULL) <> (unknown_reason IS NULL)", name="stamp"),
    CheckConstraint("(external_id IS NULL) = (external_source IS NULL)", name="external_id"),
    CheckConstraint("length(entry_hash) = 64 AND length(payload_hash) = 64", name="hashes"),
    CheckConstraint("(payload IS NULL) = (blob_digest IS NOT NULL)", name="payload"),
    CheckConstraint("blob_digest IS NULL OR blob_digest = payload_hash", name="blob_digest"),
    CheckConstraint(
        "(blob_digest IS NULL) = (payload_bytes IS NULL) AND (blob_digest IS NULL) = (payload_outline IS NULL)",
        name="payload_outline",
    ),
    partial_index("ix_session_entries_blob_digest", "blob_digest", where="blob_digest IS NOT NULL"),
    Index("ix_session_entries_parent", "session_id", "parent_entry_id"),
    partial_index("ix_session_entries_waymarks", "session_id", "sequence", where=WAYMARK_CONDITION),
    # What the current contract did not write: nothing in most stores, so appends do not pay for it, and who looks for
    # entries that cannot be read does not go through all of them.
    partial_index("ix_session_entries_other_versions", "semantic_schema_version", "session_id", where=OTHER_VERSIONS),
    partial_unique(
        "uq_session_entries_external_id",
        "session_id",
        "external_source",
        "external_id",
        where="external_id IS NOT NULL",
    ),
)

#: The active leaf of each session, and the next sequence to hand out.
session_heads = Table(
    "session_heads",
    metadata,
    key("session_id"),
    required("active_entry_id"),
    required("next_sequence", BigInteger),
    # Last append to the session, move of its head, or change of its row: what lists are ordered by.
    required("updated_at"),
    ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_session_heads_session_id"),
    ForeignKeyConstraint(
        ["session_id", "active_entry_id"],
        ["session_entries.session_id", "session_entries.id"],
        name="fk_session_heads_active_entry",
    ),
    CheckConstraint("next_sequence >= 1", name="next_sequence"),
    Index("ix_session_heads_updated_at", "updated_at", "session_id"),
)

#: A writer's place in a session: a running turn, an open delegation, a captured host session.
branch_cursors = Table(
    "branch_cursors",
    metadata,
    key("session_id"),
    key("owner"),
    required("leaf_entry_id"),
    required("created_at"),
    ForeignKeyConstraint(
        ["session_id", "leaf_entry_id"],
        ["session_entries.session_id", "session_entries.id"],
        name="fk_branch_cursors_leaf",
    ),
    # Appends ask for the cursors of one leaf; the key answers "which cursors of this session.
    sqlite_with_rowid=False,
)

#: A name for an entry, unique in its session; what it named before is in the audit chain.
entry_labels = Table(
    "entry_labels",
    metadata,
    key("session_id"),
    key("name"),
    required("entry_id"),
    required("created_at"),
    ForeignKeyConstraint(
        ["session_id", "entry_id"],
        ["session_entries.session_id", "session_entries.id"],
        name="fk_entry_labels_entry",
    ),
    Index("ix_entry_labels_name", "name"),
)

#: What an event of the older linear history held in a form that no entry can have: NULL, another type, a time in
#: other words, an unusable session name. ``original`` is a JSON object of those columns; see ``migrations.legacy``.
legacy_events = Table(
    "legacy_events",
    metadata,
    key("session_id"),
    key("entry_id"),
    required("original", Text),
    ForeignKeyConstraint(
        ["session_id", "entry_id"],
        ["session_entries.session_id", "session_entries.id"],
        name="fk_legacy_events_entry",
    ),
)

#: Sessions that ``bridge db check`` found damaged; readers refuse them by name, and their siblings stay usable. No
#: foreign key: what is quarantined may have lost its row.
quarantined_sessions = Table(
    "quarantined_sessions",
    metadata,
    key("session_id"),
    required("reason"),
    required("found_at"),
    required("findings", Text),
    sqlite_with_rowid=False,
)
