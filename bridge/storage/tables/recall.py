"""Tables of the search index (owner: ``bridge.recall``). All of it is derived: it may be dropped at any time.

The two full-text indexes themselves no metadata can declare: ``storage.fulltext`` has their statements. They keep no
texts, only which term stands where; the number of a document leads to its entry through ``recall_documents``.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint

from bridge.storage.tables.base import key, metadata, optional, required

#: A key that is SQLite's own number of the row.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

#: One row per indexed entry, or per part of a very long one. ``document`` is made of the entry's time, so that newer
#: documents have higher numbers and a span of time is a span of numbers; ``chat`` is the number in ``recall_marks``.
recall_documents = Table(
    "recall_documents",
    metadata,
    Column("document", _NUMBER, primary_key=True, autoincrement=False),
    required("chat", Integer),
    # The number of its session's scopes, in ``recall_scopes``.
    required("scope", Integer),
    required("sequence", BigInteger),
    required("part", Integer),
    # Terms in it.
    required("length", Integer),
    UniqueConstraint("chat", "sequence", "part", name="uq_recall_documents_chat_sequence_part"),
)

#: How far each session is indexed, without a gap, by which way of making terms, and what is indexed about it.
recall_marks = Table(
    "recall_marks",
    metadata,
    key("session_id"),
    required("chat", Integer),
    required("indexed_through", BigInteger),
    required("terms_version", Integer),
    # The words under which all of its documents stand in the indexes, to search one session, workspace or kind.
    required("scope", Text),
    # What a look at the whole session is made of, as a JSON object: label, first message, latest summary.
    required("digest", Text),
    # When the session's own row changed last, as indexed.
    required("changed_at"),
    # Whether an entry has another parent than the one recorded before it.
    required("branches", Integer),
    # The first entry that this Bridge does not read.
    optional("unreadable_entry_id"),
    optional("unreadable_version", Integer),
    UniqueConstraint("chat", name="uq_recall_marks_chat"),
    Index("ix_recall_marks_unreadable_entry_id", "unreadable_entry_id"),
)

#: The scopes that sessions stand in, as words with blanks between, and how many documents each such set of scopes has:
#: a scope that most of the index lies in is cheaper to see in a document's row than to look up in the index.
recall_scopes = Table(
    "recall_scopes",
    metadata,
    key("words", Text),
    required("number", Integer),
    required("documents", BigInteger),
    UniqueConstraint("number", name="uq_recall_scopes_number"),
    sqlite_with_rowid=False,
)

#: In how many documents each term stands.
recall_terms = Table(
    "recall_terms",
    metadata,
    key("term", Text),
    required("documents", BigInteger),
    sqlite_with_rowid=False,
)

#: What the index holds as a whole: ``position`` is the place in the order of events up to which every session is
#: indexed; it is missing while that is not known.
recall_state = Table(
    "recall_state",
    metadata,
    key("name"),
    required("value", BigInteger),
    sqlite_with_rowid=False,
)
