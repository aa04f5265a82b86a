"""How the files are to the conversations about them: for one session or entry, or for all open ones of a checkout.

The stamp comes from the conversation, the states from the workspace tree, the order of the paths from what the
conversation says it read and edited. The checkout is always looked at anew, by the exact path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bridge.control.attributing import with_attribution
from bridge.control.observing import Observer, session_folder
from bridge.conversations.forest import require_session
from bridge.conversations.models import OPEN_STATUS, Entry, Record, Session
from bridge.conversations.paths import path_to
from bridge.conversations.references import require_listed
from bridge.conversations.store import list_sessions
from bridge.foundation.errors import BridgeError
from bridge.git.manifest import Manifest
from bridge.git.observe import Observation
from bridge.git.paths import parse_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import interpret
from bridge.semantics.stamps import RepositoryState, Stamp, UnknownReason
from bridge.storage.store import Store
from bridge.storage.transaction import Connection
from bridge.workspaces.divergence import DivergenceReport, Side, Unknown, compare, reranked
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.ranking import Touched
from bridge.workspaces.relinking import current_state
from bridge.workspaces.store import list_links, list_workspaces, load_manifest, load_state

#: Payload fields that name files: those that say an edit, and those that say a reading.
EDITED_FIELDS: Final = ("paths_written", "files_touched", "files_changed")
READ_FIELDS: Final = ("paths_read",)
#: Kinds of sessions that a checkout's status is about; hidden ones are nobody's conversation.
STATUS_KINDS: Final = ("chat", "worker")


@dataclass(frozen=True, slots=True)
class SessionDivergence:
    """One conversation's answer.

    Parameters
    ----------
    entry
        The entry whose stamp was compared.
    problem
        Why what the conversation used is not fully known (a damaged path, an entry of another version); the
        report itself stands.
    """

    session: Session
    entry: Record
    report: DivergenceReport
    problem: BridgeError | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session.id,
            "label": self.session.label,
            "active_entry_id": self.session.active_entry_id,
            "entry_id": self.entry.id,
            "problem": None if self.problem is None else self.problem.to_json()["error"],
            **self.report.to_json(),
        }


@dataclass(frozen=True, slots=True)
class CheckoutStatus:
    """All open conversations about one checkout, and how it stands now.

    Parameters
    ----------
    workspace
        The registered checkout that the path lies in; None if it is not registered, or there is none.
    """

    observation: Observation
    workspace: Workspace | None
    sessions: tuple[SessionDivergence, ...]

    @property
    def is_aligned(self) -> bool:
        """Whether every open conversation is aligned (so is none at all)."""
        return all(found.report.is_aligned for found in self.sessions)


@dataclass(frozen=True, slots=True)
class _Base:
    """What a session brings to a comparison; read in one snapshot."""

    session: Session
    entry: Record
    state: RepositoryState | Unknown
    manifest: Manifest | None
    edited: frozenset[str]
    read: frozenset[str]
    problem: BridgeError | None


def session_divergence(
    store: Store,
    observer: Observer,
    session_id: str,
    *,
    entry_id: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> SessionDivergence:
    """Return how the files of a session's workspace are to its active leaf, or to an entry. Blocking.

    Parameters
    ----------
    entry_id
        Full id of an entry that belongs to the session; None means its head.
    timeout_seconds
        Time limit of each question to git beyond the observation.

    Raises
    ------
    SessionNotFound, EntryNotFound
        If there is no such session or entry.
    """
    with store.read() as connection:
        base = _base(connection, require_session(connection, session_id), entry_id)
    observation = observer.observe_exactly(session_folder(store, base.session.workspace_id))
    found = _compared(base, observation, timeout_seconds)
    return replace(found, report=with_attribution(store, found.report, base.entry.observed_at, observation))


def checkout_status(
    store: Store, observer: Observer, path: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> CheckoutStatus:
    """Return how a checkout is to every open session about it, the last touched first; one observation for all.

    Parameters
    ----------
    path
        The checkout's top level, or anything in it.
    """
    observation = observer.observe_exactly(path)
    if observation.location is None:
        return CheckoutStatus(observation, None, ())
    with store.read() as connection:
        known = list_workspaces(connection, worktree_id=observation.location.worktree_id)
        sessions = list_sessions(connection, workspace_ids=[workspace.id for workspace in known], kinds=STATUS_KINDS)
        bases = [_base(connection, session, None) for session in sessions if session.status == OPEN_STATUS]
    present = [workspace for workspace in known if workspace.status is not WorkspaceStatus.REMOVED]
    return CheckoutStatus(
        observation, present[-1] if present else None, tuple(_all_compared(bases, observation, timeout_seconds))
    )


def touched_paths(entries: Iterable[Entry]) -> tuple[frozenset[str], frozenset[str], BridgeError | None]:
    """Return what entries say they edited and read, as recorded, and the first reason why that may lack some."""
    edited: set[str] = set()
    read: set[str] = set()
    problem: BridgeError | None = None
    for entry in entries:
        if not _names_files(entry.payload_text):
            continue
        try:
            payload = interpret(
                entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id
            ).payload
        except UnsupportedSemanticVersion as error:
            problem = problem or error
            continue
        edited.update(_strings(payload, EDITED_FIELDS))
        read.update(_strings(payload, READ_FIELDS))
    return frozenset(edited), frozenset(read), problem


def relative_paths(recorded: Iterable[str], root: Path) -> frozenset[bytes]:
    """Return recorded paths as bytes relative to a top level; what lies outside it is left out."""
    prefix = os.fsencode(root) + b"/"
    return frozenset(path for text in recorded if (path := _relative(text, prefix)) is not None)


def _base(connection: Connection, session: Session, entry_id: str | None) -> _Base:
    entry = require_listed(connection, entry_id or session.active_entry_id)
    state, manifest = _stamped(connection, entry.stamp)
    if isinstance(state, RepositoryState) and session.workspace_id is not None:
        state = current_state(state, list_links(connection, session.workspace_id))
    try:
        edited, read, problem = touched_paths(path_to(connection, entry.id))
    except BridgeError as error:  # a damaged path still has a leaf, and the leaf its stamp
        edited, read, problem = frozenset(), frozenset(), error
    return _Base(session, entry, state, manifest, edited, read, problem)


def _stamped(connection: Connection, stamp: Stamp) -> tuple[RepositoryState | Unknown, Manifest | None]:
    if stamp.state_digest is None:
        reason = stamp.unknown_reason or UnknownReason.UNSTAMPED
        return Unknown(reason, Side.THEN, stamp.unknown_path, stamp.unknown_detail), None
    try:
        state = load_state(connection, stamp.state_digest)
        if isinstance(state, UnknownReason):
            return Unknown(state, Side.THEN), None
        return state, load_manifest(connection, state.dirty_hash)
    except StateDamaged as error:
        return Unknown(UnknownReason.BASE_UNAVAILABLE, Side.THEN, detail=error.message), None


def _all_compared(
    bases: Iterable[_Base], observation: Observation, timeout_seconds: float
) -> Iterator[SessionDivergence]:
    """Yield the answer for each base; those with one stamped state share its comparison."""
    shared: dict[str, DivergenceReport] = {}
    for base in bases:
        digest = None if isinstance(base.state, Unknown) else base.state.state_digest
        if digest is not None and digest in shared:
            report = reranked(shared[digest], _touched(base, observation))
            yield SessionDivergence(base.session, base.entry, report, base.problem)
            continue
        found = _compared(base, observation, timeout_seconds)
        if digest is not None:
            shared[digest] = found.report
        yield found


def _compared(base: _Base, observation: Observation, timeout_seconds: float) -> SessionDivergence:
    report = compare(
        base.state,
        base.manifest,
        observation,
        touched=_touched(base, observation),
        timeout_seconds=timeout_seconds,
    )
    return SessionDivergence(base.session, base.entry, report, base.problem)


def _touched(base: _Base, observation: Observation) -> Touched:
    root = None if observation.location is None else observation.location.worktree_root
    if root is None:
        return Touched()
    return Touched(edited=relative_paths(base.edited, root), read=relative_paths(base.read, root))


def _names_files(payload_text: str) -> bool:
    # Long conversations are mostly text; their payloads are parsed only if one of the fields can be in them.
    return any(f'"{name}"' in payload_text for name in (*EDITED_FIELDS, *READ_FIELDS))


def _strings(payload: dict[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        values = payload.get(name)
        if isinstance(values, list):
            yield from (value for value in values if isinstance(value, str))


def _relative(text: str, prefix: bytes) -> bytes | None:
    try:
        path = parse_path(text)
    except ValueError:  # a name that merely begins with a quote, written by somebody who does not escape
        path = text.encode()
    if path.startswith(b"/"):
        if not path.startswith(prefix):
            return None
        path = path[len(prefix) :]
    parts = [part for part in path.split(b"/") if part not in {b"", b"."}]
    return None if not parts or b".." in parts else b"/".join(parts)
