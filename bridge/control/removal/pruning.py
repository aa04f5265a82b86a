"""Use case: whole sessions are removed, the newest kept. What others stand on is never removed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from bridge.control.contents.keeping import drop_states
from bridge.control.contents.store import stamped_dirty_hashes
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.removal import store
from bridge.control.removal.traces import backups_with, remove_task_folders
from bridge.conversations.models import Session
from bridge.conversations.removal.store import delete_session, fork_origins, state_digests
from bridge.conversations.store import get_session, list_sessions
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.integrity.removal.tombstones import entomb
from bridge.integrity.store import last_position
from bridge.integrity.subtrees import store as subtrees
from bridge.integrity.verify import verify_whole_session
from bridge.recall.index import forget_session
from bridge.storage.transaction import Connection
from bridge.workspaces.store import kept_manifests

#: Chats that are kept unless another number is asked for.
DEFAULT_KEEP: Final = 100


class Kept(StrEnum):
    """Why a session beyond the newest is not removed."""

    OPEN = "open"
    FORKED_FROM = "forked_from"
    CITED = "cited"
    UNVERIFIED = "unverified"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session that would have gone."""

    session_id: str
    reason: Kept
    message: str

    def to_json(self) -> dict[str, str]:
        return {"session_id": self.session_id, "reason": str(self.reason), "message": self.message}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be.

    Parameters
    ----------
    entries
        How many entries the removed sessions had.
    kept
        Sessions beyond the newest that stay, each with the reason.
    states_dropped
        Kept contents of files that only their entries stood on.
    backups, not_scrubbed
        As :class:`bridge.control.removal.erasing.Erased` says.
    """

    is_dry_run: bool
    removed: tuple[str, ...]
    entries: int
    kept: tuple[KeptSession, ...]
    states_dropped: int = 0
    backups: tuple[str, ...] = ()
    not_scrubbed: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "dry_run": self.is_dry_run,
            "removed": list(self.removed),
            "entries": self.entries,
            "kept": [one.to_json() for one in self.kept],
            "states_dropped": self.states_dropped,
            "backups": list(self.backups),
            "not_scrubbed": self.not_scrubbed,
        }


def prune(controller: Controller, *, keep: int = DEFAULT_KEEP, dry_run: bool = False) -> Pruned:
    """Remove all but the newest chats, and with each the sessions of its workers and hidden ones.

    A session in which something goes on, that another was forked from, whose results another cites, or that does not
    verify, stays. Audit events stay, ids are never used again, and children show their parent as removed.

    Parameters
    ----------
    keep
        How many chats stay, by when they were touched last.
    dry_run
        Whether it is only said what would go.
    """
    removed: list[str] = []
    kept: list[KeptSession] = []
    tasks: list[str] = []
    dirty: set[str] = set()
    entries = 0
    with controller.store.read() as connection:
        candidates = _beyond(list_sessions(connection), keep)
        standing = _Standing.of(connection)
    going = {session.id for session in candidates}
    # Those that others stand on are told from what will be left, so the last made go first.
    for session in sorted(candidates, key=lambda one: (one.created_at, one.id), reverse=True):
        found = _verified(controller, session, going, standing)
        if isinstance(found, KeptSession):
            kept.append(found)
            going.discard(session.id)
            continue
        if dry_run:
            entries += session.next_sequence
        else:
            done = controller.recorder.transact(
                partial(_remove, session=session, root=found, going=going, standing=standing)
            )
            if done is None:
                kept.append(KeptSession(session.id, Kept.CHANGED, "it changed while it was looked at"))
                going.discard(session.id)
                continue
            entries += done.entries
            tasks += done.tasks
            dirty |= done.dirty
        removed.append(session.id)
    if dry_run or not removed:
        return Pruned(dry_run, tuple(removed), entries, tuple(kept))
    remove_task_folders(controller.settings.tasks, tasks)
    return Pruned(
        dry_run,
        tuple(removed),
        entries,
        tuple(kept),
        _drop_contents(controller, dirty),
        tuple(sorted({path for one in removed for path in backups_with(controller, session_id=one)})),
        controller.store.scrub(),
    )


def _beyond(sessions: list[Session], keep: int) -> list[Session]:
    """Return the sessions beyond the newest chats; those of workers go and stay with the session they belong to."""
    by_id = {session.id: session for session in sessions}

    def stands_for(session: Session) -> Session:
        seen = {session.id}
        while session.kind != "chat" and session.parent_session_id in by_id:
            session = by_id[session.parent_session_id]
            if session.id in seen:
                break
            seen.add(session.id)
        return session

    standing = [session for session in sessions if stands_for(session) is session]
    gone = {session.id for session in standing[keep:]}
    return [session for session in sessions if stands_for(session).id in gone]


@dataclass(slots=True)
class _Standing:
    """Who stands on whom, as of the last event: forks on their origins, sessions on the results that they cite."""

    origins: dict[str, set[str]]
    cited: dict[str, set[str]]
    position: int

    @classmethod
    def of(cls, connection: Connection) -> _Standing:
        origins: dict[str, set[str]] = {}
        for fork, origin in fork_origins(connection):
            origins.setdefault(origin, set()).add(fork)
        cited: dict[str, set[str]] = {}
        for session_id, request in store.requests_of_others(connection):
            for reference in _evidence_of(request):
                cited.setdefault(reference.rpartition("-")[0], set()).add(session_id)
        return cls(origins, cited, last_position(connection))

    def renew(self, connection: Connection) -> None:
        """Bring it up to date, if anything happened since."""
        if last_position(connection) != self.position:
            found = self.of(connection)
            self.origins, self.cited, self.position = found.origins, found.cited, found.position


@dataclass(frozen=True, slots=True)
class _Root:
    """What a session was verified as."""

    session_root: str
    head: str
    next_sequence: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class _Removal:
    entries: int
    tasks: list[str]
    dirty: set[str]


def _verified(
    controller: Controller, session: Session, going: Collection[str], standing: _Standing
) -> _Root | KeptSession:
    with controller.store.read() as connection:
        standing.renew(connection)
        reason = _why_kept(connection, session.id, going, standing)
        if reason is not None:
            return reason
        verdict = verify_whole_session(connection, session.id)
        current = get_session(connection, session.id)
    if not verdict.is_healthy or verdict.session_root is None or current is None:
        return KeptSession(session.id, Kept.UNVERIFIED, "what is stored of it is not what was recorded")
    return _Root(verdict.session_root, current.active_entry_id, current.next_sequence, current.updated_at)


def _why_kept(
    connection: Connection, session_id: str, going: Collection[str], standing: _Standing
) -> KeptSession | None:
    """Return why a session has to stay, given which others go; None if it may go."""
    why = store.why_open(connection, session_id)
    if why is not None:
        return KeptSession(session_id, Kept.OPEN, why)
    forks = standing.origins.get(session_id, set()).difference(going)
    if forks:
        return KeptSession(session_id, Kept.FORKED_FROM, f"{min(forks)} was forked from it")
    citing = standing.cited.get(session_id, set()).difference(going, (session_id,))
    if citing:
        return KeptSession(session_id, Kept.CITED, f"{min(citing)} cites a result of it")
    return None


def _evidence_of(request: str) -> list[str]:
    try:
        evidence = parse_json(request)["evidence"]
    except (NotCanonical, KeyError, TypeError):
        return []
    return [str(one) for one in evidence] if isinstance(evidence, list) else []


def _remove(
    recording: RecordingTransaction, session: Session, root: _Root, going: Collection[str], standing: _Standing
) -> _Removal | None:
    """Remove a session, unless it is another one than was looked at by now."""
    tx = recording.tx
    current = get_session(tx.connection, session.id)
    looked_at = (root.head, root.next_sequence, root.updated_at)
    if current is None or (current.active_entry_id, current.next_sequence, current.updated_at) != looked_at:
        return None
    standing.renew(tx.connection)
    if _why_kept(tx.connection, session.id, going, standing) is not None:
        return None
    dirty = store.dirty_hashes_of(tx.connection, state_digests(tx.connection, session.id))
    forget_session(tx, session.id)
    subtrees.forget(tx, session.id)
    entomb(
        tx,
        session.id,
        session_root=root.session_root,
        next_sequence=root.next_sequence,
        entries=root.next_sequence,
        moment=recording.moment,
    )
    tasks = store.delete_beside(tx, session.id)
    entries = delete_session(tx, session.id)
    standing.position = last_position(tx.connection)
    return _Removal(entries, tasks, dirty)


def _drop_contents(controller: Controller, dirty: set[str]) -> int:
    """Let go of contents that only removed entries stood on."""
    with controller.store.read() as connection:
        unused = dirty - stamped_dirty_hashes(connection)
        keys = {one[:2] for one in kept_manifests(connection) if one[1] in unused}
    return drop_states(controller.store, controller.settings, keys)
