"""Use case: a session as a portable file, written line by line from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, find_session
from bridge.control.views import session_view
from bridge.conversations.forest import require_session
from bridge.conversations.models import Entry
from bridge.conversations.paths import fork_origin, path_to
from bridge.conversations.store import iterate_entries, list_labels
from bridge.storage.transaction import Connection
from bridge.transcripts.portable import Header, PortableEntry, write_lines


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: how many entries of which session, in how many bytes."""

    session_id: str
    entries: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "entries": self.entries, "bytes": self.bytes}


def export_session(
    controller: Controller, standpoint: Standpoint, session: str | None, write: Callable[[bytes], object]
) -> Exported:
    """Write a session with all its branches and, of a fork, the path it shares with its origin.

    Hidden entries are part of it, and so are those whose version this Bridge does not read: they are written as
    they are stored.

    Parameters
    ----------
    write
        Takes the file's bytes, a line at a time. It is called while a read snapshot is open.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If the session cannot be found.
    PathBroken
        If the path of a fork's origin does not reach its root.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        labels = {label.name: label.entry_id for label in list_labels(connection, found.id)}
        header = Header(session=session_view(found), labels=labels, exported_at=controller.now())
        lines = size = 0
        for line in write_lines(header, map(_portable, _entries(connection, found.id))):
            write(line)
            lines, size = lines + 1, size + len(line)
    return Exported(found.id, lines - 2, size)


def _entries(connection: Connection, session_id: str) -> Iterator[Entry]:
    origin = fork_origin(connection, session_id)
    shared = [] if origin is None else path_to(connection, origin.entry_id, include_roots=True)
    return chain(shared, iterate_entries(connection, session_id))


def _portable(entry: Entry) -> PortableEntry:
    return PortableEntry(
        id=entry.id,
        session_id=entry.session_id,
        parent_entry_id=entry.parent_entry_id,
        sequence=entry.sequence,
        semantic_schema_version=entry.semantic_schema_version,
        kind=entry.kind,
        context_visibility=entry.context_visibility,
        state_digest=entry.state_digest,
        unknown_reason=entry.unknown_reason,
        unknown_path=entry.unknown_path,
        unknown_detail=entry.unknown_detail,
        observed_at=entry.observed_at,
        external_id=entry.external_id,
        external_source=entry.external_source,
        created_at=entry.created_at,
        payload_hash=entry.payload_hash,
        entry_hash=entry.entry_hash,
        payload_text=entry.payload_text,
    )
