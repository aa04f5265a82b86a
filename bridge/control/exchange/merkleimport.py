"""Use case: a Merkle-rooted session of questions is taken in, after all of its hashes were checked.

Its ids are of Bridge's own form, and its synthetic root is one as well: node n becomes entry n of a session of the same
id. What has no field of its own here (cache key, audit mode, the node's hashes) is kept in ``provider_meta``.
"""

from __future__ import annotations

from bridge.control.controller import Controller
from bridge.control.exchange.imported import Imported, ImportedSession, ImportRequest
from bridge.control.exchange.sources import Source
from bridge.control.exchange.sqliteimport import copied
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import InvalidLabel, SessionDiffers, SessionRemoved
from bridge.conversations.forest import check_label
from bridge.conversations.models import ID_AT, EntryDraft, NewSession
from bridge.conversations.store import find_external, get_head, get_session, label_target
from bridge.foundation.errors import InvalidId
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import entry_id, require_safe_id
from bridge.integrity.events import SOURCE_CHECKED
from bridge.integrity.store import first_event_type
from bridge.storage.transaction import Connection
from bridge.transcripts.errors import TranscriptInvalid
from bridge.transcripts.merklesessions import MerkleNode, MerkleSession, is_merkle_session, read
from bridge.transcripts.sqlitefile import SQLITE_MAGIC

#: Name of the format, harness of such sessions, and source of their entries' external ids.
FORMAT = "merkle-sessions"


def is_merkle_file(source: Source) -> bool:
    """Return whether a source is a SQLite file with such a session."""
    if source.is_directory or not source.head().startswith(SQLITE_MAGIC):
        return False
    with copied(source) as path:
        return is_merkle_session(path)


def import_merkle(controller: Controller, source: Source, request: ImportRequest) -> Imported:
    """Take in a session; the same again adds nothing, one that has grown goes on.

    Raises
    ------
    TranscriptInvalid
        If it cannot be read, or a hash of it is wrong.
    SessionDiffers, SessionRemoved, ExternalIdConflict
        If a session of that id is here and is no earlier copy; was removed; or has an entry with other content.
    """
    with copied(source) as path:
        session, digest = read(path), digest_hex(path.read_bytes())
    try:
        require_safe_id(session.session_id)
    except InvalidId as error:
        raise TranscriptInvalid(
            "The session file: its session id has another form than Bridge's. Nothing was taken in.",
            details={"reason": "bad_header"},
        ) from error
    with controller.store.read() as connection:
        found = _compare(connection, session)
    if not request.dry_run and (found.added or found.status == "created"):
        found = controller.recorder.transact(lambda recording: _write(recording, session))
    return Imported(session.session_id, digest, request.dry_run, (found,))


def _compare(connection: Connection, session: MerkleSession) -> ImportedSession:
    here = get_session(connection, session.session_id)
    if here is None and first_event_type(connection, session.session_id) is not None:
        raise SessionRemoved(
            f"Session {session.session_id} was removed from this store. Nothing was written.",
            details={"session_id": session.session_id},
        )
    if here is not None and here.harness != FORMAT:
        raise SessionDiffers(
            f"A session {session.session_id} is here already, and is another one. Nothing was written.",
            details={"session_id": session.session_id},
        )
    questions = session.nodes[1:]
    added = sum(find_external(connection, session.session_id, FORMAT, node.bates) is None for node in questions)
    status = "created" if here is None else "continued" if added else "unchanged"
    return ImportedSession(session.session_id, status, added, len(questions), complete=True)


def _write(recording: RecordingTransaction, session: MerkleSession) -> ImportedSession:
    found = _compare(recording.tx.connection, session)
    if found.status == "created":
        recording.create_session(NewSession(id=session.session_id, harness=FORMAT))
    places = {session.nodes[0].bates: entry_id(session.session_id, 0)}
    for node in session.nodes[1:]:
        parent = places[node.parent_bates or ""]
        places[node.bates] = recording.append(session.session_id, _draft(node, parent)).row[ID_AT]
    for node in session.nodes[1:]:
        _label(recording, session.session_id, node, places[node.bates])
    if found.status == "created":
        recording.move_head(session.session_id, places[session.current_bates])
    body = {"format": FORMAT, "session_root": session.session_root, "event_hash": session.event_hash}
    recording.event(session.session_id, SOURCE_CHECKED, body)
    head = get_head(recording.tx.connection, session.session_id)
    return ImportedSession(
        found.session_id,
        found.status,
        found.added,
        found.entries,
        complete=True,
        active_entry_id=None if head is None else head.entry_id,
    )


def _draft(node: MerkleNode, parent: str) -> EntryDraft:
    # Neither label nor subtree hash: they change as the session grows, and the entry does not.
    kept = {"cache_key": node.cache_key, "audit_mode": node.audit_mode}
    return EntryDraft(
        kind="user.message",
        payload={"text": node.question, "provider_meta": {FORMAT: kept}},
        external_id=node.bates,
        external_source=FORMAT,
        parent_entry_id=parent,
        created_at=node.created_at,
    )


def _label(recording: RecordingTransaction, session_id: str, node: MerkleNode, place: str) -> None:
    if node.label is None:
        return
    try:
        name = check_label(node.label)
    except InvalidLabel:
        # A name that cannot be one here: a note says it.
        note = EntryDraft(
            kind="note",
            payload={"text": f"label of {node.bates}: {node.label}"},
            parent_entry_id=place,
            context_visibility="hidden",
            external_id=f"{node.bates}#label",
            external_source=FORMAT,
            created_at=node.created_at,
        )
        recording.append(session_id, note)
        return
    if label_target(recording.tx.connection, session_id, name) is None:
        recording.label(session_id, place, name)
