"""Use case: a session as a file, written piece by piece from one snapshot and never held as a whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal

from bridge.control.contexts.building import require_readable_path
from bridge.control.controller import Controller
from bridge.control.errors import NoRawLines
from bridge.control.exchange.documents import Document, DocumentRequest
from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.rawlines import Rebuilt, rebuild
from bridge.control.exchange.sessionfiles import session_file_of
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import ENTRY_FIELDS, Entry, Session
from bridge.conversations.paths import Segment, fork_origin, iterate_segment, path_segments
from bridge.conversations.store import count_entries, iterate_entries, list_labels
from bridge.foundation.canonical import parse_json
from bridge.foundation.ids import split_entry_id
from bridge.semantics.kinds import HIDDEN
from bridge.storage.transaction import Connection
from bridge.transcripts.html import HtmlRenderer
from bridge.transcripts.markdown import MarkdownRenderer
from bridge.transcripts.portable import (
    MAX_PAGE_BYTES,
    Header,
    PortableEntry,
    PortableWriter,
    Scope,
    SessionHeader,
)
from bridge.workspaces.store import page_body, page_index_text, page_size, state_text

#: Forms of a file: for programs, and for people.
Format = Literal["jsonl", "session-file", "markdown", "html", "raw"]
#: Bytes that are written at once, about.
CHUNK_BYTES: Final = 64 * 1024

_values_of = attrgetter(*ENTRY_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is to be written.

    Parameters
    ----------
    session
        Reference to the session; None means the current one.
    scope
        ``forest``: all branches. ``active``: the active path. Either with what a fork shares with its origin.
    hidden
        Whether hidden entries are shown. A forest as JSON lines holds them in any case: without them nobody could
        recompute a hash.
    """

    session: str | None = None
    format: Format = "jsonl"
    scope: Scope = "forest"
    hidden: bool = False


@dataclass(slots=True)
class Export:
    """A file being written.

    ``entries`` and ``bytes`` grow as :attr:`chunks` is consumed. ``rebuilt`` says of a transcript that is written again
    how true it is.
    """

    session_id: str
    chunks: Iterator[bytes]
    entries: int = 0
    bytes: int = 0
    rebuilt: Rebuilt | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"session_id": self.session_id, "entries": self.entries, "bytes": self.bytes}
        if self.rebuilt is not None:
            shown |= {"exact": self.rebuilt.is_exact, "changed_lines": self.rebuilt.changed_lines}
        return shown


@contextmanager
def open_export(controller: Controller, standpoint: Standpoint, request: ExportRequest) -> Iterator[Export]:
    """Begin to write a session; its pieces are made as they are taken, from one snapshot that is held meanwhile.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference, SessionQuarantined
        If the session cannot be found, or is set aside.
    PathBroken
        If the path of a fork's origin does not reach its root; also while pieces are taken.
    UnsupportedSemanticVersion
        If an active path is asked for that holds an entry of a version that this Bridge does not read.
    """
    with controller.store.read() as connection:
        session = require_session(connection, find_session(connection, standpoint, request.session))
        if request.scope == "active":
            # It stands for what the conversation says; of a forest every row is kept as it is.
            require_readable_path(connection, session.active_entry_id)
        export = Export(session.id, iter(()))
        if request.format == "jsonl":
            pieces = _PortableFile(connection, session, request, controller.now(), export).pieces()
        elif request.format == "session-file":
            pieces = _session_file(connection, session, request, export)
        elif request.format == "raw":
            pieces = _raw_lines(connection, session, export)
        else:
            pieces = _document(connection, session, request, controller.now(), export)
        export.chunks = _chunked(pieces, export)
        try:
            yield export
        finally:
            # Whoever stops half way leaves no cursor behind.
            pieces.close()


def export_session(
    controller: Controller, standpoint: Standpoint, request: ExportRequest, write: Callable[[bytes], object]
) -> Export:
    """Write a session, piece by piece. Raises what :func:`open_export` does, and what ``write`` does."""
    with open_export(controller, standpoint, request) as export:
        for chunk in export.chunks:
            write(chunk)
    return export


