"""Use case: a portable session file is taken in, as a whole or not at all.

The file is read twice. The first pass checks everything and holds no lock; the second writes, in one transaction, what
the store lacks. Whether it is still the same file is known from its digest before anything is committed.

The audit chains of the store it comes from are not in the file, and none is made up: each session's chain here begins,
or goes on, with one event that pins the file's digest and the root of all entries that are here then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from io import SEEK_SET
from typing import Any, BinaryIO, Final, NamedTuple

from bridge.control.controller import Controller
from bridge.control.errors import ImportSourceChanged
from bridge.control.exchange.diverging import ForkWriter, common_sequences
from bridge.control.exchange.imported import Imported, ImportedSession, Progress
from bridge.control.exchange.sessionfiles import import_session_file, is_session_file
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import SessionDiffers, SessionRemoved
from bridge.conversations.importing import Adder, Comparison, IncomingSession, Taken, begin, compare, finish
from bridge.conversations.models import ENTRY_FIELDS, Entry, EntryRow, NewSession
from bridge.conversations.store import parent_session_of, session_exists
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import split_entry_id
from bridge.integrity.events import ROOT_SEALED, SESSION_IMPORTED
from bridge.integrity.recorded import ROW_COLUMNS
from bridge.integrity.removal.store import add_withheld
from bridge.integrity.store import first_event_type, last_event_of_type, last_event_type
from bridge.integrity.subtrees import store as subtrees
from bridge.integrity.verify import beside_digest, root_of, seal_root
from bridge.lineage.descent import MAX_DEPTH, require_acyclic
from bridge.recall.index import forget_gaps
from bridge.storage.transaction import Connection
from bridge.transcripts.portable import FORMAT_VERSION, HEADER_TYPE, Header, PortableEntry, SessionHeader
from bridge.transcripts.portable_reading import ManifestIndex, Page, Record, State, Survey, check, records
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
        If the session here is another one (one that went on differently becomes a fork); was removed; or is damaged.
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
    portable = Portable(survey, source, lambda digest: records(source, digest=digest))
    return take_in(controller, portable, dry_run=dry_run, tell=tell)


class Portable(NamedTuple):
    """A session that was checked and can be read again: in whatever form of file.

    Parameters
    ----------
    records
        Yields what the file holds, states before the entries that name them, and tells each piece of it to a digest.
    """

    survey: Survey
    source: BinaryIO
    records: Callable[[Callable[[bytes], object]], Iterator[Record]]


def take_in(controller: Controller, portable: Portable, *, dry_run: bool, tell: Progress) -> Imported:
    """Take in what the store lacks of a checked session. Raises as :func:`import_session`, but for its form."""
    survey = portable.survey
    with controller.store.read() as connection:
        found, common = _compare(connection, survey)
        if dry_run:
            return _result(survey, found, {}, _counted(connection, portable, common), is_dry_run=True)
    if common is None and not any(comparison.added for comparison in found.values()):
        return _result(survey, found, {}, [], is_dry_run=False)
    return controller.recorder.transact(lambda recording: _write(recording, portable, tell))


def _silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def _compare(connection: Connection, survey: Survey) -> tuple[dict[str, Comparison], set[int] | None]:
    """Return what each session here lacks, and if the file's own went on differently here, what both have."""
    found: dict[str, Comparison] = {}
    common: set[int] | None = None
    for session in survey.header.sessions:
        if not session_exists(connection, session.id) and first_event_type(connection, session.id) is not None:
            raise SessionRemoved(
                f"Session {session.id} was removed from this store. Nothing was written.",
                details={"session_id": session.id},
            )
        if session.parent_session_id is not None:
            parent_of = partial(parent_session_of, connection)
            require_acyclic(session.id, session.parent_session_id, parent_of, limit=MAX_DEPTH)
        try:
            found[session.id] = compare(connection, session.id, survey.indexes[session.id].items())
        except SessionDiffers:
            if session.id != survey.header.session_id:
                raise
            common = common_sequences(connection, session.id, survey.indexes[session.id].items())
            if 0 not in common:
                raise  # another session altogether
            found[session.id] = Comparison(exists=True)
    return found, common


