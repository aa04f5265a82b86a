"""Use case: a portable session file is taken in, as a whole or not at all.

The file is read twice. The first pass checks everything and holds no lock; the second writes, in one transaction, what
the store lacks. Whether it is still the same file is known from its digest before anything is committed.

The audit chains of the store it comes from are not in the file, and none is made up: each session's chain here begins,
or goes on, with one event that pins the file's digest and the root of all entries that are here then.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from io import SEEK_SET
from typing import Any, BinaryIO, Final

from bridge.control.controller import Controller
from bridge.control.errors import ImportSourceChanged
from bridge.control.exchange.imported import Imported, ImportedSession, Progress
from bridge.control.exchange.sessionfiles import import_session_file, is_session_file
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import SessionRemoved
from bridge.conversations.importing import Adder, Comparison, IncomingSession, Taken, begin, compare, finish
from bridge.conversations.models import Entry, NewSession
from bridge.conversations.store import parent_session_of, session_exists
from bridge.integrity.events import ROOT_SEALED, SESSION_IMPORTED
from bridge.integrity.recorded import ROW_COLUMNS
from bridge.integrity.store import first_event_type, last_event_of_type, last_event_type
from bridge.integrity.subtrees import store as subtrees
from bridge.integrity.verify import beside_digest, root_of, seal_root
from bridge.lineage.descent import MAX_DEPTH, require_acyclic
from bridge.recall.index import forget_gaps
from bridge.storage.transaction import Connection
from bridge.transcripts.portable import FORMAT_VERSION, HEADER_TYPE, Header, PortableEntry, SessionHeader
from bridge.transcripts.portable_reading import ManifestIndex, Page, State, Survey, check, records
from bridge.workspaces.store import find_workspace, import_manifest, import_page, import_state

#: What the first line of such a file holds.
HEADER_MARK: Final = f'"type":"{HEADER_TYPE}"'.encode()
#: Entries between two reports of progress.
_PROGRESS_ENTRIES: Final = 5000


def import_session(
    controller: Controller, source: BinaryIO, *, dry_run: bool = False, progress: Progress | None = None
) -> Imported:
    """Take in a portable session file: what the store lacks of its sessions, under the same ids and hashes.

    A session file of the other kind (docs/session-files.md) is told apart by its first line and taken in as that module
    says.

    A copy of what is here, whole or older, changes nothing. Writing holds the store's write lock until all is written.

    Parameters
    ----------
    source
        The file, opened in binary mode; it must be able to seek.
    dry_run
        Whether everything is checked and compared, and nothing written.

    Raises
    ------
    SessionFileError, ExternalIdConflict
        As :func:`import_session_file` says.
    TranscriptInvalid, UnsupportedTranscriptVersion, TranscriptPartial
        If the file is damaged, of another version, or lacks hidden entries.
    SessionDiffers, SessionRemoved, SessionQuarantined
        If the session here is another one, or went on differently; was removed; or is damaged.
    LineageCycle
        If the file's session would become its own ancestor.
    ImportSourceChanged
        If the file changed between the two passes.
    StateDamaged
        If the pages of a manifest do not give its hash.
    """
    if is_session_file(source):
        return import_session_file(controller, source, dry_run=dry_run)
    tell = progress if progress is not None else _silent
    survey = check(source, progress=lambda entries, _bytes: tell("check", entries, 0))
    with controller.store.read() as connection:
        found = _compare(connection, survey)
    if dry_run or not any(comparison.added for comparison in found.values()):
        return _result(survey, found, {}, is_dry_run=dry_run)
    return controller.recorder.transact(lambda recording: _write(recording, source, survey, tell))


def _silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def _compare(connection: Connection, survey: Survey) -> dict[str, Comparison]:
    found = {}
    for session in survey.header.sessions:
        if not session_exists(connection, session.id) and first_event_type(connection, session.id) is not None:
            raise SessionRemoved(
                f"Session {session.id} was removed from this store. Nothing was written.",
                details={"session_id": session.id},
            )
        if session.parent_session_id is not None:
            parent_of = partial(parent_session_of, connection)
            require_acyclic(session.id, session.parent_session_id, parent_of, limit=MAX_DEPTH)
        found[session.id] = compare(connection, session.id, survey.indexes[session.id].items())
    return found


def _write(recording: RecordingTransaction, source: BinaryIO, survey: Survey, tell: Progress) -> Imported:
    """Write what is missing; the comparison is made anew, now that nobody else writes."""
    tx = recording.tx
    found = _compare(tx.connection, survey)
    incoming = {session.id: _incoming(tx.connection, session) for session in survey.header.sessions}
    adders = {session_id: Adder(tx, comparison) for session_id, comparison in found.items()}
    for session_id, comparison in found.items():
        if not comparison.exists:
            begin(tx, incoming[session_id])
    _write_records(recording, source, survey, adders, tell)
    taken = {}
    for session_id, comparison in found.items():
        if comparison.added:
            # Of what a fork shares, the file knows no head.
            is_untouched = session_id == survey.header.session_id and _is_untouched(tx.connection, session_id)
            taken[session_id] = finish(tx, incoming[session_id], comparison, recording.moment, take_head=is_untouched)
            if comparison.fills_gaps:
                forget_gaps(tx, session_id)
                subtrees.forget(tx, session_id)
            _record(recording, survey, session_id, comparison, taken[session_id])
    return _result(survey, found, taken, is_dry_run=False)


def _write_records(
    recording: RecordingTransaction, source: BinaryIO, survey: Survey, adders: dict[str, Adder], tell: Progress
) -> None:
    tx, moment = recording.tx, recording.moment
    whole, written = sha256(), 0
    source.seek(0, SEEK_SET)
    for record in records(source, digest=whole.update):
        if isinstance(record, PortableEntry):
            adder = adders.get(record.session_id)
            if adder is None:
                raise _changed()
            adder.add(Entry.from_row(record))
            written += 1
            if written % _PROGRESS_ENTRIES == 0:
                tell("write", written, survey.tally.entries)
        elif isinstance(record, State):
            import_state(tx, record.state_digest, record.text, moment)
        elif isinstance(record, ManifestIndex):
            import_manifest(tx, record.dirty_hash, record.text, moment)
        elif isinstance(record, Page):
            import_page(tx, record.page_digest, record.body)
    if whole.hexdigest() != survey.file_digest:
        raise _changed()


def _record(
    recording: RecordingTransaction, survey: Survey, session_id: str, comparison: Comparison, taken: Taken
) -> None:
    """Record what was taken in: the file by its digest, everything that is here now by its root."""
    session = _header_of(survey.header, session_id)
    root = root_of(recording.tx.connection, session_id)
    origin = survey.origins.get(session_id)
    body: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "digest": survey.digest,
        "added": comparison.added,
        "session_root": root,
        "sequence": taken.last_sequence,
        "next_sequence": taken.next_sequence,
        "has_gaps": taken.has_gaps,
        "head": taken.head_entry_id,
        "workspace_id": session.workspace_id,
        "labels": taken.set_labels,
        "beside_digest": beside_digest(recording.tx.connection, session_id, taken.last_sequence),
        **({} if origin is None else {"forked_from": origin}),
    }
    if not comparison.exists:
        names = ("kind", "parent_session_id", "parent_relation")
        body.update({name: getattr(session, name) for name in names})
        body["row"] = _row(recording.tx.connection, session)
    recording.event(session_id, SESSION_IMPORTED, body)
    if last_event_of_type(recording.tx.connection, session_id, ROOT_SEALED) is not None:
        # A root that was given out earlier may lack what came into gaps before its last entry.
        seal_root(recording.tx, session_id, root, taken.last_sequence, recording.moment)


def _row(connection: Connection, session: SessionHeader) -> dict[str, str | None]:
    """Return the columns of a new session's row, as it was made."""
    new = _incoming(connection, session).new
    times = {"created_at": session.created_at, "updated_at": session.updated_at}
    return {name: getattr(new, name) for name in ROW_COLUMNS} | times


