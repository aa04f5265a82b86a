"""A session as one SQLite file, and back to the lines of the portable format. docs/portable-sqlite.md describes it.

The file needs nothing of Bridge: tables of plain columns, hashes in hexadecimal, payloads as the hashed texts.
What is read from it is written as lines and checked as those are, so there is one reader that believes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, Final

from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import ZERO_HASH, event_hash
from bridge.transcripts.errors import TranscriptInvalid, UnsupportedTranscriptVersion
from bridge.transcripts.portable import Header, PortableEntry, PortableWriter, SessionHeader
from bridge.transcripts.portable_reading import ManifestIndex, Page, State, records

#: What ``meta`` says of itself.
FORMAT: Final = "bridge-session"
FORMAT_VERSION: Final = 1
#: How every SQLite file begins.
SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_SESSION_FIELDS: Final = tuple(one.name for one in fields(SessionHeader) if one.name != "labels")
_SCHEMA: Final = (
    (
        "CREATE TABLE meta (format TEXT NOT NULL, format_version INTEGER NOT NULL, session_id TEXT NOT NULL,"
        " scope TEXT NOT NULL, hidden INTEGER NOT NULL, exported_at TEXT NOT NULL, session_root TEXT)"
    ),
    (
        "CREATE TABLE sessions (position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,"
        " workspace_id TEXT, agent_id TEXT, harness TEXT, label TEXT, status TEXT NOT NULL, parent_session_id TEXT,"
        " parent_relation TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, active_entry_id TEXT NOT NULL,"
        " next_sequence INTEGER NOT NULL, complete INTEGER NOT NULL)"
    ),
    (
        "CREATE TABLE entries (session_id TEXT NOT NULL, id TEXT NOT NULL PRIMARY KEY, parent_entry_id TEXT,"
        " sequence INTEGER NOT NULL, semantic_schema_version INTEGER NOT NULL, kind TEXT NOT NULL,"
        " context_visibility TEXT NOT NULL, state_digest TEXT, unknown_reason TEXT, unknown_path TEXT,"
        " unknown_detail TEXT, observed_at TEXT, external_source TEXT, external_id TEXT, created_at TEXT NOT NULL,"
        " payload_hash TEXT NOT NULL,"
        " entry_hash TEXT NOT NULL, payload TEXT NOT NULL, withheld INTEGER NOT NULL, UNIQUE (session_id, sequence))"
    ),
    (
        "CREATE TABLE labels (session_id TEXT NOT NULL, name TEXT NOT NULL, entry_id TEXT NOT NULL,"
        " PRIMARY KEY (session_id, name))"
    ),
    ("CREATE TABLE states (state_digest TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)"),
    ("CREATE TABLE manifests (dirty_hash TEXT NOT NULL PRIMARY KEY, pages TEXT NOT NULL)"),
    ("CREATE TABLE pages (page_digest TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL)"),
    (
        "CREATE TABLE audit_events (ordinal INTEGER NOT NULL PRIMARY KEY, event_type TEXT NOT NULL,"
        " created_at TEXT NOT NULL, event_hash TEXT NOT NULL, body TEXT NOT NULL)"
    ),
)


def write_file(path: Path, lines: BinaryIO, events: Iterable[Any], session_root: str | None) -> None:
    """Make a file of the lines of a portable session.

    Parameters
    ----------
    lines
        At their beginning.
    events
        The session's audit chain, with ``ordinal``, ``event_type``, ``created_at``, ``event_hash`` and ``body``.
    session_root
        The root of all entries of the session; None if the file does not hold all.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("BEGIN")
        for statement in _SCHEMA:
            connection.execute(statement)
        for record in records(lines):
            _put(connection, record, session_root)
        connection.executemany(
            "INSERT INTO audit_events VALUES (?, ?, ?, ?, ?)",
            ((one.ordinal, one.event_type, one.created_at, one.event_hash, one.body) for one in events),
        )
        connection.execute("COMMIT")