def _chunked(pieces: Iterator[bytes], export: Export) -> Iterator[bytes]:
    """Join pieces until they are worth a write."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        export.bytes += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    if waiting:
        yield b"".join(waiting)


def _session_file(connection: Connection, session: Session, request: ExportRequest, export: Export) -> Generator[bytes]:
    """Yield a session file, which is small enough to be made at once; hidden entries are always in it."""
    if request.scope == "active":
        segments = path_segments(connection, session.active_entry_id)
        entries = [entry for segment in segments for entry in iterate_segment(connection, segment)]
    else:
        origin = fork_origin(connection, session.id)
        shared = [] if origin is None else path_segments(connection, origin.entry_id)
        entries = [entry for segment in shared for entry in iterate_segment(connection, segment)]
        entries += iterate_entries(connection, session.id)
    export.entries = sum(not entry.is_root for entry in entries)
    yield session_file_of(session.id, session.created_at, session.active_entry_id, entries)


def _raw_lines(connection: Connection, session: Session, export: Export) -> Generator[bytes]:
    """Yield the transcript that a session was made from, as its lines were kept; the longest one of several."""
    natives = [row.native_id for row in rows.natives_of(connection, session.id)]
    sources = rows.sources_of(connection, natives)
    if not sources:
        raise NoRawLines(
            f"No transcript is kept of {session.id}.", details={"session_id": session.id, "native_ids": natives}
        )
    export.rebuilt = Rebuilt()
    yield from rebuild(connection, sources[0], export.rebuilt)
    export.entries = export.rebuilt.lines


def _document(
    connection: Connection, session: Session, request: ExportRequest, moment: str, export: Export
) -> Generator[bytes]:
    shown = DocumentRequest(
        session=session, moment=moment, is_forest=request.scope == "forest", has_hidden=request.hidden
    )
    document = Document(connection, shown, MarkdownRenderer() if request.format == "markdown" else HtmlRenderer())
    for piece in document.pieces():
        export.entries = document.entries
        yield piece.encode()


class _PortableFile:
    """The lines of one session's portable file."""

    def __init__(
        self, connection: Connection, session: Session, request: ExportRequest, moment: str, export: Export
    ) -> None:
        self._connection = connection
        self._session = session
        self._has_hidden = request.hidden or request.scope == "forest"
        self._scope: Scope = request.scope
        self._moment = moment
        self._export = export
        self._writer = PortableWriter()
        # Digests that were written, 32 bytes each: one for every different state, manifest and page.
        self._written: set[bytes] = set()

    def pieces(self) -> Generator[bytes]:
        shared, own = self._segments()
        headers = [self._header_of(segment) for segment in shared]
        header = Header(
            session_id=self._session.id,
            scope=self._scope,
            hidden=self._has_hidden,
            sessions=(*headers, self._own_header(own)),
            exported_at=self._moment,
        )
        yield self._writer.header(header)
        for segment in shared:
            yield from self._entries(iterate_segment(self._connection, segment))
        if own is None:
            yield from self._entries(iterate_entries(self._connection, self._session.id))
        else:
            yield from self._entries(iterate_segment(self._connection, own))
        yield self._writer.footer()

    def _segments(self) -> tuple[list[Segment], Segment | None]:
        """Return the parts of other sessions that belong to it, and the part of its own; None if that is all of it."""
        if self._scope == "active":
            *shared, own = path_segments(self._connection, self._session.active_entry_id)
            return shared, own
        origin = fork_origin(self._connection, self._session.id)
        return ([] if origin is None else path_segments(self._connection, origin.entry_id)), None

    def _own_header(self, own: Segment | None) -> SessionHeader:
        if own is not None:
            return self._header_of(own)
        is_complete = count_entries(self._connection, self._session.id) == self._session.next_sequence
        return self._header(self._session, self._session.active_entry_id, None, is_complete=is_complete)

    def _header_of(self, segment: Segment) -> SessionHeader:
        session = require_session(self._connection, segment.session_id)
        is_complete = len(segment.sequences) == session.next_sequence
        return self._header(session, segment.leaf_entry_id, segment.sequences, is_complete=is_complete)

    def _header(
        self, session: Session, active_entry_id: str, sequences: Sequence[int] | None, *, is_complete: bool
    ) -> SessionHeader:
        labels = {
            label.name: label.entry_id
            for label in list_labels(self._connection, session.id)
            if sequences is None or _holds(sequences, split_entry_id(label.entry_id)[1])
        }
        return SessionHeader(
            id=session.id,
            kind=session.kind,
            workspace_id=session.workspace_id,
            agent_id=session.agent_id,
            harness=session.harness,
            label=session.label,
            status=session.status,
            parent_session_id=session.parent_session_id,
            parent_relation=session.parent_relation,
            created_at=session.created_at,
            updated_at=session.updated_at,
            active_entry_id=active_entry_id,
            next_sequence=session.next_sequence,
            complete=is_complete and self._has_hidden,
            labels=labels,
        )

    def _entries(self, entries: Iterator[Entry]) -> Iterator[bytes]:
        for entry in entries:
            if entry.context_visibility == HIDDEN and not self._has_hidden and not entry.is_root:
                continue
            if entry.state_digest is not None:
                yield from self._state(entry.state_digest)
            self._export.entries += 1
            yield self._writer.entry(PortableEntry._make(_values_of(entry)))

    def _state(self, state_digest: str) -> Iterator[bytes]:
        """Yield a state, once, after the manifest that it names; one that is not stored is left out."""
        stored = None if self._is_written(state_digest) else state_text(self._connection, state_digest)
        if stored is None:
            return
        dirty_hash, text = stored
        if not self._is_written(dirty_hash):
            yield from self._manifest(dirty_hash)
        yield self._writer.state(state_digest, text)

    def _manifest(self, dirty_hash: str) -> Iterator[bytes]:
        index = page_index_text(self._connection, dirty_hash)
        if index is None:
            return
        digests = [page["page"] for page in parse_json(index)]
        if not all(0 <= page_size(self._connection, digest) <= MAX_PAGE_BYTES for digest in digests):
            return  # without its paths the state is of use all the same, and divergence says what it lacks
        for digest in digests:
            if not self._is_written(digest):
                yield self._writer.page(digest, page_body(self._connection, digest))
        yield self._writer.manifest(dirty_hash, index)

    def _is_written(self, digest: str) -> bool:
        """Return whether something was written already; from now on it was."""
        raw = bytes.fromhex(digest)
        if raw in self._written:
            return True
        self._written.add(raw)
        return False


def _holds(sequences: Sequence[int], sequence: int) -> bool:
    place = bisect_left(sequences, sequence)
    return place < len(sequences) and sequences[place] == sequence
