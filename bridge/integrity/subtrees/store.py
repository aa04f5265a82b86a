"""Queries of the packed subtree hashes, and of the entries that they follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select

from bridge.storage.tables import session_entries, subtree_marks, subtree_pages
from bridge.storage.transaction import Transaction

_E, _M, _P = session_entries.c, subtree_marks.c, subtree_pages.c
_PAGE: Final = 1000
#: Entries whose children are asked for in one query.
_PARENTS_AT_ONCE: Final = 500


def mark_of(connection: Connection, session_id: str) -> int | None:
    """Return the sequence up to which a session's pages are exact; None if it has none."""
    query = select(_M.exact_through).where(_M.session_id == session_id)
    found: int | None = connection.execute(query).scalar()
    return found


def page_of(connection: Connection, session_id: str, page: int) -> bytes | None:
    """Return a stored page."""
    query = select(_P.data).where(_P.session_id == session_id, _P.page == page)
    found: Any = connection.execute(query).scalar()
    return None if found is None else bytes(found)


def page_numbers(connection: Connection, session_id: str) -> list[int]:
    """Return the numbers of a session's stored pages."""
    return list(connection.execute(select(_P.page).where(_P.session_id == session_id).order_by(_P.page)).scalars())


def put_pages(tx: Transaction, session_id: str, pages: Mapping[int, bytes], exact_through: int) -> None:
    """Replace pages, and say up to where all of them are exact."""
    numbers = list(pages)
    for start in range(0, len(numbers), _PARENTS_AT_ONCE):
        some = numbers[start : start + _PARENTS_AT_ONCE]
        tx.execute(delete(subtree_pages).where(_P.session_id == session_id, _P.page.in_(some)))
    for number, data in pages.items():
        tx.execute(insert(subtree_pages).values(session_id=session_id, page=number, data=data))
    tx.execute(delete(subtree_marks).where(_M.session_id == session_id))
    tx.execute(insert(subtree_marks).values(session_id=session_id, exact_through=exact_through))


def forget(tx: Transaction, session_id: str) -> None:
    """Drop what is kept of a session; the next root makes it anew."""
    tx.execute(delete(subtree_pages).where(_P.session_id == session_id))
    tx.execute(delete(subtree_marks).where(_M.session_id == session_id))


def bounds(connection: Connection, session_id: str) -> tuple[int, int]:
    """Return the first and the last sequence of a session's entries; -1 and -1 if it has none."""
    query = select(func.min(_E.sequence)).where(_E.session_id == session_id)
    first: int | None = connection.execute(query).scalar()
    last = connection.execute(select(func.max(_E.sequence)).where(_E.session_id == session_id)).scalar()
    return (-1, -1) if first is None or last is None else (first, last)


def entries_after(connection: Connection, session_id: str, sequence: int) -> Iterator[tuple[str, str | None, int, str]]:
    """Yield id, parent, sequence and hash of the entries behind a sequence, the first recorded first."""
    query = select(_E.id, _E.parent_entry_id, _E.sequence, _E.entry_hash)
    query = query.where(_E.session_id == session_id, _E.sequence > sequence).order_by(_E.sequence)
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        for row in rows:
            yield row[0], row[1], row[2], row[3]


def children_of(connection: Connection, session_id: str, parents: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield parent and sequence of the children of some entries."""
    wanted = list(parents)
    for start in range(0, len(wanted), _PARENTS_AT_ONCE):
        some = wanted[start : start + _PARENTS_AT_ONCE]
        query = select(_E.parent_entry_id, _E.sequence)
        for row in connection.execute(query.where(_E.session_id == session_id, _E.parent_entry_id.in_(some))):
            yield row[0], row[1]