def is_sqlite_session(head: bytes, path: Path) -> bool:
    """Return whether a file, given its beginning, is a session in this form."""
    if not head.startswith(SQLITE_MAGIC):
        return False
    try:
        with closing(_opened(path)) as connection:
            return bool(connection.execute("SELECT format FROM meta").fetchone()[0] == FORMAT)
    except (sqlite3.Error, TypeError):
        return False


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield a file's session as the lines of the portable format, after its chain was checked.

    What the lines hold is unchecked: whoever reads them does that.

    Raises
    ------
    UnsupportedTranscriptVersion
        If it is of another version.
    TranscriptInvalid
        If it is no such file, or its audit chain is not one.
    """
    try:
        with closing(_opened(path)) as connection:
            connection.row_factory = sqlite3.Row
            _check_chain(connection)
            yield from _lines(connection)
    except (sqlite3.Error, TypeError, AttributeError, IndexError, ValueError, NotCanonical) as error:
        raise _invalid("not_readable", f"it cannot be read: {error}") from error


def root_of(path: Path) -> str | None:
    """Return the root that a file names; None if it names none."""
    with closing(_opened(path)) as connection:
        found: str | None = connection.execute("SELECT session_root FROM meta").fetchone()[0]
        return found


def _put(connection: sqlite3.Connection, record: Any, session_root: str | None) -> None:
    if isinstance(record, PortableEntry):
        connection.execute(f"INSERT INTO entries VALUES ({', '.join('?' * len(record))})", record)  # noqa: S608 - marks
    elif isinstance(record, State):
        connection.execute("INSERT INTO states VALUES (?, ?)", (record.state_digest, record.text))
    elif isinstance(record, ManifestIndex):
        connection.execute("INSERT INTO manifests VALUES (?, ?)", (record.dirty_hash, record.text))
    elif isinstance(record, Page):
        connection.execute("INSERT INTO pages VALUES (?, ?)", (record.page_digest, record.body))
    elif isinstance(record, Header):
        connection.execute(
            "INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                FORMAT,
                FORMAT_VERSION,
                record.session_id,
                record.scope,
                record.hidden,
                record.exported_at,
                session_root,
            ),
        )
        for position, session in enumerate(record.sessions):
            values = [getattr(session, name) for name in _SESSION_FIELDS]
            names = ", ".join(("position", *_SESSION_FIELDS))
            connection.execute(
                f"INSERT INTO sessions ({names}) VALUES ({', '.join('?' * (len(values) + 1))})",  # noqa: S608 - names of our own
                (position, *values),
            )
            for name, target in session.labels.items():
                connection.execute("INSERT INTO labels VALUES (?, ?, ?)", (session.id, name, target))


def _lines(connection: sqlite3.Connection) -> Iterator[bytes]:
    meta = connection.execute("SELECT * FROM meta").fetchone()
    if meta["format"] != FORMAT:
        raise _invalid("no_header", "its table meta names another format")
    if meta["format_version"] != FORMAT_VERSION:
        raise UnsupportedTranscriptVersion(
            f"The file has format version {meta['format_version']!r:.40}; this Bridge reads {FORMAT_VERSION}. "
            "Nothing was taken in.",
            details={"reason": "unsupported_version", "supported": [FORMAT_VERSION]},
        )
    sessions = []
    for row in connection.execute("SELECT * FROM sessions ORDER BY position").fetchall():
        labels = connection.execute("SELECT name, entry_id FROM labels WHERE session_id = ?", (row["id"],))
        values = {name: row[name] for name in _SESSION_FIELDS}
        sessions.append(SessionHeader(**{**values, "complete": bool(row["complete"])}, labels=dict(map(tuple, labels))))
    writer = PortableWriter()
    yield writer.header(
        Header(
            session_id=meta["session_id"],
            scope=meta["scope"],
            hidden=bool(meta["hidden"]),
            sessions=tuple(sessions),
            exported_at=meta["exported_at"],
        )
    )
    for row in connection.execute("SELECT page_digest, body FROM pages ORDER BY page_digest"):
        yield writer.page(row[0], bytes(row[1]))
    for row in connection.execute("SELECT dirty_hash, pages FROM manifests ORDER BY dirty_hash"):
        yield writer.manifest(row[0], row[1])
    for row in connection.execute("SELECT state_digest, state FROM states ORDER BY state_digest"):
        yield writer.state(row[0], row[1])
    for session in sessions:
        for row in connection.execute("SELECT * FROM entries WHERE session_id = ? ORDER BY sequence", (session.id,)):
            yield writer.entry(PortableEntry._make((*tuple(row)[:-1], bool(row["withheld"]))))
    yield writer.footer()


def _check_chain(connection: sqlite3.Connection) -> None:
    previous = ZERO_HASH
    for expected, row in enumerate(connection.execute("SELECT * FROM audit_events ORDER BY ordinal")):
        computed = event_hash(previous, row["body"].encode())
        if row["ordinal"] != expected or computed.hex() != row["event_hash"]:
            raise _invalid("chain_broken", f"event {expected} of its audit chain does not follow from the one before")
        previous = computed


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _invalid(reason: str, message: str) -> TranscriptInvalid:
    return TranscriptInvalid(f"The session file: {message}. Nothing was taken in.", details={"reason": reason})
