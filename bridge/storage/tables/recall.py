"""Tables of the search index (owner: ``bridge.recall``). All of it is derived: it may be dropped at any time.

The full-text index itself is a virtual table, which no metadata can declare: see ``derived_statements``. It keeps no
texts, only which term stands where; a row's number leads to its entry through ``recall_documents``.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import BigInteger, Column, Integer, Table, Text, UniqueConstraint

from bridge.storage.tables.base import metadata

#: Name of the full-text index; its columns are the session and the terms, both written by ``recall``.
RECALL_INDEX = "recall_index"

#: One row per indexed entry; ``document`` is the row's number in the full-text index.
recall_documents = Table(
    "recall_documents",
    metadata,
    Column("document", Integer, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    UniqueConstraint("session_id", "sequence", name="uq_recall_documents_session_id_sequence"),
)

#: How far each session is indexed, without a gap, and by which way of making terms.
recall_marks = Table(
    "recall_marks",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("indexed_through", BigInteger, nullable=False),
    Column("terms_version", Integer, nullable=False),
)


def derived_statements() -> Iterator[str]:
    """Yield the statements for what metadata cannot declare."""
    # The terms arrive ready: "ascii" only splits at what is neither a letter nor a digit nor beyond ASCII, and
    # Bridge's terms hold nothing else.
    yield f"CREATE VIRTUAL TABLE {RECALL_INDEX} USING fts5(session, terms, content='', tokenize='ascii')"
