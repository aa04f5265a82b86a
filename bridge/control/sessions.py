"""Use cases that change the forest: registering a checkout, starting sessions, appending, going elsewhere, labels.

All of them block: doors that are async run them in threads. A stamp is taken before the transaction that uses it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.capture.places import note_places
from bridge.control.contexts.compacting import leaf_of, require_boundary
from bridge.control.controller import Controller
from bridge.control.errors import KindWithoutText
from bridge.control.recording import RecordingTransaction
from bridge.control.relinking import remember_roots
from bridge.control.standpoint import Standpoint, checkout_at, find_entry, find_session, find_workspace_named
from bridge.conversations.errors import EntryNotFound
from bridge.conversations.forest import require_session
from bridge.conversations.models import Appended, EntryDraft, HeadMove, NewSession, ParentRelation, Session
from bridge.conversations.projection import COMPACTION
from bridge.conversations.store import label_target
from bridge.foundation.canonical import parse_json
from bridge.foundation.ids import short_entry, split_entry_id
from bridge.foundation.texts import require_storable
from bridge.git.observe import Observation
from bridge.git.repository import RepositoryLocation, discover
from bridge.semantics.kinds import HIDDEN, KINDS
from bridge.workspaces.models import Workspace
from bridge.workspaces.registration import Registration, register
from bridge.workspaces.store import find_by_worktree, save_state

#: Audit event of a workspace's own chain.
WORKSPACE_REGISTERED: Final = "workspace.registered"
#: Required fields that a kind's plain text may stand in, the first one it requires.
MAIN_FIELDS: Final = ("text", "summary", "message", "reason", "status", "model", "effort", "path", "harness")


@dataclass(frozen=True, slots=True)
class Initialised:
    """A checkout's workspace and its state at that moment."""

    registration: Registration
    observation: Observation


