"""Long payload texts out of line: which texts are long, where they are kept, and how a query gets them back.

An entry's row keeps a text up to :data:`LONG_TEXT_BYTES`. A longer one goes to ``blobs`` under its SHA-256, which is
the entry's ``payload_hash``, once however often it is recorded; the row then has its outline and its size instead.
So whatever lists entries reads their rows and no text, and the size of a text costs only those who ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Text, bindparam, delete, func, literal, select

from bridge.storage.errors import StoredTextDamaged
from bridge.storage.prepared import Prepared
from bridge.storage.tables import blobs, session_entries
from bridge.storage.transaction import Transaction

#: Longest payload text that stays in its entry's row, in bytes of UTF-8; see docs/performance.md for the choice.
LONG_TEXT_BYTES: Final = 16 * 1024
#: Blobs read at a time where all are; each may be as large as a payload can be.
_BLOBS_AT_ONCE: Final = 8

_B, _E = blobs.c, session_entries.c

_PUT = Prepared(
    blobs.insert().from_select(
        ["digest", "size", "body"],
        select(
            bindparam("new", type_=_B.digest.type),
            bindparam("bytes", type_=_B.size.type),
            bindparam("text", type_=Text),
        ).where(~select(literal(1)).where(_B.digest == bindparam("known")).exists()),
    ),
    "new",
    "bytes",
    "text",
    "known",
)
_BODY = Prepared(select(_B.body).where(_B.digest == bindparam("known")), "known")


class Blob(NamedTuple):
    """A long text under its digest."""

    digest: str
    size: int
    body: str


def long_size(text: str) -> int | None:
    """Return the bytes of a text that is too long for its entry's row; None for all others."""
    # A character has at most four bytes: most texts are told by their length alone.
    if len(text) * 4 <= LONG_TEXT_BYTES:
        return None
    size = len(text.encode())
    return size if size > LONG_TEXT_BYTES else None


def whole_payload(
    payload: ColumnElement[Any] = _E.payload, payload_hash: ColumnElement[Any] = _E.payload_hash
) -> ColumnElement[Any]:
    """Return the expression for an entry's payload text wherever it is kept; NULL if it is lost."""
    body = select(_B.body).where(_B.digest == payload_hash).scalar_subquery()
    return func.coalesce(payload, body).label("payload")


def put_text(tx: Transaction, digest: str, size: int, text: str) -> None:
    """Keep a long text under its digest, unless it is there.

    Raises
    ------
    StoredTextDamaged
        If something else is there: what is recorded now must be readable later.
    """
    if tx.run(_PUT, digest, size, text, digest).rowcount == 0 and body_of(tx.connection, digest) != text:
        raise StoredTextDamaged(
            "This text is in the store already, but what is kept under its digest is damaged. Nothing was written.",
            details={"digest": digest, "reason": "altered"},
        )


def body_of(connection: Connection, digest: str) -> str | None:
    """Return the long text with a digest; None if it is not there."""
    row = _BODY.run(connection, digest).fetchone()
    return None if row is None else row[0]


def iterate_blobs(connection: Connection) -> Iterator[Blob]:
    """Yield all long texts by digest, a few at a time."""
    query = select(_B.digest, _B.size, _B.body).order_by(_B.digest)
    for row in connection.execute(query, execution_options={"yield_per": _BLOBS_AT_ONCE}):
        yield Blob(*row)


def text_sizes(connection: Connection) -> dict[str, set[int | None]]:
    """Return the sizes that entries' rows say of their long texts, by the digests of these."""
    query = select(_E.payload_hash, _E.payload_bytes).where(_E.blob_digest.is_not(None)).distinct()
    found: dict[str, set[int | None]] = {}
    for digest, size in connection.execute(query):
        found.setdefault(digest, set()).add(size)
    return found


def remove_unused(tx: Transaction) -> int:
    """Remove the long texts that no entry refers to, and return how many there were.

    The guard of the table refuses to remove any other, and only whoever took an entry's reference away has something to
    remove.
    """
    used = select(literal(1)).where(_E.blob_digest == _B.digest).exists()
    return tx.execute(delete(blobs).where(~used)).rowcount