def _counted(connection: Connection, portable: Portable, common: set[int] | None) -> list[ImportedSession]:
    """Return the forks that a copy would make which went on differently."""
    if common is None:
        return []
    survey = portable.survey
    forks = ForkWriter(connection, None, _header_of(survey.header, survey.header.session_id), common)
    portable.source.seek(0, SEEK_SET)
    for record in portable.records(lambda _: None):
        if isinstance(record, PortableEntry) and record.session_id == survey.header.session_id:
            forks.add(entry_of(record))
    return forks.finish()


def entry_of(record: PortableEntry) -> Entry:
    """Return the entry that a file holds."""
    return Entry.from_row(row_of(record))


def row_of(record: PortableEntry) -> EntryRow:
    """Return the entry that a file holds as a row."""
    return record[: len(ENTRY_FIELDS)]


def _write(recording: RecordingTransaction, portable: Portable, tell: Progress) -> Imported:
    """Write what is missing; the comparison is made anew, now that nobody else writes."""
    tx, survey = recording.tx, portable.survey
    found, common = _compare(tx.connection, survey)
    own = _header_of(survey.header, survey.header.session_id)
    forks = None if common is None else ForkWriter(tx.connection, recording, own, common)
    incoming = {session.id: _incoming(tx.connection, session) for session in survey.header.sessions}
    adders = {session_id: Adder(tx, comparison) for session_id, comparison in found.items()}
    for session_id, comparison in found.items():
        if not comparison.exists:
            begin(tx, incoming[session_id])
    withheld = _write_records(recording, portable, adders, forks, tell)
    taken = {}
    for session_id, comparison in found.items():
        if comparison.added:
            # Of what a fork shares, the file knows no head.
            is_untouched = session_id == survey.header.session_id and _is_untouched(tx.connection, session_id)
            taken[session_id] = finish(tx, incoming[session_id], comparison, recording.moment, take_head=is_untouched)
            if comparison.fills_gaps:
                forget_gaps(tx, session_id)
                subtrees.forget(tx, session_id)
            _record(recording, survey, comparison, taken[session_id], withheld.get(session_id, {}))
    return _result(survey, found, taken, [] if forks is None else forks.finish(), is_dry_run=False)


def _write_records(
    recording: RecordingTransaction,
    portable: Portable,
    adders: dict[str, Adder],
    forks: ForkWriter | None,
    tell: Progress,
) -> dict[str, dict[str, list[str]]]:
    """Write entries and states; return what stands in the place of erased payloads, by session and entry."""
    tx, moment, survey = recording.tx, recording.moment, portable.survey
    whole, written = sha256(), 0
    withheld: dict[str, dict[str, list[str]]] = {}
    portable.source.seek(0, SEEK_SET)
    for record in portable.records(whole.update):
        if isinstance(record, PortableEntry):
            adder = adders.get(record.session_id)
            if adder is None:
                raise _changed()
            if forks is not None and record.session_id == forks.session.id:
                forks.add(entry_of(record))
            elif adder.add(row_of(record)) and record.is_withheld:
                tombstone = digest_hex(record.payload_text.encode())
                withheld.setdefault(record.session_id, {})[record.id] = [tombstone, record.payload_hash]
                add_withheld(
                    tx,
                    record.session_id,
                    record.id,
                    tombstone_hash=tombstone,
                    payload_hash=record.payload_hash,
                    moment=moment,
                )
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
    return withheld


def _record(
    recording: RecordingTransaction,
    survey: Survey,
    comparison: Comparison,
    taken: Taken,
    withheld: dict[str, list[str]],
) -> None:
    """Record what was taken in: the file by its digest, everything that is here now by its root."""
    session_id = split_entry_id(taken.head_entry_id)[0]
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
        **({"withheld": withheld} if withheld else {}),
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


def _result(
    survey: Survey,
    found: dict[str, Comparison],
    taken: dict[str, Taken],
    forks: list[ImportedSession],
    *,
    is_dry_run: bool,
) -> Imported:
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
    return Imported(survey.header.session_id, survey.digest, is_dry_run, (*sessions, *forks))


def _changed() -> ImportSourceChanged:
    return ImportSourceChanged("The file changed while it was read. Nothing was written.")
