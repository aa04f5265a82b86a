"""Queries of what was taken in from other programs' transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from bridge.storage.longtexts import whole_payload
from bridge.storage.prepared import Prepared
from bridge.storage.tables import (
    captured_sessions,
    import_chunks,
    import_links,
    import_sessions,
    import_sources,
    session_entries,
    sessions,
)
from bridge.storage.transaction import Transaction

_S, _C, _N, _L, _E = import_sources.c, import_chunks.c, import_sessions.c, import_links.c, session_entries.c
#: Keys that are asked for in one query.
_AT_ONCE: Final = 400
#: The same of queries that are prepared: a few sizes, so that few texts are made.
_SIZES: Final = (1, 20, 400)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A transcript that was read; the fields are the columns."""

    id: str
    format: str
    path: str | None
    native_id: str | None
    size: int
    line_count: int
    digest: str
    is_redacted: int
    created_at: str
    updated_at: str
    state: str


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """Some lines of a transcript; the fields are the columns."""

    source_id: str
    number: int
    first_line: int
    line_count: int
    byte_offset: int
    size: int
    digest: str
    changed_lines: int
    body: bytes


@dataclass(frozen=True, slots=True)
class NativeRow:
    """A session of another program; the fields are the columns."""

    format: str
    native_id: str
    session_id: str | None
    copy_session_id: str | None
    copy_entry_id: str | None
    first_key: str | None
    first_digest: str | None
    parent_native_id: str | None
    parent_relation: str | None
    parent_key: str | None
    depth: int | None
    leaf_entry_id: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """An entry that names another one; the fields are the columns."""

    session_id: str
    entry_id: str
    relation: str
    format: str
    target_key: str
    target_session_id: str | None
    target_entry_id: str | None


class KnownEntry(NamedTuple):
    """An entry that was taken in before."""

    id: str
    entry_hash: str
    kind: str
    payload: str | None


def sources_at(connection: Connection, path: str) -> list[SourceRow]:
    """Return what was read at a path, the last first."""
    query = select(import_sources).where(_S.path == path).order_by(_S.updated_at.desc(), _S.id.desc())
    return [SourceRow(*row) for row in connection.execute(query)]


def sources_with_digest(connection: Connection, format_name: str, digest: str) -> list[SourceRow]:
    """Return what was read and is the same to the last byte."""
    query = select(import_sources).where(_S.digest == digest, _S.format == format_name).order_by(_S.id)
    return [SourceRow(*row) for row in connection.execute(query)]


def sources_of(connection: Connection, native_ids: Sequence[str]) -> list[SourceRow]:
    """Return what was read about some sessions of another program: the longest first, unmasked before masked."""
    query = select(import_sources).where(_S.native_id.in_(native_ids))
    return [
        SourceRow(*row)
        for row in connection.execute(query.order_by(_S.size.desc(), _S.is_redacted, _S.updated_at.desc(), _S.id))
    ]


def source(connection: Connection, source_id: str) -> SourceRow | None:
    row = connection.execute(select(import_sources).where(_S.id == source_id)).first()
    return None if row is None else SourceRow(*row)


_ADD_SOURCE = Prepared(insert(import_sources), *SourceRow.__slots__)
_SET_SOURCE = Prepared(
    update(import_sources)
    .where(_S.id == bindparam("own_id"))
    .values(**{name: bindparam(f"new_{name}") for name in SourceRow.__slots__}),
    *[f"new_{name}" for name in SourceRow.__slots__],
    "own_id",
)


def put_source(tx: Transaction, row: SourceRow) -> None:
    """Add a source, or say how far it was read now."""
    values = astuple(row)
    if tx.run(_SET_SOURCE, *values, row.id).rowcount == 0:
        tx.run(_ADD_SOURCE, *values)


def chunks_of(connection: Connection, source_id: str) -> Iterator[ChunkRow]:
    """Yield the lines of a source in their order, some at a time."""
    numbers = connection.execute(select(_C.number).where(_C.source_id == source_id).order_by(_C.number)).scalars()
    for number in list(numbers):
        row = connection.execute(select(import_chunks).where(_C.source_id == source_id, _C.number == number)).one()
        yield ChunkRow(*row)


def next_chunk(connection: Connection, source_id: str) -> int:
    """Return the number of the next chunk of a source."""
    last: int | None = connection.execute(select(func.max(_C.number)).where(_C.source_id == source_id)).scalar()
    return 0 if last is None else last + 1


_ADD_CHUNK = Prepared(insert(import_chunks), *ChunkRow.__slots__)


def add_chunk(tx: Transaction, row: ChunkRow) -> None:
    tx.run(_ADD_CHUNK, *astuple(row))


def forget_chunks(tx: Transaction, source_id: str) -> None:
    """Remove the lines of a source, which are about to be written anew."""
    tx.execute(delete(import_chunks).where(_C.source_id == source_id))


def native(connection: Connection, format_name: str, native_id: str) -> NativeRow | None:
    """Return what is known of a session of another program."""
    query = select(import_sessions).where(_N.format == format_name, _N.native_id == native_id)
    row = connection.execute(query).first()
    return None if row is None else NativeRow(*row)