def _incoming(connection: Connection, session: SessionHeader) -> IncomingSession:
    workspace = None if session.workspace_id is None else find_workspace(connection, session.workspace_id)
    return IncomingSession(
        new=NewSession(
            id=session.id,
            kind=session.kind,  # type: ignore[arg-type]  # the header's schema allows no other
            # A workspace of another store means nothing here; the audit event keeps its id.
            workspace_id=None if workspace is None else workspace.id,
            agent_id=session.agent_id,
            harness=session.harness,
            label=session.label,
            status=session.status,
            parent_session_id=session.parent_session_id,
            parent_relation=session.parent_relation,  # type: ignore[arg-type]  # as above
        ),
        created_at=session.created_at,
        updated_at=session.updated_at,
        active_entry_id=session.active_entry_id,
        next_sequence=session.next_sequence,
        labels=session.labels,
    )


def _is_untouched(connection: Connection, session_id: str) -> bool:
    """Return whether nothing happened to a session here since it was imported."""
    return last_event_type(connection, session_id, beside=ROOT_SEALED) == SESSION_IMPORTED


def _header_of(header: Header, session_id: str) -> SessionHeader:
    return next(session for session in header.sessions if session.id == session_id)


def _result(survey: Survey, found: dict[str, Comparison], taken: dict[str, Taken], *, is_dry_run: bool) -> Imported:
    sessions = []
    for session_id, comparison in found.items():
        now = taken.get(session_id)
        status = "created" if not comparison.exists else "continued" if comparison.added else "unchanged"
        sessions.append(
            ImportedSession(
                session_id,
                status,
                comparison.added,
                len(survey.indexes[session_id]),
                _header_of(survey.header, session_id).complete,
                active_entry_id=None if now is None else now.head_entry_id,
                kept_labels=() if now is None else now.kept_labels,
            )
        )
    return Imported(survey.header.session_id, survey.digest, is_dry_run, tuple(sessions))


def _changed() -> ImportSourceChanged:
    return ImportSourceChanged("The file changed while it was read. Nothing was written.")