@dataclass(frozen=True, slots=True)
class Started:
    """A new session, its workspace if it has one, and whether that was registered along with it."""

    session: Session
    workspace: Workspace | None
    has_registered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a new session should be.

    Parameters
    ----------
    label, harness
        Free text; the agent program.
    parent
        Reference to the session that it continues.
    from_entry
        Reference to the entry that it is forked from. Not together with ``parent``.
    workspace
        Id or path of its workspace; None means the one where the request is made (a fork: its origin's).
    without_workspace
        Whether it has none.
    """

    label: str | None = None
    harness: str | None = None
    parent: str | None = None
    from_entry: str | None = None
    workspace: str | None = None
    without_workspace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """What to append, with references as people type them.

    Parameters
    ----------
    payload, payload_text, text
        One of the three: the object, its JSON text, or the text of the kind's main field.
    parent, cursor
        At most one of the two; None means the head.
    """

    kind: str
    payload: Mapping[str, Any] | None = None
    payload_text: bytes | None = None
    text: str | None = None
    parent: str | None = None
    cursor: str | None = None
    expected_head: str | None = None
    is_hidden: bool = False
    external_id: str | None = None
    external_source: str = ""


def initialise(controller: Controller, path: Path, *, label: str | None = None) -> Initialised:
    """Register the checkout that a path lies in as a workspace; nothing is written into it. Idempotent.

    Raises
    ------
    NotARepository, BareRepository
        If there is no checkout at the path.
    """
    location = discover(path)
    observation = controller.observer.observe(location.root)
    registration = controller.recorder.transact(lambda recording: _register(recording, location, label))
    remember_roots(controller, registration.workspace, location)
    note_places(controller)
    return Initialised(registration, observation)


def start_session(controller: Controller, standpoint: Standpoint, request: SessionRequest) -> Started:
    """Make a session, with the workspace where it is made registered on the way; outside a repository it has none.

    Raises
    ------
    SessionNotFound, EntryNotFound, AmbiguousReference, InvalidReference, WorkspaceNotFound
        If a reference cannot be resolved.
    InvalidSession
        If the label cannot be.
    """
    parent, entry_id, workspace, location = _surroundings(controller, standpoint, request)
    if workspace is not None:
        observation = controller.observer.observe(workspace.folder)
    else:
        observation = controller.observer.observe(None if location is None else location.root)
    controller.keeper.keep(observation)
    relation: ParentRelation | None = None
    if parent is not None:
        relation = "continued" if entry_id is None else "forked"

    def run(recording: RecordingTransaction) -> Started:
        place, is_new = workspace, False
        if place is None and location is not None:
            registration = _register(recording, location, None)
            place, is_new = registration.workspace, registration.is_new
        save_state(recording.tx, observation, recording.moment)
        new = NewSession(
            workspace_id=None if place is None else place.id,
            harness=request.harness,
            label=request.label,
            parent_session_id=parent,
            parent_relation=relation,
        )
        if entry_id is None:
            session = recording.create_session(new, observation.stamp)
        else:
            session = recording.fork(entry_id, new, observation.stamp)
        return Started(session, place, is_new)

    started = controller.recorder.transact(run)
    if started.has_registered and started.workspace is not None and location is not None:
        remember_roots(controller, started.workspace, location)
        note_places(controller)
    return started


def append_entry(controller: Controller, standpoint: Standpoint, session: str, request: AppendRequest) -> Appended:
    """Stamp the session's worktree, then append an entry; the state is stored in the same transaction.

    Raises
    ------
    KindWithoutText
        If text is given for a kind that has no single field for it.
    SessionNotFound, EntryNotFound, CursorNotFound, EntryShared, HeadMoved, ExternalIdConflict
        As ``forest.append``.
    InvalidBoundary
        If a compaction would retain what does not lie on its branch.
    TransientKind, UnknownKind, InvalidPayload, NotCanonical, PayloadTooLarge
        As ``Recorder.prepare``.
    """
    payload = _payload(request)
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        workspace_id = require_session(connection, session_id).workspace_id
        parent, expected = (
            None if reference is None else find_entry(connection, standpoint, reference, session_id=session_id)
            for reference in (request.parent, request.expected_head)
        )
    draft = EntryDraft(
        kind=request.kind,
        payload=payload,
        payload_text=request.payload_text,
        parent_entry_id=parent,
        cursor=request.cursor,
        context_visibility=HIDDEN if request.is_hidden else None,
        external_id=request.external_id,
        external_source=request.external_source,
        expected_head=expected,
    )
    observation = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(observation)

    def keep_state(recording: RecordingTransaction) -> None:
        # What another source recorded is kept as it says; a projection passes over what does not fit.
        if draft.kind == COMPACTION and draft.external_id is None:
            _require_boundary(recording, session_id, draft)
        save_state(recording.tx, observation, recording.moment)

    return controller.recorder.append(session_id, draft, observation.stamp, first=keep_state).result()


def _require_boundary(recording: RecordingTransaction, session_id: str, draft: EntryDraft) -> None:
    """Refuse a compaction that names nothing of the branch it is appended to; it would stand for nothing."""
    payload: Mapping[str, Any] = (draft.payload or {}) if draft.payload_text is None else parse_json(draft.payload_text)
    connection = recording.tx.connection
    leaf = draft.parent_entry_id or leaf_of(connection, session_id, draft.cursor)
    require_boundary(connection, leaf, payload["first_retained_entry_id"])


def go_to(
    controller: Controller, standpoint: Standpoint, session: str, entry: str, *, expected_head: str | None = None
) -> HeadMove:
    """Move a session's head to one of its entries. No file, ref or index is touched. Raises as ``forest.move_head``."""
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        target = find_entry(connection, standpoint, entry, session_id=session_id)
        expected = (
            None if expected_head is None else find_entry(connection, standpoint, expected_head, session_id=session_id)
        )
    return controller.recorder.move_head(session_id, target, expected_head=expected)


def go_back(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    steps: int = 1,
    expected_head: str | None = None,
) -> HeadMove:
    """Move a session's head up by so many entries. Raises as ``forest.back``."""
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        expected = (
            None if expected_head is None else find_entry(connection, standpoint, expected_head, session_id=session_id)
        )
    return controller.recorder.back(session_id, steps=steps, expected_head=expected)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label's entry, and the entry that had the label before."""

    name: str
    session_id: str
    entry_id: str
    previous_entry_id: str | None
    is_removed: bool = False


def set_label(controller: Controller, standpoint: Standpoint, entry: str, name: str) -> Labelled:
    """Name an entry; a name that its session has already moves to it. Raises as ``forest.set_label``."""
    with controller.store.read() as connection:
        entry_id = find_entry(connection, standpoint, entry)
    session_id, _ = split_entry_id(entry_id)
    previous = controller.recorder.label(session_id, entry_id, name)
    return Labelled(name, session_id, entry_id, previous)


def remove_label(controller: Controller, standpoint: Standpoint, entry: str, name: str) -> Labelled:
    """Take a name from an entry.

    Raises
    ------
    EntryNotFound
        If the entry does not have it, or does not exist.
    """
    require_storable(label=name)
    with controller.store.read() as connection:
        entry_id = find_entry(connection, standpoint, entry)
    session_id, _ = split_entry_id(entry_id)

    def run(recording: RecordingTransaction) -> Labelled:
        if label_target(recording.tx.connection, session_id, unicodedata.normalize("NFC", name)) != entry_id:
            raise EntryNotFound(
                f"{short_entry(entry_id)} has no label {name[:80]!r}. Nothing was changed.",
                details={"entry_id": entry_id, "label": name[:200]},
            )
        recording.remove_label(session_id, name)
        return Labelled(name, session_id, entry_id, entry_id, is_removed=True)

    return controller.recorder.transact(run)


def main_field(kind: str) -> str:
    """Return the payload field that plain text of a kind stands in.

    Raises
    ------
    KindWithoutText
        If no single text makes up such an entry. A kind that does not exist has ``text``: what is wrong with it
        is told when it is validated.
    """
    known = KINDS.get(kind)
    if known is None:
        return "text"
    for name in MAIN_FIELDS:
        if name in known.required:
            return name
    raise KindWithoutText(
        f"An entry of kind {kind} is not made of one text. Nothing was written.",
        details={"kind": kind, "required": list(known.required)},
    )


def _payload(request: AppendRequest) -> Mapping[str, Any] | None:
    return request.payload if request.text is None else {main_field(request.kind): request.text}


def _register(recording: RecordingTransaction, location: RepositoryLocation, label: str | None) -> Registration:
    registration = register(recording.tx, location, moment=recording.moment, label=label)
    if registration.is_new:
        workspace = registration.workspace
        body = {
            "workspace_id": workspace.id,
            "path": workspace.path,
            "kind": str(workspace.kind),
            "repository_id": workspace.repository_id,
            "worktree_id": workspace.worktree_id,
        }
        recording.event(workspace.id, WORKSPACE_REGISTERED, body)
    return registration


def _surroundings(
    controller: Controller, standpoint: Standpoint, request: SessionRequest
) -> tuple[str | None, str | None, Workspace | None, RepositoryLocation | None]:
    """Return parent session, fork origin, workspace if it is registered, and the checkout to register if not."""
    with controller.store.read() as connection:
        parent = entry_id = None
        workspace: Workspace | None = None
        location: RepositoryLocation | None = None
        if request.parent is not None:
            parent = find_session(connection, standpoint, request.parent)
        if request.from_entry is not None:
            entry_id = find_entry(connection, standpoint, request.from_entry)
            parent, _ = split_entry_id(entry_id)
        if request.workspace is not None:
            workspace = find_workspace_named(connection, request.workspace, standpoint.directory)
        elif not request.without_workspace:
            if entry_id is not None and parent is not None:
                origin = require_session(connection, parent).workspace_id
                workspace = None if origin is None else find_workspace_named(connection, origin, None)
            if workspace is None:
                location = checkout_at(standpoint.directory)
                workspace = None if location is None else find_by_worktree(connection, location.worktree_id)
    return parent, entry_id, workspace, location