def natives_of(connection: Connection, session_id: str) -> list[NativeRow]:
    """Return the sessions of other programs that one is here."""
    query = select(import_sessions).where(_N.session_id == session_id).order_by(_N.format, _N.native_id)
    return [NativeRow(*row) for row in connection.execute(query)]


def natives_beginning_with(connection: Connection, format_name: str, key: str) -> list[NativeRow]:
    """Return the sessions that begin with an entry of that key and have entries of their own."""
    query = select(import_sessions).where(_N.format == format_name, _N.first_key == key, _N.session_id.is_not(None))
    return [NativeRow(*row) for row in connection.execute(query.order_by(_N.created_at, _N.native_id))]


def captured_as(connection: Connection, host: str, native_id: str) -> tuple[str, str] | None:
    """Return the session that hooks record a host's session as, and since when; None if they do not."""
    table = captured_sessions.c
    query = select(table.session_id, table.started_at).where(table.host == host, table.native_id == native_id)
    row = connection.execute(query).first()
    return None if row is None else (row[0], row[1])


def children_waiting_for(connection: Connection, format_name: str, native_id: str) -> list[NativeRow]:
    """Return the sessions that name one as their parent and have none here yet."""
    query = (
        select(import_sessions)
        .join(sessions, sessions.c.id == _N.session_id)
        .where(_N.format == format_name, _N.parent_native_id == native_id, sessions.c.parent_session_id.is_(None))
    )
    return [NativeRow(*row) for row in connection.execute(query)]


def put_native(tx: Transaction, row: NativeRow) -> None:
    """Add a session of another program, or replace what is known of it."""
    values = {name: getattr(row, name) for name in NativeRow.__slots__}
    named = (_N.format == row.format, _N.native_id == row.native_id)
    done = tx.execute(update(import_sessions).where(*named).values(**values))
    if done.rowcount == 0:
        tx.execute(insert(import_sessions).values(**values))


@cache
def _known_under(count: int) -> Prepared:
    """Return the query for the entries under so many keys."""
    names = [f"key_{number}" for number in range(count)]
    query = select(_E.external_id, _E.id, _E.entry_hash, _E.kind, whole_payload()).where(
        _E.session_id == bindparam("session"),
        _E.external_source == bindparam("source"),
        _E.external_id.in_([bindparam(name) for name in names]),
    )
    return Prepared(query, "session", "source", *names)


def known_entries(
    connection: Connection, session_id: str, source_name: str, keys: Iterable[str]
) -> dict[str, KnownEntry]:
    """Return the entries of a session that came from a source under some keys, by key."""
    wanted = list(keys)
    found = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        size = next(size for size in _SIZES if size >= len(some))
        # A key that is asked for twice is found once.
        some.extend(some[-1:] * (size - len(some)))
        for row in _known_under(size).run(connection, session_id, source_name, *some):
            found[row[0]] = KnownEntry(*row[1:])
    return found


def parent_of(connection: Connection, session_id: str, entry_id: str) -> str | None:
    """Return the parent of an entry."""
    query = select(_E.parent_entry_id).where(_E.session_id == session_id, _E.id == entry_id)
    found: str | None = connection.execute(query).scalar()
    return found


def has_open_links(connection: Connection, format_name: str) -> bool:
    """Return whether an entry of a format names one that is not here."""
    query = select(_L.entry_id).where(_L.format == format_name, _L.target_entry_id.is_(None)).limit(1)
    return connection.execute(query).first() is not None


def open_links_to(connection: Connection, format_name: str, keys: Iterable[str]) -> list[LinkRow]:
    """Return the links to some keys whose entries were not here."""
    wanted = list(keys)
    found: list[LinkRow] = []
    for start in range(0, len(wanted), _AT_ONCE):
        query = select(import_links).where(
            _L.format == format_name,
            _L.target_entry_id.is_(None),
            _L.target_key.in_(wanted[start : start + _AT_ONCE]),
        )
        found.extend(LinkRow(*row) for row in connection.execute(query))
    return found


def add_link(tx: Transaction, row: LinkRow) -> None:
    tx.execute(insert(import_links).values(**{name: getattr(row, name) for name in LinkRow.__slots__}))


def resolve_link(tx: Transaction, link: LinkRow, session_id: str, entry_id: str) -> None:
    """Note which entry a link leads to."""
    tx.execute(
        update(import_links)
        .where(_L.session_id == link.session_id, _L.entry_id == link.entry_id, _L.relation == link.relation)
        .values(target_session_id=session_id, target_entry_id=entry_id)
    )


def links_of(connection: Connection, session_id: str, entry_ids: Sequence[str] | None = None) -> list[LinkRow]:
    """Return the links of a session's entries, of all or of some."""
    query = select(import_links).where(_L.session_id == session_id)
    if entry_ids is not None:
        query = query.where(_L.entry_id.in_(entry_ids))
    return [LinkRow(*row) for row in connection.execute(query.order_by(_L.entry_id, _L.relation))]
