"""Tables of ``bridge.control.exchange``: what was taken in from other programs' transcripts, and from where."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, Integer, LargeBinary, Table, Text

from bridge.storage.tables.base import key, metadata, optional, required

#: One transcript that was read: how far (``size`` bytes, with the digest of exactly those), and what its reader has to
#: know to go on (``state``). A file that was written anew is a row of its own.
import_sources = Table(
    "import_sources",
    metadata,
    key("id"),
    required("format"),
    optional("path"),
    # The program's own id of the session that the transcript is about.
    optional("native_id"),
    required("size", BigInteger),
    required("line_count", BigInteger),
    required("digest"),
    required("is_redacted", Integer),
    required("created_at"),
    required("updated_at"),
    required("state", Text),
    CheckConstraint("length(digest) = 64", name="digest"),
    CheckConstraint("is_redacted IN (0, 1)", name="is_redacted"),
    Index("ix_import_sources_path", "path"),
    Index("ix_import_sources_digest", "digest"),
    Index("ix_import_sources_native_id", "native_id"),
)

#: Lines of a transcript as they were read, secrets masked unless asked otherwise, compressed (``storage.packing``).
#: ``digest`` is that of the original bytes; ``changed_lines`` of the lines are not as they were.
import_chunks = Table(
    "import_chunks",
    metadata,
    key("source_id"),
    key("number", BigInteger),
    required("first_line", BigInteger),
    required("line_count", BigInteger),
    required("byte_offset", BigInteger),
    required("size", BigInteger),
    required("digest"),
    required("changed_lines", BigInteger),
    required("body", LargeBinary),
    ForeignKeyConstraint(["source_id"], ["import_sources.id"], name="fk_import_chunks_source_id"),
    CheckConstraint("length(digest) = 64", name="digest"),
)

#: A session of another program, and which session it is here. One that only repeats the beginning of another is a copy
#: (``copy_session_id``, up to ``copy_entry_id``) and has no session of its own.
import_sessions = Table(
    "import_sessions",
    metadata,
    key("format"),
    key("native_id"),
    optional("session_id"),
    optional("copy_session_id"),
    optional("copy_entry_id"),
    # Key of its first entry with the digest of its line: what a copy begins with.
    optional("first_key"),
    optional("first_digest"),
    # The session that it was started or forked from, also while that one is not here.
    optional("parent_native_id"),
    optional("parent_relation"),
    optional("parent_key"),
    optional("depth", Integer),
    # The entry that an import made the active one; a head that is elsewhere was moved by somebody.
    optional("leaf_entry_id"),
    required("created_at"),
    required("updated_at"),
    Index("ix_import_sessions_session_id", "session_id"),
    Index("ix_import_sessions_first_key", "format", "first_key"),
    Index("ix_import_sessions_parent_native_id", "format", "parent_native_id"),
)

#: An entry that names another one which did not precede it in what was known then; found later, it is noted here and
#: the entry stays as it is.
import_links = Table(
    "import_links",
    metadata,
    key("session_id"),
    key("entry_id"),
    key("relation"),
    required("format"),
    required("target_key"),
    optional("target_session_id"),
    optional("target_entry_id"),
    Index("ix_import_links_target_key", "format", "target_key"),
)
