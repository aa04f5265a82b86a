"""Tables of the conversation forest (owner: ``bridge.conversations``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, Text, UniqueConstraint, text
from sqlmodel import Field

from bridge.storage.tables.base import Row

#: An entry id is its session's id and its sequence, padded to six digits; the same text on every database.
_ID_CHECK = (
    "id = session_id || '-' || CASE WHEN sequence < 1000000"
    " THEN substr(CAST(1000000 + sequence AS TEXT), 2) ELSE CAST(sequence AS TEXT) END"
)


class SessionRow(Row, table=True):
    """One conversation. ``workspace_id`` and ``agent_id`` are values: the trees share no keys."""

    __tablename__ = "sessions"
    __table_args__ = (
        CheckConstraint("kind IN ('chat', 'worker', 'hidden')", name="kind"),
        CheckConstraint("parent_relation IN ('continued', 'delegated', 'forked')", name="parent_relation"),
        CheckConstraint("(parent_session_id IS NULL) = (parent_relation IS NULL)", name="parent_complete"),
        CheckConstraint("length(id) BETWEEN 1 AND 64", name="id"),
        Index("ix_sessions_workspace_id", "workspace_id"),
        Index("ix_sessions_parent_session_id", "parent_session_id"),
    )

    id: str = Field(primary_key=True)
    kind: str
    workspace_id: str | None = None
    agent_id: str | None = None
    harness: str | None = None
    label: str | None = None
    status: str
    parent_session_id: str | None = None
    parent_relation: str | None = None
    created_at: str
    #: Last change of this row; appends and head moves are timed in ``session_heads``.
    updated_at: str


class EntryRow(Row, table=True):
    """One immutable entry. Triggers refuse UPDATE, DELETE and an INSERT over an existing key (``storage.ddl``).

    The key is (session, id); that ids are unique in the whole store follows from the check that derives
    them from session and sequence, and spares the hottest table an index. ``payload`` comes last so that
    listings never touch the overflow pages of a long one.
    """

    __tablename__ = "session_entries"
    __table_args__ = (
        UniqueConstraint("session_id", "sequence", name="uq_session_entries_session_id_sequence"),
        ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_session_entries_session_id"),
        ForeignKeyConstraint(
            ["session_id", "parent_entry_id"],
            ["session_entries.session_id", "session_entries.id"],
            name="fk_session_entries_parent",
        ),
        CheckConstraint("sequence >= 0", name="sequence"),
        CheckConstraint(_ID_CHECK, name="id"),
        CheckConstraint("(sequence = 0) = (parent_entry_id IS NULL)", name="root"),
        CheckConstraint("semantic_schema_version >= 1", name="semantic_schema_version"),
        CheckConstraint("context_visibility IN ('eligible', 'hidden')", name="context_visibility"),
        CheckConstraint("(state_digest IS NULL) <> (unknown_reason IS NULL)", name="stamp"),
        CheckConstraint("(external_id IS NULL) = (external_source IS NULL)", name="external_id"),
        CheckConstraint("length(entry_hash) = 64 AND length(payload_hash) = 64", name="hashes"),
        Index("ix_session_entries_parent", "session_id", "parent_entry_id"),
        Index(
            "uq_session_entries_external_id",
            "session_id",
            "external_source",
            "external_id",
            unique=True,
            sqlite_where=text("external_id IS NOT NULL"),
            postgresql_where=text("external_id IS NOT NULL"),
        ),
    )

    session_id: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    parent_entry_id: str | None = None
    sequence: int = Field(sa_type=BigInteger)
    semantic_schema_version: int
    kind: str
    context_visibility: str
    state_digest: str | None = None
    unknown_reason: str | None = None
    unknown_path: str | None = None
    unknown_detail: str | None = None
    observed_at: str | None = None
    external_source: str | None = None
    external_id: str | None = None
    created_at: str
    payload_hash: str
    entry_hash: str
    payload: str = Field(sa_type=Text)


class HeadRow(Row, table=True):
    """The active leaf of each session, and the next sequence to hand out."""

    __tablename__ = "session_heads"
    __table_args__ = (
        ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_session_heads_session_id"),
        ForeignKeyConstraint(
            ["session_id", "active_entry_id"],
            ["session_entries.session_id", "session_entries.id"],
            name="fk_session_heads_active_entry",
        ),
        CheckConstraint("next_sequence >= 1", name="next_sequence"),
    )

    session_id: str = Field(primary_key=True)
    active_entry_id: str
    next_sequence: int = Field(sa_type=BigInteger)
    #: Last append to the session or move of its head.
    updated_at: str


class CursorRow(Row, table=True):
    """A writer's place in a session: a running turn, an open delegation, a captured host session."""

    __tablename__ = "branch_cursors"
    __table_args__ = (
        ForeignKeyConstraint(
            ["session_id", "leaf_entry_id"],
            ["session_entries.session_id", "session_entries.id"],
            name="fk_branch_cursors_leaf",
        ),
        # Appends ask for the cursors of one leaf; the key answers "which cursors of this session".
        {"sqlite_with_rowid": False},
    )

    session_id: str = Field(primary_key=True)
    owner: str = Field(primary_key=True)
    leaf_entry_id: str
    created_at: str


class LabelRow(Row, table=True):
    """A name for an entry, unique in its session; what it named before is in the audit chain."""

    __tablename__ = "entry_labels"
    __table_args__ = (
        ForeignKeyConstraint(
            ["session_id", "entry_id"],
            ["session_entries.session_id", "session_entries.id"],
            name="fk_entry_labels_entry",
        ),
        Index("ix_entry_labels_name", "name"),
    )

    session_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    entry_id: str
    created_at: str
